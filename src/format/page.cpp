// Opens a page: first FlatBuffers' own verifier, then the rules of FORMAT §4 that it does not know.
#include "format/page.h"

#include <algorithm>

#include "format/fault.h"
#include "format/page_check.h"

namespace ckpt::format {

Result<Page> Page::view(Bytes bytes) {
  CKPT_ASSIGN(const fb::Page* from, open_flatbuffer<fb::Page>(bytes, "CKPI", "a page of the index"));
  if (!from->names()) return bad("a page has no names");
  Page page;
  page.names = {from->names()->c_str(), from->names()->size()};
  if (from->inline_data())
    page.inline_data = std::as_bytes(std::span(from->inline_data()->data(), from->inline_data()->size()));
  CKPT_TRY(get_column(from->numbers(), &page.numbers));
  CKPT_TRY(get_column(from->tensors(), &page.tensors));
  CKPT_TRY(get_column(from->holdings(), &page.holdings));
  CKPT_TRY(get_column(from->regions(), &page.regions));
  CKPT_TRY(get_column(from->segments(), &page.segments));
  CKPT_TRY(get_column(from->chunks(), &page.chunks));
  CKPT_TRY(get_column(from->objects(), &page.objects));
  CKPT_TRY(get_column(from->aliases(), &page.aliases));
  CKPT_TRY(get_column(from->attrs(), &page.attrs));
  CKPT_TRY(get_column(from->parts(), &page.parts));
  CKPT_TRY(get_column(from->homes(), &page.homes));
  CKPT_TRY(get_column(from->used(), &page.used));
  if (from->parity() && from->parity()->size() != 0)
    return Status(CKPT_UNSUPPORTED, "holds parity, which this library does not read yet");
  return page;
}

Result<Page> Page::open(Bytes bytes, const Root& root, size_t number) {
  CKPT_ASSIGN(Page page, view(bytes));
  CKPT_TRY(PageCheck(page, root).records(number));
  return page;
}

Result<Page> Page::open_parts(Bytes bytes, const Root& root, size_t number) {
  CKPT_ASSIGN(Page page, view(bytes));
  CKPT_TRY(PageCheck(page, root).parts(number));
  return page;
}

Region Page::region_of(const fb::Region& region, int ndim) const {
  const auto kind = static_cast<RegionKind>(region.kind());
  return region_of_numbers(kind,
                           numbers.subspan(region.geometry(), region_number_count(kind, static_cast<size_t>(ndim))));
}

bool view_fits(std::span<const uint64_t> view, std::span<const uint64_t> extents, uint16_t dtype) {
  size_t ndim = (view.size() - 1) / 2;
  uint64_t last = view[0];
  bool empty = false, overflow = false;
  for (size_t i = 0; i < ndim; i++) {
    uint64_t extent = view[1 + i], stride = view[1 + ndim + i], reach = 0;
    if (extent == 0)
      empty = true;
    else
      overflow |= mul_overflows(extent - 1, stride, &reach) || add_overflows(last, reach, &last);
  }
  // A view may repeat elements, so the size of the target does not bound its own.
  uint64_t elements, bytes, total;
  return count_elements(view.subspan(1, ndim), &elements) && count_bytes(elements, dtype, &bytes) &&
         (empty || (!overflow && count_elements(extents, &total) && last < total));
}

template <typename Record>
static const Record* find(const Page& page, std::span<const Record> records, std::string_view name) {
  auto at = std::lower_bound(records.begin(), records.end(), name, [&](const Record& record, std::string_view key) {
    return page.text(record.name()) < key;
  });
  return at != records.end() && page.text(at->name()) == name ? &*at : nullptr;
}

const fb::Tensor* Page::find_tensor(std::string_view name) const { return find(*this, tensors, name); }
const fb::Alias* Page::find_alias(std::string_view name) const { return find(*this, aliases, name); }
const fb::Object* Page::find_object(std::string_view name) const { return find(*this, objects, name); }

std::span<const fb::Attr> Page::attrs_of(std::string_view owner) const {
  auto first = std::lower_bound(attrs.begin(), attrs.end(), owner, [this](const fb::Attr& attr, std::string_view key) {
    return text(attr.owner()) < key;
  });
  auto last = std::upper_bound(first, attrs.end(), owner,
                               [this](std::string_view key, const fb::Attr& attr) { return key < text(attr.owner()); });
  return {first, last};
}

}  // namespace ckpt::format

// Opens an index: first FlatBuffers' own verifier, then the rules of FORMAT §4 that it does not know.
#include "format/index.h"

#include <algorithm>

#include "format/index_check.h"
#include "format/names.h"

namespace ckpt::format {

// Vectors of structs need very few tables, so no legitimate index meets these limits.
static constexpr flatbuffers::uoffset_t kMaxDepth = 8, kMaxTables = 16;

static flatbuffers::Verifier verifier_for(Bytes bytes) {
  return flatbuffers::Verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), kMaxDepth, kMaxTables);
}

static std::string text_or_empty(const flatbuffers::String* text) { return text ? text->str() : std::string(); }

static Summary summary_of(const fb::Summary* in) {
  Summary out;
  auto id = [](const fb::Digest* digest) { return digest ? id_of(*digest) : Id{}; };
  out.revision = in->revision();
  out.required_features = in->required_features();
  out.store_id = id(in->store_id());
  out.session_id = id(in->session_id());
  out.save_id = id(in->save_id());
  out.run = text_or_empty(in->run());
  out.label = text_or_empty(in->label());
  out.writer = text_or_empty(in->writer());
  out.token = in->token();
  out.attempt = in->attempt();
  out.sequence = in->sequence();
  out.step = in->step();
  out.world_size = in->world_size();
  out.created_unix_ms = in->created_unix_ms();
  out.part_count = in->part_count();
  out.tensor_count = in->tensor_count();
  out.object_count = in->object_count();
  out.part_bytes = in->part_bytes();
  out.rebuilt = in->rebuilt();
  return out;
}

static Status check_summary(const Summary& summary) {
  if (summary.revision > CKPT_FORMAT_REVISION)
    return Status(CKPT_REVISION, strformat("written in format revision {}, this library reads up to {}",
                                           summary.revision, CKPT_FORMAT_REVISION))
        .with("expected", uint64_t{CKPT_FORMAT_REVISION})
        .with("found", uint64_t{summary.revision});
  if (summary.required_features != 0)
    return Status(CKPT_REVISION,
                  strformat("needs features that this library does not know: bits 0x{:x}", summary.required_features))
        .with("found", summary.required_features);
  CKPT_TRY(check_label(summary.label));
  return check_run(summary.run);
}

// A bad name inside a file is the fault of the file, not of the caller.
static Status as_format(Status status) {
  return status.code() == CKPT_INVALID ? Status(CKPT_FORMAT, status.message()) : status;
}

Result<Summary> decode_summary(Bytes bytes) {
  auto verifier = verifier_for(bytes);
  if (!verifier.VerifyBuffer<fb::Summary>("CKPS")) return Status(CKPT_FORMAT, "the summary is no FlatBuffer \"CKPS\"");
  Summary summary = summary_of(flatbuffers::GetRoot<fb::Summary>(bytes.data()));
  CKPT_TRY(as_format(check_summary(summary)));
  return summary;
}

// FlatBuffers' verifier checks where a vector starts, not whether its structs are aligned.
static bool aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 8 == 0; }

template <typename T>
static std::span<const T> records(const flatbuffers::Vector<const T*>* vector) {
  if (!vector) return {};
  return {reinterpret_cast<const T*>(vector->Data()), vector->size()};
}

Result<Index> Index::open(Bytes bytes, IndexKind kind, unsigned threads) {
  auto verifier = verifier_for(bytes);
  if (!verifier.VerifyBuffer<fb::Index>("CKPI")) return Status(CKPT_FORMAT, "the index is no FlatBuffer \"CKPI\"");
  const fb::Index* root = flatbuffers::GetRoot<fb::Index>(bytes.data());
  if (!root->summary() || !root->names()) return Status(CKPT_FORMAT, "the index has no summary or no names");
  Index index;
  index.summary = summary_of(root->summary());
  CKPT_TRY(as_format(check_summary(index.summary)));
  index.names = {root->names()->c_str(), root->names()->size()};
  if (root->numbers()) index.numbers = {root->numbers()->data(), root->numbers()->size()};
  if (root->inline_data())
    index.inline_data = std::as_bytes(std::span(root->inline_data()->data(), root->inline_data()->size()));
  index.parts = records(root->parts());
  index.tensors = records(root->tensors());
  index.segments = records(root->segments());
  index.chunks = records(root->chunks());
  index.objects = records(root->objects());
  index.aliases = records(root->aliases());
  index.attrs = records(root->attrs());
  index.groups = records(root->groups());
  for (const void* data :
       {static_cast<const void*>(index.numbers.data()), static_cast<const void*>(index.parts.data()),
        static_cast<const void*>(index.tensors.data()), static_cast<const void*>(index.segments.data()),
        static_cast<const void*>(index.chunks.data()), static_cast<const void*>(index.objects.data()),
        static_cast<const void*>(index.aliases.data()), static_cast<const void*>(index.groups.data())})
    if (!aligned(data)) return Status(CKPT_FORMAT, "a vector of the index is not aligned to 8 bytes");
  if (reinterpret_cast<uintptr_t>(index.attrs.data()) % alignof(fb::Attr) != 0)
    return Status(CKPT_FORMAT, "the attributes of the index are not aligned");
  if ((root->tables() && root->tables()->size()) || (root->parity() && root->parity()->size()))
    return Status(CKPT_UNSUPPORTED, "holds sparse tables or parity, which this library does not read yet");
  IndexCheck check(index, kind);
  CKPT_TRY(check.run(threads));
  index.divided = check.take_divided();
  return index;
}

Shape Index::shape_of(const fb::Tensor& tensor) const { return Shape::of(extents_of(tensor)); }

Region Index::region_of(const fb::Segment& segment, int ndim) const {
  const RegionKind kind = segment.kind() == 1 ? RegionKind::kFlat : RegionKind::kBox;
  const size_t count = region_number_count(kind, static_cast<size_t>(ndim));
  return region_of_numbers(kind, numbers.subspan(segment.geometry(), count));
}

bool Index::view_fits(std::span<const uint64_t> view, const fb::Tensor& target) const {
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
  return count_elements(view.subspan(1, ndim), &elements) && count_bytes(elements, target.dtype(), &bytes) &&
         (empty || (!overflow && count_elements(extents_of(target), &total) && last < total));
}

const fb::Tensor* Index::find_tensor(std::string_view name) const {
  auto at =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [this](const fb::Tensor& tensor, std::string_view key) { return text(tensor.name()) < key; });
  return at != tensors.end() && text(at->name()) == name ? &*at : nullptr;
}

const fb::Alias* Index::find_alias(std::string_view name) const {
  auto at = std::lower_bound(aliases.begin(), aliases.end(), name,
                             [this](const fb::Alias& alias, std::string_view key) { return text(alias.name()) < key; });
  return at != aliases.end() && text(at->name()) == name ? &*at : nullptr;
}

std::span<const fb::Attr> Index::attrs_of(std::string_view owner) const {
  auto first = std::lower_bound(attrs.begin(), attrs.end(), owner, [this](const fb::Attr& attr, std::string_view key) {
    return text(attr.owner()) < key;
  });
  auto last = std::upper_bound(first, attrs.end(), owner,
                               [this](std::string_view key, const fb::Attr& attr) { return key < text(attr.owner()); });
  return {first, last};
}

}  // namespace ckpt::format

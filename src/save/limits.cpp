#include "save/limits.h"

#include <algorithm>

#include "save/layout.h"

namespace ckpt::save {

namespace {

// Counts what the part's index will hold, name by name.
class Account {
 public:
  Account(const SaveContent& content, const PartLayout& layout, uint32_t rank, const PartLimits& limits)
      : content_(content), layout_(layout), rank_(rank), limits_(limits) {}
  Status check();

 private:
  Status at_most(const char* what, uint64_t limit, uint64_t found, const char* advice) const;
  Status name(std::string_view name, uint64_t bytes);
  Status tensors();
  Status others();
  uint64_t attrs_of(const std::string& owner);

  void text(std::string_view text) { names_ += text.size() + 1; }

  const SaveContent& content_;
  const PartLayout& layout_;
  const uint32_t rank_;
  const PartLimits& limits_;
  uint64_t names_ = 0, numbers_ = 0, records_ = 0, inline_ = 0, total_ = 0, longest_ = 0, tensor_count_ = 0;
};

Status Account::at_most(const char* what, uint64_t limit, uint64_t found, const char* advice) const {
  if (found <= limit) return Ok();
  return Status(CKPT_UNSUPPORTED,
                strformat("the part of rank {} would have {} {}, at most {}: {}", rank_, found, what, limit, advice))
      .with("rank", uint64_t{rank_})
      .with("expected", limit)
      .with("found", found);
}

// All records of a name are on one page.
Status Account::name(std::string_view name, uint64_t bytes) {
  total_ += bytes;
  longest_ = std::max<uint64_t>(longest_, name.size());
  return of_tensor(
      at_most("bytes of records for one name", limits_.page_bytes, bytes, "shorter attributes, or larger chunk_bytes"),
      name);
}

uint64_t Account::attrs_of(const std::string& owner) {
  const auto values = content_.attrs.find(owner);
  if (values == content_.attrs.end() || (owner.empty() && rank_ != 0)) return 0;
  const uint64_t before = names_;
  for (const auto& [key, value] : values->second) {
    text(owner);
    text(key);
    text(value);
  }
  return names_ - before + values->second.size() * sizeof(fb::Attr);
}

// A name's tensor, its regions and their chunks.
Status Account::tensors() {
  auto item = layout_.items.begin();
  for (size_t i = 0, end; i < content_.tensors.size(); i = end) {
    const SaveTensor& first = *content_.tensors[i];
    uint64_t bytes = sizeof(fb::Tensor) + first.name.size() + 1 + 8 * uint64_t{first.ndim};
    numbers_ += first.ndim;
    text(first.name);
    for (end = i; end < content_.tensors.size() && content_.tensors[end]->name == first.name; end++) {
      const SaveTensor& tensor = *content_.tensors[end];
      const uint64_t count = region_number_count(tensor.kind, tensor.ndim);
      numbers_ += count;
      bytes += sizeof(fb::Region) + 8 * count;
      for (; item != layout_.items.end() && item->source.tensor == &tensor; ++item, records_++)
        bytes += sizeof(fb::Segment) + item->chunk_count * sizeof(fb::Chunk);
    }
    tensor_count_++;
    CKPT_TRY(name(first.name, bytes + (content_.attrs.empty() ? 0 : attrs_of(std::string(first.name)))));
  }
  return Ok();
}

Status Account::others() {
  for (const auto& [alias_name, alias] : content_.aliases) {
    text(alias_name);
    text(alias.target);
    numbers_ += alias.view.size();
    CKPT_TRY(name(alias_name, sizeof(fb::Alias) + alias_name.size() + alias.target.size() + 2 + 8 * alias.view.size() +
                                  attrs_of(alias_name)));
  }
  size_t i = 0;
  for (const auto& [object_name, object] : content_.objects) {
    const size_t item = layout_.object_items[i++];
    const uint64_t chunks = item == kNoItem ? 0 : layout_.items[item].chunk_count;
    const uint64_t inlined = item == kNoItem && object.data.size() <= kMaxInlineObject ? object.data.size() : 0;
    text(object_name);
    text(object.media_type);
    inline_ += inlined;
    CKPT_TRY(name(object_name, sizeof(fb::Object) + object_name.size() + object.media_type.size() + 2 +
                                   chunks * sizeof(fb::Chunk) + inlined));
  }
  return name("", attrs_of(""));
}

Status Account::check() {
  constexpr const char* kSplit = "divide them among more ranks";
  CKPT_TRY(at_most("chunks", limits_.positions, layout_.chunk_count, "larger chunk_bytes, or more ranks"));
  CKPT_TRY(tensors());
  CKPT_TRY(others());
  CKPT_TRY(at_most("tensors and aliases", limits_.names, tensor_count_ + content_.aliases.size(), kSplit));
  CKPT_TRY(at_most("regions and segments", limits_.positions, content_.tensors.size() + records_, kSplit));
  CKPT_TRY(at_most("extents and offsets", limits_.positions, numbers_, kSplit));
  CKPT_TRY(at_most("bytes of names and attributes", limits_.positions, names_, "shorter names and attributes"));
  CKPT_TRY(at_most("bytes of small objects", limits_.positions, inline_, "fewer and larger objects"));
  // Two neighbouring pages hold more than 64 KiB (FORMAT §6), so there are at most so many.
  const uint64_t pages = total_ / 32768 + 2;
  return at_most("bytes in the root of its index", limits_.page_bytes,
                 pages * (sizeof(fb::PageRef) + longest_ + 1) + layout_.groups.size() * sizeof(fb::Group),
                 "shorter names, or fewer chunks by larger chunk_bytes");
}

}  // namespace

Status check_limits(const SaveContent& content, const PartLayout& layout, uint32_t rank, const PartLimits& limits) {
  return Account(content, layout, rank, limits).check();
}

}  // namespace ckpt::save

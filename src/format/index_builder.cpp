#include "format/index_builder.h"

#include <algorithm>
#include <limits>

#include "codec/checksum.h"
#include "format/part_record.h"
#include "format/table.h"

namespace ckpt::format {

static constexpr uint64_t kPageBytes = 65536;   // FORMAT §6
static constexpr uint32_t kPartsPerPage = 512;  // the same

// ---- collecting ----

fb::Text IndexBuilder::put_text(std::string_view text) {
  fb::Text ref(static_cast<uint32_t>(names_.size()), static_cast<uint32_t>(text.size()));
  names_.insert(names_.end(), text.begin(), text.end());
  names_.push_back('\0');
  return ref;
}

uint32_t IndexBuilder::put_numbers(std::span<const uint64_t> values) {
  const auto position = static_cast<uint32_t>(numbers_.size());
  numbers_.insert(numbers_.end(), values.begin(), values.end());
  return position;
}

void IndexBuilder::add_tensor(std::string_view name, uint16_t dtype, std::span<const uint64_t> extents) {
  const fb::Text text = put_text(name);
  tensors_.emplace_back(text, dtype, static_cast<uint16_t>(extents.size()), put_numbers(extents),
                        static_cast<uint32_t>(regions_.size()), 0u);
}

const fb::Tensor* IndexBuilder::find_tensor(std::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [this](const fb::Tensor& tensor, auto key) { return text(tensor.name()) < key; });
  return at != tensors_.end() && text(at->name()) == name ? &*at : nullptr;
}

void IndexBuilder::add_holding(uint64_t stored_bytes, uint32_t segments, uint32_t layout) {
  holdings_.emplace_back(stored_bytes, segments, layout);
}

// Whether a region is all of its tensor.
static bool is_all(const Region& region, std::span<const uint64_t> extents) {
  if (region.kind == RegionKind::kWhole) return true;
  if (region.kind == RegionKind::kRows) return false;  // told as rows, however many other ranks have
  uint64_t total = 0;
  if (region.kind == RegionKind::kFlat) return count_elements(extents, &total) && region.flat_size == total;
  return std::ranges::equal(region.box.extent.span(), extents);
}

void IndexBuilder::add_region(const Region& region, std::span<const uint64_t> extents) {
  uint64_t numbers[2 * kMaxNdim];
  const RegionKind kind = is_all(region, extents) ? RegionKind::kWhole : region.kind;
  const size_t count = region_number_count(kind, extents.size());
  if (count) put_region(region, numbers);
  regions_.emplace_back(static_cast<uint8_t>(kind), uint8_t{0}, uint16_t{0}, count ? put_numbers({numbers, count}) : 0u,
                        static_cast<uint32_t>(segments_.size()), 0u);
  fb::Tensor& tensor = tensors_.back();
  tensor = fb::Tensor(tensor.name(), tensor.dtype(), tensor.ndim(), tensor.shape(), tensor.region_first(),
                      tensor.region_count() + 1);
}

void IndexBuilder::put_chunks(std::span<const fb::Chunk> chunks, std::span<const uint16_t> homes) {
  if (!homes.empty()) {
    homes_.resize(chunks_.size());
    homes_.insert(homes_.end(), homes.begin(), homes.end());
  }
  chunks_.insert(chunks_.end(), chunks.begin(), chunks.end());
}

void IndexBuilder::add_segment(uint64_t start, uint64_t count, const codec::CodecSpec& codec,
                               std::span<const fb::Chunk> chunks, std::span<const uint16_t> homes) {
  segments_.emplace_back(start, count, static_cast<uint32_t>(chunks_.size()), static_cast<uint32_t>(chunks.size()),
                         static_cast<uint8_t>(codec.codec), static_cast<uint8_t>(codec.filter),
                         static_cast<uint8_t>(codec.filter_width), uint8_t{0}, 0u);
  put_chunks(chunks, homes);
  fb::Region& region = regions_.back();
  region = fb::Region(region.kind(), uint8_t{0}, uint16_t{0}, region.geometry(), region.segment_first(),
                      region.segment_count() + 1);
}

void IndexBuilder::add_alias(std::string_view name, std::string_view target, bool is_view,
                             std::span<const uint64_t> view, int ndim) {
  const fb::Text name_text = put_text(name), target_text = put_text(target);
  aliases_.emplace_back(name_text, target_text, static_cast<uint8_t>(is_view), uint8_t{0},
                        static_cast<uint16_t>(is_view ? ndim : 0), is_view ? put_numbers(view) : 0u);
}

void IndexBuilder::add_object(const ObjectRecord& object) {
  const fb::Text name = put_text(object.name), media_type = put_text(object.media_type);
  objects_.emplace_back(name, media_type, object.size, digest_of(object.digest), object.scope, object.placement,
                        uint16_t{0}, object.layout, static_cast<uint32_t>(inline_data_.size()),
                        static_cast<uint32_t>(chunks_.size()), static_cast<uint32_t>(object.chunks.size()), 0u);
  inline_data_.insert(inline_data_.end(), object.inline_bytes.begin(), object.inline_bytes.end());
  put_chunks(object.chunks, object.homes);
}

void IndexBuilder::add_attr(std::string_view owner, std::string_view key, std::string_view value) {
  const fb::Text owner_text = put_text(owner), key_text = put_text(key), value_text = put_text(value);
  attrs_.emplace_back(owner_text, key_text, value_text);
  if (key == kRunsAttr) summary.required_features |= kHasRuns;
}

void IndexBuilder::add_group(uint64_t id, uint32_t index, uint32_t count, const Digest& digest, uint64_t entries,
                             const fb::Chunk& list) {
  groups_.emplace_back(id, digest_of(digest), entries, list, index, count);
}

// ---- layouts ----

// Runs as long as possible, from the front.
static std::vector<fb::PartRun> runs_of(std::span<const uint32_t> parts) {
  std::vector<fb::PartRun> runs;
  for (size_t first = 0, end; first < parts.size(); first = end) {
    const int64_t stride = first + 1 < parts.size() ? int64_t{parts[first + 1]} - parts[first] : 0;
    for (end = first + 1; end < parts.size() && int64_t{parts[end]} - parts[end - 1] == stride; end++) {
    }
    runs.emplace_back(parts[first], static_cast<uint32_t>(end - first), static_cast<int32_t>(stride));
  }
  return runs;
}

uint32_t IndexBuilder::intern(uint8_t kind, std::span<const uint64_t> cells, uint32_t per_cell,
                              std::span<const uint32_t> holders) {
  const std::vector<fb::PartRun> runs = runs_of(holders);
  std::string key(1, static_cast<char>(kind));
  key.append(reinterpret_cast<const char*>(&per_cell), sizeof per_cell);
  key.append(reinterpret_cast<const char*>(runs.data()), runs.size() * sizeof(fb::PartRun));
  key.append(reinterpret_cast<const char*>(cells.data()), cells.size_bytes());
  const auto [at, fresh] = known_layouts_.try_emplace(std::move(key), static_cast<uint32_t>(layouts_.size()));
  if (!fresh) return at->second;
  layouts_.emplace_back(kind, uint8_t{0}, static_cast<uint16_t>(cells.size()),
                        cells.empty() ? 0u : static_cast<uint32_t>(cells_.size()), per_cell,
                        static_cast<uint32_t>(runs_.size()), static_cast<uint32_t>(runs.size()));
  cells_.insert(cells_.end(), cells.begin(), cells.end());
  runs_.insert(runs_.end(), runs.begin(), runs.end());
  return at->second;
}

uint32_t IndexBuilder::list_layout(std::span<const uint32_t> holders) {
  return intern(0, {}, static_cast<uint32_t>(holders.size()), holders);
}
uint32_t IndexBuilder::rows_layout(std::span<const uint32_t> holders) {
  return intern(2, {}, static_cast<uint32_t>(holders.size()), holders);
}
uint32_t IndexBuilder::grid_layout(std::span<const uint64_t> cells, uint32_t per_cell,
                                   std::span<const uint32_t> holders) {
  return intern(1, cells, per_cell, holders);
}

// ---- cutting into pages ----

uint64_t IndexBuilder::bytes_of(const fb::Tensor& tensor, IndexKind kind) const {
  uint64_t bytes = sizeof(fb::Tensor) + tensor.name().size() + 1 + 8 * uint64_t{tensor.ndim()};
  if (kind == IndexKind::kManifest) return bytes + sizeof(fb::Holding);
  for (size_t r = tensor.region_first(); r < tensor.region_first() + tensor.region_count(); r++) {
    const fb::Region& region = regions_[r];
    bytes += sizeof region + 8 * region_number_count(static_cast<RegionKind>(region.kind()), tensor.ndim());
    for (size_t s = region.segment_first(); s < region.segment_first() + region.segment_count(); s++)
      bytes += sizeof(fb::Segment) + segments_[s].chunk_count() * sizeof(fb::Chunk);
  }
  return bytes;
}

// The least name that begins at `at`'s ends. There must be one.
std::string_view IndexBuilder::next_name(const Cut& at) const {
  std::string_view least;
  bool found = false;
  auto offer = [&](std::string_view name) {
    if (!found || name < least) least = name;
    found = true;
  };
  if (at.attrs.end < attrs_.size()) offer(text(attrs_[at.attrs.end].owner()));
  if (at.tensors.end < tensors_.size()) offer(text(tensors_[at.tensors.end].name()));
  if (at.aliases.end < aliases_.size()) offer(text(aliases_[at.aliases.end].name()));
  if (at.objects.end < objects_.size()) offer(text(objects_[at.objects.end].name()));
  return least;
}

// Adds all records of a name to `at`, but for the tensor; returns what they take.
uint64_t IndexBuilder::take_name(std::string_view name, Cut* at) const {
  uint64_t bytes = 0;
  if (at->aliases.end < aliases_.size() && text(aliases_[at->aliases.end].name()) == name) {
    const fb::Alias& alias = aliases_[at->aliases.end++];
    bytes += sizeof alias + alias.name().size() + alias.target().size() + 2 +
             (alias.is_view() ? 8 * (1 + 2 * uint64_t{alias.ndim()}) : 0);
  }
  if (at->objects.end < objects_.size() && text(objects_[at->objects.end].name()) == name) {
    const fb::Object& object = objects_[at->objects.end++];
    bytes += sizeof object + object.name().size() + object.media_type().size() + 2 +
             object.chunk_count() * sizeof(fb::Chunk) + (object.placement() == 0 ? object.size() : 0);
  }
  for (; at->attrs.end < attrs_.size() && text(attrs_[at->attrs.end].owner()) == name; at->attrs.end++) {
    const fb::Attr& attr = attrs_[at->attrs.end];
    bytes += sizeof attr + attr.owner().size() + attr.key().size() + attr.value().size() + 3;
  }
  return bytes;
}

std::vector<IndexBuilder::Cut> IndexBuilder::cut_pages(IndexKind kind) const {
  std::vector<Cut> cuts;
  Cut at;
  const bool only_tensors = aliases_.empty() && objects_.empty() && attrs_.empty();
  while (at.tensors.end < tensors_.size() || at.aliases.end < aliases_.size() || at.objects.end < objects_.size() ||
         at.attrs.end < attrs_.size()) {
    Cut with = at;
    uint64_t bytes = 0;
    const std::string_view name = only_tensors ? text(tensors_[at.tensors.end].name()) : next_name(at);
    if (at.tensors.end < tensors_.size() && text(tensors_[at.tensors.end].name()) == name)
      bytes += bytes_of(tensors_[with.tensors.end++], kind);
    if (!only_tensors) bytes += take_name(name, &with);
    if (at.bytes != 0 && at.bytes + bytes > kPageBytes) {
      cuts.push_back(at);
      for (Range Cut::* range : {&Cut::tensors, &Cut::aliases, &Cut::objects, &Cut::attrs})
        (with.*range).begin = (at.*range).end;
      with.bytes = 0;
    }
    with.bytes += bytes;
    at = with;
  }
  cuts.push_back(at);
  return cuts;
}

// ---- encoding ----

// An empty column is absent.
template <typename T>
static flatbuffers::Offset<flatbuffers::Vector<const T*>> put_records(flatbuffers::FlatBufferBuilder& builder,
                                                                      const std::vector<T>& records) {
  return records.empty() ? 0 : builder.CreateVectorOfStructs(records);
}

// Encodes pages, with positions that count from the start of each.
class IndexBuilder::PageWriter {
 public:
  PageWriter(const IndexBuilder& from, IndexKind kind) : from_(from), kind_(kind) {}
  Bytes write(const Cut& cut);
  Bytes write_parts(std::span<const fb::Part> parts, std::span<const uint64_t> used);

 private:
  fb::Text put(const fb::Text& text);
  uint32_t put_numbers(uint32_t first, size_t count);
  void put_chunks(uint32_t first, uint32_t count);
  void put_tensor(const fb::Tensor& tensor);
  void put_object(const fb::Object& object);
  Bytes finish(flatbuffers::Offset<fb::Page> page);

  const IndexBuilder& from_;
  const IndexKind kind_;
  flatbuffers::FlatBufferBuilder builder_{2 * kPageBytes};
  std::string names_;
  std::vector<uint64_t> numbers_;
  std::vector<fb::Tensor> tensors_;
  std::vector<fb::Holding> holdings_;
  std::vector<fb::Region> regions_;
  std::vector<fb::Segment> segments_;
  std::vector<fb::Chunk> chunks_;
  std::vector<uint16_t> homes_;
  std::vector<fb::Object> objects_;
  std::vector<uint8_t> inline_data_;
  std::vector<fb::Alias> aliases_;
  std::vector<fb::Attr> attrs_;
};

fb::Text IndexBuilder::PageWriter::put(const fb::Text& text) {
  const fb::Text here(static_cast<uint32_t>(names_.size()), text.size());
  names_.append(from_.names_.data() + text.offset(), size_t{text.size()} + 1);
  return here;
}

uint32_t IndexBuilder::PageWriter::put_numbers(uint32_t first, size_t count) {
  const auto here = static_cast<uint32_t>(numbers_.size());
  numbers_.insert(numbers_.end(), from_.numbers_.data() + first, from_.numbers_.data() + first + count);
  return here;
}

void IndexBuilder::PageWriter::put_chunks(uint32_t first, uint32_t count) {
  const fb::Chunk* chunks = from_.chunks_.data() + first;
  chunks_.insert(chunks_.end(), chunks, chunks + count);
  for (size_t i = first; i < size_t{first} + count && i < from_.homes_.size(); i++) {
    if (from_.homes_[i] == 0) continue;
    homes_.resize(chunks_.size());
    homes_[chunks_.size() - (size_t{first} + count - i)] = from_.homes_[i];
  }
}

void IndexBuilder::PageWriter::put_tensor(const fb::Tensor& tensor) {
  const fb::Text name = put(tensor.name());
  const uint32_t shape = put_numbers(tensor.shape(), tensor.ndim());
  tensors_.emplace_back(name, tensor.dtype(), tensor.ndim(), shape, static_cast<uint32_t>(regions_.size()),
                        tensor.region_count());
  for (size_t r = tensor.region_first(); r < tensor.region_first() + tensor.region_count(); r++) {
    const fb::Region& region = from_.regions_[r];
    const size_t count = region_number_count(static_cast<RegionKind>(region.kind()), tensor.ndim());
    regions_.emplace_back(region.kind(), uint8_t{0}, uint16_t{0}, count ? put_numbers(region.geometry(), count) : 0u,
                          static_cast<uint32_t>(segments_.size()), region.segment_count());
    for (size_t s = region.segment_first(); s < region.segment_first() + region.segment_count(); s++) {
      const fb::Segment& segment = from_.segments_[s];
      segments_.emplace_back(segment.start(), segment.count(), static_cast<uint32_t>(chunks_.size()),
                             segment.chunk_count(), segment.codec(), segment.filter(), segment.filter_width(),
                             uint8_t{0}, 0u);
      put_chunks(segment.chunk_first(), segment.chunk_count());
    }
  }
}

void IndexBuilder::PageWriter::put_object(const fb::Object& object) {
  const fb::Text name = put(object.name()), media_type = put(object.media_type());
  objects_.emplace_back(name, media_type, object.size(), object.digest(), object.scope(), object.placement(),
                        uint16_t{0}, object.layout(), static_cast<uint32_t>(inline_data_.size()),
                        static_cast<uint32_t>(chunks_.size()), object.chunk_count(), 0u);
  if (object.placement() == 0) {
    auto* data = reinterpret_cast<const uint8_t*>(from_.inline_data_.data()) + object.inline_offset();
    inline_data_.insert(inline_data_.end(), data, data + object.size());
  }
  put_chunks(object.chunk_first(), object.chunk_count());
}

Bytes IndexBuilder::PageWriter::finish(flatbuffers::Offset<fb::Page> page) {
  builder_.Finish(page, "CKPI");
  return {reinterpret_cast<const std::byte*>(builder_.GetBufferPointer()), builder_.GetSize()};
}

Bytes IndexBuilder::PageWriter::write(const Cut& cut) {
  builder_.Clear();
  names_.clear();
  numbers_.clear();
  tensors_.clear();
  regions_.clear();
  segments_.clear();
  chunks_.clear();
  homes_.clear();
  objects_.clear();
  inline_data_.clear();
  aliases_.clear();
  attrs_.clear();
  for (size_t i = cut.tensors.begin; i < cut.tensors.end; i++) put_tensor(from_.tensors_[i]);
  holdings_.clear();
  if (kind_ == IndexKind::kManifest)
    holdings_.assign(from_.holdings_.data() + cut.tensors.begin, from_.holdings_.data() + cut.tensors.end);
  for (size_t i = cut.aliases.begin; i < cut.aliases.end; i++) {
    const fb::Alias& alias = from_.aliases_[i];
    const fb::Text name = put(alias.name()), target = put(alias.target());
    aliases_.emplace_back(name, target, alias.is_view(), uint8_t{0}, alias.ndim(),
                          alias.is_view() ? put_numbers(alias.view(), 1 + 2 * size_t{alias.ndim()}) : 0u);
  }
  for (size_t i = cut.objects.begin; i < cut.objects.end; i++) put_object(from_.objects_[i]);
  for (size_t i = cut.attrs.begin; i < cut.attrs.end; i++) {
    const fb::Attr& attr = from_.attrs_[i];
    const fb::Text owner = put(attr.owner()), key = put(attr.key()), value = put(attr.value());
    attrs_.emplace_back(owner, key, value);
  }
  auto chunks = put_records(builder_, chunks_);
  auto segments = put_records(builder_, segments_);
  auto regions = put_records(builder_, regions_);
  auto holdings = put_records(builder_, holdings_);
  auto tensors = put_records(builder_, tensors_);
  auto numbers = numbers_.empty() ? 0 : builder_.CreateVector(numbers_);
  auto names = builder_.CreateString(names_);
  auto objects = put_records(builder_, objects_);
  auto inline_data = inline_data_.empty() ? 0 : builder_.CreateVector(inline_data_);
  auto aliases = put_records(builder_, aliases_);
  auto attrs = put_records(builder_, attrs_);
  if (!homes_.empty()) homes_.resize(chunks_.size());
  auto homes = homes_.empty() ? 0 : builder_.CreateVector(homes_);
  return finish(fb::CreatePage(builder_, names, numbers, tensors, holdings, regions, segments, chunks, objects,
                               inline_data, aliases, attrs, 0, 0, homes));
}

Bytes IndexBuilder::PageWriter::write_parts(std::span<const fb::Part> parts, std::span<const uint64_t> used) {
  builder_.Clear();
  const bool has_bases = parts.back().kind() == kBase;
  auto of_bases = has_bases ? builder_.CreateVector(used.data(), used.size()) : 0;
  auto list = builder_.CreateVectorOfStructs(parts.data(), parts.size());
  auto names = builder_.CreateString("");
  fb::PageBuilder page(builder_);
  page.add_names(names);
  page.add_parts(list);
  if (has_bases) page.add_used(of_bases);
  return finish(page.Finish());
}

std::string_view IndexBuilder::first_name(const Cut& cut) const {
  Cut at = cut;
  for (Range Cut::* range : {&Cut::tensors, &Cut::aliases, &Cut::objects, &Cut::attrs})
    (at.*range).end = (at.*range).begin;
  return next_name(at);
}

uint64_t IndexBuilder::objects_on(const Cut& cut, IndexKind kind) const {
  uint64_t count = 0;
  for (size_t i = cut.objects.begin; i < cut.objects.end; i++)
    count += kind == IndexKind::kManifest ? layouts_[objects_[i].layout()].per_cell() : 1;
  return count;
}

static void pad(Buffer* bytes) {
  static constexpr std::byte kZeros[kPageAlign]{};
  bytes->append(Bytes(kZeros).first(round_up(bytes->size(), kPageAlign) - bytes->size()));
}

Result<EncodedIndex> IndexBuilder::encode(IndexKind kind) {
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  for (uint64_t size : {names_.size(), numbers_.size(), tensors_.size(), regions_.size(), segments_.size(),
                        chunks_.size(), inline_data_.size()})
    if (size > kMost)
      return Status(CKPT_UNSUPPORTED, strformat("an index of {} tensors, {} segments and {} chunks, more than the "
                                                "format can hold; larger chunk_bytes make it smaller",
                                                tensors_.size(), segments_.size(), chunks_.size()));
  EncodedIndex index;
  std::string names;
  std::vector<fb::PageRef> pages, part_pages;
  PageWriter writer(*this, kind);
  uint64_t name_first = 0, object_first = 0;
  auto add_page = [&](std::vector<fb::PageRef>* list, Bytes page, std::string_view first) {
    pad(&index.bytes);
    const fb::Text text(static_cast<uint32_t>(names.size()), static_cast<uint32_t>(first.size()));
    names.append(first).push_back('\0');
    const bool named = list == &pages;
    list->emplace_back(index.bytes.size(), named ? name_first : 0, named ? object_first : 0,
                       digest_of(codec::xxh3_128(page)), text, static_cast<uint32_t>(page.size()), 0u);
    index.bytes.append(page);
  };
  for (const Cut& cut : cut_pages(kind)) {
    add_page(&pages, writer.write(cut), pages.empty() ? std::string_view() : first_name(cut));
    name_first += cut.tensors.end - cut.tensors.begin + cut.aliases.end - cut.aliases.begin;
    object_first += objects_on(cut, kind);
  }
  for (size_t i = 0; i < parts.size(); i += kPartsPerPage) {
    const size_t count = std::min<size_t>(kPartsPerPage, parts.size() - i);
    const auto of_bases =
        used.empty() ? std::span<const uint64_t>() : std::span<const uint64_t>(used).subspan(i, count);
    add_page(&part_pages, writer.write_parts(std::span(parts).subspan(i, count), of_bases), "");
  }
  pad(&index.bytes);
  flatbuffers::FlatBufferBuilder builder;
  auto names_at = builder.CreateString(names);
  auto numbers = cells_.empty() ? 0 : builder.CreateVector(cells_);
  auto pages_at = put_records(builder, pages), part_pages_at = put_records(builder, part_pages);
  auto layouts = put_records(builder, layouts_);
  auto runs = put_records(builder, runs_);
  auto groups = put_records(builder, groups_);
  auto bases_at = put_records(builder, bases);
  if (!bases.empty() || summary.base_count != 0) summary.required_features |= kHasBases;
  auto identity = put_summary(builder, summary);
  builder.Finish(fb::CreateRoot(builder, identity, names_at, numbers, pages_at, part_pages_at,
                                part_pages.empty() ? 0 : kPartsPerPage, name_first, layouts, runs, groups, bases_at),
                 "CKPR");
  const Bytes root(reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize());
  index.root_size = root.size();
  index.root_digest = codec::xxh3_128(root);
  index.bytes.append(root);
  return index;
}

}  // namespace ckpt::format

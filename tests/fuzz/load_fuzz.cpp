// A whole checkpoint from bytes: its indexes, and the data of its parts. All digests are made right, from the chunks
// up, so that what is read is also decoded. Whatever opens is verified, compared with itself, mapped, and loaded twice,
// over different memory and with the same outcome.
//
// The input: a byte of flags, and one with the number of parts and, after them, bases (at most 6); three 16-bit sizes
// for MANIFEST and for each of these: of its index, of the root of that, and of its data; then each one's index and
// data.
#include <algorithm>
#include <map>
#include <optional>

#include "format/part_record.h"
#include "format/slot.h"
#include "fuzz/harness.h"
#include "load/load.h"
#include "load/map.h"
#include "maintain/diff.h"
#include "maintain/repair.h"

namespace ckpt::fuzz {
namespace {

using namespace format;

constexpr uint64_t kMaxPart = 128 << 10, kMaxTensor = 1 << 20;
constexpr size_t kMaxParts = 6;
constexpr uint64_t kLargeManifest = 5 << 20;            // too large to be checked whole when it is opened
enum Flags { kNoCopies = 1, kLarge = 2, kRepair = 4 };  // kRepair: MANIFEST is lost, and made again from the parts

struct File {
  RawIndex index;
  Bytes data;  // what follows the header of a part
};

struct Input {
  int flags = 0;
  RawIndex manifest;
  std::vector<File> parts;
};

bool take(Bytes bytes, Input* out) {
  if (bytes.size() < 2) return false;
  out->flags = std::to_integer<int>(bytes[0]);
  const size_t count = std::to_integer<size_t>(bytes[1]) + 1, head = 2 + 6 * count;
  if (count > 1 + kMaxParts || bytes.size() < head) return false;
  Bytes rest = bytes.subspan(head);
  for (size_t i = 0; i < count; i++) {
    uint16_t sizes[3];  // index, root, data
    std::memcpy(sizes, &bytes[2 + 6 * i], sizeof sizes);
    if (sizes[1] > sizes[0] || size_t{sizes[0]} + sizes[2] > rest.size()) return false;
    File file{{copy_of(rest.first(sizes[0])), sizes[1]}, rest.subspan(sizes[0], sizes[2])};
    rest = rest.subspan(size_t{sizes[0]} + sizes[2]);
    if (i == 0)
      out->manifest = std::move(file.index);
    else
      out->parts.push_back(std::move(file));
  }
  return true;
}

// ---- making files ----

// Bases are made first: their records and bytes.
using Bases = std::map<std::pair<Id, uint32_t>, std::pair<fb::Part, std::vector<std::byte>>>;

// The chunk with the digest of its bytes in the file.
fb::Chunk sealed(const fb::Chunk& chunk, Bytes file) {
  Bytes stored;
  if (range_ok(chunk.offset(), chunk.stored_size(), file.size()))
    stored = file.subspan(chunk.offset(), chunk.stored_size());
  return fb::Chunk(chunk.offset(), chunk.stored_size(), chunk.raw_size(), digest_of(codec::xxh3_128(stored)));
}

fb::Object with_digest(const fb::Object& from, uint64_t size, const Digest& digest) {
  return fb::Object(from.name(), from.media_type(), size, digest_of(digest), from.scope(), from.placement(), from.pad(),
                    from.layout(), from.inline_offset(), from.chunk_first(), from.chunk_count(), from.pad2());
}

// Objects have the digests of what the part says their bytes are.
void seal_objects(const fb::Page& page, Bytes file) {
  const auto chunks = column_of(page.chunks());
  for (const fb::Object& object : column_of(page.objects())) {
    if (object.placement() > 1) continue;
    std::vector<std::byte> bytes;
    if (object.placement() == 0 && page.inline_data() &&
        range_ok(object.inline_offset(), object.size(), page.inline_data()->size())) {
      bytes = copy_of(std::as_bytes(std::span(page.inline_data()->data() + object.inline_offset(), object.size())));
    } else if (object.placement() == 1 && range_ok(object.chunk_first(), object.chunk_count(), chunks.size())) {
      for (const fb::Chunk& chunk : chunks.subspan(object.chunk_first(), object.chunk_count()))
        if (range_ok(chunk.offset(), chunk.stored_size(), file.size()) && bytes.size() <= kMaxTensor) {
          const Bytes stored = file.subspan(chunk.offset(), chunk.stored_size());
          bytes.insert(bytes.end(), stored.begin(), stored.end());
        }
    }
    set(object, with_digest(object, object.size(), codec::xxh3_128(bytes)));
  }
}

std::string_view text_of(const fb::Page& page, const fb::Text& text) {
  const std::string_view names = page.names() ? page.names()->string_view() : std::string_view();
  return range_ok(text.offset(), text.size(), names.size()) ? names.substr(text.offset(), text.size()) : "";
}

// Objects whose bytes are in part 0, as MANIFEST and other parts know them: with the size and digest that it says.
void seal_shared(const fb::Page& page, const RawIndex& part) {
  for (const fb::Object& object : column_of(page.objects()))
    part.for_each_page([&](const fb::PageRef&, Bytes bytes) {
      const auto* first = table_in<fb::Page>(bytes, "CKPI");
      for (const fb::Object& theirs : column_of(first ? first->objects() : nullptr))
        if (object.placement() > 1 && object.scope() == 0 &&
            text_of(*first, theirs.name()) == text_of(page, object.name()))
          set(object, with_digest(object, theirs.size(), id_of(theirs.digest())));
    });
}

// The files in which the chunks of a part lie, by home, and the records of its bases as they were made.
std::vector<Bytes> find_homes(const RawIndex& index, Bytes own, const Bases& bases) {
  std::vector<Bytes> homes{own};
  const fb::Root* root = index.root();
  for (const fb::Base& base : column_of(root ? root->bases() : nullptr)) {
    const auto found = bases.find(identity_of(base.part()));
    if (found != bases.end()) set(base.part(), as_base(found->second.first));
    homes.push_back(found != bases.end() ? Bytes(found->second.second) : Bytes());
  }
  return homes;
}

// The file of a part whose size and index offset are those of its record, and the record with the right digest.
std::vector<std::byte> make_part(const Summary& summary, uint32_t rank, File& from, const fb::Part& record,
                                 uint64_t copy_offset, const RawIndex& first, const Bases& bases) {
  RawIndex& index = from.index;
  uint64_t end;
  if (record.size() > kMaxPart || record.size() < kPartHeaderSize + kPartTrailerSize ||
      add_overflows(record.index_offset(), index.bytes.size(), &end) || end > record.size() - kPartTrailerSize ||
      record.index_offset() < kPartHeaderSize)
    return {};
  std::vector<std::byte> file(record.size());
  const Id save = record.kind() == kBase ? id_of(record.save_id()) : summary.save_id;
  auto header = encode_part_header(
      {summary.revision, save, rank, summary.world_size, summary.store_id, summary.token, summary.attempt});
  std::copy(header.begin(), header.end(), file.begin());
  const Bytes data = from.data.first(std::min<size_t>(from.data.size(), record.index_offset() - kPartHeaderSize));
  std::copy(data.begin(), data.end(), file.begin() + kPartHeaderSize);
  const std::vector<Bytes> homes = find_homes(index, file, bases);
  if (const fb::Root* root = index.root())
    for (const fb::Group& group : column_of(root->groups())) set(group.list(), sealed(group.list(), file));
  index.for_each_page([&](const fb::PageRef&, Bytes bytes) {
    const auto* page = table_in<fb::Page>(bytes, "CKPI");
    if (!page) return;
    const auto chunks = column_of(page->chunks());
    const auto* home = page->homes();
    for (size_t i = 0; i < chunks.size(); i++) {
      const size_t at = home && i < home->size() ? home->Get(static_cast<flatbuffers::uoffset_t>(i)) : 0;
      set(chunks[i], sealed(chunks[i], at < homes.size() ? homes[at] : Bytes()));
    }
    seal_objects(*page, file);
    seal_shared(*page, first);
  });
  const Digest digest = index.seal();
  std::copy(index.bytes.begin(), index.bytes.end(), file.begin() + static_cast<ptrdiff_t>(record.index_offset()));
  auto trailer = encode_part_trailer({record.index_offset(), index.bytes.size(), index.root_size, digest, save});
  std::copy(trailer.begin(), trailer.end(), file.end() - kPartTrailerSize);
  set(record, fb::Part(record.size(), record.index_offset(), index.bytes.size(), copy_offset, digest_of(digest),
                       record.save_id(), static_cast<uint32_t>(index.root_size), record.rank(), record.kind(),
                       record.pad(), record.pad2(), record.pad3()));
  return file;
}

// Visits (number, record) of each part and base that the input has.
template <typename Visit>
void for_each_record(const Input& input, Visit&& visit) {
  size_t number = 0;
  input.manifest.for_each_page([&](const fb::PageRef&, Bytes bytes) {
    const auto* page = table_in<fb::Page>(bytes, "CKPI");
    for (const fb::Part& record : column_of(page ? page->parts() : nullptr))
      if (number < input.parts.size()) visit(number++, record);
  });
}

bool make_bases(store::Store& place, const Summary& summary, Input& input, Bases* bases) {
  bool good = true;
  for_each_record(input, [&](size_t number, const fb::Part& record) {
    if (record.kind() != kBase || !good) return;
    auto file = make_part(summary, record.rank(), input.parts[number], record, 0, input.parts[0].index, {});
    good = !file.empty() && !bases->contains(identity_of(record));
    if (!good) return;
    must(place.put_if_absent("c/" + file_name(record), file).ok());
    bases->try_emplace(identity_of(record), record, std::move(file));
  });
  return good;
}

// Writes the checkpoint; false if it is not one that a fuzzer can do something with.
bool make_files(store::Store& place, Input& input) {
  const fb::Root* root = input.manifest.root();
  auto summary = read_summary(root ? root->summary() : nullptr);
  if (!summary.ok()) return false;
  std::vector<std::byte> copies;
  Bases bases;
  bool good = make_bases(place, *summary, input, &bases);
  for_each_record(input, [&](size_t number, const fb::Part& record) {
    if (record.kind() == kBase || !good) return;
    const RawIndex& index = input.parts[number].index;
    const bool copied = !(input.flags & kNoCopies);
    auto file = make_part(*summary, static_cast<uint32_t>(number), input.parts[number], record,
                          copied ? copies.size() : 0, input.parts[0].index, bases);
    good = !file.empty();
    if (!good) return;
    must(place.put_if_absent("c/PART_00" + std::to_string(number), file).ok());
    if (copied) copies.insert(copies.end(), index.bytes.begin(), index.bytes.end());
    copies.resize(round_up(copies.size(), kPageAlign));
  });
  if (!good || (input.flags & kRepair)) return good;
  input.manifest.for_each_page([&](const fb::PageRef&, Bytes bytes) {
    const auto* page = table_in<fb::Page>(bytes, "CKPI");
    if (page && !input.parts.empty()) seal_shared(*page, input.parts[0].index);
  });
  if (input.flags & kLarge) copies.resize(kLargeManifest);
  const Digest digest = input.manifest.seal();
  must(place
           .put_if_absent("c/MANIFEST", frame_manifest({Buffer(input.manifest.bytes), input.manifest.root_size, digest},
                                                       copies, *summary))
           .ok());
  return true;
}

// ---- using the checkpoint ----

using checkpoint::Checkpoint;

struct Loaded {
  Status status;
  std::vector<std::vector<std::byte>> memory;
};

Status add_tensors(load::Load& load, const Checkpoint& checkpoint, std::byte fill, Loaded* out) {
  for (uint64_t i = 0; i < checkpoint.name_count(); i++) {
    CKPT_ASSIGN(const Checkpoint::Named named, checkpoint.named_at(i));
    uint64_t position = 0;
    auto found = checkpoint.find(named.name(), &position);
    must(found.ok() && found->tensor == named.tensor && found->alias == named.alias && position == i);
    uint64_t bytes = *element_bytes(*element_count(Shape::of(named.extents())), named.tensor.dtype()),
             stored = *element_bytes(*element_count(named.tensor.shape()), named.tensor.dtype());
    if (bytes > kMaxTensor || stored > kMaxTensor) continue;
    ckpt_tensor_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = named.tensor.dtype();
    desc.ndim = static_cast<int32_t>(named.extents().size());
    for (size_t d = 0; d < named.extents().size(); d++) desc.shape[d] = static_cast<int64_t>(named.extents()[d]);
    out->memory.emplace_back(bytes, fill);
    Status added = load.add_tensor(named.name(), desc, out->memory.back().data(), bytes);
    must_blame_the_bytes(bytes == 0 ? Ok() : added);  // an empty tensor may have an extent that ckpt.h cannot express
  }
  return Ok();
}

Status add_objects(load::Load& load, const Checkpoint& checkpoint, std::byte fill, Loaded* out) {
  for (uint64_t i = 0; i < checkpoint.object_count(); i++) {
    CKPT_ASSIGN(const checkpoint::ObjectRef object, checkpoint.object_at(i));
    const std::string_view name = object.page->text(object.object->name());
    auto found = checkpoint.find_object(name, object.rank());
    must(found.ok() && found->object == object.object);
    if (object.object->size() > kMaxTensor) continue;
    out->memory.emplace_back(object.object->size(), fill);
    must_blame_the_bytes(load.add_object(name, object.rank(), out->memory.back()));
  }
  return Ok();
}

Loaded load_all(const std::shared_ptr<Checkpoint>& checkpoint, std::byte fill) {
  auto made = load::Load::make(checkpoint, {.threads = 1});
  must(made.ok());
  load::Load& load = **made;
  Loaded out;
  out.status = add_tensors(load, *checkpoint, fill, &out);
  if (out.status.ok()) out.status = add_objects(load, *checkpoint, fill, &out);
  if (out.status.ok()) out.status = load.begin();
  Job job;
  if (out.status.ok()) out.status = load.work(job);
  must_blame_the_bytes(out.status);
  return out;
}

// The raw bytes of all pieces, to bound the work of a comparison; null if not all are there.
std::optional<uint64_t> map_tensors(const Checkpoint& checkpoint) {
  uint64_t total = 0;
  bool good = true;
  for (size_t i = 0; i < checkpoint.manifest().page_count(); i++) {
    auto page = checkpoint.manifest().page(i);
    must_blame_the_bytes(page.status());
    if (!page.ok()) return std::nullopt;
    walk(**page);
    for (const fb::Tensor& tensor : (*page)->tensors) {
      must_blame_the_bytes(load::map_tensor(checkpoint, (*page)->text(tensor.name()), {}).status());
      auto pieces = checkpoint.pieces({*page, &tensor});
      must_blame_the_bytes(pieces.status());
      good = good && pieces.ok();
      if (!pieces.ok()) continue;
      for (const checkpoint::Piece& piece : *pieces)
        for (const fb::Chunk& chunk : piece.chunks()) total += chunk.raw_size();
    }
  }
  return good ? std::optional(total) : std::nullopt;
}

void load_share(const std::shared_ptr<Checkpoint>& checkpoint, std::string_view table, load::ShareRequest request) {
  Job opening;
  auto share = load::Share::open(checkpoint, table, std::move(request), opening);
  must_blame_the_bytes(share.status());
  for (size_t window = 0; share.ok() && window < std::min<size_t>((*share)->windows().size(), 64); window++) {
    std::vector<uint64_t> ids((*share)->windows()[window].rows);
    auto load = load::Load::make(checkpoint, {});
    must(load.ok() && (*load)->add_table({*share, window, reinterpret_cast<std::byte*>(ids.data()), {}}).ok());
    must((*load)->begin().ok());
    Job job;
    must_blame_the_bytes((*load)->work(job));
  }
}

// Shares of every kind, and their ids.
void use_tables(const std::shared_ptr<Checkpoint>& checkpoint) {
  must_blame_the_bytes(load::for_each_table(*checkpoint, [&](std::string_view name) {
    for (const uint64_t window : {0, 3}) {
      load_share(checkpoint, name, {.kind = CKPT_SHARE_ALL, .window_rows = window});
      load_share(checkpoint, name, {.kind = CKPT_SHARE_ALL, .window_rows = window, .since = checkpoint});
      load_share(checkpoint, name, {.kind = CKPT_SHARE_MOD, .index = 1, .count = 3, .window_rows = window});
      load_share(checkpoint, name, {.kind = CKPT_SHARE_IDS, .window_rows = window, .ids = {0, 1, 4096, UINT64_MAX}});
    }
    load_share(checkpoint, name, {.kind = CKPT_SHARE_SLICE, .index = 2, .count = 5});
    return Ok();
  }));
}

void use(const std::shared_ptr<Checkpoint>& checkpoint) {
  walk(checkpoint->root());
  const std::optional<uint64_t> total = map_tensors(*checkpoint);
  if (!total || *total <= kMaxTensor)
    for (const char* mode : {"full", "quick", "sample"}) {
      const VerifyOptions options{.threads = 1, .verify_mode = mode, .sample_k = 1, .sample_n = 2};
      Job job;
      must_blame_the_bytes(maintain::verify_checkpoint(*checkpoint, options, job));
    }
  Loaded first = load_all(checkpoint, std::byte{0x00}), second = load_all(checkpoint, std::byte{0xff});
  must(first.status.code() == second.status.code());
  must(!first.status.ok() || first.memory == second.memory);  // otherwise some requested byte was not written
  Report report;
  Job job;
  if (total && *total <= kMaxTensor)
    must_blame_the_bytes(maintain::diff_checkpoints(*checkpoint, *checkpoint, true, 1, &report, job));
  must(report.findings.empty());
  if (total && *total <= kMaxTensor) use_tables(checkpoint);
}

void run(Bytes bytes) {
  Input input;
  if (!take(bytes, &input)) return;
  auto store = store::open_memory("load-fuzz");
  must(store.ok() && (*store)->make_directory("c").ok());
  if (!make_files(**store, input)) return;
  const bool repair = input.flags & kRepair;
  Report report;
  Status repaired = repair ? maintain::repair_checkpoint(**store, "c", false, true, &report) : Ok();
  must_blame_the_bytes(repaired);
  if (!repaired.ok()) return;
  auto checkpoint = Checkpoint::open(*store, {"c", "main"});
  must_blame_the_bytes(checkpoint.status());
  must(checkpoint.ok() || !repair);  // what was rebuilt must open
  if (checkpoint.ok()) use(*checkpoint);
}

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ckpt::fuzz::run(ckpt::fuzz::input(data, size));
  return 0;
}

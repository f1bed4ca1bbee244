// A whole checkpoint from bytes: two bytes of length, MANIFEST's index of that length, and the data of its parts. The
// digests are made right, so that what is read is also decoded. Whatever opens is verified, compared with itself,
// mapped, and loaded twice, over different memory and with the same outcome.
#include <algorithm>

#include "fuzz/harness.h"
#include "load/load.h"
#include "load/map.h"
#include "maintain/diff.h"

namespace ckpt::fuzz {
namespace {

using namespace format;

constexpr uint64_t kMaxPart = 128 << 10, kMaxTensor = 1 << 20;
constexpr size_t kMaxParts = 4;

std::vector<std::byte> part_of(const Summary& summary, uint32_t rank, uint64_t size, Bytes data, Digest* digest) {
  IndexBuilder builder;
  builder.summary = summary;
  builder.summary.part_count = 0;
  builder.summary.tensor_count = builder.summary.object_count = builder.summary.part_bytes = 0;
  auto index = builder.encode();
  must(index.ok());
  *digest = xxh3_128(*index);
  uint64_t tail = round_up(index->size() + kPartTrailerSize, kPartIndexAlign);
  if (size < kPartHeaderSize + tail) return {};
  std::vector<std::byte> file(size);
  auto header = encode_part_header(
      {summary.revision, summary.save_id, rank, summary.world_size, summary.store_id, summary.token, summary.attempt});
  auto trailer = encode_part_trailer({size - tail, index->size(), *digest, summary.save_id});
  std::memcpy(file.data(), header.data(), header.size());
  std::memcpy(&file[kPartHeaderSize], data.data(), std::min<size_t>(data.size(), size - tail - kPartHeaderSize));
  std::memcpy(&file[size - tail], index->data(), index->size());
  std::memcpy(&file[size - trailer.size()], trailer.data(), trailer.size());
  return file;
}

template <typename T>
void set(const T& record, const T& value) {
  std::memcpy(const_cast<T*>(&record), &value, sizeof value);
}

// Writes the parts, and puts the digests of their chunks into the index. False if they are too large for a fuzzer.
bool make_parts(store::Store& place, const Index& index, Bytes data) {
  if (index.parts.size() > kMaxParts) return false;
  std::vector<std::vector<std::byte>> files;
  for (const fb::Part& part : index.parts) {
    if (part.size() > kMaxPart) return false;
    Digest digest;
    files.push_back(part_of(index.summary, part.rank(), part.size(), data, &digest));
    if (files.back().empty()) return false;
    set(part, fb::Part(part.size(), digest_of(digest), part.save_id(), part.rank(), 0, 0, 0));
  }
  auto seal = [&](uint32_t number, const fb::Chunk& chunk) {
    Bytes stored = Bytes(files[number]).subspan(chunk.offset(), chunk.stored_size());
    set(chunk, fb::Chunk(chunk.offset(), chunk.stored_size(), chunk.raw_size(), digest_of(xxh3_128(stored))));
  };
  for (const fb::Segment& segment : index.segments)
    for (const fb::Chunk& chunk : index.chunks_of(segment)) seal(segment.part(), chunk);
  for (const fb::Object& object : index.objects)
    for (const fb::Chunk& chunk : index.chunks_of(object)) seal(object.part(), chunk);
  for (size_t i = 0; i < files.size(); i++) must(place.put_if_absent("c/PART_00" + std::to_string(i), files[i]).ok());
  return true;
}

struct Loaded {
  Status status;
  std::vector<std::vector<std::byte>> memory;
};

Loaded load_all(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint, std::byte fill) {
  Options options;
  must(options.set_int("threads", 1).ok());
  auto made = load::Load::make(checkpoint, options);
  must(made.ok());
  load::Load& load = **made;
  Loaded out;
  const Index& index = checkpoint->index();
  for (uint64_t i = 0; i < checkpoint->name_count(); i++) {
    auto named = checkpoint->named_at(i);
    bool view = named.alias && named.alias->is_view();
    Shape shape = view ? Shape::of(index.numbers.subspan(named.alias->view() + 1, named.alias->ndim()))
                       : index.shape_of(*named.tensor);
    uint64_t bytes = *element_bytes(*element_count(shape), named.tensor->dtype()),
             stored = *element_bytes(*element_count(index.shape_of(*named.tensor)), named.tensor->dtype());
    if (bytes > kMaxTensor || stored > kMaxTensor) continue;
    ckpt_tensor_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = named.tensor->dtype();
    desc.ndim = shape.ndim;
    for (int d = 0; d < shape.ndim; d++) desc.shape[d] = static_cast<int64_t>(shape[d]);
    out.memory.emplace_back(bytes, fill);
    Status added = load.add_tensor(checkpoint->name_of(named), desc, out.memory.back().data(), bytes);
    // ckpt.h cannot express an extent above 2^63-1, which a tensor without elements may have.
    must(added.ok() || added.code() == CKPT_UNSUPPORTED || bytes == 0);
  }
  for (const fb::Object& object : index.objects) {
    out.memory.emplace_back(object.size(), fill);
    must(load.add_object(index.text(object.name()), object.rank(), out.memory.back()).ok());
  }
  must(load.begin().ok());
  Job job;
  out.status = load.work(job);
  must_blame_the_bytes(out.status);
  return out;
}

void use(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint) {
  for (maintain::VerifyMode mode :
       {maintain::VerifyMode::kFull, maintain::VerifyMode::kQuick, maintain::VerifyMode::kSample}) {
    Job job;
    must_blame_the_bytes(
        maintain::verify_checkpoint(*checkpoint, {.mode = mode, .sample_k = 1, .sample_n = 2, .threads = 1}, job));
  }
  for (const fb::Tensor& tensor : checkpoint->index().tensors)
    must_blame_the_bytes(load::map_tensor(*checkpoint, checkpoint->index().text(tensor.name()), true, 1).status());
  Loaded first = load_all(checkpoint, std::byte{0x00}), second = load_all(checkpoint, std::byte{0xff});
  must(first.status.code() == second.status.code());
  must(!first.status.ok() || first.memory == second.memory);  // otherwise some requested byte was not written
  uint64_t total = 0;
  for (const fb::Chunk& chunk : checkpoint->index().chunks) total += chunk.raw_size();
  Report report;
  if (total <= kMaxTensor) must_blame_the_bytes(maintain::diff_checkpoints(*checkpoint, *checkpoint, true, 1, &report));
  must(report.findings.empty());
}

void run(Bytes bytes) {
  if (bytes.size() < 2) return;
  size_t index_size = static_cast<size_t>(bytes[0]) | static_cast<size_t>(bytes[1]) << 8;
  if (index_size > bytes.size() - 2) return;
  auto index_bytes = copy_of(bytes.subspan(2, index_size));
  auto index = Index::open(index_bytes, IndexKind::kManifest);
  if (!index.ok()) return;
  auto store = store::open_memory("load-fuzz");
  must(store.ok() && (*store)->make_directory("c").ok());
  if (!make_parts(**store, *index, bytes.subspan(2 + index_size))) return;
  must((*store)->put_if_absent("c/MANIFEST", frame_manifest(Buffer(index_bytes), index->summary)).ok());
  auto checkpoint = checkpoint::Checkpoint::open(*store, {"c", "main"});
  must_blame_the_bytes(checkpoint.status());
  if (checkpoint.ok()) use(*checkpoint);
}

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ckpt::fuzz::run(ckpt::fuzz::input(data, size));
  return 0;
}

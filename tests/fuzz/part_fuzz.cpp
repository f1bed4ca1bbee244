// The bytes as a part: 80 of its header, 72 of its trailer, then its own index. With and without right checksums;
// opened as a part, and given to `repair` to make a MANIFEST.
#include "checkpoint/checkpoint.h"
#include "checkpoint/part_file.h"
#include "fuzz/harness.h"
#include "maintain/repair.h"

namespace ckpt::fuzz {
namespace {

using namespace format;

constexpr uint64_t kIndexAt = 65536;
constexpr size_t kHead = 80, kFixed = kHead + kPartTrailerSize;

template <typename T>
void put(std::vector<std::byte>& file, size_t at, const T& value) {
  std::memcpy(&file[at], &value, sizeof value);
}

std::vector<std::byte> part_of(Bytes bytes, bool sealed) {
  RawIndex index{copy_of(bytes.subspan(kFixed)), 0};
  std::memcpy(&index.root_size, &bytes[kHead + 16], 8);
  index.root_size = std::min<uint64_t>(index.root_size, index.bytes.size());
  const Digest digest = sealed ? index.seal() : Digest{};
  std::vector<std::byte> file(round_up(kIndexAt + index.bytes.size() + kPartTrailerSize, kAlign));
  size_t trailer = file.size() - kPartTrailerSize;
  std::memcpy(file.data(), bytes.data(), kHead);
  std::memcpy(&file[trailer], &bytes[kHead], kPartTrailerSize);
  if (!index.bytes.empty()) std::memcpy(&file[kIndexAt], index.bytes.data(), index.bytes.size());
  if (!sealed) return file;
  std::memcpy(file.data(), "CKPTPART", 8);
  put(file, 72, codec::xxh3_64(Bytes(file).first(72)));
  Id save_id;
  std::memcpy(&save_id, &file[16], sizeof save_id);
  auto tail = encode_part_trailer({kIndexAt, index.bytes.size(), index.root_size, digest, save_id});
  std::memcpy(&file[trailer], tail.data(), tail.size());
  return file;
}

void open_file(const std::vector<std::byte>& file) {
  auto store = store::open_memory("part-fuzz");
  must(store.ok());
  store::Store& place = **store;
  must(place.make_directory("c").ok() && place.put_if_absent("c/PART_000", file).ok());
  {
    auto part = checkpoint::open_part(place, "c", 0);
    must_blame_the_bytes(part.status());
    if (part.ok()) walk(*part->index);
  }
  Report report;
  Status repaired = maintain::repair_checkpoint(place, "c", false, true, &report);
  must_blame_the_bytes(repaired);
  // What was rebuilt must open.
  if (repaired.ok()) must_blame_the_bytes(checkpoint::Checkpoint::open(*store, {"c", "main"}).status());
  if (repaired.ok()) must(checkpoint::Checkpoint::open(*store, {"c", "main"}).ok());
}

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto bytes = ckpt::fuzz::input(data, size);
  if (bytes.size() < ckpt::fuzz::kFixed) return 0;
  ckpt::fuzz::open_file(ckpt::fuzz::part_of(bytes, true));
  ckpt::fuzz::open_file(ckpt::fuzz::part_of(bytes, false));
  return 0;
}

// The bytes as a part: 80 of its header, 64 of its trailer, then its own index. With and without right checksums;
// opened as a part, and given to `repair` to make a MANIFEST.
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
  Bytes index = bytes.subspan(kFixed);
  std::vector<std::byte> file(round_up(kIndexAt + index.size() + kPartTrailerSize, kAlign));
  size_t trailer = file.size() - kPartTrailerSize;
  std::memcpy(file.data(), bytes.data(), kHead);
  std::memcpy(&file[trailer], &bytes[kHead], kPartTrailerSize);
  if (!index.empty()) std::memcpy(&file[kIndexAt], index.data(), index.size());
  if (!sealed) return file;
  std::memcpy(file.data(), "CKPTPART", 8);
  put(file, 72, xxh3_64(Bytes(file).first(72)));
  put(file, trailer, kIndexAt);
  put(file, trailer + 8, uint64_t{index.size()});
  put(file, trailer + 16, xxh3_128(index));
  std::memcpy(&file[trailer + 32], &file[16], 16);
  std::memcpy(&file[trailer + 48], "CKPTTAIL", 8);
  put(file, trailer + 56, xxh3_64(Bytes(file).subspan(trailer, 56)));
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
    if (part.ok()) walk(part->index);
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

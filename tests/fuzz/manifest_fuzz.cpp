// The bytes as a file in the commit slot, and as an index of either kind with right digests.
#include "checkpoint/index_coverage.h"
#include "format/slot.h"
#include "fuzz/harness.h"

namespace ckpt::fuzz {
namespace {

using namespace format;

// Opens the bytes as they are, then with right digests.
void open_as_slot(Bytes bytes) {
  must_blame_the_bytes(open_slot(bytes).status());
  if (bytes.size() < kManifestTrailerSize) return;
  auto file = copy_of(bytes);
  ManifestTrailer trailer;
  std::memcpy(&trailer.index_size, &file[file.size() - kManifestTrailerSize], 8);
  std::memcpy(&trailer.summary_size, &file[file.size() - kManifestTrailerSize + 8], 8);
  trailer.kind = ManifestKind{static_cast<uint32_t>(file[file.size() - kManifestTrailerSize + 48])};
  if (check_manifest_layout(trailer, file.size()).ok()) {
    trailer.index_digest = xxh3_128(Bytes(file).first(trailer.index_size));
    trailer.summary_digest = xxh3_128(Bytes(file).subspan(manifest_summary_offset(trailer), trailer.summary_size));
  }
  auto sealed = encode_manifest_trailer(trailer);
  std::memcpy(&file[file.size() - sealed.size()], sealed.data(), sealed.size());
  auto slot = open_slot(file);
  must_blame_the_bytes(slot.status());
  uint64_t needed = 0;
  auto tail = open_slot_tail(file, file.size(), &needed);
  must(!slot.ok() || tail.ok());
  if (slot.ok() && slot->committed) must_blame_the_bytes(Index::open(slot->index, IndexKind::kManifest).status());
}

void open_as_index(Bytes bytes) {
  auto aligned = copy_of(bytes);
  for (IndexKind kind : {IndexKind::kManifest, IndexKind::kPart}) {
    auto index = Index::open(aligned, kind);
    must_blame_the_bytes(index.status());
    if (!index.ok()) continue;
    walk(*index);
    if (kind == IndexKind::kManifest) must_blame_the_bytes(checkpoint::check_index_coverage(*index));
    auto framed = frame_manifest(Buffer(aligned), index->summary);
    auto slot = open_slot(framed);
    must(slot.ok() && slot->summary == index->summary);
  }
}

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ckpt::fuzz::open_as_slot(ckpt::fuzz::input(data, size));
  ckpt::fuzz::open_as_index(ckpt::fuzz::input(data, size));
  return 0;
}

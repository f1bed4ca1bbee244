// The bytes as a file in the commit slot, with and without right digests; as a root; and as a page of an index.
#include "format/slot.h"
#include "fuzz/harness.h"

namespace ckpt::fuzz {
namespace {

using namespace format;
using checkpoint::IndexFile;

void open_index(const RawIndex& index, const Digest& digest) {
  auto opened = IndexFile::open({IndexKind::kManifest, index.bytes.size(), index.root_size, digest}, index.bytes);
  must_blame_the_bytes(opened.status());
  if (!opened.ok()) return;
  Status loaded = (*opened)->load_all();
  must_blame_the_bytes(loaded);
  if (!loaded.ok()) return;
  walk(**opened);
  for (uint32_t i = 0; i < (*opened)->root().summary.part_count; i++) must((*opened)->part(i).ok());
}

// Opens the bytes as they are, then with right digests.
void open_as_slot(Bytes bytes) {
  uint64_t needed = 0;
  must_blame_the_bytes(open_slot(bytes, bytes.size(), &needed).status());
  if (bytes.size() < kManifestTrailerSize) return;
  auto file = copy_of(bytes);
  const size_t end = file.size() - kManifestTrailerSize;
  uint64_t sizes[4];
  std::memcpy(sizes, &file[end], sizeof sizes);
  ManifestTrailer trailer{sizes[0], sizes[1], sizes[2], sizes[3], {}, {}};
  trailer.kind = ManifestKind{static_cast<uint32_t>(file[end + 64])};
  RawIndex index;
  if (check_manifest_layout(trailer, file.size()).ok()) {
    const bool committed = trailer.kind == ManifestKind::kManifest;
    index = {copy_of(Bytes(file).first(trailer.index_size)), trailer.root_size};
    trailer.root_digest = committed ? index.seal() : codec::xxh3_128(index.bytes);
    if (!index.bytes.empty()) std::memcpy(file.data(), index.bytes.data(), index.bytes.size());
    trailer.summary_digest =
        codec::xxh3_128(Bytes(file).subspan(manifest_summary_offset(trailer), trailer.summary_size));
  }
  auto sealed = encode_manifest_trailer(trailer);
  std::memcpy(&file[end], sealed.data(), sealed.size());
  auto slot = open_slot(file, file.size(), &needed);
  must_blame_the_bytes(slot.status());
  if (!slot.ok()) return;
  must(needed <= file.size());
  must(open_slot(Bytes(file).last(needed), file.size(), &needed).ok());
  if (needed > kManifestTrailerSize)
    must(open_slot(Bytes(file).last(needed - 1), file.size(), &needed).status().code() == CKPT_INVALID);
  if (!slot->committed) return;
  must_blame_the_bytes(check_manifest_gaps(file, slot->trailer));
  open_index(index, trailer.root_digest);
}

void open_as_root(Bytes bytes) {
  auto aligned = copy_of(bytes);
  uint64_t end = 0;
  const auto* raw = table_in<fb::Root>(aligned, "CKPR");
  if (!raw) return;
  for (auto list : {column_of(raw->pages()), column_of(raw->part_pages())})
    for (const fb::PageRef& page : list) end = std::min(page.offset() + page.size(), uint64_t{1} << 62);
  for (IndexKind kind : {IndexKind::kManifest, IndexKind::kPart}) {
    auto root = Root::open(aligned, kind, round_up(end, kPageAlign) + aligned.size(), 1 << 30);
    must_blame_the_bytes(root.status());
    if (root.ok()) walk(*root);
  }
}

// A root of one page, of as many names as that holds, of four parts and a few layouts.
void open_as_page(Bytes bytes) {
  auto aligned = copy_of(bytes);
  const auto* raw = table_in<fb::Page>(aligned, "CKPI");
  if (!raw) return;
  const fb::PageRef ref(0, 0, 0, {}, {0, 0}, static_cast<uint32_t>(bytes.size()), 0);
  const uint64_t cells[] = {2, 3};
  const fb::PartRun runs[] = {{0, 1, 0}, {1, 1, 0}, {0, 3, 1}, {0, 2, 1}, {0, 3, 1}, {0, 3, 1}};
  const fb::Layout layouts[] = {{0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 1, 0, 1}, {0, 0, 0, 0, 1, 1, 1},
                                {0, 0, 0, 0, 3, 2, 1}, {1, 0, 1, 0, 1, 3, 1}, {1, 0, 2, 0, 1, 4, 2}};
  Root root;
  root.names = std::string_view("\0", 1);
  root.pages = root.part_pages = std::span(&ref, 1);
  root.name_count = column_of(raw->tensors()).size() + column_of(raw->aliases()).size();
  root.summary.world_size = root.summary.part_count = root.parts_per_page =
      static_cast<uint32_t>(column_of(raw->parts()).size());
  if (auto parts = column_of(raw->parts()); !parts.empty()) root.summary.save_id = id_of(parts[0].save_id());
  root.data_end = 1 << 30;
  for (IndexKind kind : {IndexKind::kManifest, IndexKind::kPart}) {
    root.kind = kind;
    if (kind == IndexKind::kManifest) {
      root.numbers = cells;
      root.runs = runs;
      root.layouts = layouts;
      for (const fb::Object& object : column_of(raw->objects()))
        if (object.layout() < root.layouts.size()) root.summary.object_count += layouts[object.layout()].per_cell();
    }
    auto page = Page::open(aligned, root, 0);
    must_blame_the_bytes(page.status());
    if (page.ok()) walk(*page);
  }
  root.kind = IndexKind::kManifest;
  if (root.parts_per_page != 0) must_blame_the_bytes(Page::open_parts(aligned, root, 0).status());
}

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ckpt::fuzz::open_as_slot(ckpt::fuzz::input(data, size));
  ckpt::fuzz::open_as_root(ckpt::fuzz::input(data, size));
  ckpt::fuzz::open_as_page(ckpt::fuzz::input(data, size));
  return 0;
}

// Files of torch whose pickles a fuzzer chooses and whose storages are sound, and what a reader made of them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "fuzz/harness.h"
#include "interop/src/reader.h"
#include "interop/tests/zip_fixture.h"

namespace ckpt::fuzz {

constexpr int kStorages = 24;
constexpr size_t kStorageBytes = 1024;

inline void write_pt(const std::filesystem::path& path, Bytes pickle) {
  std::vector<interop::ZipItem> items = {{"m/data.pkl", std::string(as_text(pickle))}};
  for (int key = 0; key < kStorages; key++)
    items.push_back({"m/data/" + std::to_string(key), std::string(kStorageBytes, 's')});
  std::ofstream(path, std::ios::binary) << interop::make_zip(items).bytes;
}

// Several pickles out of one input: the lengths of all but the last, 16 bits each, then the pickles.
inline std::vector<Bytes> cut(Bytes bytes, size_t count) {
  std::vector<Bytes> pickles(count);
  const size_t head = 2 * (count - 1);
  if (bytes.size() < head) return pickles;
  Bytes rest = bytes.subspan(head);
  for (size_t i = 0; i < count; i++) {
    size_t size = rest.size();
    if (i + 1 < count)
      size = std::min<size_t>(size, std::to_integer<size_t>(bytes[2 * i]) | std::to_integer<size_t>(bytes[2 * i + 1])
                                                                                << 8);
    pickles[i] = rest.first(size);
    rest = rest.subspan(size);
  }
  return pickles;
}

// No piece reaches beyond its bytes, or has more or fewer than its elements take.
inline void read_pieces(interop::ForeignCheckpoint& state) {
  for (const interop::ForeignTensor& tensor : state.tensors)
    for (const interop::ForeignPiece& piece : tensor.pieces) {
      const auto bytes = state.files.bytes(piece.bytes);
      must(bytes.ok() && piece.rank < state.ranks);
      uint64_t sum = 0;
      for (const std::byte byte : *bytes) sum += static_cast<uint64_t>(byte);
      must(sum <= 255 * bytes->size());
      if (piece.strides) continue;
      const uint64_t elements = tensor.elements(), begin = piece.region.flat_offset, size = piece.region.flat_size;
      const bool flat = piece.region.kind == RegionKind::kFlat, box = piece.region.kind == RegionKind::kBox;
      if (flat) must(begin <= elements && size <= elements - begin);
      const uint64_t count = flat ? size : box ? piece.region.box.volume() : elements;
      must((count * static_cast<uint64_t>(dtype_bits(tensor.dtype)) + 7) / 8 == bytes->size());
    }
  if (state.tree) must(tree::parse_tree_json(tree::tree_json(*state.tree)).ok());
}

}  // namespace ckpt::fuzz

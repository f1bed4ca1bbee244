#include "save/replica_values.h"

#include <algorithm>

#include "base/parallel.h"
#include "codec/checksum.h"
#include "save/source.h"

namespace ckpt::save {

static constexpr uint64_t kPlaces = 16, kPlaceBytes = 4096;  // of FORMAT §6
static constexpr uint64_t kPiece = 8 << 20;                  // of FORMAT §6
static constexpr uint64_t kWindow = 256 << 10;               // of gathering: stays in a core's cache

ReplicaCheck replica_check(std::string_view option) {
  return option == "trust" ? ReplicaCheck::kSample : option == "rank0" ? ReplicaCheck::kFirst : ReplicaCheck::kAll;
}

bool is_sampled(const SaveTensor& tensor) { return tensor.bytes > kPlaces * kPlaceBytes; }

static bool is_compared(const SaveTensor& tensor) {
  return tensor.replica.count > 1 && !tensor.replica.first_only && tensor.bytes != 0;
}

namespace {

struct Piece {
  Source source;
  uint64_t bytes;
};

void add_pieces(const SaveTensor* tensor, LargeVector<Piece>* pieces) {
  const uint64_t step = kPiece / tensor->width * tensor->width;
  for (uint64_t first = 0; first < tensor->bytes; first += step)
    pieces->push_back({Source::of(*tensor, first), std::min(step, tensor->bytes - first)});
}

// Pieces at equal distances, the first and the last bytes among them.
void add_samples(const SaveTensor* tensor, LargeVector<Piece>* pieces) {
  const uint64_t size = kPlaceBytes / tensor->width * tensor->width, units = (tensor->bytes - size) / tensor->width;
  for (uint64_t i = 0; i < kPlaces; i++) {
    const uint64_t unit = i + 1 < kPlaces ? units / (kPlaces - 1) * i : units;
    pieces->push_back({Source::of(*tensor, unit * tensor->width), size});
  }
}

// The bits of the last byte that belong to elements.
uint8_t last_byte_mask(const SaveTensor& tensor) {
  const uint64_t used = tensor.elements() * static_cast<uint64_t>(dtype_bits(tensor.dtype)) % 8;
  return static_cast<uint8_t>(used == 0 ? 0xff : (1 << used) - 1);
}

void hash_window(codec::Hasher& hasher, Bytes data, uint8_t mask) {
  if (mask == 0xff) return hasher.update(data);
  hasher.update(data.first(data.size() - 1));
  const std::byte last = data.back() & std::byte{mask};
  hasher.update({&last, 1});
}

Result<Digest> digest_of(const Piece& piece, device::Transfers* transfers) {
  const Source& source = piece.source;
  const SaveTensor& tensor = *source.tensor;
  const bool to_the_end = source.first + piece.bytes == tensor.bytes;
  const uint8_t mask = to_the_end ? last_byte_mask(tensor) : 0xff;
  const Bytes in_a_row = source.direct(0, piece.bytes);
  if (!in_a_row.empty() && mask == 0xff) return codec::xxh3_128(in_a_row);
  codec::Hasher hasher;
  std::vector<std::byte> window;
  const uint64_t step = kWindow / tensor.width * tensor.width;
  for (uint64_t at = 0; at < piece.bytes; at += step) {
    const uint64_t size = std::min(step, piece.bytes - at);
    CKPT_ASSIGN(const Bytes data, source.view(at, size, &window, transfers));
    hash_window(hasher, data, at + size == piece.bytes ? mask : uint8_t{0xff});
  }
  return hasher.digest();
}

}  // namespace

Result<LargeVector<Digest>> digest_replicas(const SaveContent& content, ReplicaCheck check, unsigned threads,
                                            const Job& job, device::Transfers* transfers) {
  LargeVector<Piece> pieces;
  for (const SaveTensor* tensor : content.tensors) {
    if (!is_compared(*tensor)) continue;
    if (check == ReplicaCheck::kSample && is_sampled(*tensor))
      add_samples(tensor, &pieces);
    else
      add_pieces(tensor, &pieces);
  }
  if (pieces.empty()) return LargeVector<Digest>();
  LargeVector<Digest> digests(pieces.size()), values(content.tensors.size());
  CKPT_TRY(for_each_parallel(threads, pieces.size(), [&](size_t i) {
    CKPT_ASSIGN(digests[i], digest_of(pieces[i], transfers));
    return job.check();
  }));
  size_t first = 0;
  for (size_t i = 0; i < content.tensors.size() && first < pieces.size(); i++) {
    size_t end = first;
    while (end < pieces.size() && pieces[end].source.tensor == content.tensors[i]) end++;
    if (end != first) values[i] = codec::xxh3_128(std::as_bytes(std::span(digests).subspan(first, end - first)));
    first = end;
  }
  return values;
}

}  // namespace ckpt::save

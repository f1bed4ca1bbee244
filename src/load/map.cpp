#include "load/map.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/text.h"
#include "checkpoint/chunk_io.h"
#include "format/names.h"

namespace ckpt::load {

static Status not_in_one_piece(std::string_view name, const char* why) {
  return error_about(CKPT_UNSUPPORTED, name, "tensor " + in_quotes(name) + " cannot be mapped: " + why);
}

// Checks a mapped tensor in windows, several at once if it is large. Page faults are left to the kernel: by itself it
// maps and reads ahead more cheaply than when madvise tells it to (measured: half the processor time).
static Status check_mapped(Bytes file, std::span<const fb::Chunk> chunks, unsigned threads) {
  constexpr uint64_t kWindow = 16 << 20;
  const size_t per_window = std::max<size_t>(1, kWindow / chunks[0].raw_size());
  return for_each_parallel(threads, (chunks.size() + per_window - 1) / per_window, [&](size_t number) {
    size_t first = number * per_window;
    for (const fb::Chunk& chunk : chunks.subspan(first, std::min(per_window, chunks.size() - first)))
      CKPT_TRY(checkpoint::check_chunk(chunk, file.subspan(chunk.offset(), chunk.stored_size())));
    return Ok();
  });
}

// A page whose file another machine has removed cannot be read: the kernel ends the process.
static Status check_kept(const checkpoint::Checkpoint& checkpoint, std::string_view name) {
  if (checkpoint.is_kept()) return Ok();
  return error_about(
      CKPT_UNSUPPORTED, name,
      strformat("tensor {} of {} is not mapped: locks of this mount are not seen by other machines, and one "
                "that removes the checkpoint would end this process by SIGBUS; load it, or set option "
                "map_unlocked=1 where nothing is removed meanwhile",
                in_quotes(name), checkpoint.store().uri()));
}

Result<Bytes> map_tensor(const checkpoint::Checkpoint& checkpoint, std::string_view name, const MapOptions& options) {
  if (!options.map_unlocked) CKPT_TRY(check_kept(checkpoint, name));
  CKPT_ASSIGN(checkpoint::Checkpoint::Named named, checkpoint.find(name));
  if (!named.tensor) return tensor_error(CKPT_NOT_FOUND, name, "not in the checkpoint");
  if (named.is_view()) return not_in_one_piece(name, "it is a view");
  CKPT_ASSIGN(auto pieces, checkpoint.pieces(named.tensor));
  if (pieces.empty()) return Bytes();
  if (pieces.size() != 1) return not_in_one_piece(name, "it lies in several parts or tiles");
  auto chunks = pieces[0].chunks();
  auto file_of = [&](const fb::Chunk& chunk) { return checkpoint.file_of(pieces[0].part, *pieces[0].page, chunk); };
  const uint32_t file = file_of(chunks[0]);
  uint64_t end = chunks[0].offset();
  for (const fb::Chunk& chunk : chunks) {
    if (file_of(chunk) != file) return not_in_one_piece(name, "it lies in several files");
    if (!checkpoint::stored_raw(chunk) || chunk.offset() != end)
      return not_in_one_piece(name, "it is compressed or not in one piece");
    end += chunk.stored_size();
  }
  CKPT_ASSIGN(Bytes bytes, checkpoint.map_part(file));
  if (options.verify)
    if (Status status = check_mapped(bytes, chunks, resolve_threads(options.threads)); !status.ok())
      return checkpoint.at_part(std::move(status).with("tensor", std::string(name)), file);
  return bytes.subspan(chunks[0].offset(), end - chunks[0].offset());
}

}  // namespace ckpt::load

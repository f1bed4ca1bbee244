#include "interop/pt/file_writer.h"

#include "interop/files.h"
#include "interop/tensor_stream.h"
#include "interop/zip/writer.h"

namespace ckpt::interop {

namespace {

const std::string kArchive = "archive/";  // what torch calls a file whose name it does not know

// Pieces of storages become entries of the zip.
Status put_batch(ZipWriter& zip, const std::vector<PtStorage>& storages, std::span<const TensorStream::Piece> pieces,
                 Bytes bytes) {
  for (const TensorStream::Piece& piece : pieces) {
    const Bytes data = bytes.first(piece.bytes);
    bytes = bytes.subspan(piece.bytes);
    const std::string name = kArchive + "data/" + std::to_string(piece.item);
    if (piece.is_first && piece.is_last) {
      CKPT_TRY(zip.add(name, data));
      continue;
    }
    if (piece.is_first) CKPT_TRY(zip.begin(name, storages[piece.item].bytes));
    CKPT_TRY(zip.write(data));
    if (piece.is_last) CKPT_TRY(zip.end());
  }
  return Ok();
}

}  // namespace

Status write_pt_file(const PtTarget& target, const std::string& pickle, const std::vector<PtStorage>& storages,
                     const std::string& path) {
  CKPT_ASSIGN(OutputFile file, OutputFile::create(path));
  uint64_t bytes = pickle.size();
  for (const PtStorage& storage : storages) bytes += storage.bytes;
  CKPT_TRY(file.reserve(bytes));
  ZipWriter zip(file);
  CKPT_TRY(zip.add(kArchive + "data.pkl", as_bytes(pickle)));
  CKPT_TRY(zip.add(kArchive + "byteorder", as_bytes("little")));
  TensorStream stream(
      target.reader, target.options, target.buffer,
      [&](std::span<const TensorStream::Piece> pieces, Bytes data) { return put_batch(zip, storages, pieces, data); });
  for (size_t i = 0; i < storages.size(); i++) CKPT_TRY(stream.add(i, storages[i].range));
  CKPT_TRY(stream.flush());
  CKPT_TRY(zip.add(kArchive + "version", as_bytes("3\n")));
  CKPT_TRY(zip.finish());
  return file.sync();
}

}  // namespace ckpt::interop

#include <optional>
#include <utility>

#include "interop/pt/encoder.h"
#include "interop/pt/format.h"
#include "interop/zip/writer.h"

namespace ckpt::interop {

namespace {

const std::string kArchive = "archive/";  // what torch calls a file whose name it does not know

class ZipBody final : public FileBody {
 public:
  explicit ZipBody(std::string pickle) : pickle_(std::move(pickle)) {}

  Status begin(OutputFile& file) override {
    zip_.emplace(file);
    CKPT_TRY(zip_->add(kArchive + "data.pkl", as_bytes(pickle_)));
    return zip_->add(kArchive + "byteorder", as_bytes("little"));
  }

  // Pieces of storages become entries of the zip.
  Status write(OutputFile&, std::span<const TensorStream::Piece> pieces, Bytes bytes) override {
    for (const TensorStream::Piece& piece : pieces) {
      const Bytes data = bytes.first(piece.bytes);
      bytes = bytes.subspan(piece.bytes);
      const std::string name = kArchive + "data/" + std::to_string(piece.item);
      if (piece.is_first && piece.is_last) {
        CKPT_TRY(zip_->add(name, data));
        continue;
      }
      if (piece.is_first) CKPT_TRY(zip_->begin(name, piece.item_bytes));
      CKPT_TRY(zip_->write(data));
      if (piece.is_last) CKPT_TRY(zip_->end());
    }
    return Ok();
  }

  Status end(OutputFile&) override {
    CKPT_TRY(zip_->add(kArchive + "version", as_bytes("3\n")));
    return zip_->finish();
  }

 private:
  std::string pickle_;
  std::optional<ZipWriter> zip_;
};

}  // namespace

ExportFile pt_file(std::string name, std::string pickle, const std::vector<PtStorage>& storages) {
  ExportFile file{std::move(name), nullptr, {}, pickle.size()};
  for (const PtStorage& storage : storages) {
    file.ranges.push_back(storage.range);
    file.bytes += storage.bytes;
  }
  file.body = std::make_unique<ZipBody>(std::move(pickle));
  return file;
}

Result<ExportPlan> plan_pt(const ExportRequest& request) {
  CKPT_ASSIGN(const format::Tree tree, request.reader.tree());
  const PtEncoderOptions options{request.options.str("opaque") == "dict", {}};
  PtEncoder encoder(request.reader, tree, options);
  CKPT_ASSIGN(const uint32_t root, node_at(tree, request.options.str("at")));
  CKPT_TRY(encoder.value(root));
  ExportPlan plan;
  plan.files.push_back(pt_file({}, encoder.pickle().finish(), encoder.storages().storages()));
  return plan;
}

}  // namespace ckpt::interop

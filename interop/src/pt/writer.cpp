#include <utility>

#include "interop/src/pt/encoder.h"
#include "interop/src/pt/format.h"

namespace ckpt::interop {

namespace {

const std::string kArchive = "archive/";  // what torch calls a file whose name it does not know

class ZipBody final : public FileBody {
 public:
  ZipBody(std::string pickle, uint64_t at) : pickle_(std::move(pickle)), at_(at) {}

  Status begin(OutputFile& file) override { return archive_.begin(file, at_, pickle_); }
  Status write(OutputFile&, std::span<const TensorStream::Piece> pieces, Bytes bytes) override {
    for (const TensorStream::Piece& piece : pieces) {
      CKPT_TRY(archive_.write(piece.item, piece, bytes.first(piece.bytes)));
      bytes = bytes.subspan(piece.bytes);
    }
    return Ok();
  }
  Status end(OutputFile&) override { return archive_.end(); }

 private:
  std::string pickle_;
  uint64_t at_;
  PtArchive archive_;
};

}  // namespace

Status PtArchive::begin(OutputFile& file, uint64_t at, std::string_view pickle) {
  zip_.emplace(file, ZipWriter::kZip64From, at);
  CKPT_TRY(zip_->add(kArchive + "data.pkl", as_bytes(pickle)));
  return zip_->add(kArchive + "byteorder", as_bytes("little"));
}

// Pieces of storages become entries of the zip.
Status PtArchive::write(size_t key, const TensorStream::Piece& piece, Bytes data) {
  const std::string name = kArchive + "data/" + std::to_string(key);
  if (piece.is_first && piece.is_last) return zip_->add(name, data);
  if (piece.is_first) CKPT_TRY(zip_->begin(name, piece.item_bytes));
  CKPT_TRY(zip_->write(data));
  return piece.is_last ? zip_->end() : Ok();
}

Status PtArchive::end() {
  CKPT_TRY(zip_->add(kArchive + "version", as_bytes("3\n")));
  return zip_->finish();
}

ExportFile pt_file(std::string name, std::string pickle, const std::vector<PtStorage>& storages, uint64_t at) {
  ExportFile file{std::move(name), nullptr, {}, pickle.size()};
  for (const PtStorage& storage : storages) {
    file.ranges.push_back(storage.range);
    file.bytes += storage.bytes;
  }
  file.body = std::make_unique<ZipBody>(std::move(pickle), at);
  return file;
}

Result<ExportFile> pt_file_of(const ExportRequest& request, const tree::Tree& tree, uint32_t node, std::string name,
                              const PtFileOptions& options) {
  const std::string& opaque = request.options.opaque;
  const PtEncoderOptions encoding{opaque == "dict", options.trusting || opaque == "keep", {}};
  PtEncoder encoder(request.reader, tree, encoding);
  CKPT_TRY(options.keep ? encoder.value(node, options.keep) : encoder.value(node));
  return pt_file(std::move(name), encoder.pickle().finish(), encoder.storages().storages(), options.at);
}

Result<ExportPlan> plan_pt(const ExportRequest& request) {
  CKPT_ASSIGN(const tree::Tree tree, request.reader.tree());
  CKPT_ASSIGN(const uint32_t root, node_at(tree, request.options.at));
  CKPT_ASSIGN(ExportFile file, pt_file_of(request, tree, root, {}, {}));
  ExportPlan plan;
  plan.files.push_back(std::move(file));
  return plan;
}

}  // namespace ckpt::interop

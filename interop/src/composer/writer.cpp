// A .pt as Composer saves it, in a tar or not, packed or not. What is packed is first a temporary file: the archive of
// a .pt gets checksums behind what is written already, which no stream can.
#include <optional>

#include "interop/src/composer/format.h"
#include "interop/src/composer/pack.h"
#include "interop/src/composer/tar.h"
#include "interop/src/pt/format.h"

namespace ckpt::interop {

namespace {

constexpr uint64_t kTarUnit = 10240;  // what a tar is a multiple of

struct Ending {
  std::string_view text;
  bool tar;
  const char* packing;  // null: none
};
// The first that fits; as Composer's own table has it, where .lzma is xz.
constexpr Ending kEndings[] = {
    {".tar.gz", true, "gzip"}, {".tgz", true, "gzip"},    {".tar.bz2", true, "bzip2"}, {".tar.lzma", true, "xz"},
    {".tar.xz", true, "xz"},   {".tar", true, nullptr},   {".pt.gz", false, "gzip"},   {".pt.bz2", false, "bzip2"},
    {".pt.xz", false, "xz"},   {".pt.lz4", false, "lz4"}, {".pt.zst", false, "zstd"},  {".pt", false, nullptr},
};

class ComposerBody final : public FileBody {
 public:
  ComposerBody(std::unique_ptr<FileBody> pt, const Ending& ending, const Job& job)
      : pt_(std::move(pt)), ending_(ending), job_(job) {}

  Status begin(OutputFile& file) override {
    if (ending_.packing) {
      CKPT_ASSIGN(OutputFile made, OutputFile::temporary());
      unpacked_.emplace(std::move(made));
    }
    OutputFile& out = unpacked_ ? *unpacked_ : file;
    if (ending_.tar) CKPT_TRY(out.write(as_bytes(tar_header(kComposerStates, 0))));
    return pt_->begin(out);
  }
  Status write(OutputFile& file, std::span<const TensorStream::Piece> pieces, Bytes bytes) override {
    return pt_->write(unpacked_ ? *unpacked_ : file, pieces, bytes);
  }
  Status end(OutputFile& file) override {
    OutputFile& out = unpacked_ ? *unpacked_ : file;
    CKPT_TRY(pt_->end(out));
    if (ending_.tar) CKPT_TRY(end_tar(out));
    if (!unpacked_) return Ok();
    CKPT_ASSIGN(const MappedFile all, unpacked_->map());
    return pack(ending_.packing, all.bytes(), [&](Bytes piece) -> Status {
      CKPT_TRY(job_.check());
      return file.write(piece);
    });
  }

 private:
  static Status end_tar(OutputFile& out) {
    const uint64_t size = out.size() - kTarBlock;
    CKPT_TRY(out.patch(0, as_bytes(tar_header(kComposerStates, size))));
    const uint64_t whole = round_up(round_up(out.size(), kTarBlock) + 2 * kTarBlock, kTarUnit);
    return out.write(as_bytes(std::string(whole - out.size(), '\0')));
  }

  const std::unique_ptr<FileBody> pt_;
  const Ending& ending_;
  const Job& job_;
  std::optional<OutputFile> unpacked_;
};

}  // namespace

Result<ExportPlan> plan_composer(const ExportRequest& request) {
  std::string known;
  const Ending* ending = nullptr;
  for (const Ending& row : kEndings) {
    if (!ending && request.path.ends_with(row.text)) ending = &row;
    known += (known.empty() ? "" : " ") + std::string(row.text);
  }
  if (!ending)
    return Status(CKPT_INVALID, "export: a file of Composer's ends in one of " + known + ", found " + request.path)
        .with("found", request.path);
  CKPT_ASSIGN(const tree::Tree tree, request.reader.tree());
  CKPT_ASSIGN(const uint32_t root, node_at(tree, request.options.at));
  CKPT_ASSIGN(ExportFile file,
              pt_file_of(request, tree, root, {}, {.trusting = true, .at = ending->tar ? kTarBlock : 0}));
  file.is_packed = ending->packing != nullptr;
  if (ending->tar || ending->packing)
    file.body = std::make_unique<ComposerBody>(std::move(file.body), *ending, request.job);
  ExportPlan plan;
  plan.files.push_back(std::move(file));
  return plan;
}

}  // namespace ckpt::interop

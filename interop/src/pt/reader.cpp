#include "interop/src/pt/format.h"
#include "interop/src/pt/sharing.h"
#include "interop/src/pt/tree.h"

namespace ckpt::interop {

bool is_pt(const Candidate& candidate) { return PtSource::looks_like(as_bytes(candidate.head)); }
bool is_pickle(const Candidate& candidate) { return PtSource::looks_like_pickle(as_bytes(candidate.head)); }

static Result<ForeignCheckpoint> read_pt_at(const std::string& path, InputFile file, const FileBytes& bytes,
                                            const ReadOptions& options) {
  CKPT_ASSIGN(PtSource parsed, PtSource::parse(path, bytes, options));
  const auto source = std::make_shared<const PtSource>(std::move(parsed));
  SpareTree spare;
  CKPT_ASSIGN(PtTree made, make_tree(*source, spare));
  ForeignCheckpoint out;
  out.format = source->plain() ? "pickle" : source->legacy() ? "pt-legacy" : "pt";
  out.files.add(path, std::move(file));
  out.tensors = plan_sharing(std::move(made.tensors), source->file_bytes(), out.files);
  out.tree = std::move(made.tree);
  out.archive = source->archive();
  out.attributes = import_attributes(out.format, source->unchecked());
  // An archive of TorchScript was more than what is kept.
  if (!source->code().empty()) out.attributes.emplace_back("import.code", source->code());
  out.keep.push_back(source);
  return out;
}

Status written_as_another(const std::string& path, const std::string& written) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return Status(CKPT_MISMATCH, strformat("{}: it was written as {}, as its archive is called: a copy of that, or two "
                                         "files were exchanged; put the file that was written as {} there",
                                         path, in_quotes(written), in_quotes(name)))
      .with("path", path)
      .with("expected", name)
      .with("found", written);
}

Result<ForeignCheckpoint> read_pt(const std::string& path, const ReadOptions& options) {
  CKPT_ASSIGN(InputFile file, InputFile::open(path, options.folder));
  const FileBytes bytes = file.bytes();
  return read_pt_at(path, std::move(file), bytes, options);
}

Result<ForeignCheckpoint> read_pt_in(const std::string& path, InputFile file, Bytes part, const ReadOptions& options) {
  return read_pt_at(path, std::move(file), part, options);
}

Attributes import_attributes(const char* format, size_t unchecked) {
  Attributes attributes = {{"import.format", format}};
  // What was not proved is said.
  if (unchecked != 0) attributes.emplace_back("import.unchecked", std::to_string(unchecked));
  return attributes;
}

}  // namespace ckpt::interop

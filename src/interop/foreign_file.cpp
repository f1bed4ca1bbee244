#include "interop/foreign_file.h"

#include "interop/json.h"
#include "interop/pt/tree.h"
#include "interop/safetensors/safetensors.h"

namespace ckpt::interop {

namespace {

ForeignTensor foreign_of(const Tensor& tensor, Bytes data) {
  ForeignTensor out;
  out.name = tensor.name;
  out.dtype = tensor.dtype;
  out.shape = tensor.shape;
  out.data = data.subspan(tensor.begin, tensor.end - tensor.begin);
  int64_t step = 1;
  for (int i = tensor.shape.ndim; i-- > 0;) {
    out.strides[static_cast<size_t>(i)] = step;
    if (!out.data.empty()) step *= static_cast<int64_t>(tensor.shape[i]);
  }
  return out;
}

}  // namespace

const char* format_name(ForeignFormat format) {
  switch (format) {
    case ForeignFormat::kPt:
      return "pt";
    case ForeignFormat::kPtLegacy:
      return "pt-legacy";
    default:
      return "safetensors";
  }
}

Result<bool> is_pt_file(const std::string& path) {
  CKPT_ASSIGN(const MappedFile file, MappedFile::open(path));
  return PtSource::looks_like(file.bytes());
}

Result<ForeignFile> ForeignFile::open(const std::string& path, bool verify, unsigned threads) {
  if (path.empty()) return Status(CKPT_INVALID, "the path is empty");
  CKPT_ASSIGN(MappedFile file, MappedFile::open(path));
  CKPT_ASSIGN(ForeignFile out, parse(path, file.bytes(), verify, threads));
  out.file_.emplace(std::move(file));
  return out;
}

Result<ForeignFile> ForeignFile::parse(const std::string& name, Bytes bytes, bool verify, unsigned threads) {
  ForeignFile out;
  if (PtSource::looks_like(bytes)) {
    CKPT_ASSIGN(PtSource source, PtSource::parse(name, bytes, verify, threads));
    CKPT_TRY(out.read_pt(std::move(source)));
  } else {
    CKPT_TRY(out.read_safetensors(name, bytes));
  }
  return out;
}

Status ForeignFile::read_pt(PtSource source) {
  format_ = source.legacy() ? ForeignFormat::kPtLegacy : ForeignFormat::kPt;
  pt_.emplace(std::move(source));
  CKPT_ASSIGN(PtTree made, make_tree(*pt_));
  tree_ = std::move(made.tree);
  tensors_ = plan_sharing(std::move(made.tensors), pt_->file_bytes());
  return Ok();
}

Status ForeignFile::read_safetensors(const std::string& name, Bytes bytes) {
  format_ = ForeignFormat::kSafetensors;
  CKPT_ASSIGN(const Header header, parse_header(bytes, name));
  const Bytes data = bytes.subspan(header.data_offset);
  auto make = [&]() -> Status {
    CKPT_TRY(tree_.begin(CKPT_NODE_DICT));
    for (const Tensor& tensor : header.tensors) {
      CKPT_TRY(tree_.key(tensor.name));
      CKPT_TRY(tree_.add_tensor(tensor.name));
      tensors_.push_back(foreign_of(tensor, data));
    }
    return tree_.end();
  };
  Status status = make();
  if (status.ok()) return status;
  return Status(CKPT_FORMAT, name + ": " + status.message()).with("path", name);
}

}  // namespace ckpt::interop

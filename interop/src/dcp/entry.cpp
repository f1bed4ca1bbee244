#include "interop/src/dcp/entry.h"

#include <algorithm>

#include "interop/src/json.h"
#include "interop/src/pt/tensor.h"

namespace ckpt::interop {

static Status chunk_differs(const std::string& path, const DcpItem& item, const char* what, const std::string& expected,
                            const std::string& found) {
  return Status(CKPT_MISMATCH, path + ": a chunk of " + shown(item.name) + ": " + what + ": expected " + expected +
                                   " as .metadata says, found " + found)
      .with("path", path)
      .with("tensor", item.name)
      .with("expected", expected)
      .with("found", found);
}

static Status check_chunk(const std::string& path, const DcpItem& item, const Shape& extent, uint16_t dtype,
                          const Shape& shape) {
  if (dtype != item.dtype) return chunk_differs(path, item, "dtype", dtype_name(item.dtype), dtype_name(dtype));
  return shape == extent ? Ok() : chunk_differs(path, item, "shape", to_text(extent), to_text(shape));
}

bool is_dcp_blob(const FileBytes& bytes) {
  const std::string_view head = as_text(bytes.all().first(std::min<uint64_t>(bytes.size(), 9)));
  return head.size() == 9 && head[8] == '{' && !head.starts_with("PK");
}

Result<std::unique_ptr<DcpBlob>> parse_dcp_blob(const FileBytes& bytes, const std::string& path) {
  auto blob = std::make_unique<DcpBlob>();
  CKPT_ASSIGN(blob->header, parse_header(bytes, path));
  for (const Tensor& tensor : blob->header.tensors) blob->by_name.emplace(tensor.name, &tensor);
  return blob;
}

Result<DcpElements> dcp_elements(const std::string& path, const FileBytes& bytes, const DcpBlob& blob,
                                 const DcpItem& item, const Shape& extent) {
  const auto found = blob.by_name.find(item.name);
  if (found == blob.by_name.end())
    return Status(CKPT_INCOMPLETE, path + ": the safetensors there lack " + shown(item.name))
        .with("path", path)
        .with("tensor", item.name);
  const Tensor& tensor = *found->second;
  CKPT_TRY(check_chunk(path, item, extent, tensor.dtype, tensor.shape));
  return DcpElements{bytes.all().subspan(blob.header.data_offset + tensor.begin, tensor.end - tensor.begin),
                     std::nullopt, 1};
}

Result<DcpElements> dcp_elements(const std::string& path, const FileBytes& entry, const DcpItem& item,
                                 const Shape& extent, const ReadOptions& options) {
  CKPT_ASSIGN(const PtSource source, PtSource::parse(path, entry, options));
  Result<PtTensor> found = tensor_of(source, source.pickle().root());
  if (!found.ok()) return std::move(found).status().in(path).with("path", path).with("tensor", item.name);
  const PtTensor& tensor = *found;
  if (tensor.conj || tensor.neg)
    return Status(CKPT_UNSUPPORTED, path + ": the elements of " + shown(item.name) + " are to be " +
                                        (tensor.conj ? "conjugated" : "negated") +
                                        " when they are used; save tensor.resolve_conj().resolve_neg()")
        .with("path", path)
        .with("tensor", item.name);
  CKPT_TRY(check_chunk(path, item, extent, tensor.dtype, tensor.shape));
  DcpElements elements{tensor.bytes(), std::nullopt, source.unchecked()};
  if (!tensor.contiguous()) elements.strides = tensor.strides;
  return elements;
}

}  // namespace ckpt::interop

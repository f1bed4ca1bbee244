// One entry of a DCP checkpoint: what torch.save wrote of a chunk or of a value. Takes untrusted bytes. Pure.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "interop/src/dcp/metadata.h"
#include "interop/src/pt/source.h"
#include "interop/src/safetensors/safetensors.h"
#include "interop/src/strides.h"

namespace ckpt::interop {

struct DcpElements {
  Bytes bytes;  // from the first element to the last
  std::optional<Strides> strides;
  size_t unchecked = 0;  // zip entries without a CRC-32
};

// The elements of a chunk, which must be what `.metadata` says of it. FORMAT, UNSUPPORTED, CORRUPT as of a .pt;
// MISMATCH.
Result<DcpElements> dcp_elements(const std::string& path, const FileBytes& entry, const DcpItem& item,
                                 const Shape& extent, const ReadOptions& options);

// SerializationFormat.SAFETENSORS: all tensors of a file in one blob of safetensors, where each of them says that it
// begins.
struct DcpBlob {
  Header header;
  std::unordered_map<std::string_view, const Tensor*, SeededHash> by_name;
};
bool is_dcp_blob(const FileBytes& bytes);
Result<std::unique_ptr<DcpBlob>> parse_dcp_blob(const FileBytes& bytes, const std::string& path);
Result<DcpElements> dcp_elements(const std::string& path, const FileBytes& bytes, const DcpBlob& blob,
                                 const DcpItem& item, const Shape& extent);

}  // namespace ckpt::interop

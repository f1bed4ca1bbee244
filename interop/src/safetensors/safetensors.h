// The header of a safetensors file: u64 length, JSON, then the tensors' bytes without a hole. Parsing takes untrusted
// bytes and refuses whatever the reference implementation refuses, and names given twice. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/input_file.h"
#include "interop/src/json.h"

namespace ckpt::interop {

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // what the reference implementation reads

struct Tensor {
  std::string name;
  uint16_t dtype = 0;  // CKPT_DTYPE_*
  Shape shape;
  uint64_t begin = 0, end = 0;  // in the data, which follows the header
};

struct Header {
  uint64_t data_offset = 0;     // in the file
  std::vector<Tensor> tensors;  // in the order of their data
  std::optional<StringMap> metadata;
  std::vector<std::pair<std::string, Status>> unknown;  // of a dtype that is not in the table, where they may be
};

// `file` is the whole file; only its header is asked for. `name` is for messages. kLowerBool: a BOOL may also be called
// "bool"; kAnyDtype: a tensor of a dtype that is not in the table goes to `unknown`. FORMAT, or UNSUPPORTED for such a
// dtype.
enum HeaderDialect { kPlain, kLowerBool, kAnyDtype };
Result<Header> parse_header(const FileBytes& file, std::string_view name, HeaderDialect dialect = kPlain);

// Length, JSON and padding, for tensors whose `begin` and `end` are set; UNSUPPORTED past kMaxHeaderBytes.
Result<std::string> make_header(const std::vector<Tensor>& tensors, const std::optional<StringMap>& metadata);

// "BF16" for CKPT_DTYPE_BF16; null where safetensors has no such dtype.
const char* safetensors_dtype(uint16_t dtype);

// Bytes of a tensor. FORMAT where they overflow or do not end at a whole byte.
Result<uint64_t> tensor_bytes(const Shape& shape, uint16_t dtype);

// The order in which the reference implementation writes: widest dtypes first, then by name.
bool canonical_before(const Tensor& a, const Tensor& b);

}  // namespace ckpt::interop

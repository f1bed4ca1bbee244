#include "interop/src/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace ckpt::interop {

namespace {

struct DtypeRow {
  const char* name;  // "": safetensors has none
  uint16_t dtype;
};
// In the reference implementation's order, which is the order of its files from back to front.
constexpr DtypeRow kDtypes[] = {
#define CKPT_DTYPE_ROW(constant, name, exponent, mantissa, bias, specials, torch, storage, safetensors, numpy) \
  {safetensors, CKPT_DTYPE_##constant},
#include "base/dtypes.def"
#include "base/text.h"
#undef CKPT_DTYPE_ROW
};

const DtypeRow* row_of(uint16_t dtype) {
  for (const DtypeRow& row : kDtypes)
    if (row.dtype == dtype) return *row.name ? &row : nullptr;
  return nullptr;
}

Status tensor_error(ckpt_status code, const Tensor& tensor, const std::string& what) {
  return Status(code, "tensor " + shown(tensor.name) + ": " + what).with("tensor", tensor.name);
}

constexpr uint16_t kUnknown = UINT16_MAX;  // dtype

// {"__metadata__": {k: v}, "name": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
class HeaderEvents final : public JsonEvents {
 public:
  explicit HeaderEvents(HeaderDialect dialect) : dialect_(dialect) {}
  Header header;

  Status begin_object() override {
    if (at_ == At::kStart) return go(At::kTop);
    if (at_ == At::kTop) return go(in_metadata_ ? At::kMetadata : At::kTensor);
    return unexpected("an object");
  }
  Status end_object() override {
    if (at_ == At::kTensor) CKPT_TRY(check_fields());
    return go(At::kTop);
  }
  Status begin_array() override {
    if (at_ == At::kTensor && field_ == kShape) return go(At::kShapeArray);
    if (at_ == At::kTensor && field_ == kOffsets) return go(At::kOffsetsArray);
    return unexpected("an array");
  }
  Status end_array() override {
    if (at_ == At::kOffsetsArray && offset_count_ != 2)
      return tensor_error(CKPT_FORMAT, tensor(),
                          strformat("data_offsets: expected 2 numbers, found {}", offset_count_));
    return go(At::kTensor);
  }
  Status key(std::string text) override {
    if (at_ == At::kTop) return top_key(std::move(text));
    if (at_ == At::kTensor) return field_key(text);
    return add_key(*header.metadata, std::move(text)).in("__metadata__");
  }
  Status string(std::string text) override {
    if (at_ == At::kMetadata) {
      header.metadata->back().second = std::move(text);
      return Ok();
    }
    if (at_ == At::kTensor && field_ == kDtype) return set_dtype(text);
    return unexpected("a string");
  }
  Status number(uint64_t value) override {
    if (at_ == At::kShapeArray) return add_extent(value);
    if (at_ != At::kOffsetsArray) return unexpected("a number");
    if (offset_count_ < 2) (offset_count_ == 0 ? tensor().begin : tensor().end) = value;
    offset_count_++;
    return Ok();
  }

 private:
  enum class At { kStart, kTop, kMetadata, kTensor, kShapeArray, kOffsetsArray };
  enum Field : unsigned { kNone = 0, kDtype = 1, kShape = 2, kOffsets = 4, kAll = 7 };

  Tensor& tensor() { return header.tensors.back(); }
  const Tensor& tensor() const { return header.tensors.back(); }
  Status go(At at) {
    at_ = at;
    return Ok();
  }

  Status unexpected(std::string_view what) const override {
    const std::string text = "unexpected " + std::string(what.substr(0, 40));
    if (at_ == At::kStart) return Status(CKPT_FORMAT, text + ", expected an object");
    if (in_metadata_) return Status(CKPT_FORMAT, "__metadata__: " + text + ", expected an object of strings");
    return header.tensors.empty() ? Status(CKPT_FORMAT, text) : tensor_error(CKPT_FORMAT, tensor(), text);
  }

  Status top_key(std::string text) {
    in_metadata_ = std::string_view(text) == "__metadata__";
    if (in_metadata_ && header.metadata) return Status(CKPT_FORMAT, "__metadata__ comes twice");
    if (in_metadata_) {
      header.metadata.emplace();
      return Ok();
    }
    header.tensors.emplace_back().name = std::move(text);
    seen_ = kNone;
    field_ = kNone;
    offset_count_ = 0;
    return Ok();
  }

  Status field_key(const std::string& text) {
    field_ = text == "dtype" ? kDtype : text == "shape" ? kShape : text == "data_offsets" ? kOffsets : kNone;
    if (field_ == kNone) return tensor_error(CKPT_FORMAT, tensor(), "unknown field " + shown(text));
    if (seen_ & field_) return tensor_error(CKPT_FORMAT, tensor(), text + " comes twice");
    seen_ |= field_;
    return Ok();
  }

  Status check_fields() const {
    if (seen_ == kAll) return Ok();
    const char* missing = !(seen_ & kDtype) ? "dtype" : !(seen_ & kShape) ? "shape" : "data_offsets";
    return tensor_error(CKPT_FORMAT, tensor(), std::string("no ") + missing);
  }

  Status set_dtype(const std::string& text) {
    for (const DtypeRow& row : kDtypes)
      if ((*row.name && text == row.name) ||
          (dialect_ == kLowerBool && row.dtype == CKPT_DTYPE_BOOL && text == "bool")) {
        tensor().dtype = row.dtype;
        return Ok();
      }
    Status status = tensor_error(CKPT_UNSUPPORTED, tensor(), "unknown dtype " + shown(text)).with("found", text);
    if (dialect_ != kAnyDtype) return status;
    header.unknown.emplace_back(tensor().name, std::move(status));
    tensor().dtype = kUnknown;
    return Ok();
  }

  Status add_extent(uint64_t value) {
    Shape& shape = tensor().shape;
    if (shape.ndim == kMaxNdim)
      return tensor_error(CKPT_FORMAT, tensor(), strformat("more than {} dimensions", kMaxNdim));
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return tensor_error(CKPT_FORMAT, tensor(), "an extent above 2^63-1").with("found", value);
    shape[shape.ndim++] = value;
    return Ok();
  }

  const HeaderDialect dialect_;
  At at_ = At::kStart;
  bool in_metadata_ = false;
  unsigned seen_ = kNone, field_ = kNone;
  int offset_count_ = 0;
};

Status check_duplicates(const Header& header) {
  std::vector<const Tensor*> by_name;
  by_name.reserve(header.tensors.size());
  for (const Tensor& tensor : header.tensors) by_name.push_back(&tensor);
  std::sort(by_name.begin(), by_name.end(), [](auto* a, auto* b) { return a->name < b->name; });
  for (size_t i = 1; i < by_name.size(); i++)
    if (by_name[i - 1]->name == by_name[i]->name) return tensor_error(CKPT_FORMAT, *by_name[i], "the name comes twice");
  if (!header.metadata) return Ok();
  const std::string* key = find_duplicate(*header.metadata);
  return key ? Status(CKPT_FORMAT, "__metadata__: key " + shown(*key) + " comes twice") : Ok();
}

Status mismatch(const Tensor& tensor, const char* what, uint64_t expected, uint64_t found) {
  return tensor_error(CKPT_FORMAT, tensor, strformat("{}: expected {}, found {}", what, expected, found))
      .with("expected", expected)
      .with("found", found);
}

Status check_size(const Tensor& tensor) {
  if (tensor.dtype == kUnknown && tensor.begin <= tensor.end) return Ok();
  if (tensor.end < tensor.begin) return mismatch(tensor, "data ends before it begins", tensor.begin, tensor.end);
  Result<uint64_t> bytes = tensor_bytes(tensor.shape, tensor.dtype);
  if (!bytes.ok()) return tensor_error(CKPT_FORMAT, tensor, bytes.status().message());
  if (tensor.end - tensor.begin != *bytes) return mismatch(tensor, "bytes of data", *bytes, tensor.end - tensor.begin);
  return Ok();
}

// In order of the data each tensor begins where the one before ends, and the last ends with the file.
Status check_cover(const std::vector<Tensor>& tensors, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const Tensor& tensor : tensors) {
    CKPT_TRY(check_size(tensor));
    if (tensor.begin != end)
      return mismatch(tensor, tensor.begin < end ? "data overlaps, begin" : "a hole before the data, begin", end,
                      tensor.begin);
    if (tensor.end > data_bytes) return mismatch(tensor, "data past the end of the file, end", data_bytes, tensor.end);
    end = tensor.end;
  }
  if (end == data_bytes) return Ok();
  return Status(CKPT_FORMAT, strformat("bytes of data: expected {}, found {}", end, data_bytes))
      .with("expected", end)
      .with("found", data_bytes);
}

Result<std::string_view> header_json(const FileBytes& bytes) {
  const Bytes file = bytes.all();
  if (file.size() < 8) return Status(CKPT_FORMAT, strformat("expected 8 bytes at least, found {}", file.size()));
  CKPT_TRY(bytes.need(0, 8));
  uint64_t size = 0;
  std::memcpy(&size, file.data(), 8);
  const uint64_t limit = std::min<uint64_t>(kMaxHeaderBytes, file.size() - 8);
  if (size > limit)
    return Status(CKPT_FORMAT, strformat("header: expected {} bytes at most, found {}", limit, size))
        .with("expected", limit)
        .with("found", size);
  CKPT_TRY(bytes.need(8, size));
  const std::string_view json = as_text(file.subspan(8, size));
  if (!json.starts_with('{')) return Status(CKPT_FORMAT, "header does not begin with '{'").with("offset", uint64_t{8});
  return json;
}

Result<Header> parse(const FileBytes& file, HeaderDialect dialect) {
  CKPT_ASSIGN(const std::string_view json, header_json(file));
  HeaderEvents events(dialect);
  CKPT_TRY(parse_json(json, events));
  Header& header = events.header;
  header.data_offset = 8 + json.size();
  CKPT_TRY(check_duplicates(header));
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const Tensor& a, const Tensor& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  CKPT_TRY(check_cover(header.tensors, file.size() - header.data_offset));
  std::erase_if(header.tensors, [](const Tensor& tensor) { return tensor.dtype == kUnknown; });
  return std::move(header);
}

}  // namespace

Result<Header> parse_header(const FileBytes& file, std::string_view name, HeaderDialect dialect) {
  Result<Header> header = parse(file, dialect);
  if (header.ok()) return header;
  return std::move(header).status().in(name).with("path", std::string(name));
}

Result<std::string> make_header(const std::vector<Tensor>& tensors, const std::optional<StringMap>& metadata) {
  std::string text(8, '\0');
  text += '{';
  if (metadata) text += "\"__metadata__\":" + json_of(*metadata);
  for (const Tensor& tensor : tensors) {
    if (text.size() > 9) text += ',';
    text += json_quote(tensor.name) + ":{\"dtype\":\"" + row_of(tensor.dtype)->name + "\",\"shape\":[";
    for (int i = 0; i < tensor.shape.ndim; i++) text += (i ? "," : "") + std::to_string(tensor.shape[i]);
    text += "],\"data_offsets\":[" + std::to_string(tensor.begin) + ',' + std::to_string(tensor.end) + "]}";
  }
  text += '}';
  text.append(round_up(text.size(), 8) - text.size(), ' ');
  const uint64_t size = text.size() - 8;
  if (size > kMaxHeaderBytes)
    return Status(CKPT_UNSUPPORTED,
                  strformat("header of {} bytes: safetensors readers take at most {}", size, kMaxHeaderBytes));
  std::memcpy(text.data(), &size, 8);
  return text;
}

const char* safetensors_dtype(uint16_t dtype) {
  const DtypeRow* row = row_of(dtype);
  return row ? row->name : nullptr;
}

Result<uint64_t> tensor_bytes(const Shape& shape, uint16_t dtype) {
  const Result<uint64_t> elements = element_count(shape);
  if (!elements.ok()) return Status(CKPT_FORMAT, elements.status().message());
  const unsigned spare = static_cast<unsigned>(dtype_bits(dtype)) * static_cast<unsigned>(*elements % 8) % 8;
  if (spare != 0) return Status(CKPT_FORMAT, "shape " + to_text(shape) + " does not end at a whole byte");
  Result<uint64_t> bytes = element_bytes(*elements, dtype);
  if (!bytes.ok()) return Status(CKPT_FORMAT, bytes.status().message());
  return bytes;
}

bool canonical_before(const Tensor& a, const Tensor& b) {
  return a.dtype != b.dtype ? row_of(a.dtype) > row_of(b.dtype) : a.name < b.name;
}

}  // namespace ckpt::interop

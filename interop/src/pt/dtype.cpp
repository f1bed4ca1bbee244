// Names of torch's dtypes and storages.
#include "interop/src/pt/dtype.h"

#include "ckpt.h"

namespace ckpt::interop {

namespace {

struct TorchDtypeRow {
  const char* name;     // null: torch has none
  const char* storage;  // null: by untyped storages only
  uint16_t dtype;
  bool plain = true;  // false: ckpt's dtype does not say all of it
};
constexpr const char* or_null(const char* text) { return *text ? text : nullptr; }
constexpr TorchDtypeRow kTorchDtypes[] = {
#define CKPT_DTYPE_ROW(constant, name, exponent, mantissa, bias, specials, torch, storage, safetensors, numpy) \
  {or_null(torch), or_null(storage), CKPT_DTYPE_##constant},
#include "base/dtypes.def"
#undef CKPT_DTYPE_ROW
    {"qint8", "QInt8Storage", CKPT_DTYPE_I8, false},
    {"quint8", "QUInt8Storage", CKPT_DTYPE_U8, false},
    {"qint32", "QInt32Storage", CKPT_DTYPE_I32, false},
    {"quint4x2", "QUInt4x2Storage", CKPT_DTYPE_U4, false},
    {"quint2x4", "QUInt2x4Storage", CKPT_DTYPE(1, 2), false},
    {"bits8", nullptr, CKPT_DTYPE_U8, false},
    {"bits16", nullptr, CKPT_DTYPE_U16, false},
    {"bits1x8", nullptr, CKPT_DTYPE_U8, false},
    {"bits2x4", nullptr, CKPT_DTYPE_U8, false},
    {"bits4x2", nullptr, CKPT_DTYPE_U8, false},
    {"int1", nullptr, CKPT_DTYPE_I8, false},  // a byte each
    {"int2", nullptr, CKPT_DTYPE_I8, false},
    {"int3", nullptr, CKPT_DTYPE_I8, false},
    {"int4", nullptr, CKPT_DTYPE_I8, false},
    {"int5", nullptr, CKPT_DTYPE_I8, false},
    {"int6", nullptr, CKPT_DTYPE_I8, false},
    {"int7", nullptr, CKPT_DTYPE_I8, false},
    {"uint1", nullptr, CKPT_DTYPE_U8, false},
    {"uint2", nullptr, CKPT_DTYPE_U8, false},
    {"uint3", nullptr, CKPT_DTYPE_U8, false},
    {"uint4", nullptr, CKPT_DTYPE_U8, false},
    {"uint5", nullptr, CKPT_DTYPE_U8, false},
    {"uint6", nullptr, CKPT_DTYPE_U8, false},
    {"uint7", nullptr, CKPT_DTYPE_U8, false},
    {"bcomplex32", nullptr, CKPT_DTYPE_U32, false},  // two bf16, which DLPack has no code for
};

// Behind the last '.' or ' '.
std::string_view last_word(std::string_view name) {
  const size_t at = name.find_last_of(". ");
  return at == name.npos ? name : name.substr(at + 1);
}

// "torch", "torch.storage" and "torch.cuda", by whatever separator.
bool is_torch(std::string_view name) {
  if (name.size() == last_word(name).size()) return true;
  const std::string_view module = name.substr(0, name.size() - last_word(name).size() - 1);
  return module == "torch" || module == "torch.storage" || module == "torch.cuda";
}

TorchDtype found(const TorchDtypeRow& row) { return {row.dtype, row.plain ? nullptr : row.name}; }

}  // namespace

TorchDtype torch_dtype_of_storage(std::string_view class_name) {
  const std::string_view name = last_word(class_name);
  if (!is_torch(class_name)) return {};
  if (name == "UntypedStorage" || name == "_UntypedStorage") return {CKPT_DTYPE_U8, nullptr};
  for (const TorchDtypeRow& row : kTorchDtypes)
    if (row.storage && name == row.storage) return found(row);
  return {};
}

TorchDtype torch_dtype_of_name(std::string_view name) {
  if (!is_torch(name)) return {};
  for (const TorchDtypeRow& row : kTorchDtypes)
    if (row.name && last_word(name) == row.name) return found(row);
  return {};
}

bool names_torch_dtype(std::string_view name) { return torch_dtype_of_name(name).dtype != 0; }

static const TorchDtypeRow* plain_row(uint16_t dtype) {
  for (const TorchDtypeRow& row : kTorchDtypes)
    if (row.plain && row.dtype == dtype) return &row;
  return nullptr;
}

const char* storage_of_dtype(uint16_t dtype) {
  const TorchDtypeRow* row = plain_row(dtype);
  return row ? row->storage : nullptr;
}

const char* torch_name_of_dtype(uint16_t dtype) {
  const TorchDtypeRow* row = plain_row(dtype);
  return row ? row->name : nullptr;
}

}  // namespace ckpt::interop

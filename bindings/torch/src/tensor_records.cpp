// Tensors that are sparse, quantized, or more than their numbers, as records of the state tree, and back.
#include <ATen/SparseCsrTensorUtils.h>
#include <c10/core/Layout.h>

#include <sstream>

#include "tensors.h"

namespace ckpt_torch {
namespace internal {

namespace {

constexpr const char* kCoo = "torch.sparse_coo";
constexpr const char* kQuantized = "torch.QTensor";
constexpr const char* kMarked = "torch.Tensor";  // a dense tensor that is more than its numbers
constexpr const char* kChannelsLast = "torch.channels_last";
constexpr const char* kChannelsLast3d = "torch.channels_last_3d";

struct Compressed {
  at::Layout layout;
  const char* class_name;
  const char* compressed;  // the names of its two index tensors
  const char* plain;
};
const Compressed kCompressed[] = {{at::kSparseCsr, "torch.sparse_csr", "crow_indices", "col_indices"},
                                  {at::kSparseCsc, "torch.sparse_csc", "ccol_indices", "row_indices"},
                                  {at::kSparseBsr, "torch.sparse_bsr", "crow_indices", "col_indices"},
                                  {at::kSparseBsc, "torch.sparse_bsc", "ccol_indices", "row_indices"}};

struct Quantized {
  at::ScalarType type, integers;
  const char* name;
};
const Quantized kQuantizedTypes[] = {{at::kQInt8, at::kChar, "torch.qint8"},
                                     {at::kQUInt8, at::kByte, "torch.quint8"},
                                     {at::kQInt32, at::kInt, "torch.qint32"}};

struct Scheme {
  at::QScheme scheme;
  const char* name;
};
constexpr const char* kPerTensor = "torch.per_tensor_affine";
const Scheme kSchemes[] = {{at::kPerTensorAffine, kPerTensor},
                           {at::kPerTensorSymmetric, kPerTensor},
                           {at::kPerChannelAffine, "torch.per_channel_affine"},
                           {at::kPerChannelSymmetric, "torch.per_channel_affine"},
                           {at::kPerChannelAffineFloatQParams, "torch.per_channel_affine_float_qparams"}};

Field size_of(const at::Tensor& tensor) {
  std::vector<c10::IValue> numbers(tensor.sizes().begin(), tensor.sizes().end());
  return {"size", {}, c10::ivalue::Tuple::create(std::move(numbers))};
}

Record coo_record(const at::Tensor& t) {
  return {
      kCoo,
      {{"indices", t._indices(), {}}, {"values", t._values(), {}}, size_of(t), {"is_coalesced", {}, t.is_coalesced()}}};
}

Record compressed_record(const at::Tensor& t, const Compressed& kind) {
  bool by_rows = kind.layout == at::kSparseCsr || kind.layout == at::kSparseBsr;
  return {kind.class_name,
          {{kind.compressed, by_rows ? t.crow_indices() : t.ccol_indices(), {}},
           {kind.plain, by_rows ? t.col_indices() : t.row_indices(), {}},
           {"values", t.values(), {}},
           size_of(t)}};
}

Record quantized_record(const at::Tensor& t, const std::string& name) {
  const Quantized* type = nullptr;
  for (const Quantized& known : kQuantizedTypes)
    if (known.type == t.scalar_type()) type = &known;
  std::string scheme;
  for (const Scheme& known : kSchemes)
    if (known.scheme == t.qscheme()) scheme = known.name;
  if (type == nullptr || scheme.empty())
    fail(CKPT_UNSUPPORTED,
         "tensor " + in_quotes(name) + " is quantized as " + c10::toString(t.scalar_type()) + ", " +
             c10::toString(t.qscheme()) + ", which ckpt does not store",
         {{"tensor", name}});
  Record record{kQuantized,
                {{"data", t.int_repr(), {}}, {"dtype", {}, std::string(type->name)}, {"qscheme", {}, scheme}}};
  if (scheme == kPerTensor) {
    record.fields.push_back({"scale", {}, t.q_scale()});
    record.fields.push_back({"zero_point", {}, t.q_zero_point()});
  } else {
    record.fields.push_back({"scales", t.q_per_channel_scales(), {}});
    record.fields.push_back({"zero_points", t.q_per_channel_zero_points(), {}});
    record.fields.push_back({"axis", {}, t.q_per_channel_axis()});
  }
  return record;
}

// ---- from records to tensors ----

class Fields {
 public:
  Fields(const Record& record, const std::string& name) : record_(record), name_(name) {}

  [[noreturn]] void refuse(const std::string& why) const {
    fail(CKPT_FORMAT, "tensor " + in_quotes(name_) + ": a " + record_.class_name + " " + why, {{"tensor", name_}});
  }
  [[noreturn]] void lacks_type(const std::string& type) const {
    fail(CKPT_UNSUPPORTED, "tensor " + in_quotes(name_) + " is " + type + ", which this LibTorch does not have",
         {{"tensor", name_}});
  }
  bool has(const char* key) const {
    for (const Field& field : record_.fields)
      if (field.name == key) return true;
    return false;
  }
  const Field& at(const char* key) const {
    for (const Field& field : record_.fields)
      if (field.name == key) return field;
    refuse("without " + in_quotes(key));
  }
  at::Tensor tensor(const char* key) const {
    if (!at(key).tensor.defined()) refuse("whose " + in_quotes(key) + " is not a tensor");
    return at(key).tensor;
  }
  int64_t integer(const char* key) const {
    if (!at(key).value.isInt()) refuse("whose " + in_quotes(key) + " is not an integer");
    return at(key).value.toInt();
  }
  double real(const char* key) const {
    if (!at(key).value.isDouble()) refuse("whose " + in_quotes(key) + " is not a number");
    return at(key).value.toDouble();
  }
  std::string text(const char* key) const {
    if (!at(key).value.isString()) refuse("whose " + in_quotes(key) + " is not text");
    return at(key).value.toStringRef();
  }
  bool flag(const char* key) const {  // false where it is absent
    if (!has(key)) return false;
    if (!at(key).value.isBool()) refuse("whose " + in_quotes(key) + " is not a bool");
    return at(key).value.toBool();
  }
  std::vector<int64_t> integers(const char* key) const {
    if (!at(key).value.isIntList()) refuse("whose " + in_quotes(key) + " is not a list of integers");
    return at(key).value.toIntVector();
  }

 private:
  const Record& record_;
  const std::string& name_;
};

// Whether the columns, each the position of one value, ascend strictly.
bool ascends(const at::Tensor& indices) {
  int64_t pairs = indices.size(1) - 1;
  if (pairs < 1) return true;
  at::Tensor before = at::zeros({pairs}, at::kBool);
  for (int64_t d = indices.size(0); d-- > 0;) {
    at::Tensor left = indices[d].slice(0, 0, pairs), right = indices[d].slice(0, 1);
    before = left.lt(right).logical_or(left.eq(right).logical_and(before));
  }
  return before.all().item<bool>();
}

// LibTorch 2's own constructors check nothing unless a global setting says so.
at::Tensor coo_tensor(const Fields& fields) {
  auto indices = fields.tensor("indices"), values = fields.tensor("values");
  auto size = fields.integers("size");
  at::_validate_sparse_coo_tensor_args(indices, values, size);
  auto tensor = at::_sparse_coo_tensor_unsafe(indices, values, size);
  tensor._coalesced_(fields.flag("is_coalesced") &&
                     ascends(indices));  // if false, LibTorch coalesces it when it has to
  return tensor;
}

at::Tensor compressed_tensor(const Fields& fields, const Compressed& kind) {
  auto compressed = fields.tensor(kind.compressed), plain = fields.tensor(kind.plain), values = fields.tensor("values");
  auto size = fields.integers("size");
  at::_validate_sparse_compressed_tensor_args(compressed, plain, values, size, kind.layout);
  return at::_sparse_compressed_tensor_unsafe(compressed, plain, values, size, values.options().layout(kind.layout));
}

at::Tensor quantized_tensor(const Fields& fields) {
  auto data = fields.tensor("data");
  std::string type = fields.text("dtype"), scheme = fields.text("qscheme");
  bool fits = false, known_scheme = false;
  for (const Quantized& known : kQuantizedTypes) fits |= type == known.name && data.scalar_type() == known.integers;
  for (const Scheme& known : kSchemes) known_scheme |= scheme == known.name;
  if (!fits) fields.refuse("of " + type + " that is stored as " + type_name(data.scalar_type()));
  if (!known_scheme) fields.refuse("of scheme " + in_quotes(scheme));
  if (scheme == kPerTensor)
    return at::_make_per_tensor_quantized_tensor(data, fields.real("scale"), fields.integer("zero_point"));
  auto scales = fields.tensor("scales"), zero_points = fields.tensor("zero_points");
  int64_t axis = fields.integer("axis");
  if (axis < 0 || axis >= data.dim() || scales.numel() != data.size(axis) || zero_points.numel() != scales.numel())
    fields.refuse("whose scales do not fit its axis");
  return at::_make_per_channel_quantized_tensor(data, scales, zero_points, axis);
}

at::Tensor marked_tensor(const Fields& fields) {
  auto data = fields.tensor("data");
  if (fields.has("dtype")) {
    const auto type = named_type(fields.text("dtype"));
    if (!type) fields.lacks_type(fields.text("dtype"));
    if (static_cast<size_t>(data.element_size()) != c10::elementSize(*type))
      fields.refuse("of " + fields.text("dtype") + " that is stored as " + type_name(data.scalar_type()));
    data = data.view(*type);
  }
  if (fields.flag("conj")) data = data.conj().resolve_conj();
  return fields.flag("neg") ? data.neg() : data;
}

}  // namespace

std::string record_class(const at::Tensor& tensor) {
  if (tensor.is_quantized()) return kQuantized;
  if (tensor.layout() == at::kSparse) return kCoo;
  for (const Compressed& kind : kCompressed)
    if (tensor.layout() == kind.layout) return kind.class_name;
  return "";
}

std::string quantized_name(at::ScalarType type) {
  for (const Quantized& known : kQuantizedTypes)
    if (known.type == type) return known.name;
  return c10::toString(type);
}

bool is_tensor_record(const std::string& class_name) {
  for (const Compressed& kind : kCompressed)
    if (class_name == kind.class_name) return true;
  return class_name == kCoo || class_name == kQuantized || class_name == kMarked;
}

at::MemoryFormat memory_format_named(const std::string& format, int64_t dim, const std::string& name) {
  if (format == kChannelsLast && dim == 4) return at::MemoryFormat::ChannelsLast;
  if (format == kChannelsLast3d && dim == 5) return at::MemoryFormat::ChannelsLast3d;
  fail(CKPT_FORMAT,
       "tensor " + in_quotes(name) + " of " + std::to_string(dim) + " dimensions has memory_format " +
           in_quotes(format) + ", which is none for it",
       {{"tensor", name}});
}

static Record marked_record(const at::Tensor& tensor) {
  Record record{kMarked, {{"data", tensor, {}}}};
  const NamedType* known = torchs_only(tensor.scalar_type());
  if (known && (dtype_of(known->type) == 0 || !tensor.is_contiguous() || !tensor.dim())) {
    record.fields[0].tensor = countable(tensor);
    record.fields.push_back({"dtype", {}, std::string(known->name)});
  }
  if (const auto format = memory_format_of(tensor))
    record.fields.push_back(
        {"memory_format", {}, *format == at::MemoryFormat::ChannelsLast ? kChannelsLast : kChannelsLast3d});
  return record;
}

Record record_of(const at::Tensor& tensor, const std::string& name) {
  at::NoGradGuard no_grad;
  at::Tensor plain = tensor.detach();
  if (is_dense(plain)) return marked_record(plain);
  if (plain.is_quantized()) return quantized_record(plain, name);
  if (plain.layout() == at::kSparse) return coo_record(plain);
  for (const Compressed& kind : kCompressed)
    if (plain.layout() == kind.layout) return compressed_record(plain, kind);
  std::ostringstream layout;
  layout << plain.layout();
  fail(CKPT_UNSUPPORTED, "tensor " + in_quotes(name) + " has layout " + layout.str() + ", which ckpt does not store",
       {{"tensor", name}});
}

at::Tensor tensor_of(const Record& record, const std::string& name) {
  at::NoGradGuard no_grad;
  Fields fields(record, name);
  try {
    if (record.class_name == kCoo) return coo_tensor(fields);
    if (record.class_name == kQuantized) return quantized_tensor(fields);
    if (record.class_name == kMarked) return marked_tensor(fields);
    for (const Compressed& kind : kCompressed)
      if (record.class_name == kind.class_name) return compressed_tensor(fields, kind);
  } catch (const c10::Error& error) {  // from LibTorch's checks
    fields.refuse(std::string("that is none: ") + error.what_without_backtrace());
  }
  fields.refuse("is not known");
}

void replace_data(const at::Tensor& target, const at::Tensor& value) {
  for (const Compressed& kind : kCompressed) {
    if (target.layout() != kind.layout) continue;
    // LibTorch 1.13's set_data does not copy these.
    bool by_rows = kind.layout == at::kSparseCsr || kind.layout == at::kSparseBsr;
    at::sparse_csr::get_sparse_csr_impl(target)->set_member_tensors(
        by_rows ? value.crow_indices() : value.ccol_indices(), by_rows ? value.col_indices() : value.row_indices(),
        value.values(), value.sizes());
    return;
  }
  target.set_data(value);
}

}  // namespace internal
}  // namespace ckpt_torch

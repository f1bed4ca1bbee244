// Objects of torch, numpy and unknown classes as records.
#include <cmath>
#include <cstring>

#include "interop/src/json.h"
#include "interop/src/pickle/names.h"
#include "interop/src/pt/dtype.h"
#include "interop/src/pt/tree_maker.h"

namespace ckpt::interop {

namespace {

// "__torch__.___torch_mangle_3.Module": LibTorch makes classes of one name distinct; that says nothing.
std::string without_mangling(std::string name) {
  constexpr std::string_view kMangle = "___torch_mangle_";
  for (size_t at = name.find(kMangle); at != name.npos; at = name.find(kMangle, at)) {
    const size_t dot = name.find('.', at);
    if (dot == name.npos) break;
    name.erase(at, dot - at + 1);
  }
  return name;
}

double half_to_double(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return mantissa ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

template <typename T>
T read(Bytes bytes, size_t at = 0) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

const char* numpy_name(uint16_t dtype) { return dtype == CKPT_DTYPE_BOOL ? "bool_" : torch_name_of_dtype(dtype); }

bool is_script_class(std::string_view class_name) { return class_name.starts_with("__torch__"); }

}  // namespace

PickleRef TreeMaker::argument_ref(PickleRef ref, size_t i) const {
  const PickleRef args = pickle_[ref].args();
  return args != kNoValue && i < pickle_[args].items.size() ? pickle_[args].items[i] : kNoValue;
}

const PickleValue* TreeMaker::argument(PickleRef ref, size_t i) const {
  const PickleRef found = argument_ref(ref, i);
  return found == kNoValue ? nullptr : &pickle_[found];
}

// ---- what is a value by itself ----

Status TreeMaker::name(std::string_view full_name) {
  const std::string dotted_name = dotted(full_name);
  if (names_torch_dtype(full_name)) return record("torch.dtype", [&] { return field_text("name", dotted_name); });
  return record("builtins.type", [&] { return field_text("name", dotted_name); });
}

// A storage by itself, or a class whose source the older form kept.
Status TreeMaker::persistent(PickleRef ref) {
  const PickleValue& id = pickle_[pickle_[ref].items[0]];
  const bool module = id.kind == PickleKind::kTuple && id.items.size() >= 2 && pickle_[id.items[0]].text == "module" &&
                      pickle_[id.items[1]].kind == PickleKind::kName;
  if (module) return name(pickle_[id.items[1]].text);
  Result<PtTensor> found = tensor_of(source_, ref);
  if (!found.ok()) return refuse(found.status().code(), found.status().message());
  const std::string type = dotted(storage_id_of(pickle_, ref)->type);
  return record(type, [&] { return field("data", [&] { return leaf(found.take()); }, true); });
}

Status TreeMaker::object(PickleRef ref) {
  const std::string_view class_name = pickle_.class_of(ref);
  CKPT_ASSIGN(const bool taken_by_format, taken(ref));
  if (taken_by_format) return Ok();
  switch (kind_of(source_, ref)) {
    case PtObjectKind::kTensor: {
      Result<PtTensor> found = tensor_of(source_, ref);
      if (!found.ok()) return refuse(found.status().code(), found.status().message());
      return pickle_[ref].state() == kNoValue ? tensor(found.take()) : unknown(ref, class_name);
    }
    case PtObjectKind::kParameter:
      return parameter(ref);
    case PtObjectKind::kSubclass:
      return subclass(ref);
    case PtObjectKind::kSparse:
      return sparse(ref);
    case PtObjectKind::kQuantized:
      return quantized(ref);
    case PtObjectKind::kNumpyArray:
      return array(ref);
    case PtObjectKind::kNumpyScalar:
      return scalar_of_numpy(ref);
    case PtObjectKind::kMeta:
      return unknown(ref, class_name);  // its dtype and shape: no data was saved
    default:
      break;
  }
  if (class_name == "collections OrderedDict") return ordered_dict(ref);
  if (is_script_class(class_name)) return script_object(ref);
  CKPT_ASSIGN(const bool done, small_object(ref, class_name));
  return done ? Ok() : unknown(ref, class_name);
}

Result<bool> TreeMaker::small_object(PickleRef ref, std::string_view class_name) {
  const PickleValue* first = argument(ref, 0);
  if (!first || pickle_[ref].state() != kNoValue) return false;
  if (class_name == "torch Size" && first->kind == PickleKind::kTuple) {
    CKPT_TRY(record("torch.Size", [&] { return field("items", argument_ref(ref, 0)); }));
    return true;
  }
  if (class_name == "torch device" && first->kind == PickleKind::kText) {
    Status status = record("torch.device", [&]() -> Status {
      CKPT_TRY(field("type", argument_ref(ref, 0)));
      return argument(ref, 1) ? field("index", argument_ref(ref, 1)) : Ok();
    });
    return status.ok() ? Result<bool>(true) : Result<bool>(std::move(status));
  }
  if (class_name == "torch.serialization _get_layout" && first->kind == PickleKind::kText) {
    CKPT_TRY(record("torch.layout", [&] { return field("name", argument_ref(ref, 0)); }));
    return true;
  }
  // LibTorch's typed lists, and values with a note of their type.
  const bool list = class_name.starts_with("torch.jit._pickle build_") && class_name.ends_with("list");
  if ((list && first->kind == PickleKind::kList) || class_name == "torch.jit._pickle restore_type_tag") {
    CKPT_TRY(value(argument_ref(ref, 0)));
    return true;
  }
  return false;
}

// ---- numpy ----

Status TreeMaker::array(PickleRef ref) {
  Result<PtTensor> found = tensor_of(source_, ref);
  if (!found.ok()) return refuse(found.status().code(), found.status().message());
  bool fortran = !found->contiguous() && found->strides[0] == 1;
  for (int i = 1; i < found->shape.ndim; i++)
    fortran &= found->strides[static_cast<size_t>(i)] >= found->strides[static_cast<size_t>(i) - 1];
  return record("numpy.ndarray", [&]() -> Status {
    CKPT_TRY(field("data", [&] { return leaf(found.take()); }, true));
    return fortran ? field_text("order", "F") : Ok();
  });
}

Status TreeMaker::complex(double real, double imaginary) {
  return record("builtins.complex", [&] {
    return field("args", [&] {
      return container(CKPT_NODE_TUPLE, {}, [&]() -> Status {
        CKPT_TRY(out_.tree.add_float(real));
        return out_.tree.add_float(imaginary);
      });
    });
  });
}

Status TreeMaker::scalar_of_numpy(PickleRef ref) {
  Result<PtTensor> found = tensor_of(source_, ref);
  if (!found.ok()) return refuse(found.status().code(), found.status().message());
  const Bytes bytes = found->storage;
  auto number = [&]() -> Status {
    switch (found->dtype) {
      case CKPT_DTYPE_BOOL:
        return out_.tree.add_bool(read<uint8_t>(bytes) != 0);
      case CKPT_DTYPE_I8:
        return out_.tree.add_int(read<int8_t>(bytes));
      case CKPT_DTYPE_I16:
        return out_.tree.add_int(read<int16_t>(bytes));
      case CKPT_DTYPE_I32:
        return out_.tree.add_int(read<int32_t>(bytes));
      case CKPT_DTYPE_I64:
        return out_.tree.add_int(read<int64_t>(bytes));
      case CKPT_DTYPE_U8:
        return out_.tree.add_int(read<uint8_t>(bytes));
      case CKPT_DTYPE_U16:
        return out_.tree.add_int(read<uint16_t>(bytes));
      case CKPT_DTYPE_U32:
        return out_.tree.add_int(read<uint32_t>(bytes));
      case CKPT_DTYPE_U64:
        return out_.tree.add_bigint(std::to_string(read<uint64_t>(bytes)));
      case CKPT_DTYPE_F16:
        return out_.tree.add_float(half_to_double(read<uint16_t>(bytes)));
      case CKPT_DTYPE_F32:
        return out_.tree.add_float(static_cast<double>(read<float>(bytes)));
      case CKPT_DTYPE_F64:
        return out_.tree.add_float(read<double>(bytes));
      case CKPT_DTYPE_C64:
        return complex(static_cast<double>(read<float>(bytes)), static_cast<double>(read<float>(bytes, 4)));
      default:
        return complex(read<double>(bytes), read<double>(bytes, 8));
    }
  };
  return record(std::string("numpy.") + numpy_name(found->dtype), [&]() -> Status {
    CKPT_TRY(spend(1, bytes.size()));
    return field("value", number);
  });
}

// ---- objects ----

// OrderedDict() or, by Python 2, OrderedDict([[key, value], …]); torch keeps `_metadata` of a state_dict beside.
Status TreeMaker::ordered_dict(PickleRef ref) {
  const PickleValue& object = pickle_[ref];
  std::vector<PickleRef> entries;
  if (const PickleValue* pairs = argument(ref, 0)) {
    if (pairs->kind != PickleKind::kList) return unknown(ref, "collections OrderedDict");
    for (const PickleRef pair : pairs->items) {
      if (pickle_[pair].items.size() != 2) return unknown(ref, "collections OrderedDict");
      entries.insert(entries.end(), pickle_[pair].items.begin(), pickle_[pair].items.end());
    }
  }
  CKPT_TRY(spend(entries.size(), 0));
  entries.insert(entries.end(), object.entries().begin(), object.entries().end());
  return record("collections.OrderedDict", [&]() -> Status {
    CKPT_TRY(field("items", [&] { return dict(entries); }, true));
    if (object.state() == kNoValue) return Ok();
    const PickleValue& state = pickle_[object.state()];
    const bool one = state.kind == PickleKind::kDict && state.items.size() == 2;
    const PickleRef metadata = one ? pickle_.find(object.state(), "_metadata") : kNoValue;
    return metadata != kNoValue ? field("metadata", metadata) : field("state", object.state());
  });
}

// A module as LibTorch writes it: its attributes are fields.
Status TreeMaker::script_object(PickleRef ref) {
  const PickleValue& object = pickle_[ref];
  const std::string_view class_name = pickle_.class_of(ref);
  if (object.state() == kNoValue || pickle_[object.state()].kind != PickleKind::kDict) return unknown(ref, class_name);
  const std::span<const PickleRef> items = pickle_[object.state()].items;
  for (size_t i = 0; i < items.size(); i += 2)
    if (pickle_[items[i]].kind != PickleKind::kText) return unknown(ref, class_name);
  return record(without_mangling(dotted(class_name)), [&]() -> Status {
    CKPT_ASSIGN(const KeyRefs entries, without_repeats(items));
    for (const auto& [key, entry] : entries) CKPT_TRY(field(pickle_[key].text, entry));
    return Ok();
  });
}

// What would have made it and what it would have got.
Status TreeMaker::unknown(PickleRef ref, std::string_view class_name) {
  const PickleValue& object = pickle_[ref];
  const std::string class_text = class_name.empty() ? "builtins.object" : dotted(class_name);
  return record(class_text, [&]() -> Status {
    if (object.args() != kNoValue && !pickle_[object.args()].items.empty()) CKPT_TRY(field("args", object.args()));
    if (object.kwargs() != kNoValue && !pickle_[object.kwargs()].items.empty())
      CKPT_TRY(field("kwargs", object.kwargs()));
    if (!object.items.empty()) CKPT_TRY(field("items", [&] { return sequence(CKPT_NODE_LIST, object.items); }));
    const bool is_dict = class_name == "collections defaultdict";
    if (!object.entries().empty()) CKPT_TRY(field("entries", [&] { return dict(object.entries()); }, is_dict));
    return object.state() != kNoValue ? field("state", object.state()) : Ok();
  });
}

}  // namespace ckpt::interop

// Calls that pickles use to write plain values: sets, bytes before protocol 3, objects before protocol 2, …
#include "interop/src/pickle/machine.h"
#include "interop/src/pickle/names.h"

namespace ckpt::interop {

namespace {

bool is_latin1(std::string_view encoding) {
  for (const char* name : {"latin1", "latin-1", "iso-8859-1", "iso8859-1"})
    if (encoding == name) return true;
  return false;
}

}  // namespace

template <PickleKind kind>
Result<PickleRef> PickleMachine::collection_of(const PickleValue& args) {
  if (args.items.empty()) return add_items(kind, {});
  const PickleValue& from = value(args.items[0]);
  const bool iterable = from.kind == PickleKind::kList || from.kind == PickleKind::kTuple ||
                        from.kind == PickleKind::kSet || from.kind == PickleKind::kFrozenSet;
  if (args.items.size() != 1 || !iterable) return kNoValue;
  CKPT_TRY(pay(from.items.size()));
  return add_items(kind, from.items);
}

Result<PickleRef> PickleMachine::dict_of(const PickleValue& args) {
  if (args.items.empty()) return add_items(PickleKind::kDict, {});
  const PickleValue& from = value(args.items[0]);
  if (args.items.size() != 1 || from.kind != PickleKind::kDict) return kNoValue;
  CKPT_TRY(pay(from.items.size()));
  return add_items(PickleKind::kDict, from.items);
}

Result<PickleRef> PickleMachine::encode_latin1(PickleKind kind, std::string_view text) {
  CKPT_TRY(pay(text.size()));  // also for the scan: a text may be given again and again
  if (is_ascii(text)) return add_text(kind, text);
  std::optional<std::string> bytes = latin1_of(text);
  if (!bytes) return Status(CKPT_FORMAT, "bytes above 255");
  return add_text(kind, keep(*std::move(bytes)));
}

template <PickleKind kind>
Result<PickleRef> PickleMachine::bytes_of(const PickleValue& args) {
  if (args.items.empty()) return add_text(kind, {});
  const PickleValue& from = value(args.items[0]);
  if (args.items.size() == 2) return from.kind == PickleKind::kText ? encoded_as<kind>(args) : kNoValue;
  const bool bytes = from.kind == PickleKind::kBytes || from.kind == PickleKind::kByteArray;
  if (args.items.size() != 1 || !bytes) return kNoValue;
  return add_text(kind, from.text);
}

template <PickleKind kind>
Result<PickleRef> PickleMachine::encoded_as(const PickleValue& args) {
  if (args.items.size() != 2) return kNoValue;
  const PickleValue &text = value(args.items[0]), &encoding = value(args.items[1]);
  const bool texts = text.kind == PickleKind::kText && encoding.kind == PickleKind::kText;
  if (!texts || !is_latin1(encoding.text)) return kNoValue;
  return encode_latin1(kind, text.text);
}

// int(1) and the like, which enums and subclasses give.
template <PickleKind kind>
Result<PickleRef> PickleMachine::scalar_of(const PickleValue& args) {
  if (args.items.size() != 1) return kNoValue;
  const PickleKind found = value(args.items[0]).kind;
  const bool same = found == kind || (kind == PickleKind::kInt && found == PickleKind::kBigInt);
  return same ? args.items[0] : kNoValue;
}

// A class in a class, or a member of an enum (Python 3.11): what a name with a dot says in protocol 4.
Result<PickleRef> PickleMachine::attribute_of(const PickleValue& args) {
  if (args.items.size() != 2) return kNoValue;
  const PickleValue &owner = value(args.items[0]), &attribute = value(args.items[1]);
  const bool is_plain = attribute.kind == PickleKind::kText && attribute.text.size() <= kMaxNameBytes &&
                        attribute.text.find('.') == std::string_view::npos;
  if (!is_plain) return kNoValue;
  if (owner.kind != PickleKind::kName || !looks_like_class(owner.text)) return method_of(args, attribute.text);
  const size_t space = owner.text.find(' ');
  const std::string nested = std::string(owner.text.substr(space + 1)) + '.' + std::string(attribute.text);
  return name(owner.text.substr(0, space), nested);
}

// A function that belongs to a value ("abc".upper): a record of both. What leads on to other modules is refused.
Result<PickleRef> PickleMachine::method_of(const PickleValue& args, std::string_view name_of_it) {
  const bool leads_on = name_of_it.starts_with("__") || rule_of(std::string(name_of_it) + " x") == NameRule::kRefused;
  if (leads_on) return kNoValue;
  CKPT_ASSIGN(const PickleRef callee, name("builtins", "getattr"));
  CKPT_ASSIGN(const PickleRef both, tuple_of_rest(args, 0));
  return object(callee, both, kNoValue);
}

// type(None) is how NoneType is written.
Result<PickleRef> PickleMachine::type_of(const PickleValue& args) {
  if (args.items.size() != 1 || value(args.items[0]).kind != PickleKind::kNone) return kNoValue;
  return name("builtins", "NoneType");
}

Result<PickleRef> PickleMachine::tuple_of_rest(const PickleValue& args, size_t first) {
  CKPT_TRY(pay(args.items.size() - first));
  return add_items(PickleKind::kTuple, args.items.subspan(first));
}

// copyreg._reconstructor(cls, base, state): protocols 0 and 1.
Result<PickleRef> PickleMachine::reconstructed(const PickleValue& args) {
  if (args.items.size() != 3) return kNoValue;
  const PickleValue &cls = value(args.items[0]), &base = value(args.items[1]), &state = value(args.items[2]);
  if (cls.kind != PickleKind::kName || base.kind != PickleKind::kName) return kNoValue;
  const bool plain = base.text == "builtins object" && state.kind == PickleKind::kNone;
  const PickleRef callee = args.items[0];
  CKPT_ASSIGN(const PickleRef made_of, tuple_of_rest(args, plain ? 3 : 2));
  return make(callee, made_of, kNoValue);
}

// copyreg.__newobj__(cls, *args)
Result<PickleRef> PickleMachine::new_object(const PickleValue& args) {
  if (args.items.empty()) return kNoValue;
  const PickleRef callee = args.items[0];
  CKPT_ASSIGN(const PickleRef rest, tuple_of_rest(args, 1));
  return make(callee, rest, kNoValue);
}

// copyreg.__newobj_ex__(cls, args, kwargs)
Result<PickleRef> PickleMachine::new_object_ex(const PickleValue& args) {
  if (args.items.size() != 3) return kNoValue;
  const bool fits = value(args.items[1]).kind == PickleKind::kTuple && value(args.items[2]).kind == PickleKind::kDict;
  return fits ? make(args.items[0], args.items[1], args.items[2]) : kNoValue;
}

PickleMachine::Builtin PickleMachine::find_builtin(std::string_view name) {
  static constexpr std::pair<std::string_view, Builtin> kBuiltins[] = {
      {"builtins set", &PickleMachine::collection_of<PickleKind::kSet>},
      {"builtins frozenset", &PickleMachine::collection_of<PickleKind::kFrozenSet>},
      {"builtins list", &PickleMachine::collection_of<PickleKind::kList>},
      {"builtins tuple", &PickleMachine::collection_of<PickleKind::kTuple>},
      {"builtins dict", &PickleMachine::dict_of},
      {"builtins bytes", &PickleMachine::bytes_of<PickleKind::kBytes>},
      {"builtins bytearray", &PickleMachine::bytes_of<PickleKind::kByteArray>},
      {"builtins bool", &PickleMachine::scalar_of<PickleKind::kBool>},
      {"builtins int", &PickleMachine::scalar_of<PickleKind::kInt>},
      {"builtins float", &PickleMachine::scalar_of<PickleKind::kFloat>},
      {"builtins str", &PickleMachine::scalar_of<PickleKind::kText>},
      {"builtins getattr", &PickleMachine::attribute_of},
      {"builtins type", &PickleMachine::type_of},
      {"_codecs encode", &PickleMachine::encoded_as<PickleKind::kBytes>},
      {"copyreg _reconstructor", &PickleMachine::reconstructed},
      {"copyreg __newobj__", &PickleMachine::new_object},
      {"copyreg __newobj_ex__", &PickleMachine::new_object_ex},
  };
  for (const auto& [known, build] : kBuiltins)
    if (known == name) return build;
  return nullptr;
}

}  // namespace ckpt::interop

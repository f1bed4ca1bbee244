// Opcodes of PickleMachine that name, call and build.
#include <algorithm>

#include "base/text.h"
#include "format/names.h"
#include "interop/src/pickle/machine.h"
#include "interop/src/pickle/names.h"
#include "tree/json_text.h"

namespace ckpt::interop {

namespace {

std::string refusal(const char* does, std::string_view name) {
  return std::string("the pickle ") + does + " " + dotted(name) + ", which is not data";
}

// "module name" is to be read back.
bool is_name(std::string_view text) {
  return !text.empty() && valid_utf8(text) &&
         std::none_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c <= ' ') || c == 0x7f; });
}

}  // namespace

// ---- names ----
Result<PickleRef> PickleMachine::name(std::string_view module, std::string_view name) {
  if (module.size() + name.size() > kMaxNameBytes)
    return Status(CKPT_FORMAT, strformat("a name of {} bytes", module.size() + name.size()));
  if (!is_name(module) || !is_name(name))
    return Status(CKPT_FORMAT, "module " + shown(module) + ", name " + shown(name) + ": not a name");
  std::string full = full_name(module, name);
  const auto known = names_.find(full);
  if (known != names_.end()) return known->second;
  const NameRule rule = rule_of(full);
  if (rule == NameRule::kRefused)
    note_refusal(Status(CKPT_UNSUPPORTED, refusal("names", full)).with("found", dotted(full)));
  CKPT_ASSIGN(const PickleRef ref, add_text(PickleKind::kName, keep(full)));
  value(ref).integer = static_cast<int64_t>(rule);
  names_.emplace(std::move(full), ref);
  return ref;
}

Status PickleMachine::op_global() {
  CKPT_ASSIGN(const std::string_view module, in_.line());
  CKPT_ASSIGN(const std::string_view its_name, in_.line());
  return push(name(module, its_name));
}

Status PickleMachine::op_stack_global() {
  CKPT_ASSIGN(const PickleRef its_name, pop(PickleKind::kText));
  CKPT_ASSIGN(const PickleRef module, pop(PickleKind::kText));
  return push(name(value(module).text, value(its_name).text));
}

// ---- calls ----
Result<std::string_view> PickleMachine::callee_name(PickleRef callee) const {
  const PickleValue& found = value(callee);
  if (found.kind == PickleKind::kName) return found.text;
  if (found.kind == PickleKind::kObject) return std::string_view();
  return Status(CKPT_FORMAT, std::string("expected a class or function, found ") + kind_name(found.kind));
}

Result<PickleRef> PickleMachine::object(PickleRef callee, PickleRef args, PickleRef kwargs) {
  PickleValue value;
  value.kind = PickleKind::kObject;
  value.object = std::pmr::polymorphic_allocator<>(document_.memory_.get()).new_object<PickleObject>();
  value.object->callee = callee;
  value.object->args = args;
  value.object->kwargs = kwargs;
  return add(value);
}

Result<PickleRef> PickleMachine::call(PickleRef callee, PickleRef args) {
  CKPT_ASSIGN(const std::string_view called, callee_name(callee));
  if (called.empty()) return refuse_to("calls an object of class", document_.class_of(callee));
  if (const Builtin build = find_builtin(called)) {
    CKPT_ASSIGN(const PickleRef plain, (this->*build)(value(args)));
    if (plain != kNoValue) return plain;
  }
  if (value(callee).integer != static_cast<int64_t>(NameRule::kCall)) return refuse_to("calls", called);
  return object(callee, args, kNoValue);
}

Result<PickleRef> PickleMachine::refuse_to(const char* what, std::string_view name) {
  return refuse(refusal(what, name), dotted(name));
}

// What cls.__new__ makes: `callee` can only be a class, whatever it looks like.
Result<PickleRef> PickleMachine::make(PickleRef callee, PickleRef args, PickleRef kwargs) {
  CKPT_ASSIGN(const std::string_view made, callee_name(callee));
  if (made.empty()) return refuse_to("calls an object of class", document_.class_of(callee));
  if (value(callee).integer < static_cast<int64_t>(NameRule::kMention)) return refuse_to("makes an object of", made);
  return object(callee, args, kwargs);
}

Status PickleMachine::op_reduce() {
  CKPT_ASSIGN(const PickleRef args, pop(PickleKind::kTuple));
  CKPT_ASSIGN(const PickleRef callee, pop());
  return push(call(callee, args));
}

Status PickleMachine::op_inst() {
  CKPT_ASSIGN(const std::string_view module, in_.line());
  CKPT_ASSIGN(const std::string_view its_name, in_.line());
  CKPT_ASSIGN(const PickleRef callee, name(module, its_name));
  CKPT_ASSIGN(const std::span<const PickleRef> items, pop_mark());
  CKPT_ASSIGN(const PickleRef args, add_items(PickleKind::kTuple, items));
  return push(call(callee, args));
}

Status PickleMachine::op_obj() {
  CKPT_ASSIGN(const std::span<const PickleRef> items, pop_mark());
  if (items.empty()) return Status(CKPT_FORMAT, "expected a class after the mark, found nothing");
  const PickleRef callee = items.front();
  CKPT_ASSIGN(const PickleRef args, add_items(PickleKind::kTuple, items.subspan(1)));
  return push(call(callee, args));
}

Status PickleMachine::op_newobj() {
  CKPT_ASSIGN(const PickleRef args, pop(PickleKind::kTuple));
  CKPT_ASSIGN(const PickleRef callee, pop());
  return push(make(callee, args, kNoValue));
}

Status PickleMachine::op_newobj_ex() {
  CKPT_ASSIGN(const PickleRef kwargs, pop(PickleKind::kDict));
  CKPT_ASSIGN(const PickleRef args, pop(PickleKind::kTuple));
  CKPT_ASSIGN(const PickleRef callee, pop());
  return push(make(callee, args, kwargs));
}

Status PickleMachine::op_build() {
  CKPT_ASSIGN(const PickleRef state, pop());
  CKPT_ASSIGN(const PickleRef ref, top());
  PickleValue& built = value(ref);
  if (built.kind != PickleKind::kObject)
    return Status(CKPT_FORMAT, std::string("expected an object, found ") + kind_name(built.kind));
  if (built.state() != kNoValue) return Status(CKPT_FORMAT, "an object that has a state gets another one");
  built.object->state = state;
  return Ok();
}

Status PickleMachine::op_persid() {
  CKPT_ASSIGN(const std::string_view line, in_.line());
  if (!valid_utf8(line)) return Status(CKPT_FORMAT, "text that is not UTF-8");
  CKPT_ASSIGN(const PickleRef id, add_text(PickleKind::kText, line));
  return push(add_items(PickleKind::kPersistent, {&id, 1}));
}

// torch.save's older form names the class of a module by ('module', class, its source file, its source).
PickleRef PickleMachine::module_class(PickleRef id) const {
  const PickleValue& tuple = value(id);
  if (tuple.kind != PickleKind::kTuple || tuple.items.size() != 4) return kNoValue;
  const PickleValue& type = value(tuple.items[0]);
  const bool is_class =
      type.kind == PickleKind::kText && type.text == "module" && value(tuple.items[1]).kind == PickleKind::kName;
  return is_class ? tuple.items[1] : kNoValue;
}

Status PickleMachine::op_binpersid() {
  CKPT_ASSIGN(const PickleRef id, pop());
  if (const PickleRef named = module_class(id); named != kNoValue) return push(named);
  return push(add_items(PickleKind::kPersistent, {&id, 1}));
}

}  // namespace ckpt::interop

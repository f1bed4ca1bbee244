#include "interop/src/pickle/machine.h"

#include <algorithm>

namespace ckpt::interop {

const char* kind_name(PickleKind kind) {
  constexpr const char* kNames[] = {"None",        "a bool", "an int",      "a long int",      "a float",  "text",
                                    "text",        "bytes",  "a bytearray", "a list",          "a tuple",  "a set",
                                    "a frozenset", "a dict", "a name",      "a persistent id", "an object"};
  return kNames[static_cast<size_t>(kind)];
}

// ---- values ----
Result<PickleRef> PickleMachine::add(const PickleValue& value) {
  if (document_.values_.size() >= kNoValue)
    return Status(CKPT_UNSUPPORTED, "a pickle of 2^32 values").with("found", document_.values_.size());
  document_.values_.push_back(value);
  return static_cast<PickleRef>(document_.values_.size() - 1);
}

Result<PickleRef> PickleMachine::add_text(PickleKind kind, std::string_view text) {
  PickleValue value;
  value.kind = kind;
  value.text = text;
  return add(value);
}

Result<PickleRef> PickleMachine::add_items(PickleKind kind, std::span<const PickleRef> items) {
  if (kind == PickleKind::kTuple && items.empty()) return shared(empty_tuple_, kind);
  PickleValue value;
  value.kind = kind;
  CKPT_TRY(append(value.items, items));
  return add(value);
}

// The first ones take as much as they need, since most containers are filled by one opcode.
Status PickleMachine::append(PickleRefs& to, std::span<const PickleRef> refs) {
  if (refs.empty()) return Ok();
  const size_t size = to.size_ + refs.size();
  if (size > UINT32_MAX) return Status(CKPT_UNSUPPORTED, "a container of 2^32 values").with("found", size);
  if (size > to.capacity_) {
    const size_t capacity = std::max<size_t>(size, std::min<size_t>(2 * size_t{to.size_}, UINT32_MAX));
    auto* data = static_cast<PickleRef*>(document_.memory_->allocate(capacity * sizeof(PickleRef), alignof(PickleRef)));
    std::ranges::copy(to, data);
    to.data_ = data;
    to.capacity_ = static_cast<uint32_t>(capacity);
  }
  std::ranges::copy(refs, to.data_ + to.size_);
  to.size_ = static_cast<uint32_t>(size);
  return Ok();
}

Result<PickleRef> PickleMachine::add_int(int64_t integer) {
  if (integer >= 0 && integer < 256)
    return shared(small_ints_[static_cast<size_t>(integer)], PickleKind::kInt, integer);
  PickleValue value;
  value.kind = PickleKind::kInt;
  value.integer = integer;
  return add(value);
}

Result<PickleRef> PickleMachine::add_int(PickleInt integer) {
  if (integer.small) return add_int(*integer.small);
  return add_text(PickleKind::kBigInt, keep(integer.digits));
}

Result<PickleRef> PickleMachine::shared(PickleRef& place, PickleKind kind, int64_t integer) {
  if (place != kNoValue) return place;
  PickleValue value;
  value.kind = kind;
  value.integer = integer;
  CKPT_ASSIGN(place, add(std::move(value)));
  return place;
}

std::string_view PickleMachine::keep(std::string_view text) {
  if (text.empty()) return {};
  auto* copy = static_cast<char*>(document_.memory_->allocate(text.size(), 1));
  std::ranges::copy(text, copy);
  return {copy, text.size()};
}

Status PickleMachine::pay(size_t copied) {
  copied_ += copied;
  if (copied_ <= in_.offset()) return Ok();
  return Status(CKPT_FORMAT, "the pickle copies more than it holds");
}

// ---- what cannot be had ----
void PickleMachine::note_refusal(const Status& status) {
  if (!document_.refused_.ok()) return;
  document_.refused_ = Status(status).in(strformat("offset {}: {}", at_, opcode_)).with("offset", at_);
}

Result<PickleRef> PickleMachine::refuse(std::string why, std::string_view found) {
  note_refusal(Status(CKPT_UNSUPPORTED, why).with("found", std::string(found)));
  CKPT_ASSIGN(const PickleRef nobody, shared(none_, PickleKind::kNone));
  CKPT_ASSIGN(const PickleRef ref, object(nobody, kNoValue, kNoValue));
  value(ref).object->refused = keep(why);
  value(ref).object->found = keep(found);
  return ref;
}

// ---- the stack ----
Status PickleMachine::push(Result<PickleRef> ref) {
  if (!ref.ok()) return std::move(ref).status();
  stack_.push_back(*ref);
  return Ok();
}

Result<PickleRef> PickleMachine::top() const {
  if (above_mark() == 0) return Status(CKPT_FORMAT, "expected a value, found nothing on the stack");
  return stack_.back();
}

Result<PickleRef> PickleMachine::pop() {
  CKPT_ASSIGN(const PickleRef ref, top());
  stack_.pop_back();
  return ref;
}

Result<PickleRef> PickleMachine::pop(PickleKind kind) {
  CKPT_ASSIGN(const PickleRef ref, pop());
  if (value(ref).kind == kind) return ref;
  return Status(CKPT_FORMAT, std::string("expected ") + kind_name(kind) + ", found " + kind_name(value(ref).kind));
}

Result<std::span<const PickleRef>> PickleMachine::pop_mark() {
  if (marks_.empty()) return Status(CKPT_FORMAT, "expected a mark, found none on the stack");
  const auto first = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
  popped_.assign(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return std::span<const PickleRef>(popped_);
}

Result<PickleValue*> PickleMachine::target(PickleKind kind) {
  CKPT_ASSIGN(const PickleRef ref, top());
  PickleValue& found = value(ref);
  if (found.kind == kind || found.kind == PickleKind::kObject) return &found;
  return Status(CKPT_FORMAT,
                std::string("expected ") + kind_name(kind) + " or an object, found " + kind_name(found.kind));
}

Status PickleMachine::add_pairs(std::span<const PickleRef> pairs) {
  if (pairs.size() % 2 != 0) return Status(CKPT_FORMAT, "a key without a value");
  CKPT_ASSIGN(PickleValue* const dict, target(PickleKind::kDict));
  return append(dict->is_object() ? dict->object->entries : dict->items, pairs);
}

// ---- opcodes ----
Status PickleMachine::op_protocol() {
  CKPT_ASSIGN(const uint64_t protocol, in_.number(1));
  if (protocol <= 5) return Ok();
  return Status(CKPT_UNSUPPORTED, "expected protocol 0 to 5, found " + std::to_string(protocol))
      .with("found", protocol);
}

Status PickleMachine::op_frame() {
  CKPT_ASSIGN(const uint64_t size, in_.number(8));
  if (size <= in_.left()) return Ok();
  return Status(CKPT_FORMAT, "a frame of " + std::to_string(size) + " bytes, found " + std::to_string(in_.left()))
      .with("expected", size)
      .with("found", in_.left());
}

Status PickleMachine::op_stop() {
  CKPT_ASSIGN(document_.root_, pop());
  if (!stack_.empty() || !marks_.empty())
    return Status(CKPT_FORMAT, strformat("{} values and {} marks are left on the stack", stack_.size(), marks_.size()));
  document_.bytes_read_ = in_.offset();
  stopped_ = true;
  return Ok();
}

Status PickleMachine::op_mark() {
  marks_.push_back(stack_.size());
  return Ok();
}

Status PickleMachine::op_pop() {
  if (above_mark() == 0) return pop_mark().status();  // as Python does
  stack_.pop_back();
  return Ok();
}

template <PickleKind kind>
Status PickleMachine::op_marked() {
  CKPT_ASSIGN(const std::span<const PickleRef> items, pop_mark());
  return push(add_items(kind, items));
}

Status PickleMachine::op_marked_dict() {
  CKPT_ASSIGN(const std::span<const PickleRef> items, pop_mark());
  if (items.size() % 2 != 0) return Status(CKPT_FORMAT, "a key without a value");
  return push(add_items(PickleKind::kDict, items));
}

template <size_t count>
Status PickleMachine::op_tuple_of() {
  if (above_mark() < count)
    return Status(CKPT_FORMAT, strformat("expected {} values, found {} on the stack", count, above_mark()));
  std::array<PickleRef, count> items;
  std::copy(stack_.end() - count, stack_.end(), items.begin());
  stack_.resize(stack_.size() - count);
  return push(add_items(PickleKind::kTuple, std::move(items)));
}

Status PickleMachine::op_append() {
  CKPT_ASSIGN(const PickleRef item, pop());
  CKPT_ASSIGN(PickleValue* const list, target(PickleKind::kList));
  return append(list->items, {&item, 1});
}

template <PickleKind kind>
Status PickleMachine::op_extend() {
  CKPT_ASSIGN(const std::span<const PickleRef> items, pop_mark());
  CKPT_ASSIGN(PickleValue* const list, target(kind));
  return append(list->items, items);
}

Status PickleMachine::op_setitem() {
  CKPT_ASSIGN(const PickleRef item, pop());
  CKPT_ASSIGN(const PickleRef key, pop());
  return add_pairs(std::array{key, item});
}

Status PickleMachine::op_setitems() {
  CKPT_ASSIGN(const std::span<const PickleRef> pairs, pop_mark());
  return add_pairs(pairs);
}

// ---- the memo ----
// Whoever numbers what it writes stays below the number of bytes written.
Status PickleMachine::op_put(uint64_t index) {
  CKPT_ASSIGN(const PickleRef ref, top());
  if (index > in_.offset())
    return Status(CKPT_FORMAT, "memo index " + std::to_string(index) + " after fewer bytes").with("found", index);
  if (index >= memo_.size()) memo_.resize(index + 1, kNoValue);
  memo_count_ += memo_[index] == kNoValue;
  memo_[index] = ref;
  return Ok();
}

Status PickleMachine::op_get(uint64_t index) {
  if (index < memo_.size() && memo_[index] != kNoValue) return push(memo_[index]);
  return Status(CKPT_FORMAT, "memo index " + std::to_string(index) + " that was never put").with("found", index);
}

template <unsigned size>
Status PickleMachine::op_binput() {
  CKPT_ASSIGN(const uint64_t index, in_.number(size));
  return op_put(index);
}

template <unsigned size>
Status PickleMachine::op_binget() {
  CKPT_ASSIGN(const uint64_t index, in_.number(size));
  return op_get(index);
}

Status PickleMachine::op_put_line() {
  CKPT_ASSIGN(const uint64_t index, index_line());
  return op_put(index);
}

Status PickleMachine::op_get_line() {
  CKPT_ASSIGN(const uint64_t index, index_line());
  return op_get(index);
}

// ---- what a pickle alone does not hold ----
template <unsigned size>
Status PickleMachine::op_extension() {
  CKPT_ASSIGN(const uint64_t code, in_.number(size));
  const std::string found = "extension " + std::to_string(code);
  return push(refuse(found + " of the writer's copyreg registry, which the file does not hold", found));
}

Status PickleMachine::op_buffer() {
  // NEXT_BUFFER is a value; READONLY_BUFFER changes the one before.
  if (opcode_ == std::string_view("READONLY_BUFFER")) CKPT_TRY(pop().status());
  return push(refuse("an out-of-band buffer, which the file does not hold", "out-of-band buffer"));
}

// In the order of Python's pickletools.
const PickleMachine::Opcode PickleMachine::kOpcodes[] = {
    {'I', "INT", &PickleMachine::op_int},
    {'J', "BININT", &PickleMachine::op_binint},
    {'K', "BININT1", &PickleMachine::op_binuint<1>},
    {'M', "BININT2", &PickleMachine::op_binuint<2>},
    {'L', "LONG", &PickleMachine::op_long},
    {0x8a, "LONG1", &PickleMachine::op_binlong<1>},
    {0x8b, "LONG4", &PickleMachine::op_binlong<4>},
    {'S', "STRING", &PickleMachine::op_string},
    {'T', "BINSTRING", &PickleMachine::op_binstring<4>},
    {'U', "SHORT_BINSTRING", &PickleMachine::op_binstring<1>},
    {'B', "BINBYTES", &PickleMachine::op_binbytes<4, PickleKind::kBytes>},
    {'C', "SHORT_BINBYTES", &PickleMachine::op_binbytes<1, PickleKind::kBytes>},
    {0x8e, "BINBYTES8", &PickleMachine::op_binbytes<8, PickleKind::kBytes>},
    {0x96, "BYTEARRAY8", &PickleMachine::op_binbytes<8, PickleKind::kByteArray>},
    {0x97, "NEXT_BUFFER", &PickleMachine::op_buffer},
    {0x98, "READONLY_BUFFER", &PickleMachine::op_buffer},
    {'N', "NONE", &PickleMachine::op_none},
    {0x88, "NEWTRUE", &PickleMachine::op_bool<1>},
    {0x89, "NEWFALSE", &PickleMachine::op_bool<0>},
    {'V', "UNICODE", &PickleMachine::op_unicode},
    {0x8c, "SHORT_BINUNICODE", &PickleMachine::op_binunicode<1>},
    {'X', "BINUNICODE", &PickleMachine::op_binunicode<4>},
    {0x8d, "BINUNICODE8", &PickleMachine::op_binunicode<8>},
    {'F', "FLOAT", &PickleMachine::op_float},
    {'G', "BINFLOAT", &PickleMachine::op_binfloat},
    {']', "EMPTY_LIST", &PickleMachine::op_list},
    {'a', "APPEND", &PickleMachine::op_append},
    {'e', "APPENDS", &PickleMachine::op_extend<PickleKind::kList>},
    {'l', "LIST", &PickleMachine::op_marked<PickleKind::kList>},
    {')', "EMPTY_TUPLE", &PickleMachine::op_tuple},
    {'t', "TUPLE", &PickleMachine::op_marked<PickleKind::kTuple>},
    {0x85, "TUPLE1", &PickleMachine::op_tuple_of<1>},
    {0x86, "TUPLE2", &PickleMachine::op_tuple_of<2>},
    {0x87, "TUPLE3", &PickleMachine::op_tuple_of<3>},
    {'}', "EMPTY_DICT", &PickleMachine::op_dict},
    {'d', "DICT", &PickleMachine::op_marked_dict},
    {'s', "SETITEM", &PickleMachine::op_setitem},
    {'u', "SETITEMS", &PickleMachine::op_setitems},
    {0x8f, "EMPTY_SET", &PickleMachine::op_set},
    {0x90, "ADDITEMS", &PickleMachine::op_extend<PickleKind::kSet>},
    {0x91, "FROZENSET", &PickleMachine::op_marked<PickleKind::kFrozenSet>},
    {'0', "POP", &PickleMachine::op_pop},
    {'2', "DUP", &PickleMachine::op_dup},
    {'(', "MARK", &PickleMachine::op_mark},
    {'1', "POP_MARK", &PickleMachine::op_pop_mark},
    {'g', "GET", &PickleMachine::op_get_line},
    {'h', "BINGET", &PickleMachine::op_binget<1>},
    {'j', "LONG_BINGET", &PickleMachine::op_binget<4>},
    {'p', "PUT", &PickleMachine::op_put_line},
    {'q', "BINPUT", &PickleMachine::op_binput<1>},
    {'r', "LONG_BINPUT", &PickleMachine::op_binput<4>},
    {0x94, "MEMOIZE", &PickleMachine::op_memoize},
    {0x82, "EXT1", &PickleMachine::op_extension<1>},
    {0x83, "EXT2", &PickleMachine::op_extension<2>},
    {0x84, "EXT4", &PickleMachine::op_extension<4>},
    {'c', "GLOBAL", &PickleMachine::op_global},
    {0x93, "STACK_GLOBAL", &PickleMachine::op_stack_global},
    {'R', "REDUCE", &PickleMachine::op_reduce},
    {'b', "BUILD", &PickleMachine::op_build},
    {'i', "INST", &PickleMachine::op_inst},
    {'o', "OBJ", &PickleMachine::op_obj},
    {0x81, "NEWOBJ", &PickleMachine::op_newobj},
    {0x92, "NEWOBJ_EX", &PickleMachine::op_newobj_ex},
    {0x80, "PROTO", &PickleMachine::op_protocol},
    {'.', "STOP", &PickleMachine::op_stop},
    {0x95, "FRAME", &PickleMachine::op_frame},
    {'P', "PERSID", &PickleMachine::op_persid},
    {'Q', "BINPERSID", &PickleMachine::op_binpersid},
};

const std::array<const PickleMachine::Opcode*, 256>& PickleMachine::opcodes() {
  static const auto table = [] {
    std::array<const Opcode*, 256> rows{};
    for (const Opcode& opcode : kOpcodes) rows[opcode.code] = &opcode;
    return rows;
  }();
  return table;
}

Status PickleMachine::run() {
  while (!stopped_) {
    const size_t at = in_.offset();
    if (in_.left() == 0)
      return Status(CKPT_FORMAT, strformat("offset {}: expected an opcode, found the end", at)).with("offset", at);
    const uint8_t code = in_.next();
    const Opcode* opcode = opcodes()[code];
    if (!opcode)
      return Status(CKPT_FORMAT, strformat("offset {}: 0x{:02x} is not an opcode", at, code))
          .with("offset", at)
          .with("found", uint64_t{code});
    at_ = at;
    opcode_ = opcode->name;
    Status status = step(*opcode);
    if (!status.ok()) return std::move(status).in(strformat("offset {}: {}", at, opcode->name)).with("offset", at);
  }
  return Ok();
}

}  // namespace ckpt::interop

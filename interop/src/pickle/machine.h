// The stack machine that runs a pickle's opcodes and builds a PickleDocument. A value costs its opcode's bytes at
// least, and what is copied (a set out of a list, bytes out of text) is paid for by bytes read before, so memory stays
// a multiple of the input. One machine, one pickle, one thread.
#pragma once

#include <array>
#include <map>

#include "interop/src/pickle/input.h"
#include "interop/src/pickle/pickle.h"
#include "interop/src/pickle/text.h"

namespace ckpt::interop {

class PickleMachine {
 public:
  explicit PickleMachine(Bytes bytes) : in_(bytes) {
    document_.memory_ = std::make_unique<std::pmr::monotonic_buffer_resource>();
    small_ints_.fill(kNoValue);
  }
  Status run();
  const Status& refused() const { return document_.refused_; }
  PickleDocument take() && { return std::move(document_); }

 private:
  static constexpr size_t kMaxNameBytes = 1000;  // short opcodes can make a name out of long strings

  using Handler = Status (PickleMachine::*)();
  struct Opcode {
    uint8_t code;
    const char* name;
    Handler run;
  };
  static const Opcode kOpcodes[];
  static const std::array<const Opcode*, 256>& opcodes();

  Status step(const Opcode& opcode) { return (this->*opcode.run)(); }

  // ---- values (machine.cpp) ----
  const PickleValue& value(PickleRef ref) const { return document_.values_[ref]; }
  PickleValue& value(PickleRef ref) { return document_.values_[ref]; }
  Result<PickleRef> add(const PickleValue& value);
  Result<PickleRef> add_text(PickleKind kind, std::string_view text);
  Result<PickleRef> add_items(PickleKind kind, std::span<const PickleRef> items);
  Result<PickleRef> add_int(int64_t integer);
  Result<PickleRef> add_int(PickleInt integer);
  Result<PickleRef> shared(PickleRef& place, PickleKind kind, int64_t integer = 0);  // one for all of its kind
  std::string_view keep(std::string_view text);
  Status append(PickleRefs& to, std::span<const PickleRef> refs);
  // FORMAT where more is copied or scanned than was ever read.
  Status pay(size_t copied);

  // ---- the stack ----
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  size_t above_mark() const { return stack_.size() - floor(); }
  Status push(Result<PickleRef> ref);
  // An object that says why it cannot be had; the document remembers the first.
  Result<PickleRef> refuse(std::string why, std::string_view found);
  void note_refusal(const Status& status);
  Result<PickleRef> top() const;
  Result<PickleRef> pop();
  Result<PickleRef> pop(PickleKind kind);
  Result<std::span<const PickleRef>> pop_mark();  // valid until the next one
  // A list or object, a dict or object, …: what may get more items.
  Result<PickleValue*> target(PickleKind kind);
  Status add_pairs(std::span<const PickleRef> pairs);

  // ---- opcodes without a number of their own (machine.cpp) ----
  Status op_protocol();
  Status op_frame();
  Status op_stop();
  Status op_mark();
  Status op_pop();
  Status op_pop_mark() { return pop_mark().status(); }
  Status op_dup() { return push(top()); }
  Status op_none() { return push(shared(none_, PickleKind::kNone)); }
  template <int64_t integer>
  Status op_bool() {
    return push(shared(bools_[integer], PickleKind::kBool, integer));
  }
  Status op_list() { return push(add_items(PickleKind::kList, {})); }
  Status op_dict() { return push(add_items(PickleKind::kDict, {})); }
  Status op_set() { return push(add_items(PickleKind::kSet, {})); }
  Status op_tuple() { return push(shared(empty_tuple_, PickleKind::kTuple)); }
  template <PickleKind kind>
  Status op_marked();  // TUPLE, LIST, FROZENSET
  Status op_marked_dict();
  template <size_t count>
  Status op_tuple_of();
  Status op_append();
  template <PickleKind kind>
  Status op_extend();  // APPENDS, ADDITEMS
  Status op_setitem();
  Status op_setitems();
  Status op_put(uint64_t index);
  Status op_get(uint64_t index);
  Status op_memoize() { return op_put(memo_count_); }
  template <unsigned size>
  Status op_binput();
  template <unsigned size>
  Status op_binget();
  Status op_put_line();
  Status op_get_line();
  template <unsigned size>
  Status op_extension();
  Status op_buffer();

  // ---- opcodes that hold a number or a string (scalars.cpp) ----
  Status op_int();
  Status op_long();
  Status op_float();
  Status op_binfloat();
  Status op_binint();
  template <unsigned size>
  Status op_binuint();
  template <unsigned size>
  Status op_binlong();
  Status op_string();
  template <unsigned size>
  Status op_binstring();
  Status op_unicode();
  template <unsigned size>
  Status op_binunicode();
  template <unsigned size, PickleKind kind>
  Status op_binbytes();
  Result<std::string_view> counted(unsigned size, bool is_signed);
  Result<PickleRef> python2_string(std::string_view text);
  Result<PickleRef> unicode(std::string_view text);
  Result<uint64_t> index_line();

  // ---- names and objects (objects.cpp) ----
  Status op_global();
  Status op_stack_global();
  Status op_reduce();
  Status op_inst();
  Status op_obj();
  Status op_newobj();
  Status op_newobj_ex();
  Status op_build();
  Status op_persid();
  Status op_binpersid();
  Result<PickleRef> name(std::string_view module, std::string_view name);
  Result<PickleRef> call(PickleRef callee, PickleRef args);
  Result<PickleRef> make(PickleRef callee, PickleRef args, PickleRef kwargs);
  Result<PickleRef> object(PickleRef callee, PickleRef args, PickleRef kwargs);
  // Empty for what is no name, which is refused or FORMAT.
  Result<std::string_view> callee_name(PickleRef callee) const;
  Result<PickleRef> refuse_to(const char* what, std::string_view name);
  PickleRef module_class(PickleRef id) const;

  // ---- calls that are plain values (builtins.cpp); kNoValue where the arguments are not those pickle writes
  // ----
  using Builtin = Result<PickleRef> (PickleMachine::*)(const PickleValue& args);
  static Builtin find_builtin(std::string_view name);  // null
  template <PickleKind kind>
  Result<PickleRef> collection_of(const PickleValue& args);
  Result<PickleRef> dict_of(const PickleValue& args);
  template <PickleKind kind>
  Result<PickleRef> bytes_of(const PickleValue& args);
  template <PickleKind kind>
  Result<PickleRef> scalar_of(const PickleValue& args);
  template <PickleKind kind>
  Result<PickleRef> encoded_as(const PickleValue& args);
  Result<PickleRef> attribute_of(const PickleValue& args);
  Result<PickleRef> method_of(const PickleValue& args, std::string_view name_of_it);
  Result<PickleRef> type_of(const PickleValue& args);
  Result<PickleRef> reconstructed(const PickleValue& args);
  Result<PickleRef> new_object(const PickleValue& args);
  Result<PickleRef> new_object_ex(const PickleValue& args);
  Result<PickleRef> encode_latin1(PickleKind kind, std::string_view text);
  Result<PickleRef> tuple_of_rest(const PickleValue& args, size_t first);

  PickleInput in_;
  PickleDocument document_;
  std::vector<PickleRef> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::vector<PickleRef> popped_;
  std::vector<PickleRef> memo_;
  size_t memo_count_ = 0;
  std::map<std::string, PickleRef, std::less<>> names_;
  size_t copied_ = 0;
  bool stopped_ = false;
  size_t at_ = 0;  // of the opcode that is carried out
  const char* opcode_ = "";
  PickleRef none_ = kNoValue, empty_tuple_ = kNoValue;
  std::array<PickleRef, 2> bools_{kNoValue, kNoValue};
  std::array<PickleRef, 256> small_ints_;
};

// "a list"; for messages.
const char* kind_name(PickleKind kind);

}  // namespace ckpt::interop

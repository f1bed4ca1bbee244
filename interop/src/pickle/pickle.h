// A pickle as values. The machine knows every opcode of protocols 0 to 5 and carries nothing out: a class or function
// is a name, an object is the name of what would have made it with the arguments and state it would have got. What is
// named and is neither known to be data nor by its look a class is refused (pickle/names.h): at once, or, for who
// asks so, where it is looked at. Takes untrusted bytes:
// memory is bounded by a multiple of their number, and nothing recurses. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::interop {

using PickleRef = uint32_t;
inline constexpr PickleRef kNoValue = UINT32_MAX;

enum class PickleKind : uint8_t {
  kNone,
  kBool,        // integer
  kInt,         // integer
  kBigInt,      // text: decimal digits
  kFloat,       // real
  kText,        // text, UTF-8
  kSurrogates,  // text, UTF-8 but for lone surrogates: what Python makes of names of files that are no text
  kBytes,       // text: points into the pickle where it could
  kByteArray,   // text
  kList,        // items
  kTuple,       // items
  kSet,         // items
  kFrozenSet,   // items
  kDict,        // items: key, value, key, value, … in order; a key given twice stays twice (the last counts)
  kName,        // text: "module name"; a class or function, as GLOBAL and STACK_GLOBAL give it. integer: its NameRule
  kPersistent,  // items[0]: its id
  kObject  // object, items: callee, args, kwargs, state, items, entries: what REDUCE, NEWOBJ(_EX), OBJ, INST, BUILD, …
           // say
};

// References in the document's memory, which grow by moving there.
class PickleRefs {
 public:
  std::span<const PickleRef> subspan(size_t first, size_t count = std::dynamic_extent) const {
    return std::span(data_, size_).subspan(first, count);
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  PickleRef operator[](size_t i) const { return data_[i]; }
  const PickleRef* begin() const { return data_; }
  const PickleRef* end() const { return data_ + size_; }

 private:
  friend class PickleMachine;
  PickleRef* data_ = nullptr;
  uint32_t size_ = 0, capacity_ = 0;
};

struct PickleObject {
  PickleRef callee = kNoValue;  // a kName
  PickleRef args = kNoValue;    // a kTuple
  PickleRef kwargs = kNoValue;  // a kDict
  PickleRef state = kNoValue;   // of BUILD
  PickleRefs entries;           // of SETITEM(S): key, value, …; `items` has those of APPEND(S) and ADDITEMS
  // Why there is none; empty for one that can be had. And what was refused.
  std::string_view refused, found;
};

// Small, and made and freed without a step of its own: a large pickle has millions.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  union {
    int64_t integer = 0;
    double real;           // kFloat
    PickleObject* object;  // kObject
  };
  std::string_view text;  // into the pickle, or into the document's own strings
  PickleRefs items;

  bool is_object() const { return kind == PickleKind::kObject; }
  PickleRef callee() const { return is_object() ? object->callee : kNoValue; }
  PickleRef args() const { return is_object() ? object->args : kNoValue; }
  PickleRef kwargs() const { return is_object() ? object->kwargs : kNoValue; }
  PickleRef state() const { return is_object() ? object->state : kNoValue; }
  std::string_view refused() const { return is_object() ? object->refused : std::string_view(); }
  std::span<const PickleRef> entries() const { return is_object() ? object->entries : std::span<const PickleRef>(); }
};

// Values stay where they are, and are made in large pieces. The first piece is small, since many pickles are.
class PickleValues {
 public:
  PickleValue& operator[](PickleRef ref) {
    return ref < kFirst ? pieces_[0][ref] : pieces_[1 + (ref - kFirst) / kPiece][(ref - kFirst) % kPiece];
  }
  const PickleValue& operator[](PickleRef ref) const { return const_cast<PickleValues&>(*this)[ref]; }
  size_t size() const { return size_; }
  void push_back(const PickleValue& value) {
    if (size_ == 0 || (size_ >= kFirst && (size_ - kFirst) % kPiece == 0))
      pieces_.emplace_back().reserve(size_ == 0 ? kFirst : kPiece);
    pieces_.back().push_back(value);
    size_++;
  }

 private:
  static constexpr size_t kFirst = 64, kPiece = 4096;
  std::vector<std::vector<PickleValue>> pieces_;
  size_t size_ = 0;
};

// Values refer to each other by place and may be shared; they may even form a cycle (a list that holds itself), which
// whoever walks them must look out for.
class PickleDocument {
 public:
  const PickleValue& operator[](PickleRef ref) const { return values_[ref]; }
  size_t size() const { return values_.size(); }
  PickleRef root() const { return root_; }
  // The first value that is refused, wherever it stands; OK for none.
  const Status& refused() const { return refused_; }
  size_t bytes_read() const { return bytes_read_; }  // up to and with STOP; a legacy .pt has several in a row

  // The last value of a text key in a kDict, or in the entries of a kObject; kNoValue.
  PickleRef find(PickleRef dict, std::string_view key) const;
  // "module name" of a kObject's callee or of a kName; empty for others.
  std::string_view class_of(PickleRef ref) const;

 private:
  friend class PickleMachine;
  PickleValues values_;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_;  // what values point to
  PickleRef root_ = kNoValue;
  size_t bytes_read_ = 0;
  Status refused_;
};

// `bytes` must outlive the document. `where` is for messages ("x.pt: data.pkl").
// FORMAT with the offset; UNSUPPORTED for what is refused, with the name as fact "found".
Result<PickleDocument> parse_pickle(Bytes bytes, std::string_view where);
// The same, but what is refused is a value of the document that says so.
Result<PickleDocument> parse_pickle_in_part(Bytes bytes, std::string_view where);

}  // namespace ckpt::interop

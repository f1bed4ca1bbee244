// A pickle of protocol 2, opcode by opcode, with nothing but what torch's weights_only machine and LibTorch's know.
// Whoever writes keeps the order of a stack machine: a container is opened, filled, closed. Values that are written are
// not remembered, but for short texts and names, which come once and are referred to after that. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::interop {

class PickleWriter {
 public:
  PickleWriter();

  void none() { op('N'); }
  void boolean(bool value) { op(value ? '\x88' : '\x89'); }
  void integer(int64_t value);
  // Decimal digits with an optional '-'. UNSUPPORTED past 255 bytes: weights_only reads no longer ones.
  Status big_integer(std::string_view digits);
  void real(double value);
  // UTF-8. UNSUPPORTED past 4 GiB.
  Status text(std::string_view value);
  Status bytes(std::string_view value);  // as Python 3 does it in protocol 2: an encoded text
  // A class or function: global("torch._utils", "_rebuild_tensor_v2").
  void global(std::string_view module, std::string_view name);

  // Any number of values between the two; keys and values in turn between begin_items and end_items, which go into the
  // dict below them.
  void empty_dict() { op('}'); }
  void begin_items() { op('('); }
  void end_items() { op('u'); }
  void begin_list();
  void end_list() { op('e'); }
  void begin_tuple() { op('('); }
  void end_tuple() { op('t'); }
  void empty_tuple() { op(')'); }
  void empty_set() { op('\x8f'); }

  // The last one, two or three values as a tuple.
  void tuple1() { op('\x85'); }
  void tuple2() { op('\x86'); }
  void tuple3() { op('\x87'); }

  void reduce() { op('R'); }      // callable, tuple of arguments
  void build() { op('b'); }       // object, its state
  void persistent() { op('Q'); }  // its id

  // collections.OrderedDict(), to be filled between begin_items and end_items.
  void ordered_dict();
  // Tuples.
  void integers(std::span<const int64_t> values);
  void extents(const Shape& shape);

  // The pickle; nothing can follow.
  std::string finish();
  size_t size() const { return out_.size(); }

 private:
  void op(char code) { out_ += code; }
  void little(uint64_t value, int width);
  void get(uint32_t place);
  uint32_t put();

  std::string out_;
  std::map<std::string, uint32_t, std::less<>> memo_;  // "t" + text, "c" + "module\nname\n", what they are in the memo
  uint32_t places_ = 0;
};

}  // namespace ckpt::interop

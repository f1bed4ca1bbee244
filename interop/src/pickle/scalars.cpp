// Opcodes of PickleMachine that hold a number or a string.
#include <bit>

#include "base/text.h"
#include "format/names.h"
#include "interop/src/pickle/machine.h"

namespace ckpt::interop {

Status PickleMachine::op_int() {
  CKPT_ASSIGN(const std::string_view line, in_.line());
  if (line == "00") return op_bool<0>();
  if (line == "01") return op_bool<1>();
  CKPT_ASSIGN(PickleInt integer, int_of_text(line));
  return push(add_int(std::move(integer)));
}

Status PickleMachine::op_long() {
  CKPT_ASSIGN(std::string_view line, in_.line());
  if (line.ends_with('L')) line.remove_suffix(1);
  CKPT_ASSIGN(PickleInt integer, int_of_text(line));
  return push(add_int(std::move(integer)));
}

Status PickleMachine::op_binint() {
  CKPT_ASSIGN(const uint64_t integer, in_.number(4));
  return push(add_int(int64_t{static_cast<int32_t>(integer)}));
}

template <unsigned size>
Status PickleMachine::op_binuint() {
  CKPT_ASSIGN(const uint64_t integer, in_.number(size));
  return push(add_int(static_cast<int64_t>(integer)));
}

template <unsigned size>
Status PickleMachine::op_binlong() {
  CKPT_ASSIGN(const std::string_view bytes, counted(size, true));
  CKPT_ASSIGN(PickleInt integer, int_of_bytes(bytes));
  return push(add_int(std::move(integer)));
}

Status PickleMachine::op_float() {
  CKPT_ASSIGN(const std::string_view line, in_.line());
  PickleValue value;
  value.kind = PickleKind::kFloat;
  CKPT_ASSIGN(value.real, float_of_text(line));
  return push(add(std::move(value)));
}

// Big-endian, unlike all others.
Status PickleMachine::op_binfloat() {
  CKPT_ASSIGN(const uint64_t bits, in_.number(8));
  PickleValue value;
  value.kind = PickleKind::kFloat;
  value.real = std::bit_cast<double>(__builtin_bswap64(bits));
  return push(add(std::move(value)));
}

// Lengths of 4 bytes are signed for ints and Python 2's strings, of which `is_signed` speaks.
Result<std::string_view> PickleMachine::counted(unsigned size, bool is_signed) {
  CKPT_ASSIGN(const uint64_t length, in_.number(size));
  if (is_signed && size == 4 && length >> 31 != 0)
    return Status(CKPT_FORMAT, "a length of " + std::to_string(static_cast<int32_t>(length)) + " bytes");
  return in_.take(length);
}

// Python 2 does not tell text from bytes. torch.load takes them for UTF-8, and fails where they are not.
Result<PickleRef> PickleMachine::python2_string(std::string_view text) {
  return add_text(valid_utf8(text) ? PickleKind::kText : PickleKind::kBytes, text);
}

Status PickleMachine::op_string() {
  CKPT_ASSIGN(const std::string_view line, in_.line());
  CKPT_ASSIGN(std::string text, unescape_quoted(line));
  return push(python2_string(keep(std::move(text))));
}

template <unsigned size>
Status PickleMachine::op_binstring() {
  CKPT_ASSIGN(const std::string_view text, counted(size, true));
  return push(python2_string(text));
}

// Python's text may hold lone surrogates, in three bytes each, for bytes that it could not decode.
Result<PickleRef> PickleMachine::unicode(std::string_view text) {
  if (valid_utf8(text)) return add_text(PickleKind::kText, text);
  if (is_utf8_but_for_surrogates(text)) return add_text(PickleKind::kSurrogates, text);
  return Status(CKPT_FORMAT, "text that is not UTF-8");
}

Status PickleMachine::op_unicode() {
  CKPT_ASSIGN(const std::string_view line, in_.line());
  if (is_ascii(line) && line.find('\\') == std::string_view::npos) return push(add_text(PickleKind::kText, line));
  CKPT_ASSIGN(std::string text, unescape_unicode(line));
  return push(unicode(keep(text)));
}

template <unsigned size>
Status PickleMachine::op_binunicode() {
  CKPT_ASSIGN(const std::string_view text, counted(size, false));
  return push(unicode(text));
}

template <unsigned size, PickleKind kind>
Status PickleMachine::op_binbytes() {
  CKPT_ASSIGN(const std::string_view bytes, counted(size, false));
  return push(add_text(kind, bytes));
}

Result<uint64_t> PickleMachine::index_line() {
  CKPT_ASSIGN(const std::string_view line, in_.line());
  CKPT_ASSIGN(const PickleInt index, int_of_text(line));
  if (!index.small || *index.small < 0)
    return Status(CKPT_FORMAT, "memo index " + index.digits).with("found", index.digits);
  return static_cast<uint64_t>(*index.small);
}

template Status PickleMachine::op_binuint<1>();
template Status PickleMachine::op_binuint<2>();
template Status PickleMachine::op_binlong<1>();
template Status PickleMachine::op_binlong<4>();
template Status PickleMachine::op_binstring<1>();
template Status PickleMachine::op_binstring<4>();
template Status PickleMachine::op_binunicode<1>();
template Status PickleMachine::op_binunicode<4>();
template Status PickleMachine::op_binunicode<8>();
template Status PickleMachine::op_binbytes<1, PickleKind::kBytes>();
template Status PickleMachine::op_binbytes<4, PickleKind::kBytes>();
template Status PickleMachine::op_binbytes<8, PickleKind::kBytes>();
template Status PickleMachine::op_binbytes<8, PickleKind::kByteArray>();

}  // namespace ckpt::interop

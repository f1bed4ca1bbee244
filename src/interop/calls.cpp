#include "interop/calls.h"

namespace ckpt::interop {

static constexpr size_t kMaxAttr = 1 << 20;

Status take_error(ckpt_status code, ckpt_error* err) {
  Status status(code, err ? ckpt_error_message(err) : ckpt_status_name(code));
  for (const char* key : {"path", "part", "tensor", "rank", "ranks", "offset", "expected", "found"})
    if (const char* value = ckpt_error_detail(err, key)) status = std::move(status).with(key, std::string(value));
  ckpt_error_free(err);
  return status;
}

Options options_for(const ckpt_options* given, std::string_view user) {
  const Options& from = options_of(given);
  Options to;
  for (const OptionRow& row : option_rows()) {
    if (!from.is_set(row.key) || !row.is_for(user)) continue;
    // It passed the setter before, so it passes again.
    (void)(row.is_int ? to.set_int(row.key, from.integer(row.key)) : to.set_str(row.key, from.str(row.key)));
  }
  return to;
}

std::string metadata_attr(size_t file, size_t file_count) {
  return file_count == 1 ? kMetadataAttr : kMetadataAttr + ('.' + std::to_string(file));
}

// Cuts are between characters.
static std::string_view next_piece(std::string_view text) {
  if (text.size() <= kMaxAttr) return text;
  size_t end = kMaxAttr;
  while (end > 0 && (text[end] & 0xc0) == 0x80) end--;
  return text.substr(0, end);
}

static std::string piece_key(const std::string& key, size_t piece) {
  return piece == 0 ? key : key + '+' + std::to_string(piece);
}

Status set_text(ckpt_save* save, const std::string& key, std::string_view text) {
  for (size_t i = 0; i == 0 || !text.empty(); i++) {
    const std::string piece(next_piece(text));
    text.remove_prefix(piece.size());
    CKPT_TRY(call([&](ckpt_error** err) {
      return ckpt_save_set_attr(save, nullptr, piece_key(key, i).c_str(), piece.c_str(), err);
    }));
  }
  return Ok();
}

std::string get_text(const ckpt_reader* reader, const std::string& key) {
  std::string text;
  for (size_t i = 0;; i++) {
    const char* piece = ckpt_reader_attr(reader, nullptr, piece_key(key, i).c_str());
    if (!piece) return text;
    text += piece;
  }
}

}  // namespace ckpt::interop

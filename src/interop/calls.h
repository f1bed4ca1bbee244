// The public C API as this room uses it: owned handles, ckpt_error turned into Status, and the long texts that an
// import keeps as attributes for an export. Stateless.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/options.h"
#include "base/status.h"
#include "ckpt.h"

namespace ckpt::interop {

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* handle) const {
    kFree(handle);
  }
};
using SessionHandle = std::unique_ptr<ckpt_session, Freer<ckpt_session_free>>;
using SaveHandle = std::unique_ptr<ckpt_save, Freer<ckpt_save_free>>;
using LoadHandle = std::unique_ptr<ckpt_load, Freer<ckpt_load_free>>;

// The Status of a call that failed, with its facts; frees `err`.
Status take_error(ckpt_status code, ckpt_error* err);

// call([&](ckpt_error** err) { return ckpt_save_run(save, err); })
template <typename F>
Status call(F&& function) {
  ckpt_error* err = nullptr;
  const ckpt_status code = function(&err);
  return code == CKPT_OK ? Ok() : take_error(code, err);
}

// What the caller set among the options that options.def says are for `user` ("import"), and nothing else.
Options options_for(const ckpt_options* given, std::string_view user);

// ---- attributes of the checkpoint ----
inline constexpr const char* kFormatAttr = "import.format";        // "pt", "pt-legacy"
inline constexpr const char* kUncheckedAttr = "import.unchecked";  // zip entries that the file has no CRC-32 of
inline constexpr const char* kFilesAttr = "safetensors.files";     // ["a.safetensors", …]
inline constexpr const char* kIndexAttr = "safetensors.index";     // the index's "metadata", {} where it had none
inline constexpr const char* kOrderAttr = "safetensors.order";     // tensors by their data, where not the usual order
inline constexpr const char* kMetadataAttr = "safetensors.metadata";  // __metadata__ of the file; of many: key + ".N"
// ---- of a tensor, where there are several files ----
inline constexpr const char* kFileAttr = "safetensors.file";  // position in safetensors.files

std::string metadata_attr(size_t file, size_t file_count);

// Longer than an attribute may be: continued under KEY+1, KEY+2, … `text` is JSON that we wrote.
Status set_text(ckpt_save* save, const std::string& key, std::string_view text);
// Empty where there is none.
std::string get_text(const ckpt_reader* reader, const std::string& key);

}  // namespace ckpt::interop

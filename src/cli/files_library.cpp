// The functions of ckpt_file.h in this program: those of libckpt_files, which is loaded when the first one is called.
// So the tool runs without it, too. It lies beside libckpt, or where the system looks for libraries.
#include <ckpt_file.h>
#include <ckpt_layer.h>
#include <dlfcn.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace {

constexpr const char* kName = "libckpt_files.so.0";

struct Library {
  void* handle = nullptr;
  std::string problem;
};

// "/usr/lib/": where the libckpt in use lies.
std::string folder_of_libckpt() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&ckpt_version_string), &info) == 0 || !info.dli_fname) return "";
  const std::string_view path = info.dli_fname;
  return std::string(path.substr(0, path.rfind('/') + 1));
}

// Of libckpt's folder or, if it has none, of the system's; null with the reason in dlerror().
void* open_library() {
  const std::string beside = folder_of_libckpt() + kName;
  const bool is_there = access(beside.c_str(), F_OK) == 0;
  return dlopen(is_there ? beside.c_str() : kName, RTLD_NOW | RTLD_LOCAL);
}

Library load() {
  Library library{open_library(), ""};
  if (!library.handle) {
    const char* const why = dlerror();
    library.problem = "files of other programs need libckpt_files, which cannot be loaded: install ckpt-files " +
                      std::string(ckpt_version_string()) + " beside libckpt (" + (why ? why : kName) + ")";
    return library;
  }
  const auto version =
      reinterpret_cast<decltype(&ckpt_file_version_string)>(dlsym(library.handle, "ckpt_file_version_string"));
  const std::string found = version ? version() : "unknown";
  if (found != ckpt_version_string()) {
    library.problem = "files of other programs need libckpt_files " + std::string(ckpt_version_string()) + ", found " +
                      found + ": install the ckpt-files of this ckpt";
    library.handle = nullptr;
  }
  return library;
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

template <typename Function>
Function* find(Function*, const char* name) {
  void* const handle = library().handle;
  return handle ? reinterpret_cast<Function*>(dlsym(handle, name)) : nullptr;
}

// Calls the library's function of that signature and name.
template <typename... Parameters, typename... Given>
ckpt_status call(ckpt_status (*signature)(Parameters...), const char* name, ckpt_error** err, Given... given) {
  if (const auto function = find(signature, name)) return function(given..., err);
  if (err) *err = ckpt_error_new(CKPT_UNSUPPORTED, library().problem.c_str(), nullptr, nullptr, 0);
  return CKPT_UNSUPPORTED;
}

}  // namespace

const char* ckpt_file_version_string(void) {
  const auto function = find(&ckpt_file_version_string, "ckpt_file_version_string");
  return function ? function() : "";
}

ckpt_status ckpt_import(const ckpt_store* store, const char* path, const char* label, int64_t step,
                        const ckpt_options* options, ckpt_checkpoint_info* info, ckpt_error** err) {
  return call(&ckpt_import, "ckpt_import", err, store, path, label, step, options, info);
}

ckpt_status ckpt_export(const ckpt_reader* reader, const char* path, const ckpt_options* options, ckpt_error** err) {
  return call(&ckpt_export, "ckpt_export", err, reader, path, options);
}

ckpt_status ckpt_file_open(ckpt_file** out, const char* path, const ckpt_options* options, ckpt_error** err) {
  return call(&ckpt_file_open, "ckpt_file_open", err, out, path, options);
}

void ckpt_file_free(ckpt_file* file) {
  if (const auto function = find(&ckpt_file_free, "ckpt_file_free")) function(file);
}

const char* ckpt_file_format(const ckpt_file* file) {
  const auto function = find(&ckpt_file_format, "ckpt_file_format");
  return function ? function(file) : "";
}

const char* ckpt_file_left_out(const ckpt_file* file, uint64_t index) {
  const auto function = find(&ckpt_file_left_out, "ckpt_file_left_out");
  return function ? function(file, index) : nullptr;
}

uint64_t ckpt_file_tensor_count(const ckpt_file* file) {
  const auto function = find(&ckpt_file_tensor_count, "ckpt_file_tensor_count");
  return function ? function(file) : 0;
}

ckpt_status ckpt_file_tensor_at(const ckpt_file* file, uint64_t index, ckpt_file_tensor* out, ckpt_error** err) {
  return call(&ckpt_file_tensor_at, "ckpt_file_tensor_at", err, file, index, out);
}

ckpt_status ckpt_file_read(ckpt_file* file, uint64_t index, const ckpt_tensor_desc* desc, void* data,
                           uint64_t data_bytes, ckpt_error** err) {
  return call(&ckpt_file_read, "ckpt_file_read", err, file, index, desc, data, data_bytes);
}

ckpt_status ckpt_file_tree(const ckpt_file* file, const ckpt_tree** out, ckpt_error** err) {
  return call(&ckpt_file_tree, "ckpt_file_tree", err, file, out);
}

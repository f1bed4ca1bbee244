// A user of ckpt.h in C++: handles that free themselves, calls that stop the benchmark where they fail.
#pragma once

#include <ckpt.h>

#include <memory>
#include <string>
#include <vector>

#include "machine.h"

namespace ckpt_bench {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* handle) const {
    kFree(handle);
  }
};
template <typename T, auto kFree>
using Handle = std::unique_ptr<T, Free<kFree>>;
using Options = Handle<ckpt_options, ckpt_options_free>;
using Store = Handle<ckpt_store, ckpt_store_free>;
using Session = Handle<ckpt_session, ckpt_session_free>;
using Save = Handle<ckpt_save, ckpt_save_free>;
using Reader = Handle<ckpt_reader, ckpt_reader_free>;
using Load = Handle<ckpt_load, ckpt_load_free>;
using Job = Handle<ckpt_job, ckpt_job_free>;

// Calls function(args…, &error).
template <typename Function, typename... Args>
void call(Function function, Args... args) {
  ckpt_error* error = nullptr;
  if (function(args..., &error) != CKPT_OK)
    fail(std::string(ckpt_status_name(ckpt_error_status(error))) + ": " + ckpt_error_message(error));
}

template <typename H, typename Function, typename... Args>
H make(Function function, Args... args) {
  typename H::pointer handle = nullptr;
  call(function, &handle, args...);
  return H(handle);
}

// `count` equal tensors, one after the other in memory.
struct Model {
  std::vector<std::string> names;
  ckpt_tensor_desc desc{};
  uint64_t tensor_bytes = 0;
  Model(size_t count, int32_t dtype, int64_t elements);
  uint64_t bytes() const { return names.size() * tensor_bytes; }
};

// One store in a directory of its own, with one rank's session.
class Client {
 public:
  explicit Client(std::string directory)
      : directory_(std::move(directory)), store_(make<Store>(ckpt_store_open, directory_.c_str(), nullptr)) {}
  void open_session() { session_ = make<Session>(ckpt_session_open, store_.get(), 0u, 1u, nullptr, nullptr); }
  void close_session() { session_.reset(); }

  Save new_save(const std::string& label, const Model& model, const std::byte* data,
                const ckpt_options* options = nullptr) const;
  Reader open_reader() const { return make<Reader>(ckpt_reader_open, store_.get(), "latest", nullptr); }
  // Deletes the files; the session and readers must be closed.
  void clear() const;
  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
  Store store_;
  Session session_;
};

Load new_load(const Reader& reader, const Model& model, std::byte* data, const ckpt_options* options = nullptr);
Options options_of(std::initializer_list<std::pair<const char*, int64_t>> values);

}  // namespace ckpt_bench

// A user of ckpt.h in C++: handles that free themselves, calls that stop the measurement where they fail.
#pragma once

#include <ckpt.h>

#include <map>
#include <memory>
#include <string>
#include <variant>

#include "workload.h"

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

using OptionValues = std::map<std::string, std::string>;
Options options_of(const OptionValues& values);

// One store with one rank's session. Ranks of a world above 1 meet through the store.
class Client {
 public:
  Client(const std::string& directory, const OptionValues& options)
      : options_(options_of(options)), store_(make<Store>(ckpt_store_open, directory.c_str(), options_.get())) {}
  void open_session(uint32_t rank, uint32_t world);

  Save new_save(const std::string& label, const Share& share, const std::byte* data) const;
  Reader open_reader() const { return make<Reader>(ckpt_reader_open, store_.get(), "latest", options_.get()); }
  Load new_load(const Reader& reader, const Share& share, std::byte* data) const;
  const ckpt_options* options() const { return options_.get(); }

 private:
  Options options_;
  Store store_;
  Session session_;
};

ckpt_tensor_desc descriptor(const Piece& piece);
Job start(const Save& save);
Job start(const Load& load);
void wait_until(const Job& job, int32_t state);
nlohmann::json stats_of(const Job& job);

}  // namespace ckpt_bench

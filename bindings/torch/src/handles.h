// Owners of the C API's handles, and its errors as exceptions. No state; any thread.
#ifndef CKPT_TORCH_HANDLES_H
#define CKPT_TORCH_HANDLES_H

#include <ckpt.h>
#include <ckpt_tree.h>

#include <memory>
#include <string>

#include "../ckpt_torch.h"

namespace ckpt_torch {
namespace internal {

template <class T, void (*free_handle)(T*)>
struct Freer {
  void operator()(T* handle) const { free_handle(handle); }
};
using StoreHandle = std::unique_ptr<ckpt_store, Freer<ckpt_store, ckpt_store_free>>;
using SessionHandle = std::unique_ptr<ckpt_session, Freer<ckpt_session, ckpt_session_free>>;
using OptionsHandle = std::unique_ptr<ckpt_options, Freer<ckpt_options, ckpt_options_free>>;
using SaveOp = std::unique_ptr<ckpt_save, Freer<ckpt_save, ckpt_save_free>>;
using LoadOp = std::unique_ptr<ckpt_load, Freer<ckpt_load, ckpt_load_free>>;
using JobHandle = std::unique_ptr<ckpt_job, Freer<ckpt_job, ckpt_job_free>>;
using ReaderHandle = std::unique_ptr<ckpt_reader, Freer<ckpt_reader, ckpt_reader_free>>;
using TreeHandle = std::unique_ptr<ckpt_tree, Freer<ckpt_tree, ckpt_tree_free>>;

// Takes `err`; throws it as an Error.
[[noreturn]] void throw_error(ckpt_status status, ckpt_error* err);

// check([&](ckpt_error** err) { return ckpt_...(..., err); })
template <class Call>
void check(Call&& call) {
  ckpt_error* err = nullptr;
  ckpt_status status = call(&err);
  if (status != CKPT_OK) throw_error(status, err);
}

// make<StoreHandle>([&](auto** out, ckpt_error** err) { return ckpt_store_open(out, ..., err); })
template <class Handle, class Call>
Handle make(Call&& call) {
  typename Handle::pointer out = nullptr;
  check([&](ckpt_error** err) { return call(&out, err); });
  return Handle(out);
}

[[noreturn]] inline void fail(ckpt_status status, const std::string& message,
                              std::map<std::string, std::string> details = {}) {
  throw Error(status, message, std::move(details));
}

inline std::string in_quotes(const std::string& name) { return "'" + name + "'"; }

// "'a', 'b' and 3 more"
std::string listed(const std::vector<std::string>& names, size_t limit = 5);

// The settings as one bag for every call; `over` wins. INVALID for a key or value that the engine does not know.
OptionsHandle options_of(const Settings& settings, const Settings& over = {});

// What is being handled, as an Error: LibTorch's errors and bad_alloc too. To be called in a catch block.
Error current_error();

// Runs `body` so that nothing but Error leaves it.
template <class Body>
auto guarded(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (...) {
    throw current_error();
  }
}

}  // namespace internal
}  // namespace ckpt_torch
#endif

// A store from outside: the table of calls of ckpt_backend.h, by scheme, and one store of it whose answers are checked:
// what they may not be is IO, an exception too. Everything that the table does not know is made of its calls by
// backend_store.cpp.
// May be used by many threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/call.h"
#include "ckpt_backend.h"
#include "store/store.h"

namespace ckpt::store {

struct Backend {
  ckpt_backend calls{};
  // What a call returned, and how it explained that, which ends `error`. Only the ABI knows errors.
  Status (*take)(ckpt_status code, ckpt_error* error) = nullptr;
};

// INVALID, EXISTS
Status register_backend(std::string_view scheme, const Backend& backend);
std::optional<Backend> find_backend(std::string_view scheme);
// INVALID, and whatever its open() says.
Result<std::shared_ptr<Store>> open_backend(std::string_view uri, const Backend& backend);

class BackendCalls {
 public:
  static Result<std::shared_ptr<BackendCalls>> open(std::string_view uri, const Backend& backend);
  ~BackendCalls();
  BackendCalls(const BackendCalls&) = delete;
  BackendCalls& operator=(const BackendCalls&) = delete;

  std::string path(std::string_view key) const;  // without secrets; "" is the store
  bool promises(uint32_t what) const { return (traits_.promises & what) != 0; }
  const ckpt_backend_traits& traits() const { return traits_; }

  Result<ckpt_backend_file> look(std::string_view key) const;
  // Fills `out`. GONE
  Status read(std::string_view key, const std::string& version, uint64_t offset, MutableBytes out) const;
  // `found` gets what may be a name of a store; true ends the list.
  using Found = std::function<Result<bool>(const char* name, const ckpt_backend_file& file)>;
  Status list(std::string_view directory, const Found& found) const;
  Result<void*> create(std::string_view key, uint64_t expected_size, int32_t how) const;
  Status append(std::string_view key, void* file, Bytes data) const;
  Status publish(std::string_view key, void* file) const;
  void discard(std::string_view key, void* file) const;
  // All of these for a small file.
  Status put(std::string_view key, Bytes data, int32_t how) const;
  Status remove(std::string_view key) const;

  Status check_file(std::string_view key, const ckpt_backend_file& file) const;
  // It answers, but not as ckpt_backend.h says.
  Status stranger(std::string_view key, std::string_view what) const;

 private:
  BackendCalls(std::string_view uri, const Backend& backend);
  template <typename Call>
  Status call(const char* verb, std::string_view key, ckpt_status meant, Call&& call) const;
  void count(RequestKind kind, uint64_t sent, uint64_t received) const;
  Status answer(const char* verb, std::string_view key, ckpt_status code, ckpt_error* error, ckpt_status meant) const;
  Status check_traits() const;
  Status may_write(std::string_view key) const;
  Status publish_now(std::string_view key, void* file) const;
  class Turn;

  const std::string uri_, shown_;
  const Backend backend_;
  void* context_ = nullptr;
  bool open_ = false;
  ckpt_backend_traits traits_{};
};

}  // namespace ckpt::store

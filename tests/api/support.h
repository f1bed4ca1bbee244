// What the API tests share: handles that free themselves, a scratch directory, one-line saves and loads. Uses only
// ckpt.h.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ckpt.h"

namespace ckpt_test {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* handle) const {
    Free(handle);
  }
};
using Options = std::unique_ptr<ckpt_options, Freer<ckpt_options_free>>;
using Store = std::unique_ptr<ckpt_store, Freer<ckpt_store_free>>;
using List = std::unique_ptr<ckpt_list, Freer<ckpt_list_free>>;
using Session = std::unique_ptr<ckpt_session, Freer<ckpt_session_free>>;
using Save = std::unique_ptr<ckpt_save, Freer<ckpt_save_free>>;
using Reader = std::unique_ptr<ckpt_reader, Freer<ckpt_reader_free>>;
using Load = std::unique_ptr<ckpt_load, Freer<ckpt_load_free>>;
using Job = std::unique_ptr<ckpt_job, Freer<ckpt_job_free>>;
using Report = std::unique_ptr<ckpt_report, Freer<ckpt_report_free>>;

// An empty record or descriptor that knows its size.
template <typename T>
T sized() {
  T made{};
  made.struct_size = sizeof made;
  return made;
}

// Collects the explanation of a call: EXPECT_EQ(ckpt_x(…, e), CKPT_OK) << e.text();
class Error {
 public:
  ~Error() { ckpt_error_free(error_); }
  operator ckpt_error**() {
    ckpt_error_free(error_);
    error_ = nullptr;
    return &error_;
  }
  std::string text() const {
    return std::string(ckpt_status_name(ckpt_error_status(error_))) + ": " + ckpt_error_message(error_);
  }
  std::string detail(const char* key) const {
    const char* value = ckpt_error_detail(error_, key);
    return value ? value : "";
  }

 private:
  ckpt_error* error_ = nullptr;
};

// A new directory below `base`, or below $TMPDIR. Removed at the end.
class Scratch {
 public:
  explicit Scratch(const char* base = nullptr);
  ~Scratch();
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// {"key", "text"} or {"key", 5}.
struct Setting {
  Setting(const char* k, const char* v) : key(k), text(v) {}
  Setting(const char* k, int v) : Setting(k, int64_t{v}) {}  // a literal 0 is a number, not a null pointer
  Setting(const char* k, int64_t v) : key(k), number(v), is_number(true) {}
  std::string key, text;
  int64_t number = 0;
  bool is_number = false;
};
Options options(const std::vector<Setting>& settings);

Store open_store(const std::string& uri, const std::vector<Setting>& settings = {});
std::vector<ckpt_checkpoint_info> entries_of(const Store& store);
// Rank 0 of 1 by default. `string` is null for rank 0.
Session open_session(const Store& store, uint32_t rank = 0, uint32_t world = 1, const char* string = nullptr,
                     const std::vector<Setting>& settings = {});

ckpt_tensor_desc whole(int32_t dtype, const std::vector<int64_t>& shape);
ckpt_tensor_desc box(int32_t dtype, const std::vector<int64_t>& shape, const std::vector<int64_t>& offset,
                     const std::vector<int64_t>& extent);
ckpt_tensor_desc flat(int32_t dtype, const std::vector<int64_t>& shape, int64_t offset, int64_t size);

// `count` bytes that depend on `seed` and position.
std::vector<unsigned char> pattern(size_t count, uint64_t seed);

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

}  // namespace ckpt_test

// What every store must do, as one parameterised suite, and what a store with directories, locks, mappings and random
// access does beside that. A backend adds INSTANTIATE_TEST_SUITE_P(Name, StoreSuite, Values(Backend{…})), and maybe the
// same for DirectorySuite and NamesSuite.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "store/store.h"

namespace ckpt::store {

constexpr uint64_t kMiB = 1 << 20;

// A place for one store. Each open() returns one more handle of that store.
class Home {
 public:
  virtual ~Home() = default;
  virtual std::shared_ptr<Store> open() = 0;
};

struct Backend {
  std::string name;
  std::function<std::unique_ptr<Home>()> make;
};
inline std::ostream& operator<<(std::ostream& out, const Backend& backend) { return out << backend.name; }

// An empty directory under /tmp, removed with everything in it.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  std::string operator/(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

class StoreSuite : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override;
  std::unique_ptr<Home> home_;
  std::shared_ptr<Store> store_;
};

class DirectorySuite : public StoreSuite {};

// Of stores that give files second names.
class NamesSuite : public StoreSuite {};

std::string read_text(const Store& store, std::string_view key);    // "<CODE>" if it fails
std::string names(const Store& store, std::string_view directory);  // "a b/ c", "<CODE>"
std::string code(const Status& status);
// A buffer aligned for direct I/O, filled with a pattern that depends on `seed`.
class Pattern {
 public:
  Pattern(size_t size, unsigned seed);
  Bytes bytes() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_;
};

inline bool same(Bytes a, Bytes b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

}  // namespace ckpt::store

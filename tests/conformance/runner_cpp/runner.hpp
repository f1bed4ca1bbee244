// The conformance runner in C++17, over ckpt.hpp only: the declarations of its files. Tokens, commands: ../README.md.
#pragma once

#include <ckpt.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace conformance {

// An expectation of the scenario does not hold: expected, found.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Failure(text.str());
}

inline std::string text_of(const char* text) { return text ? text : ""; }
std::string shape_text(int32_t ndim, const int64_t* shape);
std::string dtype_text(int32_t dtype);
int32_t parse_dtype(const std::string& text);

// A list of names, by number.
using Names = std::map<int32_t, std::string>;
extern const Names kJobStates, kFindingKinds, kNodeKinds, kCheckpointStates, kScopes;
int32_t number_of(const Names& names, const std::string& name);

// ---- one command (values.cpp) ----

struct Token {
  char kind;
  std::string key, value;  // `key` of KEY=VALUE, else empty
};

struct Call {
  std::string where, name;  // FILE:LINE: COMMAND, and the command
  bool timed = false;
  std::vector<std::string> words;
  std::vector<Token> keys, details;
  ckpt::Options options;
  std::string status = "OK";  // the expected status

  const std::string& operator[](size_t i) const { return words[i]; }
  int64_t integer(size_t i) const { return std::stoll(words[i]); }
  uint64_t count(size_t i) const { return std::stoull(words[i]); }
  uint32_t rank(size_t i) const { return static_cast<uint32_t>(count(i)); }

  const Token* find(const std::string& key) const;  // null if it is not given
  std::optional<std::string> text(const std::string& key) const;
  std::optional<std::vector<int64_t>> numbers(const std::string& key) const;
  // The tensor of DTYPE, SHAPE (words `first` and the next) and the keys of a region.
  ckpt::Tensor tensor(size_t first) const;
  ckpt::Device device() const;

  // Each is checked only if the call has the key.
  void expect(const std::string& key, const std::string& found) const;
  void expect(const std::string& key, const char* found) const { expect(key, text_of(found)); }
  void expect(const std::string& key, double found) const;
  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  void expect(const std::string& key, Integer found) const {
    const Token* wanted = find(key);
    if (!wanted || wanted->kind == '=') return expect(key, std::to_string(found));
    if (static_cast<uint64_t>(found) < std::stoull(wanted->value))
      fail("expected ", key, ">=", wanted->value, ", found ", found);
  }
  void expect_checkpoint(const ckpt::CheckpointInfo& info) const;
  // The words from `first` on are exactly these.
  void expect_words(size_t first, const std::vector<std::string>& found) const;
  void expect_count(size_t i, uint64_t found) const { expect_words(i, {std::to_string(found)}); }
};

// ---- the run ----

// The bytes must not move while the name exists: the engine reads and writes them in the background.
using Bytes = std::vector<unsigned char>;
using Object = std::variant<Bytes, ckpt::Store, ckpt::Session, ckpt::Save, ckpt::Reader, ckpt::Load, ckpt::Job,
                            ckpt::Report, ckpt::Tree, ckpt::TreeView, ckpt::File, ckpt::Rows, ckpt::Share>;

class Runner {
 public:
  Runner() = default;
  Runner(const Runner&) = delete;
  ~Runner();

  template <class T>
  T& get(const std::string& name) {
    const auto found = objects_.find(name);
    T* object = found == objects_.end() ? nullptr : std::get_if<T>(&found->second);
    if (!object) fail("expected another object ", name, ", found ", found == objects_.end() ? "none" : "that");
    return *object;
  }
  void put(const std::string& name, Object object) {
    if (objects_.count(name)) free(name);
    objects_.emplace(name, std::move(object));
  }
  void put_copy(const std::string& name, ckpt::Memory bytes) {
    const auto* first = static_cast<const unsigned char*>(bytes.data);
    put(name, first ? Bytes(first, first + bytes.bytes) : Bytes());
  }
  void put_borrowed(const std::string& name, ckpt::TreeView tree, const std::string& owner);
  void free(const std::string& name);
  ckpt::TreeView tree(const std::string& name);  // owned or borrowed

 private:
  std::map<std::string, Object> objects_;
  std::map<std::string, std::string> owners_;  // of borrowed trees: the file's name
};

using Commands = std::map<std::string, void (*)(Runner& runner, const Call& call)>;
extern const Commands kLibrary, kMemory, kStore, kSave, kJob, kReader, kLoad, kTree, kFile, kTable;

}  // namespace conformance

// The conformance runner in C++17 over ckpt.hpp alone: what its files share. Grammar and commands: ../README.md.
#pragma once

#include <ckpt.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace conformance {

// What the scenario says does not hold: expected, found.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Failure(text.str());
}

// ---- one line of a scenario (line.cpp) ----

struct Pair {
  std::string key, value;
  char sign = '=';  // or '~', contains
  bool used = false;
};

class Runner;
class Line;
// `words` it has, then any number more (kMore), KEY=VALUE (kPairs), @OPTION=VALUE (kOptions).
enum { kMore = 1, kPairs = 2, kOptions = 4 };
struct Command {
  size_t words;
  int takes;
  void (*run)(Runner& runner, Line& line);
};

class Line {
 public:
  std::string name;
  const Command* command = nullptr;
  bool timed = false;
  std::string raw;  // as it stands, for `timed`
  std::vector<std::string> words;
  std::vector<Pair> pairs, options, details;
  std::optional<std::string> status;  // that the call must fail with

  // The value of KEY, which counts as looked at.
  std::optional<std::string> find(const std::string& key);
  ckpt::Options bag() const;
  // The rest of the words are exactly these.
  void expect_words(size_t first, const std::vector<std::string>& found) const;

  // Each looks only where the line names the key.
  void expect(const std::string& key, const std::string& found);
  void expect_number(const std::string& key, int64_t found);
  void expect_count(const std::string& key, uint64_t found);
  void expect_float(const std::string& key, double found);
  void expect_dtype(const std::string& key, int32_t found);
};

// ---- notation (notation.cpp) ----

int64_t parse_int(const std::string& text);
uint64_t parse_count(const std::string& text);
uint32_t parse_rank(const std::string& text);
double parse_float(const std::string& text);
int32_t parse_dtype(const std::string& text);
std::vector<int64_t> parse_shape(const std::string& text);
std::string parse_hex(const std::string& text);
std::pair<std::string, std::string> parse_divided(const std::string& text);  // "A:B"
std::string shape_text(int32_t ndim, const int64_t* shape);
inline std::string text_of(const char* text) { return text ? text : ""; }

// A list of names, by number.
using Names = std::map<int32_t, std::string>;
extern const Names kJobStates, kFindingKinds, kNodeKinds, kCheckpointStates;
int32_t number_of(const Names& names, const std::string& name);
std::string name_of(const Names& names, int32_t number);

ckpt::Tensor parse_region(Line& line, const std::string& dtype, const std::string& shape);
ckpt::Device parse_device(Line& line);
void expect_checkpoint(Line& line, const ckpt::CheckpointInfo& info);

// ---- the run ----

// The bytes stay where they are while the name stands, since the engine reads and writes them in the background.
using Bytes = std::vector<unsigned char>;
using Object = std::variant<Bytes, ckpt::Store, ckpt::Session, ckpt::Save, ckpt::Reader, ckpt::Load, ckpt::Job,
                            ckpt::Report, ckpt::Tree, ckpt::TreeView, ckpt::File>;

class Runner {
 public:
  Runner(std::string folder, std::map<std::string, std::string> variables)
      : folder_(std::move(folder)), variables_(std::move(variables)) {}
  Runner(const Runner&) = delete;
  ~Runner();

  // Whether the line held a command.
  bool run(const std::string& text, std::string* command);

  template <class T>
  T& get(const std::string& name) {
    auto found = objects_.find(name);
    if (found == objects_.end()) fail("expected an object ", name, ", found none");
    T* object = std::get_if<T>(&found->second);
    if (!object) fail("expected ", name, " to be of another kind, found kind ", found->second.index());
    return *object;
  }
  void put(const std::string& name, Object object) {
    if (objects_.count(name)) free(name);
    objects_.emplace(name, std::move(object));
  }
  void put_borrowed(const std::string& name, ckpt::TreeView tree, const std::string& owner);
  void free(const std::string& name);
  ckpt::TreeView tree(const std::string& name);  // owned or borrowed

  std::string path(const std::string& file) const { return file[0] == '/' ? file : folder_ + "/" + file; }
  const std::string& folder() const { return folder_; }
  const std::map<std::string, std::string>& variables() const { return variables_; }

 private:
  std::string folder_;
  std::map<std::string, std::string> variables_;
  std::map<std::string, Object> objects_;
  std::map<std::string, std::string> owners_;  // of borrowed trees: the file's name
};

using Commands = std::map<std::string, Command>;
void add_library_commands(Commands& commands);
void add_memory_commands(Commands& commands);
void add_store_commands(Commands& commands);
void add_save_commands(Commands& commands);
void add_job_commands(Commands& commands);
void add_reader_commands(Commands& commands);
void add_content_commands(Commands& commands);
void add_load_commands(Commands& commands);
void add_tree_commands(Commands& commands);
void add_node_commands(Commands& commands);
void add_file_commands(Commands& commands);
const Commands& all_commands();

// Throws Failure where the line is none; false of a line that says nothing.
bool parse_line(const Runner& runner, const std::string& text, Line* out);

}  // namespace conformance

// What the commands share: how they are declared, options, opening, JSON, findings.
// A command parses into its own struct, then runs once: it prints its result on stdout and returns the exit code, or
// throws the ckpt::Error that stopped it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/locate.h"

// CLI11 takes seconds to compile, so command_line.cpp alone includes it.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cli {

inline constexpr int kExitOk = 0, kExitNo = 1, kExitError = 2;

using Run = std::function<int()>;

// One of these for each command, in cmd_*.cpp (without_interop.cpp where libckpt lacks ckpt_file.h); `chosen` receives
// what to run when the command line names it.
void add_ls(CLI::App& app, Run& chosen);
void add_info(CLI::App& app, Run& chosen);
void add_verify(CLI::App& app, Run& chosen);
void add_diff(CLI::App& app, Run& chosen);
void add_cat(CLI::App& app, Run& chosen);
void add_import(CLI::App& app, Run& chosen);
void add_export(CLI::App& app, Run& chosen);
void add_repair(CLI::App& app, Run& chosen);
void add_prune(CLI::App& app, Run& chosen);
void add_rm(CLI::App& app, Run& chosen);
void add_help(CLI::App& app, Run& chosen);

// Reads the command line. What to run; or an exit code where there is nothing to run.
Run parse_command_line(int argc, char** argv);
// The text of `ckpt help TOPIC`: of the tool for "", "" where there is no such command.
std::string help_text(const CLI::App& app, const std::string& topic);

// What every command takes.
struct Common {
  std::vector<std::string> settings;  // "key=value", of -o
  bool json = false;

  // The value that -o gives `key`.
  std::optional<std::string> setting(std::string_view key) const;
};

struct Words {
  const char* name;
  const char* summary;   // one line, for the list of commands
  const char* teaching;  // one paragraph
  const char* examples;
  const char* exits;
};

// An argument or option that was declared.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& required();
  Option& type(const char* name);
  Option& needs(const Option& other);
  Option& excludes(const Option& other);
  Option& positive();
  Option& not_negative();
  Option& one_value();  // each time that it is given

 private:
  CLI::Option* option_;
};

// A command that takes any arguments.
void add_bare_command(CLI::App& app, const char* name, const char* summary, Run& chosen, Run run);

class Command {
 public:
  enum class WithJson { kNo, kYes };
  Command(CLI::App& app, const Words& words, Common& common, WithJson json);
  // T: std::string, int64_t, uint32_t, an optional or a vector of one of those; bool is a flag.
  template <typename T>
  Option add(const char* name, T& to, const char* help);
  void run(Run& chosen, Run run);

 private:
  CLI::App* command_;
};

inline constexpr const char* kCheckpointHelp =
    "a checkpoint's directory, or STORE@latest, STORE@label:L, STORE@step:N, STORE@ID";

// The settings of -o. INVALID names the setting.
ckpt::Options make_options(const Common& common);

struct Opened {
  ckpt::Store store;
  ckpt::Reader reader;
  ckpt_checkpoint_info info;
};
// Opens what `argument` names. Where it names no checkpoint of the run and -o run=… was not given, the only run that
// the store has is meant, so that an imported model needs no option.
Opened open_checkpoint(const std::string& argument, const Common& common, const ckpt::Options& options);

// Text that goes to stdout as it is.
void print(std::string_view text);
void print_json(const Json& json);

Json to_json(const ckpt_checkpoint_info& info);
Json to_json(const ckpt::Finding& finding);
Json findings_json(const ckpt::Report& report);
const char* state_name(int32_t state);
const char* finding_name(int32_t kind);
bool is_tree(const ckpt::ObjectInfo& object);
inline const char* text_of(const char* text) { return text == nullptr ? "" : text; }

}  // namespace cli

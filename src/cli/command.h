// What the commands share: declaring a command, its options, opening a checkpoint, JSON, findings.
// A command parses its arguments into its own struct, then runs once: it prints its result on stdout and returns the
// exit code, or throws the ckpt::Error that stopped it.
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

// What the command line asks for; returns the exit code.
using Action = std::function<int()>;

// One function per command, in cmd_*.cpp. If the command line
// names the command, its action is stored in `chosen`.
void add_keep(CLI::App& app, Action& chosen);
void add_label(CLI::App& app, Action& chosen);
void add_ls(CLI::App& app, Action& chosen);
void add_status(CLI::App& app, Action& chosen);
void add_runs(CLI::App& app, Action& chosen);
void add_info(CLI::App& app, Action& chosen);
void add_verify(CLI::App& app, Action& chosen);
void add_diff(CLI::App& app, Action& chosen);
void add_cat(CLI::App& app, Action& chosen);
void add_cp(CLI::App& app, Action& chosen);
void add_du(CLI::App& app, Action& chosen);
void add_report(CLI::App& app, Action& chosen);
void add_import(CLI::App& app, Action& chosen);
void add_export(CLI::App& app, Action& chosen);
void add_map(CLI::App& app, Action& chosen);
void add_repair(CLI::App& app, Action& chosen);
void add_prune(CLI::App& app, Action& chosen);
void add_rm(CLI::App& app, Action& chosen);
void add_clean(CLI::App& app, Action& chosen);
void add_help(CLI::App& app, Action& chosen);
void add_check(CLI::App& app, Action& chosen);
void add_completion(CLI::App& app, Action& chosen);

// Never empty: for --help and --version the action only returns the exit code. Throws INVALID.
Action parse_command_line(int argc, char** argv);
// The text of `ckpt help TOPIC`. Topic "" is the tool itself; an unknown topic gives "".
std::string help_text(const CLI::App& app, const std::string& topic);

// What --help says, for those who say it in another form: manual pages (pages.h) and shells (completion.h).
struct OptionText {
  std::vector<std::string> names;  // "-o", "--json"; of an argument its name alone
  std::string value;               // "KEY=VALUE", or the choices "bash|zsh|fish"; "" for a flag
  std::string help;
  bool is_argument() const { return !names[0].starts_with('-'); }
};
struct CommandText {
  std::string name;      // "ls"; "" for the tool
  std::string summary;   // one line
  std::string teaching;  // lines
  std::string footer;    // examples and exit codes
  std::vector<OptionText> options;
};
// The tool, then its commands.
std::vector<CommandText> describe(const CLI::App& app);

// The arguments that every command has.
struct Common {
  std::vector<std::string> settings;  // from -o, each "key=value"
  std::string run;                    // from --run: as -o run=RUN
  std::vector<std::string> backends;  // from --backend: libraries of stores
  bool json = false;

  // The value of `key` among the settings; of several, the last.
  std::optional<std::string> setting(std::string_view key) const;
};

// `ckpt cat CHECKPOINT w --at model`: what is under "model/" alone. "" means everything.
bool is_under(std::string_view at, std::string_view name);
inline constexpr const char* kAtHelp = "only what is below this place of the state, such as model";

// Whether a command that only reports by default is to act: --write, or -o dry_run=0. Throws INVALID if they disagree.
bool is_to_write(const Common& common, bool write);

struct Words {
  const char* name;
  const char* summary;   // one line, for the list of commands
  const char* teaching;  // one paragraph
  const char* examples;
  const char* exits;
};

// A declared argument or option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& required();
  Option& type(const char* name);
  Option& needs(const Option& other);
  Option& excludes(const Option& other);
  Option& positive();
  Option& not_negative();
  Option& one_value();  // takes one value each time it is given

 private:
  CLI::Option* option_;
};

// A command that accepts any arguments and reads none.
void add_bare_command(CLI::App& app, const char* name, const char* summary, Action& chosen, Action action);

class Command {
 public:
  enum class WithJson { kNo, kYes };
  Command(CLI::App& app, const Words& words, Common& common, WithJson json);
  // T: bool (a flag), std::string, int64_t, uint32_t, or an optional or vector of these.
  template <typename T>
  Option add(const char* name, T& to, const char* help);
  // --run RUN
  Option add_run(Common& common);
  void run(Action& chosen, Action action);

 private:
  CLI::App* command_;
  Common& common_;  // which the action owns
};

inline constexpr const char* kCheckpointHelp =
    "a checkpoint's directory or https:// address, or STORE@latest, STORE@label:L, STORE@name:N, STORE@step:N, "
    "STORE@ID";

// The settings of -o as options. INVALID names the setting that is wrong.
ckpt::Options make_options(const Common& common);
// The same for two places. INVALID for an endpoint where they are of two services: each would get the other's keys.
ckpt::Options make_options(const Common& common, std::string_view one, std::string_view other);

struct Opened {
  ckpt::Store store;
  ckpt::Reader reader;
  ckpt_checkpoint_info info;
};
// Opens what `argument` names. If run "main" has no such checkpoint, no run was named and the store has only one
// run, that run is used. Warns on stderr of what the selector passed over.
Opened open_checkpoint(const std::string& argument, const Common& common, const ckpt::Options& options);

// What is wrong with the sizes, headers, trailers and indexes of the parts: a line for each damage. Reads no data.
std::vector<std::string> damages_of_parts(const ckpt::Reader& reader, ckpt::Options options);

// Writes `text` to stdout unchanged.
void print(std::string_view text);
void print_json(const Json& json);

Json to_json(const ckpt_checkpoint_info& info);
Json to_json(const ckpt::Finding& finding);
Json findings_json(const ckpt::Report& report);
const char* state_name(int32_t state);
// What the flags of a checkpoint say: "foreign", "only in the mirror", …
std::vector<std::string> flag_names(uint32_t flags);
const char* finding_name(int32_t kind);
// Objects that are state trees, each once.
std::vector<std::string> tree_names(const ckpt::Reader& reader);
inline const char* text_of(const char* text) { return text == nullptr ? "" : text; }

}  // namespace cli

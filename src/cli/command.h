// What the commands share: how they are declared, options, opening, JSON, findings.
// A command parses into its own struct, then runs once: it prints its result on stdout and sets the exit code, or
// returns the error that stopped it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/handle.h"
#include "cli/locate.h"

namespace cli {

inline constexpr int kExitOk = 0, kExitNo = 1, kExitError = 2;

using Json = nlohmann::ordered_json;
using Run = std::function<Error(int* exit_code)>;

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

// What every command takes.
struct Common {
  std::vector<std::string> settings;  // "key=value", of -o
  bool json = false;
};

struct Words {
  const char* name;
  const char* summary;   // one line, for the list of commands
  const char* teaching;  // one paragraph
  const char* examples;
  const char* exits;
};
CLI::App* add_command(CLI::App& app, const Words& words, Common* common, bool with_json);

inline constexpr const char* kCheckpointHelp =
    "a checkpoint's directory, or STORE@latest, STORE@label:L, STORE@step:N, STORE@ID";

// The settings of -o in a bag. INVALID names the setting.
Error make_options(const Common& common, Options* out);

struct Opened {
  Store store;
  Reader reader;
  ckpt_checkpoint_info info;
};
// Opens what `argument` names. Where it names no checkpoint of the run and -o run=… was not given, the only run that
// the store has is meant, so that an imported model needs no option.
Error open_checkpoint(const std::string& argument, const Common& common, const ckpt_options* options, Opened* out);

// Text that goes to stdout as it is.
void print(std::string_view text);
void print_json(const Json& json);

Json to_json(const ckpt_checkpoint_info& info);
Json to_json(const ckpt_finding& finding);
const char* state_name(int32_t state);
const char* finding_name(int32_t kind);
// Null for a null pointer.
Json text_or_null(const char* text);

Error findings_of(const ckpt_report* report, std::vector<ckpt_finding>* out);

}  // namespace cli

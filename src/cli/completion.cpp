#include "cli/completion.h"

#include "cli/text.h"

namespace cli {
namespace {

using Commands = std::span<const CommandText>;

// The words that an option or argument may be; empty if they are not known.
std::string choices(const OptionText& option) {
  std::string words = option.value;
  if (words.find('|') == std::string::npos) return "";
  for (char& c : words)
    if (c == '|') c = ' ';
  return words;
}

std::string names_of(const CommandText& command) {
  std::vector<std::string> names;
  for (const OptionText& option : command.options)
    if (!option.is_argument()) names.insert(names.end(), option.names.begin(), option.names.end());
  return joined(names, " ");
}

// The commands, without the tool itself.
std::string command_words(Commands commands) {
  std::vector<std::string> names;
  for (const CommandText& command : commands.subspan(1)) names.push_back(command.name);
  return joined(names, " ");
}

// Of the library, for -o.
std::string option_keys() {
  std::vector<std::string> keys;
  for (const ckpt::OptionInfo& info : ckpt::option_list()) keys.push_back(info.key);
  return joined(keys, " ");
}

// The words that complete an argument which is no path; "" where every argument is one.
std::string argument_words(const CommandText& command, Commands commands) {
  if (command.name == "help") return command_words(commands) + " options";
  for (const OptionText& option : command.options)
    if (option.is_argument() && !choices(option).empty()) return choices(option);
  return "";
}

// In single quotes, for all three shells.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// ---- bash ----

constexpr const char* kBashHead = R"(# bash completion for ckpt, made by `ckpt completion bash`
_ckpt() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= options= values= words= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }
  done
  COMPREPLY=()
  case $command in
)";
constexpr const char* kBashTail = R"(  esac
  if [[ -n $values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$cur"))
  elif [[ $prev == -o ]]; then
    COMPREPLY=($(compgen -S = -W 'KEYS' -- "$cur"))
    compopt -o nospace 2>/dev/null
  elif [[ $cur == -* || -z $command ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    compopt -o filenames 2>/dev/null
  fi
}
complete -F _ckpt ckpt
)";

std::string replaced(std::string text, std::string_view what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

std::string bash_script(Commands commands) {
  std::string out = kBashHead;
  for (const CommandText& command : commands) {
    const bool tool = command.name.empty();
    out += strformat("    {}) options={}", tool ? "''" : command.name,
                     in_quotes(names_of(command) + (tool ? " " + command_words(commands) : "")));
    if (!argument_words(command, commands).empty()) out += " words=" + in_quotes(argument_words(command, commands));
    std::string values;
    for (const OptionText& option : command.options)
      if (!option.is_argument() && !choices(option).empty())
        values += strformat("{}) values={} ;; ", joined(option.names, "|"), in_quotes(choices(option)));
    if (!values.empty()) out += strformat("; case $prev in {}esac", values);
    out += " ;;\n";
  }
  return out + replaced(kBashTail, "KEYS", option_keys());
}

// ---- zsh ----

// Brackets and colons mean something in the words of _arguments.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_option(const OptionText& option) {
  std::string action;
  if (!choices(option).empty())
    action = ":value:(" + choices(option) + ")";
  else if (option.names[0] == "-o")
    action = ":option:(" + option_keys() + ")";
  else if (!option.value.empty())
    action = ":" + zsh_text(option.value) + ": ";
  const std::string name = option.names.back();
  return in_quotes((name == "-o" ? "*" : "") + name + "[" + zsh_text(option.help) + "]" + action);
}

std::string zsh_script(Commands commands) {
  std::string out =
      "#compdef ckpt\n# zsh completion for ckpt, made by `ckpt completion zsh`\n_ckpt() {\n  local -a commands=(\n";
  for (const CommandText& command : commands.subspan(1))
    out += strformat("    {}\n", in_quotes(command.name + ":" + zsh_text(command.summary)));
  out += "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n";
  out += "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const CommandText& command : commands.subspan(1)) {
    out += strformat("    {}) _arguments", command.name);
    for (const OptionText& option : command.options)
      if (!option.is_argument()) out += " \\\n      " + zsh_option(option);
    const std::string words = argument_words(command, commands);
    out += strformat(" \\\n      {} ;;\n", words.empty() ? "'*:file:_files'" : in_quotes("*:value:(" + words + ")"));
  }
  return out + "  esac\n}\n_ckpt \"$@\"\n";
}

// ---- fish ----

std::string fish_option(const CommandText& command, const OptionText& option) {
  std::string out = strformat("complete -c ckpt -n '__fish_seen_subcommand_from {}'", command.name);
  for (const std::string& name : option.names)
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!choices(option).empty())
    out += " -x -a " + in_quotes(choices(option));
  else if (option.names[0] == "-o")
    out += " -x -a " + in_quotes(option_keys());
  else if (!option.value.empty())
    out += " -r";
  return out + " -d " + in_quotes(option.help) + "\n";
}

std::string fish_script(Commands commands) {
  std::string out = "# fish completion for ckpt, made by `ckpt completion fish`\n";
  for (const CommandText& command : commands.subspan(1)) {
    out += strformat("complete -c ckpt -f -n __fish_use_subcommand -a {} -d {}\n", command.name,
                     in_quotes(command.summary));
    for (const OptionText& option : command.options)
      if (!option.is_argument()) out += fish_option(command, option);
    if (const std::string words = argument_words(command, commands); !words.empty())
      out +=
          strformat("complete -c ckpt -f -n '__fish_seen_subcommand_from {}' -a {}\n", command.name, in_quotes(words));
  }
  return out;
}

}  // namespace

std::string completion_script(const std::string& shell, Commands commands) {
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  if (shell == "fish") return fish_script(commands);
  invalid("no completion for shell '" + shell + "'; expected bash, zsh or fish");
}

}  // namespace cli

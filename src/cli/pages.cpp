#include "cli/pages.h"

#include <filesystem>
#include <fstream>

#include "cli/completion.h"
#include "cli/text.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

// The code point at the start of valid UTF-8, whose first byte is not ASCII; its size is in `*size`.
uint32_t code_point(std::string_view text, size_t* size) {
  const auto first = static_cast<unsigned char>(text[0]);
  *size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  uint32_t code = first & (0x7fu >> *size);
  for (size_t i = 1; i < *size; ++i) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  return code;
}

// Text of a line: a backslash, a hyphen that is to be copied, what is not ASCII, and a dot that would begin a request.
std::string roff(std::string_view text) {
  std::string out;
  for (size_t i = 0, size = 1; i < text.size(); i += size) {
    const char c = text[i];
    size = 1;
    if (static_cast<unsigned char>(c) >= 0x80)
      out += print_format("\\[u%04X]", code_point(text.substr(i), &size));
    else if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Lines that begin with blanks stay as they are; others are filled.
std::string paragraphs(std::string_view text) {
  std::string out;
  bool raw = false;
  for (const std::string& line : lines_of(text)) {
    if (line.empty()) continue;
    const bool first = out.empty();
    if (line.starts_with("  ") != raw) out += (raw = !raw) ? (first ? ".nf\n" : ".PP\n.nf\n") : ".fi\n.PP\n";
    out += roff(line) + "\n";
  }
  return out + (raw ? ".fi\n" : "");
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }

std::string options_text(const CommandText& command) {
  std::string out;
  for (const OptionText& option : command.options) {
    std::vector<std::string> names;
    for (const std::string& name : option.names) names.push_back(bold(name));
    const bool valued = !option.is_argument() && !option.value.empty();
    out += ".TP\n" + joined(names) + (valued ? " \\fI" + roff(option.value) + "\\fR" : "") + "\n";
    out += roff(option.help) + "\n";
  }
  return out;
}

std::string synopsis(const CommandText& command) {
  std::string out = bold(command.name.empty() ? "ckpt" : "ckpt " + command.name);
  if (command.name.empty()) return out + " \\fICOMMAND\\fR [\\fIOPTION\\fR]...\n";
  for (const OptionText& option : command.options)
    if (option.is_argument()) out += " \\fI" + roff(option.names[0]) + "\\fR";
  return out + " [\\fIOPTION\\fR]...\n";
}

std::string commands_text(std::span<const CommandText> commands) {
  std::string out = ".SH COMMANDS\n";
  for (const CommandText& command : commands.subspan(1))
    out += ".TP\n" + bold(command.name) + "\n" + roff(command.summary) + "; see\n.BR ckpt\\-" + command.name + " (1)\n";
  return out;
}

void write_file(const fs::path& path, const std::string& text) {
  std::error_code code;
  fs::create_directories(path.parent_path(), code);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail(CKPT_IO, "cannot write " + path.string());
}

}  // namespace

std::string manual_page(std::span<const CommandText> commands, size_t index) {
  const CommandText& command = commands[index];
  const std::string name = command.name.empty() ? "ckpt" : "ckpt-" + command.name;
  std::string upper = name;
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  std::string out = strformat(".TH {} 1 \"\" \"ckpt {}\" \"User Commands\"\n", roff(upper), ckpt_version_string());
  out += ".SH NAME\n" + roff(name) + " \\- " + roff(command.summary) + "\n.SH SYNOPSIS\n" + synopsis(command);
  if (!command.teaching.empty()) out += ".SH DESCRIPTION\n" + paragraphs(command.teaching);
  if (index == 0) out += commands_text(commands);
  out += ".SH OPTIONS\n" + options_text(command);
  const size_t exits = std::min(command.footer.find("Exit codes: "), command.footer.size());
  std::string_view examples = std::string_view(command.footer).substr(0, exits);
  if (examples.starts_with("Examples:")) examples.remove_prefix(examples.find('\n') + 1);
  out += (index == 0 ? ".SH NOTES\n" : ".SH EXAMPLES\n") + paragraphs(examples);
  if (exits < command.footer.size()) out += ".SH EXIT STATUS\n" + roff(command.footer.substr(exits + 12)) + "\n";
  return out + ".SH SEE ALSO\n" +
         (index == 0 ? roff("ckpt help options lists the options of the library.") : ".BR ckpt (1)") + "\n";
}

void write_pages(const std::string& share, std::span<const CommandText> commands) {
  const fs::path folder(share);
  for (size_t i = 0; i < commands.size(); ++i) {
    const std::string name = commands[i].name.empty() ? "ckpt" : "ckpt-" + commands[i].name;
    write_file(folder / "man" / "man1" / (name + ".1"), manual_page(commands, i));
  }
  write_file(folder / "bash-completion" / "completions" / "ckpt", completion_script("bash", commands));
  write_file(folder / "zsh" / "site-functions" / "_ckpt", completion_script("zsh", commands));
  write_file(folder / "fish" / "vendor_completions.d" / "ckpt.fish", completion_script("fish", commands));
}

}  // namespace cli

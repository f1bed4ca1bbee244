// Reads one line of a scenario: words, KEY=VALUE, @OPTION=VALUE, and what stands behind "->".
#include <algorithm>
#include <cmath>

#include "runner.hpp"

namespace conformance {
namespace {

constexpr const char* kBlanks = " \t\r\n\v\f";
bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string replaced(const Runner& runner, const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (text[at] == '$' && end < text.size() && in_name(text[end])) end++;
    if (text[at] != '$' || end == at + 1) {
      out += text[at++];
      continue;
    }
    const std::string name = text.substr(at + 1, end - at - 1);
    const auto found = runner.variables().find(name);
    if (name != "DIR" && found == runner.variables().end())
      fail("expected a value of $", name, " on the command line, found none");
    out += name == "DIR" ? runner.folder() : found->second;
    at = end;
  }
  return out;
}

std::string decoded(const Runner& runner, const std::string& word) {
  const std::string text = replaced(runner, word);
  if (text == "%") return "";
  std::string out;
  for (size_t at = 0; at < text.size(); at++) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    const std::string digits = text.substr(at + 1, 2);
    if (digits.size() != 2 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
      fail("expected two hexadecimal digits behind %, found '", digits, "'");
    out += static_cast<char>(std::stoi(digits, nullptr, 16));
    at += 2;
  }
  return out;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  size_t at = text.find_first_not_of(kBlanks);
  while (at != std::string::npos && text[at] != '#') {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

// Divided before anything is replaced.
Pair parse_pair(const Runner& runner, const std::string& word, const char* signs) {
  const size_t sign = word.find_first_of(signs);
  if (sign == std::string::npos) fail("expected KEY=VALUE, found '", word, "'");
  return {decoded(runner, word.substr(0, sign)), decoded(runner, word.substr(sign + 1)), word[sign], false};
}

void take(const Runner& runner, const std::string& word, Line* line) {
  const int takes = line->command->takes;
  if (line->status) {
    line->details.push_back(parse_pair(runner, word, "=~"));
  } else if (line->words.size() < line->command->words || (takes & kMore)) {
    line->words.push_back(decoded(runner, word));
  } else if (word[0] == '@') {
    if (!(takes & kOptions)) fail("expected no options, found '", word, "'");
    line->options.push_back(parse_pair(runner, word.substr(1), "="));
  } else {
    if (!(takes & kPairs)) fail("expected no more words, found '", word, "'");
    line->pairs.push_back(parse_pair(runner, word, "="));
  }
}

}  // namespace

bool parse_line(const Runner& runner, const std::string& text, Line* out) {
  std::vector<std::string> words = split(text);
  if (words.empty()) return false;
  Line& line = *out;
  line.timed = words[0] == "timed";
  if (line.timed) {
    const size_t from = text.find_first_not_of(kBlanks, text.find("timed") + 5);
    line.raw = from == std::string::npos ? "" : replaced(runner, text.substr(from));
    words.erase(words.begin());
    if (words.empty() || words[0] == "timed") fail("expected a command to time, found none");
  }
  line.name = words[0];
  const auto found = all_commands().find(words[0]);
  if (found == all_commands().end()) fail("expected a command, found '", words[0], "'");
  line.command = &found->second;
  for (size_t i = 1; i < words.size(); i++) {
    if (words[i] != "->" || line.status) {
      take(runner, words[i], &line);
      continue;
    }
    if (++i == words.size()) fail("expected a status behind '->', found none");
    line.status = decoded(runner, words[i]);
  }
  if (line.words.size() < line.command->words)
    fail("expected ", line.command->words, " words, found ", line.words.size());
  return true;
}

// ---- what a line asks for, and what it expects ----

std::optional<std::string> Line::find(const std::string& key) {
  for (Pair& pair : pairs)
    if (pair.key == key) {
      pair.used = true;
      return pair.value;
    }
  return std::nullopt;
}

ckpt::Options Line::bag() const {
  ckpt::Options bag;
  for (const Pair& option : options) {
    const std::string& value = option.value;
    const size_t sign = value[0] == '-';
    const bool integer = value.size() > sign && value.find_first_not_of("0123456789", sign) == std::string::npos;
    if (integer)
      bag.set(option.key, parse_int(value));
    else
      bag.set(option.key, value.substr(value[0] == '"'));
  }
  return bag;
}

void Line::expect_words(size_t first, const std::vector<std::string>& found) const {
  for (size_t i = 0; first + i < words.size() || i < found.size(); i++) {
    const std::string wanted = first + i < words.size() ? "'" + words[first + i] + "'" : "no more";
    const std::string got = i < found.size() ? "'" + found[i] + "'" : "no more";
    if (wanted != got) fail("expected ", wanted, " at place ", i, ", found ", got);
  }
}

void Line::expect(const std::string& key, const std::string& found) {
  const auto wanted = find(key);
  if (wanted && *wanted != found) fail("expected ", key, "=", *wanted, ", found '", found, "'");
}

void Line::expect_number(const std::string& key, int64_t found) {
  const auto wanted = find(key);
  if (wanted && parse_int(*wanted) != found) fail("expected ", key, "=", *wanted, ", found ", found);
}

void Line::expect_count(const std::string& key, uint64_t found) {
  const auto wanted = find(key);
  if (wanted && parse_count(*wanted) != found) fail("expected ", key, "=", *wanted, ", found ", found);
}

void Line::expect_float(const std::string& key, double found) {
  const auto text = find(key);
  if (!text) return;
  const double wanted = parse_float(*text);
  const bool same =
      std::isnan(wanted) ? std::isnan(found) : wanted == found && std::signbit(wanted) == std::signbit(found);
  if (!same) fail("expected ", key, "=", *text, ", found ", found);
}

void Line::expect_dtype(const std::string& key, int32_t found) {
  const auto wanted = find(key);
  if (wanted && parse_dtype(*wanted) != found)
    fail("expected ", key, "=", *wanted, ", found ", ckpt::dtype_name(found), " (", found, ")");
}

}  // namespace conformance

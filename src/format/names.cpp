#include "format/names.h"

#include <algorithm>
#include <cstring>

#include "base/shown.h"
#include "base/text.h"

namespace ckpt::format {

// ---- rules ----

static Status refuse(std::string_view what, std::string_view name, const std::string& why) {
  return Status(CKPT_INVALID, std::string(what) + " " + shown(name) + ": " + why);
}

static Status check_size(std::string_view what, std::string_view name, size_t limit) {
  if (!name.empty() && name.size() <= limit) return Ok();
  return refuse(what, name, "expected 1 to " + std::to_string(limit) + " bytes, found " + std::to_string(name.size()));
}

static bool label_character(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
         std::string_view("._=+-").find(c) != std::string_view::npos;
}

static Status check_plain(std::string_view what, std::string_view name) {
  CKPT_TRY(check_size(what, name, kMaxLabel));
  if (name[0] == '.') return refuse(what, name, "starts with a dot");
  if (!std::all_of(name.begin(), name.end(), label_character))
    return refuse(what, name, "expected only letters, digits and . _ = + -");
  return Ok();
}

Status check_label(std::string_view label) { return check_plain("label", label); }

Status check_run(std::string_view run) { return check_plain("run", run); }

Status check_given_name(std::string_view name) { return check_plain("name", name); }

static Status check_printable(std::string_view what, std::string_view name) {
  if (!valid_utf8(name)) return refuse(what, name, "expected UTF-8");
  if (std::any_of(name.begin(), name.end(), is_control)) return refuse(what, name, "has a control character");
  return Ok();
}

using Bytes16 __attribute__((vector_size(16))) = signed char;

static Bytes16 load_16(const char* at) {
  Bytes16 value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

static bool any(Bytes16 lanes) {
  uint64_t words[2];
  std::memcpy(words, &lanes, sizeof words);
  return (words[0] | words[1]) != 0;
}

// Whether a name is printable ASCII without "..": then it breaks no rule. Nearly every name is; others need a closer
// look. Reads 16 bytes at a time; the last read overlaps the one before if the size is no multiple of 16.
static bool plain_name(std::string_view name) {
  auto odd = [](auto c) { return (c < 0x20) | (c == 0x7f); };  // signed: bytes beyond ASCII are negative
  if (name.size() > kMaxName) return false;
  if (name.size() <= 16) {
    int found = name.empty();
    signed char previous = 0;
    for (char letter : name) {
      const auto c = static_cast<signed char>(letter);
      found |= odd(c) | ((c == '.') & (previous == '.'));
      previous = c;
    }
    return found == 0;
  }
  Bytes16 found{};
  for (size_t at = 0, last = name.size() - 17;; at = std::min(at + 16, last)) {
    Bytes16 here = load_16(name.data() + at), next = load_16(name.data() + at + 1);
    found |= odd(here) | odd(next) | ((here == '.') & (next == '.'));
    if (at == last) return !any(found);
  }
}

Status check_tensor_name(std::string_view name) {
  if (plain_name(name)) return Ok();
  CKPT_TRY(check_size("name", name, kMaxName));
  CKPT_TRY(check_printable("name", name));
  for (std::string_view element : split(name, '/'))
    if (element == "..") return refuse("name", name, "has a path element \"..\"");
  return Ok();
}

Status check_attr_key(std::string_view key) {
  CKPT_TRY(check_size("attribute key", key, 255));
  return check_printable("attribute key", key);
}

Status check_text(std::string_view text) {
  if (!valid_utf8(text)) return refuse("text", text, "expected UTF-8");
  if (text.find('\0') != std::string_view::npos) return refuse("text", text, "has a NUL byte");
  return Ok();
}

// ---- builders and parsers ----

// Canonical decimal: "0", or digits without a leading zero, within the type.
template <typename Number>
static std::optional<Number> parse_number(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return {};
  Number value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return {};
    if (__builtin_mul_overflow(value, Number{10}, &value)) return {};
    if (__builtin_add_overflow(value, static_cast<Number>(c - '0'), &value)) return {};
  }
  return value;
}

// The text after `prefix`; nullopt if the prefix is not there.
static std::optional<std::string_view> after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return {};
  return text.substr(prefix.size());
}

static std::string numbered(std::string_view prefix, uint32_t number) {
  std::string digits = std::to_string(number);
  return std::string(prefix) + std::string(digits.size() < 3 ? 3 - digits.size() : 0, '0') + digits;
}

static std::optional<uint32_t> parse_numbered(std::string_view name, std::string_view prefix) {
  auto digits = after(name, prefix);
  if (!digits || digits->size() < 3) return {};
  size_t zeros = std::min(digits->find_first_not_of('0'), digits->size() - 1);
  auto number = parse_number<uint32_t>(digits->substr(zeros));
  if (!number || numbered(prefix, *number) != name) return {};
  return number;
}

template <typename Number>
static std::optional<Number> parse_suffix(std::string_view name, std::string_view prefix) {
  auto digits = after(name, prefix);
  return digits ? parse_number<Number>(*digits) : std::nullopt;
}

std::string part_name(uint32_t number) { return numbered("PART_", number); }
std::string base_name(const Id& save, uint32_t rank) { return numbered("BASE_" + to_hex(save) + "_", rank); }
std::string parity_name(uint32_t number) { return numbered("PARITY_", number); }
static std::string below(std::string_view directory, const std::string& name) {
  return std::string(directory) + "/" + name;
}

std::string slot_key(std::string_view directory) { return below(directory, std::string(kManifestName)); }

std::string file_key(std::string_view directory, const std::string& name) { return below(directory, name); }

std::string part_key(std::string_view directory, uint32_t number) { return below(directory, part_name(number)); }

std::string holding_key(std::string_view directory, uint32_t number) {
  return below(directory, numbered("HELD_", number));
}

std::string holders_key(std::string_view directory) { return below(directory, "HELD"); }

std::string group_key(std::string_view directory, uint32_t number) {
  return below(directory, numbered("GROUP_", number));
}

std::optional<uint32_t> parse_part_name(std::string_view name) { return parse_numbered(name, "PART_"); }
std::optional<BaseName> parse_base_name(std::string_view name) {
  const auto rest = after(name, "BASE_");
  constexpr size_t kId = 32;
  if (!rest || rest->size() <= kId) return {};
  const auto save = id_from_hex(rest->substr(0, kId));
  const auto rank = parse_numbered(rest->substr(kId), "_");
  if (!save.ok() || !rank) return {};
  return BaseName{*save, *rank};
}
std::optional<uint32_t> parse_parity_name(std::string_view name) { return parse_numbered(name, "PARITY_"); }

std::string checkpoint_dir(std::string_view label, uint64_t token, uint64_t attempt) {
  return std::string(label) + "." + std::to_string(token) + "." + std::to_string(attempt);
}

static std::optional<DirName> dir_name(std::string_view label, std::string_view token, std::string_view attempt) {
  auto token_number = parse_number<uint64_t>(token), attempt_number = parse_number<uint64_t>(attempt);
  if (!token_number || !attempt_number || !check_label(label).ok()) return {};
  return DirName{std::string(label), *token_number, *attempt_number};
}

std::optional<DirName> parse_checkpoint_dir(std::string_view name) {
  // From the right, since labels may have dots.
  size_t second = name.rfind('.');
  if (second == std::string_view::npos || second == 0) return {};
  size_t first = name.rfind('.', second - 1);
  if (first == std::string_view::npos) return {};
  return dir_name(name.substr(0, first), name.substr(first + 1, second - first - 1), name.substr(second + 1));
}

std::string owner_key(uint64_t token) { return below(kOwnersDir, std::to_string(token)); }
std::optional<uint64_t> parse_owner_name(std::string_view name) { return parse_number<uint64_t>(name); }

std::string run_dir(std::string_view run) { return below(kRunsDir, std::string(run)); }

std::string run_session_name(uint64_t token, const Id& session) {
  return std::to_string(token) + "." + to_hex(session);
}

std::optional<RunSession> parse_run_session_name(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {};
  auto token = parse_number<uint64_t>(name.substr(0, dot));
  auto session = id_from_hex(name.substr(dot + 1));
  if (!token || !session.ok()) return {};
  return RunSession{*token, *session};
}

std::string import_key(std::string_view run) { return below(run_dir(run), "import.lock"); }

std::string anew_name(uint64_t token) { return "anew." + std::to_string(token); }
std::optional<uint64_t> parse_anew_name(std::string_view name) { return parse_suffix<uint64_t>(name, "anew."); }

std::string went_back_name(const WentBack& went) {
  return strformat("back.{}.{}.{}.{}", went.before.first, went.before.second, went.to.first, went.to.second);
}
std::optional<WentBack> parse_went_back_name(std::string_view name) {
  const auto pieces = split(name, '.');
  if (pieces.size() != 5 || pieces[0] != "back") return {};
  uint64_t numbers[4];
  for (size_t i = 0; i < 4; i++) {
    const auto number = parse_number<uint64_t>(pieces[i + 1]);
    if (!number) return {};
    numbers[i] = *number;
  }
  return WentBack{{numbers[0], numbers[1]}, {numbers[2], numbers[3]}};
}

std::string attempt_key(uint64_t token, uint64_t attempt, std::string_view label) {
  return below(kAttemptsDir, std::to_string(token) + "." + std::to_string(attempt) + "." + std::string(label));
}

static constexpr std::string_view kCopy = "/copy ";
std::string copy_record(const Id& save) { return std::string(kCopy) + to_hex(save) + "\n"; }
bool is_copy_record(std::string_view text) { return text.starts_with(kCopy); }

std::optional<DirName> parse_attempt_name(std::string_view name) {
  size_t first = name.find('.');
  if (first == std::string_view::npos) return {};
  size_t second = name.find('.', first + 1);
  if (second == std::string_view::npos) return {};
  return dir_name(name.substr(second + 1), name.substr(0, first), name.substr(first + 1, second - first - 1));
}

std::string kept_key(std::string_view directory, uint64_t number) {
  return strformat("{}/{}.{}", kKeptDir, directory, number);
}

std::string given_names_dir(std::string_view run) { return below(kGivenNamesDir, std::string(run)); }

std::string given_name_key(std::string_view run, std::string_view name, uint64_t number) {
  return strformat("{}/{}/{}.{}", kGivenNamesDir, run, name, number);
}

std::optional<std::string> parse_given_name(std::string_view file) {
  const size_t dot = file.rfind('.');
  if (dot == std::string_view::npos || !parse_number<uint64_t>(file.substr(dot + 1))) return {};
  std::string name(file.substr(0, dot));
  return check_given_name(name).ok() ? std::optional(std::move(name)) : std::nullopt;
}

std::string session_dir(uint64_t token) { return below(kSessionsDir, std::to_string(token)); }
std::optional<uint64_t> parse_session_name(std::string_view name) { return parse_number<uint64_t>(name); }

std::string claim_key(uint64_t token, uint32_t rank) {
  return below(session_dir(token), "rank." + std::to_string(rank));
}
std::optional<uint32_t> parse_claim_name(std::string_view name) { return parse_suffix<uint32_t>(name, "rank."); }

std::string refusal_key(uint64_t token, uint32_t rank) {
  return below(session_dir(token), "refused." + std::to_string(rank));
}
std::optional<uint32_t> parse_refusal_name(std::string_view name) { return parse_suffix<uint32_t>(name, "refused."); }

std::string question_key(uint64_t token, uint32_t rank, uint64_t number) {
  return below(session_dir(token), strformat("ask.{}.{}", rank, number));
}
std::string answer_key(uint64_t token, uint32_t rank, uint64_t number) {
  return below(session_dir(token), strformat("here.{}.{}", rank, number));
}
std::optional<uint64_t> parse_answer_name(std::string_view name, uint32_t rank) {
  return parse_suffix<uint64_t>(name, strformat("here.{}.", rank));
}

std::string beats_dir(uint64_t token) { return below(kBeatsDir, std::to_string(token)); }
std::string beat_key(uint64_t token, uint32_t rank, std::string_view attempt) {
  return below(beats_dir(token), std::to_string(rank) + "." + std::string(attempt));
}
std::optional<uint32_t> parse_beat_name(std::string_view name, std::string_view attempt) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos || name.substr(dot + 1) != attempt) return {};
  return parse_number<uint32_t>(name.substr(0, dot));
}

std::string copy_beat_key(std::string_view directory, const Id& process) {
  return below(kCopyBeatsDir, std::string(directory) + "." + to_hex(process));
}
std::optional<std::string> parse_copy_beat_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || !id_from_hex(name.substr(dot + 1)).ok()) return {};
  return std::string(name.substr(0, dot));
}

static std::string word_key(const char* word, uint64_t token, uint64_t attempt, std::string_view label) {
  return below(session_dir(token), strformat("{}.{}.{}", word, attempt, std::string(label)));
}

std::string pruned_key(uint64_t token, uint64_t attempt, std::string_view label) {
  return word_key("pruned", token, attempt, label);
}

std::string names_key(uint64_t token, const Id& digest) { return session_dir(token) + "/names." + to_hex(digest); }

std::string mirror_key(const Id& mirror) { return below(kControlDir, "mirror." + to_hex(mirror)); }

std::string closed_key(uint64_t token, uint64_t attempt, std::string_view label) {
  return word_key("closed", token, attempt, label);
}

std::string rendezvous_dir(std::string_view run) { return below(kRendezvousDir, std::string(run)); }

std::string hello_name(uint32_t rank, const Id& nonce) { return "hello." + std::to_string(rank) + "." + to_hex(nonce); }

std::optional<HelloName> parse_hello_name(std::string_view name) {
  auto rest = after(name, "hello.");
  if (!rest) return {};
  size_t dot = rest->find('.');
  if (dot == std::string_view::npos) return {};
  auto rank = parse_number<uint32_t>(rest->substr(0, dot));
  auto nonce = id_from_hex(rest->substr(dot + 1));
  if (!rank || !nonce.ok()) return {};
  return HelloName{*rank, *nonce};
}

std::string welcomes_dir(std::string_view run) { return below(kWelcomesDir, std::string(run)); }

std::string welcome_name(const WelcomeName& name) {
  return std::to_string(name.token) + "." + std::to_string(name.batch);
}

std::optional<WelcomeName> parse_welcome_name(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {};
  auto token = parse_number<uint64_t>(name.substr(0, dot)), batch = parse_number<uint64_t>(name.substr(dot + 1));
  if (!token || !batch) return {};
  return WelcomeName{*token, *batch};
}

}  // namespace ckpt::format

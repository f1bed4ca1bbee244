#include "cli/verify_report.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/error.h"
#include "cli/files.h"
#include "cli/format.h"
#include "cli/look.h"

namespace cli {
namespace {

constexpr const char* kKind = "ckpt verify --all";

int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

int64_t number_of(const std::string& json, std::string_view key) {
  const std::string text = value_of(json, key);
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Json time_or_null(int64_t ms) { return ms == 0 ? Json(nullptr) : Json(ms); }

// Nothing if there is no such file.
std::optional<std::string> content_of(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return std::nullopt;
  if (!std::filesystem::is_regular_file(path, code)) invalid("--report needs a file, found " + path);
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in && !in.eof()) fail(CKPT_IO, "cannot read " + path + ": " + std::strerror(errno));
  return text;
}

}  // namespace

VerifyReport::VerifyReport(std::string file, std::string store, std::string mode)
    : file_(std::move(file)), store_(std::move(store)), mode_(std::move(mode)), started_ms_(now_ms()) {
  if (file_.empty()) return;
  if (const auto text = cli::look(file_, [path = file_] { return content_of(path); })) load(*text);
  write();  // better to fail now than after hours
}

void VerifyReport::load(const std::string& text) {
  const std::string other = "; name another file by --report, or remove this one";
  if (value_of(text, "report") != kKind) invalid(file_ + " is no report of " + kKind + other);
  const std::string store = value_of(text, "store"), mode = value_of(text, "mode");
  if (store != store_) invalid(strformat("{} is the report of the store {}, not of {}{}", file_, store, store_, other));
  if (mode != mode_) invalid(strformat("{} is the report of a {} check, not of a {} one{}", file_, mode, mode_, other));
  for (const std::string& json : items_of(value_of(text, "checkpoints")))
    checked_[value_of(json, "id")] = {value_of(json, "save_id"), value_of(json, "result"),
                                      number_of(json, "checked_unix_ms"), number_of(json, "last_sound_unix_ms"),
                                      Json::parsed(json)};
  if (number_of(text, "finished_unix_ms") == 0) started_ms_ = number_of(text, "started_unix_ms");
}

std::string VerifyReport::result_of(const ckpt::CheckpointInfo& info) const {
  const auto at = checked_.find(info.id);
  const bool done = at != checked_.end() && at->second.save_id == info.save_id && at->second.checked_ms >= started_ms_;
  return done ? at->second.result : "";
}

void VerifyReport::add(const ckpt::CheckpointInfo& info, const std::string& result, Json outcome) {
  Checked& one = checked_[info.id];
  if (one.save_id != info.save_id) one = {};
  one.save_id = info.save_id;
  one.result = result;
  one.checked_ms = now_ms();
  if (result == "sound") one.last_sound_ms = one.checked_ms;
  outcome.add("save_id", one.save_id);
  outcome.add("result", one.result);
  outcome.add("checked_unix_ms", one.checked_ms);
  outcome.add("last_sound_unix_ms", time_or_null(one.last_sound_ms));
  one.json = std::move(outcome);
  write();
}

void VerifyReport::finish(const std::set<std::string>& ids_in_store) {
  std::erase_if(checked_, [&](const auto& one) { return !ids_in_store.contains(one.first); });
  finished_ms_ = now_ms();
  write();
}

Json VerifyReport::to_json() const {
  return {{"report", kKind},
          {"store", store_},
          {"mode", mode_},
          {"started_unix_ms", started_ms_},
          {"finished_unix_ms", time_or_null(finished_ms_)},
          {"checkpoints", Json::array(checked_, [](const auto& one) { return one.second.json; })}};
}

// Whole or not at all, so that who is killed meanwhile can go on.
void VerifyReport::write() const {
  if (file_.empty()) return;
  const std::string text = to_json().pretty() + "\n";
  replace_file(file_, {text});
}

}  // namespace cli

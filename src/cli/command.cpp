#include "cli/command.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>

#include <fmt/format.h>

namespace cli {
namespace {

// The kind of option `key`; 0 where the library has none of that name.
Error option_kind(const std::string& key, int32_t* kind) {
  for (int32_t i = 0; i < ckpt_option_count(); ++i) {
    auto info = sized<ckpt_option_info>();
    CLI_TRY(call(ckpt_option_at, i, &info));
    if (key == info.key) *kind = info.kind;
  }
  return {};
}

Error set_option(ckpt_options* options, const std::string& setting) {
  size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    return invalid("option -o wants key=value, found '" + setting + "'; see ckpt help options");
  }
  std::string key = setting.substr(0, equals), value = setting.substr(equals + 1);
  int32_t kind = 0;
  CLI_TRY(option_kind(key, &kind));
  if (kind == 0) return invalid("no option is called '" + key + "'; see ckpt help options");
  if (kind == CKPT_OPTION_STR) return call(ckpt_options_set_str, options, key.c_str(), value.c_str());
  int64_t number = 0;
  auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size()) {
    return invalid("option " + key + " wants a whole number, found '" + value + "'");
  }
  return call(ckpt_options_set_int, options, key.c_str(), number);
}

bool names_run(const Common& common) {
  return std::any_of(common.settings.begin(), common.settings.end(),
                     [](const std::string& setting) { return setting.starts_with("run="); });
}

// The run of all committed checkpoints of a store; "" where there are several or none.
Error only_run(const ckpt_store* store, std::string* run) {
  List list;
  CLI_TRY(call(ckpt_store_list, store, list.out()));
  std::set<std::string> runs;
  for (size_t i = 0; i < ckpt_list_count(list); ++i) {
    auto info = sized<ckpt_checkpoint_info>();
    CLI_TRY(call(ckpt_list_at, list, i, &info));
    if (info.state == CKPT_CHECKPOINT_COMMITTED) runs.insert(info.run);
  }
  *run = runs.size() == 1 ? *runs.begin() : "";
  return {};
}

Error open_in_only_run(const std::string& selector, const Common& common, Opened* out) {
  std::string run;
  CLI_TRY(only_run(out->store, &run));
  if (run.empty()) return {CKPT_NOT_FOUND, "no run to choose"};
  Options options;
  CLI_TRY(make_options(common, &options));
  CLI_TRY(call(ckpt_options_set_str, options, "run", run.c_str()));
  return call(ckpt_reader_open, out->reader.out(), out->store, selector.c_str(), options);
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace

CLI::App* add_command(CLI::App& app, const Words& words, Common* common, bool with_json) {
  CLI::App* command = app.add_subcommand(words.name, std::string(words.summary) + "\n\n" + words.teaching + "\n");
  command->footer(std::string("Examples:\n") + words.examples + "\nExit codes: " + words.exits);
  command->add_option("-o", common->settings, "set any option of the library: KEY=VALUE (see ckpt help options)")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  if (with_json) command->add_flag("--json", common->json, "print JSON: exact bytes, stable names");
  return command;
}

Error make_options(const Common& common, Options* out) {
  CLI_TRY(call(ckpt_options_new, out->out()));
  for (const std::string& setting : common.settings) CLI_TRY(set_option(*out, setting));
  return {};
}

Error open_checkpoint(const std::string& argument, const Common& common, const ckpt_options* options, Opened* out) {
  Target target;
  CLI_TRY(locate(argument, &target));
  CLI_TRY(call(ckpt_store_open, out->store.out(), target.store.c_str(), options));
  Error error = call(ckpt_reader_open, out->reader.out(), out->store, target.selector.c_str(), options);
  bool elsewhere = error.status() == CKPT_NOT_FOUND && target.kind != Target::Kind::kDirectory && !names_run(common);
  if (error && !(elsewhere && !open_in_only_run(target.selector, common, out))) return error;
  out->info = sized<ckpt_checkpoint_info>();
  return call(ckpt_reader_info, out->reader, &out->info);
}

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_json(const Json& json) { print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"); }

const char* state_name(int32_t state) {
  switch (state) {
    case CKPT_CHECKPOINT_COMMITTED:
      return "committed";
    case CKPT_CHECKPOINT_OPEN:
      return "open";
    case CKPT_CHECKPOINT_ABORTED:
      return "aborted";
    case CKPT_CHECKPOINT_DAMAGED:
      return "damaged";
    default:
      return "unknown";
  }
}

const char* finding_name(int32_t kind) {
  switch (kind) {
    case CKPT_FINDING_DAMAGED:
      return "damaged";
    case CKPT_FINDING_MISSING:
      return "missing";
    case CKPT_FINDING_EXTRA:
      return "extra";
    case CKPT_FINDING_DIFFERENT:
      return "different";
    case CKPT_FINDING_REMOVED:
      return "removed";
    case CKPT_FINDING_KEPT:
      return "kept";
    case CKPT_FINDING_REPAIRED:
      return "repaired";
    default:
      return "unknown";
  }
}

Json text_or_null(const char* text) { return text == nullptr ? Json(nullptr) : Json(text); }

Json to_json(const ckpt_checkpoint_info& info) {
  return {{"id", info.id},
          {"label", info.label},
          {"run", info.run},
          {"step", info.step < 0 ? Json(nullptr) : Json(info.step)},
          {"state", state_name(info.state)},
          {"foreign", (info.flags & CKPT_CHECKPOINT_FOREIGN) != 0},
          {"rebuilt", (info.flags & CKPT_CHECKPOINT_REBUILT) != 0},
          {"ranks", info.world_size},
          {"parts", info.part_count},
          {"tensors", info.tensor_count},
          {"objects", info.object_count},
          {"bytes", info.bytes},
          {"token", info.token},
          {"attempt", info.attempt},
          {"sequence", info.sequence},
          {"created_unix_ms", info.created_unix_ms},
          {"revision", info.revision},
          {"writer", info.writer},
          {"save_id", info.save_id},
          {"store_id", info.store_id},
          {"session_id", info.session_id}};
}

Json to_json(const ckpt_finding& finding) {
  Json json = {
      {"kind", finding_name(finding.kind)}, {"text", text_or_null(finding.text)}, {"name", text_or_null(finding.name)}};
  if (finding.status != CKPT_OK) json["status"] = ckpt_status_name(finding.status);
  if (finding.part != nullptr) {
    json["part"] = finding.part;
    json["offset"] = finding.offset;
    json["size"] = finding.size;
  }
  if (finding.first_element >= 0) {
    json["first_element"] = finding.first_element;
    json["last_element"] = finding.last_element;
  }
  if (finding.count > 0) {
    json["differing_elements"] = finding.count;
    json["max_abs"] = number_or_null(finding.max_abs);
    json["max_rel"] = number_or_null(finding.max_rel);
  }
  return json;
}

Error findings_of(const ckpt_report* report, std::vector<ckpt_finding>* out) {
  for (size_t i = 0; i < ckpt_report_count(report); ++i) {
    auto finding = sized<ckpt_finding>();
    CLI_TRY(call(ckpt_report_at, report, i, &finding));
    out->push_back(finding);
  }
  return {};
}

}  // namespace cli

#include "cli/command.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>

#include "base/address.h"
#include "cli/text.h"

namespace cli {
namespace {

void set_option(ckpt::Options* options, const std::string& setting) {
  size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0)
    invalid("option -o needs key=value, found '" + setting + "'; see ckpt help options");
  std::string key = setting.substr(0, equals), value = setting.substr(equals + 1);
  const std::optional<ckpt::OptionInfo> known = ckpt::option_find(key);
  if (!known) {
    std::vector<std::string> keys;
    for (const ckpt::OptionInfo& info : ckpt::option_list()) keys.push_back(info.key);
    invalid("no option is called '" + key + "' (see ckpt help options)" + did_you_mean(key, keys));
  }
  if (known->kind == CKPT_OPTION_STR) {
    options->set(key, value);
    return;
  }
  int64_t number = 0;
  auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size())
    invalid("option " + key + " needs a whole number, found '" + value + "'");
  options->set(key, number);
}

// The reader of the only run that has committed checkpoints in the store.
ckpt::Reader open_in_only_run(const ckpt::Store& store, const std::string& selector, ckpt::Options options) {
  std::set<std::string> runs;
  for (const ckpt_checkpoint_info& info : store.list())
    if (info.state == CKPT_CHECKPOINT_COMMITTED) runs.insert(info.run);
  if (runs.size() != 1) fail(CKPT_NOT_FOUND, "no run to choose");
  return ckpt::Reader::open(store, selector, options.set("run", *runs.begin()));
}

ckpt::Reader open_reader(const ckpt::Store& store, const Target& target, const Common& common,
                         const ckpt::Options& options) {
  try {
    return ckpt::Reader::open(store, target.selector, options);
  } catch (const ckpt::Error& error) {
    bool elsewhere =
        error.status() == CKPT_NOT_FOUND && target.kind != Target::Kind::kDirectory && !common.setting("run");
    if (!elsewhere) throw;
    try {
      return open_in_only_run(store, target.selector, make_options(common));
    } catch (const ckpt::Error&) {
    }
    throw;
  }
}

// A script reads stdout; a person learns here that this is not what the trainer saved last.
void warn_of_passed_over(const ckpt::Reader& reader) {
  for (const ckpt::Finding& finding : reader.report())
    std::fprintf(stderr, "warning: %s\n", escaped(text_of(finding.text)).c_str());
}

}  // namespace

std::optional<std::string> Common::setting(std::string_view key) const {
  std::optional<std::string> value;
  for (const std::string& setting : settings)
    if (setting.starts_with(key) && setting[key.size()] == '=') value = setting.substr(key.size() + 1);
  if (key == "run" && !run.empty()) value = run;
  return value;
}

bool is_under(std::string_view at, std::string_view name) {
  if (at.ends_with('/')) at.remove_suffix(1);
  return at.empty() || name == at || (name.starts_with(at) && name[at.size()] == '/');
}

bool is_to_write(const Common& common, bool write) {
  const std::optional<std::string> dry_run = common.setting("dry_run");
  if (write && dry_run == "1") invalid("--write and -o dry_run=1 contradict each other");
  return write || dry_run == "0";
}

ckpt::Options make_options(const Common& common) {
  ckpt::Options options;
  for (const std::string& setting : common.settings) set_option(&options, setting);
  if (!common.run.empty()) options.set("run", common.run);
  options.check();
  return options;
}

ckpt::Options make_options(const Common& common, std::string_view one, std::string_view other) {
  const std::string trouble(ckpt::endpoint_trouble(one, other));
  if (common.setting("endpoint") && !trouble.empty()) invalid(trouble);
  return make_options(common);
}

Opened open_checkpoint(const std::string& argument, const Common& common, const ckpt::Options& options) {
  Target target = locate(argument, options, common.setting("mirror").has_value());
  ckpt::Store store = ckpt::Store::open(target.store, options);
  ckpt::Reader reader = open_reader(store, target, common, options);
  warn_of_passed_over(reader);
  auto info = reader.info();
  return {std::move(store), std::move(reader), info};
}

std::vector<std::string> damages_of_parts(const ckpt::Reader& reader, ckpt::Options options) {
  const ckpt::Job job = reader.verify(options.set("verify_mode", "quick"));
  job.wait_done(-1);
  std::vector<std::string> lines;
  for (const ckpt::Finding& finding : job.report())
    lines.push_back(escaped((finding.part == nullptr ? "" : std::string(finding.part) + ": ") + text_of(finding.text)));
  return lines;
}

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_json(const Json& json) { print(json.pretty() + "\n"); }

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
    case CKPT_CHECKPOINT_REVISION:
      return "newer revision";
    case CKPT_CHECKPOINT_UNREADABLE:
      return "unreadable";
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
    case CKPT_FINDING_ANEW:
      return "anew";
    case CKPT_FINDING_NO_CACHE:
      return "no cache";
    case CKPT_FINDING_REUSED:
      return "reused";
    case CKPT_FINDING_PASSED_OVER:
      return "passed over";
    default:
      return "unknown";
  }
}

std::vector<std::string> flag_names(uint32_t flags) {
  constexpr std::pair<uint32_t, const char*> kNames[] = {{CKPT_CHECKPOINT_FOREIGN, "foreign"},
                                                         {CKPT_CHECKPOINT_REBUILT, "rebuilt"},
                                                         {CKPT_CHECKPOINT_COPY, "copy"},
                                                         {CKPT_CHECKPOINT_MIRRORED, "mirrored"},
                                                         {CKPT_CHECKPOINT_MIRRORING, "mirroring"},
                                                         {CKPT_CHECKPOINT_MIRROR_ONLY, "only in the mirror"},
                                                         {CKPT_CHECKPOINT_KEPT, "kept"}};
  std::vector<std::string> names;
  for (const auto& [flag, name] : kNames)
    if ((flags & flag) != 0) names.push_back(name);
  return names;
}

static const char* mirror_name(uint32_t flags) {
  if ((flags & CKPT_CHECKPOINT_MIRRORED) != 0) return "mirrored";
  if ((flags & CKPT_CHECKPOINT_MIRROR_ONLY) != 0) return "only";
  return (flags & CKPT_CHECKPOINT_MIRRORING) != 0 ? "mirroring" : "";
}

Json to_json(const ckpt_checkpoint_info& info) {
  return {{"id", info.id},
          {"label", info.label},
          {"run", info.run},
          {"step", info.step < 0 ? Json(nullptr) : Json(info.step)},
          {"state", state_name(info.state)},
          {"foreign", (info.flags & CKPT_CHECKPOINT_FOREIGN) != 0},
          {"rebuilt", (info.flags & CKPT_CHECKPOINT_REBUILT) != 0},
          {"copy", (info.flags & CKPT_CHECKPOINT_COPY) != 0},
          {"kept", (info.flags & CKPT_CHECKPOINT_KEPT) != 0},
          {"mirror", mirror_name(info.flags)},
          {"ranks", info.world_size},
          {"parts", info.part_count},
          {"tensors", info.tensor_count},
          {"objects", info.object_count},
          {"bytes", info.bytes},
          {"base_bytes", info.base_bytes},
          {"used_bytes", info.used_bytes},
          {"shared_bytes", info.shared_bytes},
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

Json to_json(const ckpt::Finding& finding) {
  Json json = {{"kind", finding_name(finding.kind)}, {"text", finding.text}, {"name", finding.name}};
  if (finding.status != CKPT_OK) json.add("status", ckpt_status_name(finding.status));
  if (finding.part != nullptr) {
    json.add("part", finding.part);
    json.add("offset", finding.offset);
  }
  if (finding.part != nullptr || finding.size != 0) json.add("bytes", finding.size);
  if (finding.first_element >= 0) {
    json.add("first_element", finding.first_element);
    json.add("last_element", finding.last_element);
  }
  if (finding.count > 0) {
    json.add("differing_elements", finding.count);
    json.add("max_abs", finding.max_abs);
    json.add("max_rel", finding.max_rel);
  }
  return json;
}

Json findings_json(const ckpt::Report& report) {
  return Json::array(report, [](const ckpt::Finding& finding) { return to_json(finding); });
}

std::vector<std::string> tree_names(const ckpt::Reader& reader) {
  std::vector<std::string> names;
  for (const ckpt::ObjectInfo& object : reader.objects())
    if (object.scope != CKPT_OBJECT_PER_RANK && std::string_view(object.media_type) == CKPT_TREE_MEDIA_TYPE &&
        (names.empty() || names.back() != object.name))  // the same of several ranks are one after the other
      names.emplace_back(object.name);
  return names;
}

}  // namespace cli

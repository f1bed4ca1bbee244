#include "interop/src/map/mapping.h"

#include <algorithm>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tree/json_text.h"

namespace ckpt::interop {

namespace {

using Json = nlohmann::json;

Status wrong_mapping(const std::string& what) { return Status(CKPT_INVALID, what); }

Status check_keys(const Json& object, std::initializer_list<std::string_view> known, const char* of) {
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return wrong_mapping(std::string(of) + " has no key " + shown(key)).with("found", key);
  return Ok();
}

// What is said for each tensor is short, so that no mapping of a few KiB takes hours.
constexpr size_t kMaxSaid = 4096, kMaxList = 1024, kMaxOps = 16, kMaxRules = 16384;

// A text or a number, as an expression.
Result<std::string> expression_of(const Json& value, const char* what) {
  if (value.is_string() && value.get_ref<const std::string&>().size() > kMaxSaid)
    return wrong_mapping(strformat("{}: a text of more than {} bytes", what, kMaxSaid));
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_unsigned()) return std::to_string(value.get<uint64_t>());
  return wrong_mapping(std::string(what) + ": expected a number or a text");
}

// One, or a list of them.
Result<std::vector<std::string>> texts_of(const Json& value, const char* what) {
  std::vector<std::string> texts;
  const Json list = value.is_array() ? value : Json::array({value});
  if (list.size() > kMaxList) return wrong_mapping(strformat("{}: a list of more than {}", what, kMaxList));
  for (const Json& item : list) {
    CKPT_ASSIGN(std::string text, expression_of(item, what));
    texts.push_back(std::move(text));
  }
  if (texts.empty()) return wrong_mapping(std::string(what) + ": an empty list");
  return texts;
}

Result<std::vector<Pattern>> patterns_of(const Json& value, const char* what) {
  CKPT_ASSIGN(const std::vector<std::string> texts, texts_of(value, what));
  std::vector<Pattern> patterns;
  for (const std::string& text : texts) {
    CKPT_ASSIGN(Pattern pattern, Pattern::parse(text));
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

Result<int> axis_of(const Json& object, const char* what) {
  const auto found = object.find("dim");
  if (found == object.end()) return 0;
  if (!found->is_number_unsigned() || found->get<uint64_t>() >= static_cast<uint64_t>(kMaxNdim))
    return wrong_mapping(std::string(what) + ": dim: expected a number below 16");
  return static_cast<int>(found->get<uint64_t>());
}

Result<Cut> cut_of(const Json& value, const char* what, bool needs_sizes) {
  if (!value.is_object()) return wrong_mapping(std::string(what) + ": expected {\"dim\": 0, \"sizes\": […]}");
  CKPT_TRY(check_keys(value, {"dim", "sizes"}, what));
  Cut cut;
  CKPT_ASSIGN(cut.axis, axis_of(value, what));
  if (value.contains("sizes")) {
    CKPT_ASSIGN(cut.sizes, texts_of(value["sizes"], "sizes"));
  } else if (needs_sizes) {
    return wrong_mapping(std::string(what) + " without sizes");
  }
  return cut;
}

Result<Operation> operation_of(const Json& value) {
  if (value.is_string()) {
    CKPT_ASSIGN(const std::string text, expression_of(value, "ops"));
    CKPT_ASSIGN(Rearrange rearrange, Rearrange::parse(text));
    return Operation(std::move(rearrange));
  }
  if (!value.is_object() || !value.contains("narrow") || value.size() != 1 || !value["narrow"].is_object())
    return wrong_mapping("ops: expected \"LEFT -> RIGHT\" or {\"narrow\": {\"dim\": 0, \"begin\": 0, \"size\": 1}}");
  const Json& narrow = value["narrow"];
  CKPT_TRY(check_keys(narrow, {"dim", "begin", "size"}, "narrow"));
  if (!narrow.contains("begin") || !narrow.contains("size")) return wrong_mapping("narrow without begin or size");
  Narrow out;
  CKPT_ASSIGN(out.axis, axis_of(narrow, "narrow"));
  CKPT_ASSIGN(out.begin, expression_of(narrow["begin"], "begin"));
  CKPT_ASSIGN(out.size, expression_of(narrow["size"], "size"));
  return Operation(std::move(out));
}

// No name is lost, and none is made up.
Status check_placeholders(const Rule& rule) {
  const std::vector<std::string>& first = rule.from[0].placeholders();
  for (const auto* side : {&rule.from, &rule.to, &rule.aliases})
    for (const Pattern& pattern : *side)
      if (pattern.placeholders() != first)
        return wrong_mapping(shown(rule.from[0].text()) + " and " + shown(pattern.text()) +
                             " have not the same placeholders");
  return Ok();
}

Status check_several(const Rule& rule, bool split, bool concat) {
  const size_t several = std::max(rule.from.size(), rule.to.size());
  if (rule.from.size() > 1 && rule.to.size() > 1) return wrong_mapping("several in match and several in to");
  if (split != (rule.to.size() > 1)) return wrong_mapping("several in to, and split, come together");
  if (concat != (rule.from.size() > 1)) return wrong_mapping("several in match, and concat, come together");
  if (rule.cut && !rule.cut->sizes.empty() && rule.cut->sizes.size() != several)
    return wrong_mapping(strformat("{} sizes for {} tensors", rule.cut->sizes.size(), several));
  if (several > 1 && !rule.aliases.empty()) return wrong_mapping("alias, where there are several");
  return Ok();
}

bool flag_of(const Json& rule, const char* key) {
  const auto found = rule.find(key);
  return found != rule.end() && found->is_boolean() && found->get<bool>();
}

Result<Rule> parse_rule(const Json& json) {
  if (!json.is_object() || !json.contains("match")) return wrong_mapping("expected an object with match");
  CKPT_TRY(check_keys(json, {"match", "to", "drop", "keep", "alias", "split", "concat", "ops", "cast", "optional"},
                      "a rule"));
  Rule rule;
  CKPT_ASSIGN(rule.from, patterns_of(json["match"], "match"));
  const bool drop = flag_of(json, "drop"), keep = flag_of(json, "keep");
  rule.optional = flag_of(json, "optional");
  if (int{drop} + int{keep} + int{json.contains("to")} != 1) return wrong_mapping("expected one of to, drop and keep");
  if (keep) rule.to = rule.from;
  if (drop && json.size() != 2 + size_t{json.contains("optional")})
    return wrong_mapping("drop takes nothing else but optional");
  if (drop) return rule;
  if (!keep) {
    CKPT_ASSIGN(rule.to, patterns_of(json["to"], "to"));
  }
  if (json.contains("alias")) {
    CKPT_ASSIGN(rule.aliases, patterns_of(json["alias"], "alias"));
  }
  const bool split = json.contains("split"), concat = json.contains("concat");
  if (split || concat) {
    CKPT_ASSIGN(rule.cut, cut_of(json[split ? "split" : "concat"], split ? "split" : "concat", split));
  }
  CKPT_TRY(check_several(rule, split, concat));
  if (json.contains("ops")) {
    const Json ops = json["ops"].is_array() ? json["ops"] : Json::array({json["ops"]});
    if (ops.size() > kMaxOps) return wrong_mapping(strformat("ops: a list of more than {}", kMaxOps));
    for (const Json& value : ops) {
      CKPT_ASSIGN(Operation operation, operation_of(value));
      rule.ops.push_back(std::move(operation));
    }
  }
  if (json.contains("cast")) {
    CKPT_ASSIGN(const std::string name, expression_of(json["cast"], "cast"));
    const int32_t dtype = dtype_find(name);
    if (dtype < 0) return wrong_mapping("cast: no dtype " + shown(name));
    rule.cast = static_cast<uint16_t>(dtype);
  }
  CKPT_TRY(check_placeholders(rule));
  return rule;
}

Status in_rule(const Status& status, const Rule& rule) {
  return Status(status.code(), rule.shown + ": " + status.message());
}

// Null where it runs backwards; else why it does not.
const char* one_way(const Rule& rule) {
  if (rule.cast) return "a cast does not tell the dtype that there was";
  if (rule.cut && rule.cut->sizes.empty()) return "concat without sizes does not tell where the pieces end";
  const bool narrows = std::any_of(rule.ops.begin(), rule.ops.end(),
                                   [](const Operation& op) { return std::holds_alternative<Narrow>(op); });
  return narrows ? "narrow leaves elements out" : nullptr;
}

}  // namespace

Result<Mapping> Mapping::parse(std::string_view text, const std::string& name) {
  if (Status status = tree::check_json(text, true); !status.ok())  // comments are taken
    return wrong_mapping(name + ": " + status.message()).with("path", name);
  const Json json = Json::parse(text, nullptr, false, true);
  if (!json.is_object()) return wrong_mapping(name + ": not a JSON object").with("path", name);
  Mapping out;
  out.name = name;
  auto read = [&]() -> Status {
    CKPT_TRY(check_keys(json, {"about", "vars", "unmatched", "rules"}, "a mapping"));
    if (json.contains("vars")) {
      if (!json["vars"].is_object()) return wrong_mapping("vars: expected an object");
      for (const auto& [key, value] : json["vars"].items()) {
        CKPT_ASSIGN(out.variables[key], texts_of(value, "vars"));
      }
    }
    const Json unmatched = json.value("unmatched", Json("error"));
    if (unmatched != "error" && unmatched != "keep" && unmatched != "drop")
      return wrong_mapping("unmatched: expected error, keep or drop");
    out.unmatched = unmatched == "error"  ? Unmatched::kError
                    : unmatched == "keep" ? Unmatched::kKeep
                                          : Unmatched::kDrop;
    if (!json.contains("rules") || !json["rules"].is_array()) return wrong_mapping("expected a list rules");
    if (json["rules"].size() > kMaxRules) return wrong_mapping(strformat("more than {} rules", kMaxRules));
    for (const Json& value : json["rules"]) {
      const std::string number = strformat("rule {}", out.rules.size() + 1);
      Result<Rule> rule = parse_rule(value);
      if (!rule.ok()) return Status(rule.status().code(), number + ": " + rule.status().message());
      out.rules.push_back(rule.take());
      out.rules.back().shown = number + " (" + out.rules.back().from[0].text() + ")";
    }
    return Ok();
  };
  Status status = read();
  if (!status.ok()) return std::move(status).in(name).with("path", name);
  return out;
}

bool Mapping::drops(std::string_view tensor) const {
  for (const Rule& rule : rules)
    for (const Pattern& pattern : rule.from)
      if (pattern.match(tensor)) return rule.to.empty();
  return unmatched == Unmatched::kDrop;
}

Result<Mapping> Mapping::backwards() const {
  Mapping out;
  out.name = name + " backwards";
  out.variables = variables;
  out.unmatched = unmatched;
  std::vector<Rule> dropped;
  for (const Rule& rule : rules) {
    if (rule.to.empty()) continue;  // nobody misses it
    if (const char* reason = one_way(rule))
      return in_rule(Status(CKPT_UNSUPPORTED, std::string("it does not run backwards: ") + reason), rule).in(name);
    Rule back = rule;
    std::swap(back.from, back.to);
    back.aliases.clear();
    std::reverse(back.ops.begin(), back.ops.end());
    for (Operation& operation : back.ops) operation = std::get<Rearrange>(operation).backwards();
    back.shown = rule.shown + " backwards";
    for (const Pattern& alias : rule.aliases) {
      Rule& drop = dropped.emplace_back();
      drop.from = {alias};
      drop.optional = true;
      drop.shown = back.shown;
    }
    out.rules.push_back(std::move(back));
  }
  out.rules.insert(out.rules.begin(), dropped.begin(), dropped.end());
  return out;
}

// ---- variables ----

static constexpr int kMaxDepth = 32;

static void flatten(const Json& object, const std::string& prefix, int depth, Variables::Values* values) {
  if (depth == 8) return;
  for (const auto& [key, value] : object.items()) {
    if (value.is_number_unsigned()) (*values)[prefix + key] = value.get<uint64_t>();
    if (value.is_object()) flatten(value, prefix + key + '.', depth + 1, values);
  }
}

Status Variables::use_config(std::string_view text, const std::string& name) {
  CKPT_TRY(tree::check_json(text).in(name).with("path", name));
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Status(CKPT_FORMAT, name + ": not a JSON object").with("path", name);
  flatten(json, {}, 0, &config_);
  forget();
  config_name_ = name;
  return Ok();
}

void Variables::define(std::string name, std::vector<std::string> expressions) {
  expressions_[std::move(name)] = std::move(expressions);
  forget();
}

Result<uint64_t> Variables::size_of(const std::string& name) const {
  if (!known_.contains(name) && !expressions_.contains(name)) return uint64_t{0};
  return variable(name, 0);
}

// Each expression and each variable is told once, however many tensors and variables name it.
Result<uint64_t> Variables::evaluate(const std::string& expression) const {
  const auto [told, is_new] = told_expressions_.try_emplace(expression, uint64_t{0});
  if (is_new) told->second = evaluate(expression, 0);
  return told->second;
}

Result<uint64_t> Variables::variable(const std::string& name, int depth) const {
  if (const auto found = known_.find(name); found != known_.end()) return found->second;
  const auto found = expressions_.find(name);
  if (found == expressions_.end()) return Status(CKPT_NOT_FOUND, "no variable " + shown(name));
  if (depth == kMaxDepth)
    return Status(CKPT_INVALID, strformat("variable {} is named by more than {} others in a row", shown(name), depth));
  const auto [told, is_new] =
      told_.try_emplace(name, Status(CKPT_INVALID, "variable " + shown(name) + " needs itself"));
  if (is_new) told->second = first_known(found->first, found->second, depth);
  return told->second;
}

Result<uint64_t> Variables::first_known(const std::string& name, const std::vector<std::string>& expressions,
                                        int depth) const {
  Status first = Ok();
  for (const std::string& expression : expressions) {
    const Result<uint64_t> value = evaluate(expression, depth + 1);
    if (value.ok() && *value != 0) return *value;
    if (first.ok()) first = value.ok() ? Status(CKPT_MISMATCH, shown(expression) + " is 0") : value.status();
  }
  return Status(first.code(), "variable " + shown(name) + ": " + first.message());
}

Result<uint64_t> Variables::term(std::string_view term, int depth) const {
  if (!term.empty() && term.size() <= 18 && term.find_first_not_of("0123456789") == term.npos)
    return std::stoull(std::string(term));
  if (!term.starts_with("config.")) return variable(std::string(term), depth);
  const std::string key(term.substr(7));
  if (const auto found = config_.find(key); found != config_.end()) return found->second;
  return Status(CKPT_NOT_FOUND, config_name_.empty() ? "no config.json is beside the tensors; name one by option config"
                                                     : config_name_ + " has no number " + shown(key))
      .with("found", key);
}

Result<uint64_t> Variables::evaluate(std::string_view expression, int depth) const {
  uint64_t value = 1;
  char operation = '*';
  for (;;) {
    const size_t end = std::min(expression.find_first_of("*/"), expression.size());
    std::string_view text = expression.substr(0, end);
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    CKPT_ASSIGN(const uint64_t next, term(text, depth));
    if (operation == '*' && mul_overflows(value, next, &value))
      return Status(CKPT_MISMATCH, shown(expression) + " overflows");
    if (operation == '/' && (next == 0 || value % next != 0))
      return Status(CKPT_MISMATCH, strformat("{} is not divisible by {}", value, next));
    if (operation == '/') value /= next;
    if (end == expression.size()) return value;
    operation = expression[end];
    expression.remove_prefix(end + 1);
  }
}

Variables::Values Variables::values() const {
  Values values = known_;
  for (const auto& [name, expressions] : expressions_)
    if (const Result<uint64_t> value = variable(name, 0); value.ok()) values[name] = *value;
  return values;
}

}  // namespace ckpt::interop

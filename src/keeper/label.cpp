#include "keeper/label.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/strformat.h"
#include "base/text.h"

namespace ckpt::keeper {

// Variables that a step tells. The words are Composer's.
static constexpr std::string_view kOfStep[] = {"step",      "batch",           "epoch",    "batch_in_epoch",
                                               "sample",    "sample_in_epoch", "token",    "token_in_epoch",
                                               "total_wct", "epoch_wct",       "batch_wct"};

static constexpr std::string_view kMetric = "metrics.";

Status LabelTemplate::wrong(const std::string& why) const {
  return Status(CKPT_INVALID, strformat("label \"{}\": {}", text_, why)).with("found", text_);
}

Result<LabelTemplate> LabelTemplate::parse(std::string_view text,
                                           std::map<std::string, std::string, std::less<>> fixed) {
  LabelTemplate out;
  out.text_ = text;
  out.fixed_ = std::move(fixed);
  std::string plain;
  for (size_t at = 0; at < text.size(); at++) {
    const char c = text[at];
    const bool twice = at + 1 < text.size() && text[at + 1] == c;
    if (c != '{' && c != '}') {
      plain += c;
    } else if (twice) {
      plain += c;
      at++;
    } else {
      const size_t end = c == '{' ? text.find('}', at) : text.npos;
      if (end == text.npos) return out.wrong(strformat("the brace at byte {} has no other; {{{{ writes one", at));
      if (!plain.empty()) out.fields_.push_back({std::exchange(plain, {})});
      CKPT_TRY(out.add_variable(text.substr(at + 1, end - at - 1)));
      at = end;
    }
  }
  if (!plain.empty()) out.fields_.push_back({plain});
  return out;
}

Status LabelTemplate::add_variable(std::string_view inside) {
  const size_t colon = inside.find(':');
  if (inside.starts_with(kMetric))
    return add_metric(inside.substr(kMetric.size(), colon - kMetric.size()),
                      colon == inside.npos ? "" : inside.substr(colon));
  Field field{std::string(inside.substr(0, colon)), true};
  if (fixed_.find(field.text) == fixed_.end() && std::ranges::find(kOfStep, field.text) == std::end(kOfStep)) {
    std::vector<std::string> known(std::begin(kOfStep), std::end(kOfStep));
    for (const auto& [name, value] : fixed_) known.push_back(name);
    return wrong(strformat("no variable is called \"{}\"; there are {}", field.text, list_some(known, 30)));
  }
  std::string_view form = colon == inside.npos ? "" : inside.substr(colon + 1);
  if (form.ends_with('d')) form.remove_suffix(1);
  if (form.starts_with('0')) field.fill = '0';
  const bool digits = std::ranges::all_of(form, [](char c) { return c >= '0' && c <= '9'; });
  if (form.size() > 3 || !digits)
    return wrong(strformat("expected a format such as {{{}:06d}}, found {{{}}}", field.text, inside));
  for (const char c : form) field.width = field.width * 10 + static_cast<size_t>(c - '0');
  if (field.width > 99) return wrong(strformat("a width of at most 99 is possible, found {}", field.width));
  fields_.push_back(std::move(field));
  return Ok();
}

Status LabelTemplate::add_metric(std::string_view name, std::string_view form) {
  const bool digits = form.size() == 4 && form.starts_with(":.") && form[2] >= '0' && form[2] <= '9' && form[3] == 'f';
  if (name.empty() || (!digits && !form.empty()))
    return wrong(strformat("expected a metric such as {{metrics.loss}} or {{metrics.loss:.3f}}, found {{metrics.{}{}}}",
                           name, form));
  Field field{std::string(name)};
  field.metric = true;
  if (digits) field.precision = form[2] - '0';
  fields_.push_back(std::move(field));
  return Ok();
}

bool LabelTemplate::numbered() const {
  return std::ranges::any_of(
      fields_, [](const Field& field) { return field.variable && (field.text == "step" || field.text == "batch"); });
}

Result<std::string> LabelTemplate::value(const Field& field, const Moment& now) const {
  if (const auto found = fixed_.find(field.text); found != fixed_.end()) return found->second;
  if (field.text == "step" || (field.text == "batch" && !now.counters.contains("batch")))
    return std::to_string(now.step);  // which may have more digits than a double
  const auto count = now.count(field.text);
  if (!count) return wrong(strformat("this step was not told the counter \"{}\"", field.text));
  return text_of(*count);
}

// A save must not fail for its name: not every step is validated.
static std::string metric_text(const Numbers& metrics, const std::string& name, int precision) {
  const auto found = metrics.find(name);
  if (found == metrics.end()) return "none";
  const double value = found->second;
  char digits[64];  // of what is below 1e15, 9 behind the point at most
  const bool fixed = precision >= 0 && std::abs(value) < 1e15;
  if (!fixed) return text_of(value);
  return {digits, std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, precision).ptr};
}

Result<std::string> LabelTemplate::label(const Moment& now) const {
  std::string out;
  for (const Field& field : fields_) {
    std::string text = field.text;
    if (field.metric) text = metric_text(now.metrics, field.text, field.precision);
    if (field.variable) {
      CKPT_ASSIGN(text, value(field, now));
    }
    if (text.size() < field.width) out.append(field.width - text.size(), field.fill);
    out += text;
  }
  return out;
}

std::string LabelTemplate::example() const {
  Moment now{0};
  for (const std::string_view name : kOfStep) now.counters.emplace(name, 0);
  return label(now).take();
}

}  // namespace ckpt::keeper

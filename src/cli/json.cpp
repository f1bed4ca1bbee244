#include "cli/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "cli/text.h"

namespace cli {
namespace {

using Library = nlohmann::ordered_json;

std::string compact(const Library& json) { return json.dump(-1, ' ', false, Library::error_handler_t::replace); }

}  // namespace

Json::Json(std::string_view text) : text_(compact(Library(text))) {}

Json::Json(std::initializer_list<Field> fields) : text_("{}") {
  for (const Field& field : fields) add(field.key, field.value);
}

Json Json::real(double value) {
  Json out;
  out.text_ = std::isfinite(value) ? compact(Library(value)) : "null";
  return out;
}

Json Json::list(const std::vector<std::string>& texts) {
  Json out;
  for (const std::string& text : texts) out.text_.append(out.text_.empty() ? "[" : ",").append(text);
  out.text_ += out.text_.empty() ? "[]" : "]";
  return out;
}

Json Json::parsed(std::string_view text) {
  Json out;
  out.text_ = Library::accept(text) ? text : "null";
  return out;
}

void Json::add(std::string_view key, const Json& value) {
  text_.pop_back();
  text_ += (text_.size() > 1 ? "," : "") + Json(key).text_ + ":" + value.text_ + "}";
}

std::vector<std::string> texts_of(std::string_view json) {
  const Library parsed = Library::parse(json, nullptr, false);
  std::vector<std::string> texts;
  if (!parsed.is_array()) return texts;
  for (const Library& value : parsed)
    if (value.is_string()) texts.push_back(value.get<std::string>());
  return texts;
}

std::vector<std::string> items_of(std::string_view json) {
  const Library parsed = Library::parse(json, nullptr, false);
  std::vector<std::string> items;
  if (parsed.is_array())
    for (const Library& value : parsed) items.push_back(compact(value));
  return items;
}

std::string value_of(std::string_view json, std::string_view key) {
  const Library parsed = Library::parse(json, nullptr, false);
  if (!parsed.is_object()) return "";
  const auto at = parsed.find(std::string(key));
  if (at == parsed.end() || at->is_null()) return "";
  return at->is_string() ? at->get<std::string>() : compact(*at);
}

std::string Json::pretty() const { return json_shown(Library::parse(text_).dump(2)); }

std::string json_shown(std::string_view json) {
  std::string out;
  while (!json.empty()) {
    const size_t size = std::max<size_t>(ckpt::utf8_sequence(json), 1);
    const std::string_view here = json.substr(0, size);
    const uint32_t code = ckpt::code_of(here);
    if (code < 0x7f || !ckpt::is_hidden(here))
      out += here;
    else if (code < 0x10000)
      out += print_format("\\u%04x", code);
    else
      out += print_format("\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
    json.remove_prefix(size);
  }
  return out;
}

}  // namespace cli

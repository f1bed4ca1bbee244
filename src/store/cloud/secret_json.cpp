#include "store/cloud/secret_json.h"

#include "store/cloud/key_service.h"

namespace ckpt::store::cloud {

nlohmann::json parse_json(std::string_view text) {
  constexpr int kDeepest = 8;
  using Event = nlohmann::json::parse_event_t;
  const auto keeps = [](int depth, Event event, nlohmann::json&) {
    return depth < kDeepest || (event != Event::object_start && event != Event::array_start);
  };
  return nlohmann::json::parse(text, keeps, false);
}

SecretJson::SecretJson(std::string text) : root_(parse_json(text)) { wipe(text); }

static void wipe_texts(nlohmann::json& value) {
  if (value.is_string()) wipe(value.get_ref<std::string&>());
  if (!value.is_structured()) return;
  for (nlohmann::json& inner : value) wipe_texts(inner);
}

SecretJson::~SecretJson() { wipe_texts(root_); }

const nlohmann::json* member(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::string text_member(const nlohmann::json& object, const char* name) {
  const nlohmann::json* found = member(object, name);
  return found && found->is_string() ? found->get<std::string>() : "";
}

int64_t number_member(const nlohmann::json& object, const char* name) {
  constexpr size_t kMostDigits = 12;  // of seconds, also since 1970
  const nlohmann::json* found = member(object, name);
  const bool is_number = found && found->is_number_integer();
  const std::string digits = is_number ? found->dump() : text_member(object, name);
  if (digits.empty() || digits.size() > kMostDigits || digits.find_first_not_of("0123456789") != digits.npos) return -1;
  return std::stol(digits);
}

}  // namespace ckpt::store::cloud

#include "store/cloud/secret_json.h"

#include "store/cloud/key_service.h"

namespace ckpt::store::cloud {

SecretJson::SecretJson(std::string text) : root_(nlohmann::json::parse(text, nullptr, false)) { wipe(text); }

// Not without a bound, since a stranger's arrays may be as deep as they are long.
static void wipe_texts(nlohmann::json& value, int depth) {
  constexpr int kDeepest = 4;
  if (value.is_string()) wipe(value.get_ref<std::string&>());
  if (!value.is_structured() || depth == kDeepest) return;
  for (nlohmann::json& inner : value) wipe_texts(inner, depth + 1);
}

SecretJson::~SecretJson() { wipe_texts(root_, 0); }

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
  constexpr size_t kMostDigits = 9;
  const nlohmann::json* found = member(object, name);
  const bool is_number = found && found->is_number_integer();
  const std::string digits = is_number ? found->dump() : text_member(object, name);
  if (digits.empty() || digits.size() > kMostDigits || digits.find_first_not_of("0123456789") != digits.npos) return -1;
  return std::stol(digits);
}

}  // namespace ckpt::store::cloud

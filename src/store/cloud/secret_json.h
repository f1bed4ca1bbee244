// JSON that has keys and tokens, such as a service gives them.
// Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ckpt::store::cloud {

// Its texts are wiped at its end. No JSON at all is a value that has no members.
class SecretJson {
 public:
  explicit SecretJson(std::string text);
  ~SecretJson();
  SecretJson(const SecretJson&) = delete;
  SecretJson& operator=(const SecretJson&) = delete;
  const nlohmann::json& operator*() const { return root_; }

 private:
  nlohmann::json root_;
};

// Null if there is none.
const nlohmann::json* member(const nlohmann::json& object, const char* name);
// "" if there is none.
std::string text_member(const nlohmann::json& object, const char* name);
// A number from 0 on, which some servers give as text; -1 if there is none.
int64_t number_member(const nlohmann::json& object, const char* name);

}  // namespace ckpt::store::cloud

// JSON of a stranger: bounded, looked into without copies, and, where it has keys and tokens, wiped.
// Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ckpt::store::cloud {

// What is deeper than any answer of a service is left out. No JSON at all is a value that has no members. Copies of a
// value are recursive, so whoever reads it takes references.
nlohmann::json parse_json(std::string_view text);

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

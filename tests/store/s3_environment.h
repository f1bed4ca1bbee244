// The environment and the folder ~/.aws of a test.
#pragma once

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/store_suite.h"

namespace ckpt::store {

using Settings = std::vector<std::pair<std::string, std::string>>;

// Settings of the environment as long as a test runs, and no other AWS_… ones.
class Environment {
 public:
  explicit Environment(const Settings& set = {}) {
    for (const char* name : {"AWS_ACCESS_KEY_ID",
                             "AWS_SECRET_ACCESS_KEY",
                             "AWS_SESSION_TOKEN",
                             "AWS_PROFILE",
                             "AWS_REGION",
                             "AWS_DEFAULT_REGION",
                             "AWS_ENDPOINT_URL",
                             "AWS_ENDPOINT_URL_S3",
                             "AWS_CA_BUNDLE",
                             "AWS_CONFIG_FILE",
                             "AWS_SHARED_CREDENTIALS_FILE",
                             "AWS_WEB_IDENTITY_TOKEN_FILE",
                             "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                             "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                             "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                             "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                             "AWS_ENDPOINT_URL_STS",
                             "AWS_ROLE_ARN",
                             "AWS_ROLE_SESSION_NAME",
                             "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                             "AWS_EC2_METADATA_DISABLED",
                             "HOME"})
      change(name, nullptr);
    change("AWS_EC2_METADATA_DISABLED", "true");
    for (const auto& [name, value] : set) change(name.c_str(), value.c_str());
  }
  ~Environment() {
    for (auto before = before_.rbegin(); before != before_.rend(); ++before)
      before->second ? setenv(before->first.c_str(), before->second->c_str(), 1) : unsetenv(before->first.c_str());
  }

 private:
  void change(const char* name, const char* value) {
    const char* before = std::getenv(name);
    before_.emplace_back(name, before ? std::optional<std::string>(before) : std::nullopt);
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

// A folder like ~/.aws.
class AwsFolder {
 public:
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  Settings environment() const {
    return {{"AWS_CONFIG_FILE", folder_ / "config"}, {"AWS_SHARED_CREDENTIALS_FILE", folder_ / "credentials"}};
  }
  std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  Scratch folder_;
};

}  // namespace ckpt::store

// Where an s3:// store is and how it is reached, from its URI, its options, the environment and ~/.aws, in this order.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "store/cloud/place.h"

namespace ckpt::store::s3 {

using namespace cloud;

// What ~/.aws/config and ~/.aws/credentials say of one profile.
using Profile = std::map<std::string, std::string, std::less<>>;

struct Config : Place {
  std::string base;  // of a path: "" or "/bucket"
  std::string region, profile_name;
  bool profile_asked = false;  // by option: then the environment has no keys for it
};

// INVALID
Result<Config> make_config(std::string_view uri, const S3Options& options);

// What the files of ~/.aws say now of the profile, the credentials file last. INVALID if it was asked for and is
// nowhere.
Result<Profile> read_profile(const Config& config);
// Of a profile; "" if it is not set.
std::string setting(const Profile& profile, std::string_view key);

// The settings of one section of a file like ~/.aws/config. Settings that belong to another setting are left out.
Profile read_section(std::string_view text, std::string_view section);

}  // namespace ckpt::store::s3

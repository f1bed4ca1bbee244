#include "store/s3/config.h"

#include "base/text.h"
#include "store/keys.h"

namespace ckpt::store::s3 {

// ---- ~/.aws ----

static std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

// The name in "[profile "my name"] # mine", with one blank after the word and without quotes.
static std::string section_of(std::string_view line) {
  constexpr std::string_view kWord = "profile";
  const std::string_view name = without_blanks(line.substr(1, line.find(']') - 1));
  if (!name.starts_with(kWord) || name.find_first_of(" \t") != kWord.size()) return std::string(name);
  std::string_view rest = without_blanks(name.substr(kWord.size()));
  if (rest.size() > 1 && (rest.front() == '"' || rest.front() == '\'') && rest.front() == rest.back())
    rest = rest.substr(1, rest.size() - 2);
  return "profile " + std::string(rest);
}

// A value ends before a blank and a comment; a command may have such a thing in it.
static std::string_view without_comment(std::string_view value, std::string_view key) {
  for (size_t i = 1; key != "credential_process" && i < value.size(); i++)
    if ((value[i] == '#' || value[i] == ';') && (value[i - 1] == ' ' || value[i - 1] == '\t'))
      return without_blanks(value.substr(0, i));
  return value;
}

Profile read_section(std::string_view text, std::string_view section) {
  Profile found;
  bool inside = false;
  for (std::string_view line : split(text, '\n')) {
    const bool nested = !line.empty() && (line[0] == ' ' || line[0] == '\t');
    line = without_blanks(line);
    if (line.empty() || line[0] == '#' || line[0] == ';' || nested) continue;
    if (line[0] == '[') {
      inside = section_of(line) == section;
      continue;
    }
    const size_t equals = line.find('=');
    if (!inside || equals == line.npos) continue;
    const std::string key = in_lower_case(without_blanks(line.substr(0, equals)));
    found.insert_or_assign(key, std::string(without_comment(without_blanks(line.substr(equals + 1)), key)));
  }
  return found;
}

static std::string aws_file(const Config& config, const char* variable, const char* name) {
  if (std::string path = config.variable(variable); !path.empty()) return path;
  const std::string home = config.variable("HOME");
  return home.empty() ? "" : home + "/.aws/" + name;
}

std::string setting(const Profile& profile, std::string_view key) {
  auto found = profile.find(key);
  return found == profile.end() ? "" : found->second;
}

Result<Profile> read_profile(const Config& config) {
  Profile profile;
  const std::string& name = config.profile_name;
  const std::string files[] = {aws_file(config, "AWS_CONFIG_FILE", "config"),
                               aws_file(config, "AWS_SHARED_CREDENTIALS_FILE", "credentials")};
  for (size_t i = 0; i < 2; i++) {
    if (files[i].empty()) continue;
    auto text = read_small_file(files[i]);
    if (!text.ok() && text.status().code() == CKPT_NOT_FOUND) continue;
    if (!text.ok()) return std::move(text).status();
    Profile found = read_section(*text, i == 0 ? "profile " + name : name);
    if (i == 0 && name == "default" && found.empty()) found = read_section(*text, name);
    for (auto& [key, value] : found) profile.insert_or_assign(key, std::move(value));
  }
  const bool asked_for = config.profile_asked || !config.variable("AWS_PROFILE").empty();
  if (profile.empty() && asked_for)
    return Status(CKPT_INVALID, strformat("profile \"{}\" is neither in {} nor in {}", name, files[0], files[1]))
        .with("found", name);
  return profile;
}

// ---- the parts of a configuration ----

static Status read_s3_endpoint(std::string_view uri, std::string endpoint, const std::string& style, Config* config) {
  if (endpoint.empty())
    endpoint =
        "https://s3." + config->region + (config->region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
  CKPT_TRY(read_endpoint(uri, endpoint, config));
  const std::string host = config->host;
  // A name with dots does not match the certificate of *.s3.amazonaws.com; other servers rarely have names for buckets.
  const bool on_amazon = host.find(".amazonaws.com") != host.npos;
  const bool by_path =
      style == "on" || (style == "auto" && (!on_amazon || config->bucket.find_first_of("._") != std::string::npos));
  if (!by_path && (host[0] == '[' || host.substr(0, host.find(':')).find_first_not_of("0123456789.") == host.npos))
    return invalid_place(uri,
                         strformat("option path_style: off needs a name, but the endpoint {} is an address", host));
  config->host = by_path ? host : config->bucket + "." + host;
  config->base = by_path ? "/" + config->bucket : "";
  config->uniform |= host.ends_with(".r2.cloudflarestorage.com");
  return Ok();
}

Result<Config> make_config(std::string_view uri, const S3Options& options) {
  Config config;
  CKPT_TRY(read_uri(uri, &config));
  config.variables = read_variables({"AWS_"});
  auto variable = [&](const char* name) { return config.variable(name); };
  config.profile_asked = !options.profile.empty();
  config.profile_name = first_of({options.profile, variable("AWS_PROFILE"), "default"});
  CKPT_ASSIGN(const Profile profile, read_profile(config));
  config.region = first_of({options.region, variable("AWS_REGION"), variable("AWS_DEFAULT_REGION"),
                            setting(profile, "region"), "us-east-1"});
  if (config.region.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") !=
      std::string::npos)
    return invalid_place(uri, strformat("option region: \"{}\" is no region", config.region));
  config.ca_file = first_of({options.ca_file, variable("AWS_CA_BUNDLE"), setting(profile, "ca_bundle")});
  config.conditional = options.conditional;
  config.grace_ms = options.grace_ms;
  config.uniform = options.uniform;
  config.timing = options.timing;
  const std::string endpoint = first_of({options.endpoint, variable("AWS_ENDPOINT_URL_S3"),
                                         variable("AWS_ENDPOINT_URL"), setting(profile, "endpoint_url")});
  CKPT_TRY(read_s3_endpoint(uri, endpoint, options.path_style, &config));
  return config;
}

}  // namespace ckpt::store::s3

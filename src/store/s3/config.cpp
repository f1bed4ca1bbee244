#include "store/s3/config.h"

#include <errno.h>
#include <unistd.h>

#include <cstdio>

#include "base/address.h"
#include "base/text.h"
#include "store/keys.h"

namespace ckpt::store::s3 {

static Variables read_variables() {
  Variables found;
  for (char** entry = environ; entry && *entry; entry++) {
    const std::string_view line = *entry;
    const size_t equals = line.find('=');
    if (equals != line.npos && (line.starts_with("AWS_") || line.starts_with("HOME=")))
      found.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return found;
}

std::string Config::variable(std::string_view name) const {
  auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

Result<std::string> read_small_file(const std::string& path) {
  constexpr size_t kMost = 1 << 20;
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (!file) return from_errno(errno, "open", path);
  std::string text(kMost + 1, 0);
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get())) return from_errno(EIO, "read", path);
  if (text.size() > kMost) return too_large(path, text.size(), kMost);
  return text;
}

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

static Status invalid_s3(std::string_view uri, std::string_view reason) {
  return Status(CKPT_INVALID, strformat("store \"{}\": {}", shown_url(uri), reason));
}

static Status read_uri(std::string_view uri, Config* config) {
  std::string_view rest = uri.substr(std::string_view("s3://").size());
  config->bucket = rest.substr(0, rest.find('/'));
  rest.remove_prefix(config->bucket.size());
  for (char c : config->bucket) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && c != '.' && c != '-' && c != '_')
      return invalid_s3(uri, "expected s3://BUCKET/PREFIX, found a bucket that no server can have");
  }
  if (config->bucket.empty()) return invalid_s3(uri, "expected s3://BUCKET/PREFIX, found no bucket");
  if (shown_url(uri).size() < uri.size())  // a key may have a '?', but no settings behind it
    return invalid_s3(uri, "expected s3://BUCKET/PREFIX, found a query; a signed address begins with https://");
  while (!rest.empty() && rest.front() == '/') rest.remove_prefix(1);
  while (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
  config->root = rest;
  if (Status valid = rest.empty() ? Ok() : check_key(rest); !valid.ok()) return invalid_s3(uri, valid.message());
  return Ok();
}

// The first that is set.
static std::string first_of(std::initializer_list<std::string> values) {
  for (const std::string& value : values)
    if (!value.empty()) return value;
  return "";
}

// What is wrong with one, and no more of it: it may have a secret anywhere.
static std::string odd_endpoint(const std::string& scheme, const std::string& host) {
  const size_t end = host.find_first_of("/?#@\\ \t\r\n");
  if (scheme.empty()) return "another scheme";
  if (host.empty()) return "no host";
  if (host.find('@') != host.npos) return "a user in it";
  return "\"" + scheme + "://" + host.substr(0, end) + "\" and something behind it";
}

static Status read_endpoint(std::string_view uri, std::string endpoint, const std::string& style, Config* config) {
  const bool aws = endpoint.empty();
  if (aws)
    endpoint =
        "https://s3." + config->region + (config->region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
  const size_t colon = endpoint.find("://");
  config->scheme = colon == endpoint.npos ? "https" : endpoint.substr(0, colon);
  std::string host = colon == endpoint.npos ? endpoint : endpoint.substr(colon + 3);
  while (!host.empty() && host.back() == '/') host.pop_back();
  const bool known = config->scheme == "https" || config->scheme == "http";
  if (!known || host.empty() || host.find_first_of("/?#@\\ \t\r\n") != host.npos)
    return invalid_s3(uri, strformat("option endpoint: expected https://HOST[:PORT] or http://HOST[:PORT], found {}",
                                     odd_endpoint(known ? config->scheme : "", host)));
  // A default port is not in the header that is signed.
  const std::string_view port = config->scheme == "https" ? ":443" : ":80";
  if (host.ends_with(port)) host.resize(host.size() - port.size());
  // A name with dots does not match the certificate of *.s3.amazonaws.com; other servers rarely have names for buckets.
  const bool on_amazon = host.find(".amazonaws.com") != host.npos;
  const bool by_path =
      style == "on" || (style == "auto" && (!on_amazon || config->bucket.find_first_of("._") != std::string::npos));
  if (!by_path && (host[0] == '[' || host.substr(0, host.find(':')).find_first_not_of("0123456789.") == host.npos))
    return invalid_s3(uri, strformat("option path_style: off needs a name, but the endpoint {} is an address", host));
  config->host = by_path ? host : config->bucket + "." + host;
  config->base = by_path ? "/" + config->bucket : "";
  config->uniform |= host.ends_with(".r2.cloudflarestorage.com");
  return Ok();
}

std::string Config::key(std::string_view of) const {
  if (root.empty() || of.empty()) return root + std::string(of);
  return root + "/" + std::string(of);
}

Result<Config> make_config(std::string_view uri, const S3Options& options) {
  Config config;
  CKPT_TRY(read_uri(uri, &config));
  config.variables = read_variables();
  auto variable = [&](const char* name) { return config.variable(name); };
  config.profile_asked = !options.profile.empty();
  config.profile_name = first_of({options.profile, variable("AWS_PROFILE"), "default"});
  CKPT_ASSIGN(const Profile profile, read_profile(config));
  config.region = first_of({options.region, variable("AWS_REGION"), variable("AWS_DEFAULT_REGION"),
                            setting(profile, "region"), "us-east-1"});
  if (config.region.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") !=
      std::string::npos)
    return invalid_s3(uri, strformat("option region: \"{}\" is no region", config.region));
  config.ca_file = first_of({options.ca_file, variable("AWS_CA_BUNDLE"), setting(profile, "ca_bundle")});
  config.conditional = options.conditional;
  config.grace_ms = options.grace_ms;
  config.uniform = options.uniform;
  config.timing = options.timing;
  const std::string endpoint = first_of({options.endpoint, variable("AWS_ENDPOINT_URL_S3"),
                                         variable("AWS_ENDPOINT_URL"), setting(profile, "endpoint_url")});
  CKPT_TRY(read_endpoint(uri, endpoint, options.path_style, &config));
  return config;
}

}  // namespace ckpt::store::s3

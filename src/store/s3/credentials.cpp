#include "store/s3/credentials.h"

#include <string.h>
#include <time.h>

#include <nlohmann/json.hpp>

#include "store/s3/process.h"
#include "store/s3/xml.h"

namespace ckpt::store::s3 {

static constexpr int64_t kRefreshBefore = 300;  // seconds

static void wipe(std::string& text) { explicit_bzero(text.data(), text.size()); }

Credentials::~Credentials() {
  wipe(keys.secret_key);
  wipe(keys.session_token);
}

// ---- parsing ----

// "2026-11-23T07:00:00Z"
static Result<int64_t> seconds_of_iso(const std::string& text, std::string_view source) {
  tm parts{};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!end) return Status(CKPT_FORMAT, strformat("{}: the credentials expire at no date", source));
  return static_cast<int64_t>(timegm(&parts));
}

Result<Credentials> parse_credentials(std::string_view json, const char* token, std::string_view source) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) return Status(CKPT_FORMAT, strformat("{}: expected a JSON object", source));
  auto text = [&](const char* name) {
    const auto found = parsed.find(name);
    return found != parsed.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Credentials credentials;
  credentials.source = source;
  credentials.keys = {text("AccessKeyId"), text("SecretAccessKey"), text(token)};
  if (credentials.keys.access_key.empty() || credentials.keys.secret_key.empty())
    return Status(CKPT_FORMAT, strformat("{}: AccessKeyId or SecretAccessKey is missing", source));
  if (const std::string expires = text("Expiration"); !expires.empty()) {
    CKPT_ASSIGN(credentials.expires, seconds_of_iso(expires, source));
  }
  return credentials;
}

static std::string of_profile(const Profile& profile, std::string_view key) {
  auto found = profile.find(key);
  return found == profile.end() ? "" : found->second;
}

// ---- sources ----

static Result<Credentials> from_keys(Keys keys, std::string source) {
  if (keys.access_key.empty() || keys.secret_key.empty())
    return Status(CKPT_INVALID, strformat("{}: of access key and secret key, one is missing", source));
  Credentials credentials;
  credentials.keys = std::move(keys);
  credentials.source = std::move(source);
  return credentials;
}

Result<Credentials> CredentialChain::of_process(const std::string& command) const {
  const std::string source = "credential_process of profile " + config_.profile_name;
  auto text = output_of(command);
  if (!text.ok()) return std::move(text).status().in(source);
  return parse_credentials(*text, "SessionToken", source);
}

static std::string single_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

static Status no_good_answer(std::string_view source, const HttpReply& reply) {
  const std::string what = reply.trouble.empty() ? strformat("HTTP status {}", reply.status) : reply.trouble;
  return Status(CKPT_IO, strformat("credentials of {}: {}", source, what));
}

Result<Credentials> CredentialChain::of_web_identity(const std::string& role, const std::string& token_file) const {
  const std::string source = "web identity " + token_file;
  auto token = read_small_file(token_file);
  if (!token.ok()) return std::move(token).status().in("credentials of a web identity");
  const std::string given = environment("AWS_ENDPOINT_URL_STS"), session = environment("AWS_ROLE_SESSION_NAME");
  const std::string form = canonical_query({{"Action", "AssumeRoleWithWebIdentity"},
                                            {"Version", "2011-06-15"},
                                            {"RoleArn", role},
                                            {"RoleSessionName", session.empty() ? "ckpt" : session},
                                            {"WebIdentityToken", single_line(*token)}});
  const Bytes body = as_bytes(form);
  HttpRequest request;
  request.method = "POST";
  request.url = (given.empty() ? "https://sts." + config_.region + ".amazonaws.com" : given) + "/";
  request.headers = {{"content-type", "application/x-www-form-urlencoded"}};
  request.body = std::span(&body, 1);
  const HttpReply reply = http_.exchange(request);
  if (!reply.trouble.empty() || !reply.good()) return no_good_answer(source, reply);
  CKPT_ASSIGN(const XmlElement root, parse_xml(reply.text));
  const XmlElement* result = root.child("AssumeRoleWithWebIdentityResult");
  const XmlElement* found = result ? result->child("Credentials") : nullptr;
  if (!found) return Status(CKPT_FORMAT, strformat("credentials of {}: the answer has none", source));
  CKPT_ASSIGN(Credentials credentials,
              from_keys({std::string(found->text_of("AccessKeyId")), std::string(found->text_of("SecretAccessKey")),
                         std::string(found->text_of("SessionToken"))},
                        source));
  CKPT_ASSIGN(credentials.expires, seconds_of_iso(std::string(found->text_of("Expiration")), source));
  return credentials;
}

// A token goes in plain text only where nobody else listens.
static bool is_local(std::string_view url) {
  if (url.starts_with("https://")) return true;
  for (std::string_view host : {"http://127.", "http://localhost", "http://[::1]", "http://169.254.170.2/",
                                "http://169.254.170.23/", "http://[fd00:ec2::23]"})
    if (url.starts_with(host)) return true;
  return false;
}

Result<Credentials> CredentialChain::of_container() const {
  const std::string relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  HttpRequest request;
  request.method = "GET";
  request.url =
      relative.empty() ? environment("AWS_CONTAINER_CREDENTIALS_FULL_URI") : "http://169.254.170.2" + relative;
  request.direct = true;
  request.connect_ms = 2000;
  request.most_ms = 10000;
  const std::string source = "the container's endpoint";
  if (!is_local(request.url))
    return Status(CKPT_INVALID, "AWS_CONTAINER_CREDENTIALS_FULL_URI: expected https://, or http:// on this machine");
  std::string token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const std::string path = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !path.empty()) {
    CKPT_ASSIGN(token, read_small_file(path));
  }
  if (!token.empty()) request.headers.push_back({"authorization", single_line(token)});
  const HttpReply reply = http_.exchange(request);
  if (!reply.trouble.empty() || !reply.good()) return no_good_answer(source, reply);
  return parse_credentials(reply.text, "Token", source);
}

// Anonymous where there is no such service, or it gives none.
Result<Credentials> CredentialChain::of_instance() const {
  Credentials nobody;
  nobody.source = "nobody (no credentials were found)";
  if (environment("AWS_EC2_METADATA_DISABLED") == "true") return nobody;
  const std::string given = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  const std::string base = given.empty() ? "http://169.254.169.254" : given;
  HttpRequest request;
  request.direct = true;
  request.connect_ms = 1000;
  request.most_ms = 3000;
  request.method = "PUT";
  request.url = base + "/latest/api/token";
  request.headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}};
  const HttpReply token = http_.exchange(request);
  if (!token.trouble.empty() || !token.good()) return nobody;
  request.method = "GET";
  request.headers = {{"x-aws-ec2-metadata-token", single_line(token.text)}};
  request.url = base + "/latest/meta-data/iam/security-credentials/";
  const HttpReply role = http_.exchange(request);
  if (role.status == 404) return nobody;  // an instance without a role
  const std::string source = "the instance's metadata";
  if (!role.trouble.empty() || !role.good()) return no_good_answer(source, role);
  request.url += single_line(role.text);
  const HttpReply reply = http_.exchange(request);
  if (!reply.trouble.empty() || !reply.good()) return no_good_answer(source, reply);
  return parse_credentials(reply.text, "Token", source);
}

// ---- the chain ----

Result<Credentials> CredentialChain::ask() const {
  const Profile& profile = config_.profile;
  if (!config_.profile_asked && !environment("AWS_ACCESS_KEY_ID").empty())
    return from_keys(
        {environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"), environment("AWS_SESSION_TOKEN")},
        "the environment");
  const std::string source = "profile " + config_.profile_name;
  if (const std::string key = of_profile(profile, "aws_access_key_id"); !key.empty())
    return from_keys({key, of_profile(profile, "aws_secret_access_key"), of_profile(profile, "aws_session_token")},
                     source);
  if (const std::string command = of_profile(profile, "credential_process"); !command.empty())
    return of_process(command);
  std::string role = of_profile(profile, "role_arn"), token = of_profile(profile, "web_identity_token_file");
  if (!token.empty()) return of_web_identity(role, token);
  for (std::string_view other : {"role_arn", "sso_start_url", "sso_session"})
    if (!of_profile(profile, other).empty())
      return Status(CKPT_UNSUPPORTED,
                    strformat("{} has {}, which ckpt cannot use by itself; give it credential_process = aws configure "
                              "export-credentials --profile {} --format process",
                              source, other, config_.profile_name));
  token = environment("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (!token.empty()) return of_web_identity(environment("AWS_ROLE_ARN"), token);
  if (!environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").empty() ||
      !environment("AWS_CONTAINER_CREDENTIALS_FULL_URI").empty())
    return of_container();
  return of_instance();
}

Result<std::shared_ptr<const Credentials>> CredentialChain::get() {
  std::lock_guard lock(mutex_);
  const int64_t now = time(nullptr);
  if (known_ && (known_->expires == 0 || now < known_->expires - kRefreshBefore)) return known_;
  auto asked = ask();
  if (asked.ok())
    known_ = std::make_shared<const Credentials>(asked.take());
  else if (!known_ || now >= known_->expires)
    return std::move(asked).status();
  return known_;
}

bool CredentialChain::refused(const Credentials& by_server) {
  if (by_server.expires == 0) return false;
  std::lock_guard lock(mutex_);
  if (known_.get() == &by_server) known_ = nullptr;
  return true;
}

}  // namespace ckpt::store::s3

#include "store/s3/credentials.h"

#include <algorithm>

#include "base/address.h"
#include "store/cloud/key_service.h"
#include "store/cloud/secret_json.h"
#include "store/cloud/xml.h"
#include "store/s3/process.h"
#include "store/web/url.h"

namespace ckpt::store::s3 {

static constexpr size_t kLongestRole = 128;  // twice what AWS allows

bool Credentials::same_as(const Credentials& other) const {
  return keys.access_key == other.keys.access_key && keys.secret_key == other.keys.secret_key &&
         keys.session_token == other.keys.session_token;
}

Credentials::~Credentials() {
  wipe(keys.secret_key);
  wipe(keys.session_token);
}

// ---- parsing ----

static Result<int64_t> expiry_of(const std::string& text, std::string_view source) {
  const int64_t seconds = seconds_of_iso(text);
  if (seconds < 0) return Status(CKPT_FORMAT, strformat("{}: the credentials expire at no date", source));
  return seconds;
}

static Status check_keys(const Keys& keys, ckpt_status code, std::string_view source) {
  if (is_sendable(keys.access_key) && is_sendable(keys.secret_key) && is_sendable(keys.session_token)) return Ok();
  return Status(code, strformat("{}: a key or token has characters that none has, such as a line break", source));
}

Result<Credentials> parse_credentials(std::string_view json, const char* token, std::string_view source) {
  if (json.size() > kMostKeyAnswer)
    return Status(CKPT_FORMAT, strformat("{}: more than {} bytes", source, kMostKeyAnswer));
  const SecretJson parsed{std::string(json)};
  if (!(*parsed).is_object()) return Status(CKPT_FORMAT, strformat("{}: expected a JSON object", source));
  const auto text = [&](const char* name) { return text_member(*parsed, name); };
  Credentials credentials;
  credentials.source = source;
  credentials.keys = {text("AccessKeyId"), text("SecretAccessKey"), text(token)};
  if (credentials.keys.access_key.empty() || credentials.keys.secret_key.empty())
    return Status(CKPT_FORMAT, strformat("{}: AccessKeyId or SecretAccessKey is missing", source));
  CKPT_TRY(check_keys(credentials.keys, CKPT_FORMAT, source));
  if (const std::string expires = text("Expiration"); !expires.empty()) {
    CKPT_ASSIGN(credentials.expires, expiry_of(expires, source));
  }
  return credentials;
}

// ---- sources ----

static Result<Credentials> from_keys(Keys keys, std::string source) {
  if (keys.access_key.empty() || keys.secret_key.empty())
    return Status(CKPT_INVALID, strformat("{}: of access key and secret key, one is missing", source));
  CKPT_TRY(check_keys(keys, CKPT_INVALID, source));
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

// That of STS has S3's code and words one level down. Its code says what is missing.
static Status refusal_of(std::string_view source, const HttpReply& reply, const std::string& token) {
  Status status = no_good_answer(source, reply);
  auto root = parse_xml(reply.text);
  const XmlElement* error = root.ok() ? root->child("Error") : nullptr;
  if (!error) return status;
  std::string code = blotted(std::string(error->text_of("Code")), std::span(&token, 1)).substr(0, 100);
  std::erase_if(code, [](char c) { return c <= ' ' || c > '~'; });
  return Status(CKPT_IO, status.message() + " " + code);
}

Result<Credentials> CredentialChain::of_web_identity(const std::string& role, const std::string& token_file) const {
  const std::string source = "web identity " + token_file;
  auto token = read_small_file(token_file);
  if (!token.ok()) return std::move(token).status().in("credentials of a web identity");
  const std::string given = config_.variable("AWS_ENDPOINT_URL_STS"),
                    session = config_.variable("AWS_ROLE_SESSION_NAME"),
                    domain = config_.region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com";
  const std::string form = canonical_query({{"Action", "AssumeRoleWithWebIdentity"},
                                            {"Version", "2011-06-15"},
                                            {"RoleArn", role},
                                            {"RoleSessionName", session.empty() ? "ckpt" : session},
                                            {"WebIdentityToken", single_line(*token)}});
  const Bytes body = as_bytes(form);
  HttpRequest request;
  request.method = "POST";
  request.url = (given.empty() ? "https://sts." + config_.region + domain : given) + "/";
  request.headers = {{"content-type", "application/x-www-form-urlencoded"}};
  request.body = std::span(&body, 1);
  const HttpReply reply = ask_key_service(http_, request);
  if (!reply.trouble.empty() || !reply.good()) return refusal_of(source, reply, single_line(*token));
  auto root = parse_xml(reply.text);
  if (!root.ok()) return std::move(root).status().in("credentials of " + source);
  const XmlElement* result = root->child("AssumeRoleWithWebIdentityResult");
  const XmlElement* found = result ? result->child("Credentials") : nullptr;
  if (!found) return Status(CKPT_FORMAT, strformat("credentials of {}: the answer has none", source));
  CKPT_ASSIGN(Credentials credentials,
              from_keys({std::string(found->text_of("AccessKeyId")), std::string(found->text_of("SecretAccessKey")),
                         std::string(found->text_of("SessionToken"))},
                        source));
  CKPT_ASSIGN(credentials.expires, expiry_of(std::string(found->text_of("Expiration")), source));
  return credentials;
}

// A token goes in plain text only where nobody else listens. Who that is says the address as it will be sent: in front
// of an '@' there may be any host's name.
static Result<std::string> local_url(const std::string& text, std::string_view variable) {
  constexpr std::string_view kOfContainers[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
  auto url = web::parse_url(text);
  if (url.ok() && url->user.empty() && (url->is_private() || std::ranges::count(kOfContainers, url->name()) > 0))
    return url->sent();
  return Status(CKPT_INVALID, strformat("{}: expected https://, or http:// on this machine, without a user", variable));
}

Result<Credentials> CredentialChain::of_container() const {
  const std::string relative = config_.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  HttpRequest request;
  request.method = "GET";
  const char* const variable =
      relative.empty() ? "AWS_CONTAINER_CREDENTIALS_FULL_URI" : "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
  CKPT_ASSIGN(request.url,
              local_url(relative.empty() ? config_.variable(variable) : "http://169.254.170.2" + relative, variable));
  request.direct = true;
  request.connect_ms = 2000;
  request.most_ms = 10000;
  const std::string source = "the container's endpoint";
  std::string token = config_.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const std::string path = config_.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !path.empty()) {
    CKPT_ASSIGN(token, read_small_file(path));
  }
  if (!token.empty()) request.headers.push_back({"authorization", single_line(token)});
  const HttpReply reply = ask_key_service(http_, request);
  if (!reply.trouble.empty() || !reply.good()) return no_good_answer(source, reply);
  return parse_credentials(reply.text, "Token", source);
}

// Anonymous where there is no such service, or it gives none.
Result<Credentials> CredentialChain::of_instance() const {
  Credentials nobody;
  nobody.source = "nobody (no credentials were found)";
  if (config_.variable("AWS_EC2_METADATA_DISABLED") == "true") return nobody;
  const std::string given = config_.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
                    base = given.empty() ? "http://169.254.169.254" : given, source = "the instance's metadata";
  HttpRequest request;
  request.direct = true;
  request.connect_ms = 1000;
  request.most_ms = 3000;
  request.method = "PUT";
  request.url = base + "/latest/api/token";
  request.headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}};
  const HttpReply token = ask_key_service(http_, request);
  if (is_no_instance(token)) return nobody;
  if (!token.trouble.empty() || !token.good()) return no_good_answer(source, token);
  request.method = "GET";
  request.headers = {{"x-aws-ec2-metadata-token", single_line(token.text)}};
  request.url = base + "/latest/meta-data/iam/security-credentials/";
  const HttpReply role = ask_key_service(http_, request);
  if (role.status == 404) return nobody;  // an instance without a role
  if (!role.trouble.empty() || !role.good()) return no_good_answer(source, role);
  const std::string name = single_line(role.text);
  if (name.size() > kLongestRole || !is_sendable(name) || name.find_first_of("/?# ") != name.npos)
    return Status(CKPT_FORMAT, strformat("credentials of {}: the name of its role is none", source));
  request.url += name;
  const HttpReply reply = ask_key_service(http_, request);
  if (!reply.trouble.empty() || !reply.good()) return no_good_answer(source, reply);
  return parse_credentials(reply.text, "Token", source);
}

// Without keys if it has none. A process comes first: it is what ckpt advises for the others.
Result<Credentials> CredentialChain::of_profile(const Profile& profile) const {
  const std::string source = "profile " + config_.profile_name, token = setting(profile, "web_identity_token_file");
  if (const std::string command = setting(profile, "credential_process"); !command.empty()) return of_process(command);
  if (!token.empty()) return of_web_identity(setting(profile, "role_arn"), token);
  for (std::string_view other : {"role_arn", "sso_start_url", "sso_session"})
    if (!setting(profile, other).empty())
      return Status(CKPT_UNSUPPORTED,
                    strformat("{} has {}, which ckpt cannot use by itself; give it credential_process = aws configure "
                              "export-credentials --profile {} --format process",
                              source, other, config_.profile_name));
  const std::string key = setting(profile, "aws_access_key_id");
  if (key.empty()) return Credentials();
  return from_keys({key, setting(profile, "aws_secret_access_key"), setting(profile, "aws_session_token")}, source);
}

// ---- the chain ----

Result<Credentials> CredentialChain::ask() const {
  if (!config_.profile_asked && !config_.variable("AWS_ACCESS_KEY_ID").empty())
    return from_keys({config_.variable("AWS_ACCESS_KEY_ID"), config_.variable("AWS_SECRET_ACCESS_KEY"),
                      config_.variable("AWS_SESSION_TOKEN")},
                     "the environment");
  CKPT_ASSIGN(const Profile profile, read_profile(config_));
  auto found = of_profile(profile);
  if (!found.ok() || !found->anonymous()) return found;
  const std::string token = config_.variable("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (!token.empty()) return of_web_identity(config_.variable("AWS_ROLE_ARN"), token);
  if (!config_.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").empty() ||
      !config_.variable("AWS_CONTAINER_CREDENTIALS_FULL_URI").empty())
    return of_container();
  return of_instance();
}

}  // namespace ckpt::store::s3

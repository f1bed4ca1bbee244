#include "store/gcs/credentials.h"

#include <algorithm>

#include "base/address.h"
#include "base/text.h"
#include "store/cloud/crypto.h"
#include "store/cloud/key_service.h"
#include "store/cloud/secret_json.h"

namespace ckpt::store::gcs {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kScope = "https://www.googleapis.com/auth/devstorage.read_write";
// Of a token that only asks for another account's.
constexpr std::string_view kScopeOfIam = "https://www.googleapis.com/auth/iam";
constexpr std::string_view kTokenUri = "https://oauth2.googleapis.com/token";
constexpr std::string_view kExchangeUri = "https://sts.googleapis.com/v1/token";
constexpr int64_t kLifetime = 3600;  // seconds, the most that Google gives

Status check_members(const TokenQuestion& question, const Json& file, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (text_member(file, name).empty()) return question.invalid(strformat("{} is missing", name));
  return Ok();
}

// ---- kinds of files ----

std::string base64url_of(std::string_view text) {
  std::string out = base64_of(as_bytes(text));
  while (out.ends_with('=')) out.pop_back();
  std::replace(out.begin(), out.end(), '+', '-');
  std::replace(out.begin(), out.end(), '/', '_');
  return out;
}

Result<Token> of_service_account(const TokenQuestion& question, const Json& file, std::string_view scope) {
  CKPT_TRY(check_members(question, file, {"client_email", "private_key"}));
  const std::string uri = first_of({text_member(file, "token_uri"), std::string(kTokenUri)});
  CKPT_ASSIGN(const web::Url url, private_url(question, uri, "token_uri"));
  Json header = {{"alg", "RS256"}, {"typ", "JWT"}};
  if (const std::string id = text_member(file, "private_key_id"); !id.empty()) header["kid"] = id;
  const Json claims = {{"iss", text_member(file, "client_email")},
                       {"scope", scope},
                       {"aud", uri},
                       {"iat", question.now},
                       {"exp", question.now + kLifetime}};
  std::string assertion = base64url_of(header.dump()) + "." + base64url_of(claims.dump());
  std::string key = text_member(file, "private_key");
  auto signature = sign_rs256(key, assertion);
  wipe(key);
  if (!signature.ok()) return std::move(signature).status().in("credentials of " + question.source);
  assertion += "." + base64url_of(*signature);
  return post_form(
      question, url,
      {{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"}, {"assertion", std::move(assertion)}});
}

Result<Token> of_user(const TokenQuestion& question, const Json& file) {
  CKPT_TRY(check_members(question, file, {"client_id", "client_secret", "refresh_token"}));
  const std::string uri = first_of({text_member(file, "token_uri"), std::string(kTokenUri)});
  CKPT_ASSIGN(const web::Url url, private_url(question, uri, "token_uri"));
  return post_form(question, url,
                   {{"grant_type", "refresh_token"},
                    {"client_id", text_member(file, "client_id")},
                    {"client_secret", text_member(file, "client_secret")},
                    {"refresh_token", text_member(file, "refresh_token")}});
}

// The address may be that of Azure's metadata, which no cable carries either.
Result<std::string> get_subject_token(const TokenQuestion& question, const Json& source, const std::string& address) {
  HttpRequest request;
  request.method = "GET";
  auto url = web::parse_url(address);
  if (!url.ok() || !url->user.empty() || url->host != "169.254.169.254")
    url = private_url(question, address, "credential_source.url");
  if (!url.ok()) return std::move(url).status();
  request.url = url->sent();
  request.direct = url->scheme == "http";
  if (const Json* headers = member(source, "headers"); headers && headers->is_object())
    for (const auto& [name, value] : headers->items())
      if (value.is_string()) request.headers.push_back({in_lower_case(name), value.get<std::string>()});
  HttpReply reply = ask_key_service(question.http, request);
  if (!reply.trouble.empty() || !reply.good()) return no_good_answer(question.source + ", " + url->shown(), reply);
  return std::move(reply.text);
}

// What another cloud or a cluster says of who we are.
Result<std::string> subject_token(const TokenQuestion& question, const Json& source) {
  for (const char* other : {"environment_id", "executable", "certificate"})
    if (member(source, other))
      return Status(CKPT_UNSUPPORTED,
                    strformat("credentials of {}: credential_source has {}, which ckpt cannot use; give it the file or "
                              "the url of an OIDC token, or use the key of a service account",
                              question.source, other));
  const std::string path = text_member(source, "file"), address = text_member(source, "url");
  if (path.empty() == address.empty()) return question.invalid("credential_source: expected a file or a url");
  std::string text;
  CKPT_ASSIGN(text, path.empty() ? get_subject_token(question, source, address) : read_named(question, path));
  const Json* format = member(source, "format");
  const std::string type = format ? text_member(*format, "type") : "";
  if (type == "json") {
    const SecretJson json(std::move(text));
    text = text_member(*json, text_member(*format, "subject_token_field_name").c_str());
  } else if (!type.empty() && type != "text") {
    return question.invalid("credential_source.format: expected text or json");
  }
  text = single_line(std::move(text));
  if (text.empty()) return question.invalid("credential_source: there is no token");
  return text;
}

Result<Token> impersonated(const TokenQuestion& question, const Json& file, const Token& by, std::string_view scope,
                           int64_t lifetime) {
  const char* const field = "service_account_impersonation_url";
  CKPT_ASSIGN(const web::Url url, private_url(question, text_member(file, field), field));
  Json body = {{"scope", {scope}}, {"lifetime", std::to_string(lifetime) + "s"}};
  if (const Json* delegates = member(file, "delegates"); delegates && delegates->is_array())
    for (const Json& delegate : *delegates)
      if (delegate.is_string()) body["delegates"].push_back(delegate);
  return post_for_token(question, url, {{"content-type", "application/json"}, {"authorization", "Bearer " + by.value}},
                        body.dump(), std::span(&by.value, 1));
}

// What STS is asked, beside the client's name.
Result<Query> exchange_form(const TokenQuestion& question, const Json& file, std::string_view scope) {
  const Json* source = member(file, "credential_source");
  Query form = {{"grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"},
                {"requested_token_type", "urn:ietf:params:oauth:token-type:access_token"},
                {"audience", text_member(file, "audience")},
                {"subject_token_type", text_member(file, "subject_token_type")},
                {"scope", std::string(scope)}};
  const std::string project = text_member(file, "workforce_pool_user_project");
  if (!project.empty() && text_member(file, "client_id").empty())  // encoded twice, as Google's own clients do
    form.push_back({"options", percent_encode(Json{{"userProject", project}}.dump(), false)});
  CKPT_ASSIGN(std::string token, subject_token(question, source ? *source : Json()));
  form.push_back({"subject_token", std::move(token)});
  return form;
}

Result<Token> of_external(const TokenQuestion& question, const Json& file, std::string_view scope) {
  CKPT_TRY(check_members(question, file, {"audience", "subject_token_type"}));
  const bool impersonates = !text_member(file, "service_account_impersonation_url").empty();
  const std::string uri = first_of({text_member(file, "token_url"), std::string(kExchangeUri)});
  CKPT_ASSIGN(const web::Url url, private_url(question, uri, "token_url"));
  CKPT_ASSIGN(Query form, exchange_form(question, file, impersonates ? kScopeOfIam : scope));
  std::vector<Header> headers;
  std::vector<std::string> secrets;
  if (const std::string id = text_member(file, "client_id"); !id.empty()) {
    const std::string secret = text_member(file, "client_secret"), basic = base64_of(as_bytes(id + ":" + secret));
    headers.push_back({"authorization", "Basic " + basic});
    secrets = {secret, basic};
  }
  auto token = post_form(question, url, std::move(form), std::move(headers), std::move(secrets));
  if (!token.ok() || !impersonates) return token;
  const Json* options = member(file, "service_account_impersonation");
  const int64_t lifetime = options ? number_member(*options, "token_lifetime_seconds") : -1;
  return impersonated(question, file, *token, scope, lifetime > 0 ? lifetime : kLifetime);
}

Result<Token> of_kind(const TokenQuestion& question, const Json& file, std::string_view scope) {
  const std::string kind = text_member(file, "type");
  if (kind == "service_account") return of_service_account(question, file, scope);
  if (kind == "authorized_user") return of_user(question, file);
  if (kind == "external_account") return of_external(question, file, scope);
  if (kind == "impersonated_service_account" && scope != kScopeOfIam) {
    const Json* source = member(file, "source_credentials");
    if (!source) return question.invalid("source_credentials is missing");
    CKPT_ASSIGN(const Token by, of_kind(question, *source, kScopeOfIam));
    return impersonated(question, file, by, scope, kLifetime);
  }
  if (kind == "external_account_authorized_user" || kind == "gdch_service_account")
    return Status(CKPT_UNSUPPORTED,
                  strformat("credentials of {}: {}, which ckpt cannot use; use the key of a service account, or an "
                            "external_account with the file of a token",
                            question.source, kind));
  return question.invalid("no JSON with a type that can be used here, such as service_account");
}

Result<Token> of_file(const TokenQuestion& question, Result<std::string> text) {
  if (!text.ok()) return std::move(text).status();
  if (text->size() > kMostKeyAnswer) return question.invalid(strformat("more than {} bytes", kMostKeyAnswer));
  const SecretJson file(text.take());
  return of_kind(question, *file, kScope);
}

Token nobody(std::string_view why) {
  Token token;
  token.source = strformat("nobody ({})", why);
  return token;
}

}  // namespace

// Anonymous where there is no such server, or the machine has no service account. What answers without its header is
// something else, such as the page of a network that wants a login.
Result<Token> TokenChain::of_metadata(int64_t now) const {
  const std::string given = place_.variable("GCE_METADATA_HOST");
  const TokenQuestion question{http_, now, "the metadata server"};
  auto url = web::parse_url("http://" + (given.empty() ? "metadata.google.internal" : given) +
                            "/computeMetadata/v1/instance/service-accounts/default/token");
  if (!url.ok() || !url->user.empty()) return question.invalid("GCE_METADATA_HOST: expected HOST[:PORT]");
  HttpReply reply = ask_key_service(http_, metadata_request(*url, {{"metadata-flavor", "Google"}}));
  const std::string* flavor = reply.header("metadata-flavor");
  const bool stranger = reply.trouble.empty() && (!flavor || *flavor != "Google") && reply.status < 400;
  if (reply.status == 404 || stranger || (!flavor && is_no_instance(reply))) return nobody("no credentials were found");
  if (!reply.trouble.empty() || !reply.good()) return refusal_of(question, reply, {});
  return read_token(question, std::move(reply.text));
}

Result<Token> TokenChain::ask(int64_t now) const {
  if (const std::string path = place_.variable("GOOGLE_APPLICATION_CREDENTIALS"); !path.empty()) {
    const TokenQuestion question{http_, now, "GOOGLE_APPLICATION_CREDENTIALS " + path};
    return of_file(question, read_named(question, path));
  }
  if (!place_.variable("STORAGE_EMULATOR_HOST").empty()) return nobody("STORAGE_EMULATOR_HOST is set");
  const std::string home = place_.variable("HOME");
  const std::string folder =
      first_of({place_.variable("CLOUDSDK_CONFIG"), home.empty() ? "" : home + "/.config/gcloud"});
  const TokenQuestion question{http_, now, folder + "/application_default_credentials.json"};
  auto text = folder.empty() ? Result<std::string>(Status(CKPT_NOT_FOUND, "")) : read_small_file(question.source);
  if (text.ok()) return of_file(question, std::move(text));
  if (text.status().code() != CKPT_NOT_FOUND) return of_file(question, read_named(question, question.source));
  if (place_.variable("NO_GCE_CHECK") == "true") return nobody("no credentials were found");
  return of_metadata(now);
}

}  // namespace ckpt::store::gcs

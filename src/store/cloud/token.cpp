#include "store/cloud/token.h"

#include <algorithm>

#include "base/address.h"
#include "store/cloud/key_service.h"
#include "store/cloud/secret_json.h"

namespace ckpt::store::cloud {

using Json = nlohmann::json;

Token::~Token() { wipe(value); }

Result<web::Url> private_url(const TokenQuestion& question, std::string_view text, std::string_view field) {
  auto url = web::parse_url(text);
  if (url.ok() && url->user.empty() && url->is_private()) return url;
  return question.invalid(strformat("{}: expected https://, or http:// on this machine, without a user", field));
}

// What a server says of its refusal: OAuth's two texts, or Google's status and message.
Status refusal_of(const TokenQuestion& question, const HttpReply& reply, std::span<const std::string> secrets) {
  constexpr size_t kMostWords = 300;
  Status status = no_good_answer(question.source, reply);
  if (!reply.trouble.empty()) return status;
  const SecretJson answer(reply.text);
  const Json* error = member(*answer, "error");
  const bool of_google = error && error->is_object();
  std::string words;
  for (const std::string& text :
       {of_google ? text_member(*error, "status") : text_member(*answer, "error"),
        of_google ? text_member(*error, "message") : text_member(*answer, "error_description")})
    // Microsoft's have numbers for its own log behind them.
    if (const std::string said = text.substr(0, std::min(text.find("\r\n"), text.find(" Trace ID: ")));
        !said.empty() && said.size() <= kMostWords && is_sendable(said))
      words += " " + said;
  return Status(CKPT_IO, status.message() + blotted(words, secrets));
}

Result<Token> read_token(const TokenQuestion& question, std::string text) {
  const SecretJson answer(std::move(text));
  Token token;
  token.source = question.source;
  const bool of_iam = member(*answer, "accessToken") != nullptr;
  token.value = text_member(*answer, of_iam ? "accessToken" : "access_token");
  const int64_t seconds = number_member(*answer, "expires_in");
  token.expires = of_iam        ? seconds_of_iso(text_member(*answer, "expireTime"))
                  : seconds > 0 ? question.now + seconds
                                : number_member(*answer, "expires_on");  // App Service tells the time alone
  const auto wrong = [&](std::string_view why) {
    return Status(CKPT_FORMAT, strformat("credentials of {}: {}", question.source, why));
  };
  if (token.value.empty()) return wrong("the answer has no token");
  if (!is_sendable(token.value) || token.value.find(' ') != token.value.npos)
    return wrong("the token has characters that none has, such as a line break");
  if (token.expires < 0) return wrong("the token expires at no date");
  return token;
}

Result<Token> post_for_token(const TokenQuestion& question, const web::Url& url, std::vector<Header> headers,
                             const std::string& text, std::span<const std::string> secrets) {
  const Bytes body = as_bytes(text);
  HttpRequest request;
  request.method = "POST";
  request.url = url.sent();
  request.headers = std::move(headers);
  request.body = std::span(&body, 1);
  request.direct = url.is_loopback();
  HttpReply reply = ask_key_service(question.http, request);
  if (!reply.trouble.empty() || !reply.good()) return refusal_of(question, reply, secrets);
  return read_token(question, std::move(reply.text));
}

Result<Token> post_form(const TokenQuestion& question, const web::Url& url, Query form, std::vector<Header> headers,
                        std::vector<std::string> secrets) {
  for (const auto& [name, value] : form)
    if (name == "assertion" || name == "client_secret" || name == "client_assertion" || name == "refresh_token" ||
        name == "subject_token")
      secrets.insert(secrets.end(), {value, percent_encode(value, false)});
  std::string body = canonical_query(form);
  headers.push_back({"content-type", "application/x-www-form-urlencoded"});
  auto token = post_for_token(question, url, std::move(headers), body, secrets);
  wipe(body);
  for (auto& [name, value] : form) wipe(value);
  for (std::string& secret : secrets) wipe(secret);
  return token;
}

bool is_private(const Place& place) {
  const auto url = web::parse_url(place.endpoint());
  return url.ok() && url->is_private();
}

Status bear_secret(const Place& place, std::string_view secret, HttpRequest* http) {
  http->direct = place.scheme != "https";
  if (!http->direct || is_private(place)) return Ok();
  return Status(CKPT_INVALID, strformat("{} goes by https or to this machine only, and the endpoint is {}", secret,
                                        place.endpoint()));
}

HttpRequest metadata_request(const web::Url& url, std::vector<Header> headers) {
  HttpRequest request;
  request.method = "GET";
  request.url = url.sent();
  request.headers = std::move(headers);
  request.direct = true;
  request.connect_ms = 1000;
  request.most_ms = 3000;
  return request;
}

Result<std::string> read_named(const TokenQuestion& question, const std::string& path) {
  auto text = read_small_file(path);
  if (text.ok() || text.status().code() == CKPT_NOMEM) return text;
  return question.invalid(text.status().message());
}

}  // namespace ckpt::store::cloud

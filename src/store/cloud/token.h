// Tokens that bear a request, and the servers that give them: OAuth's token endpoints and the metadata of a machine.
// Tokens and keys are in no error and no log. No state.
#pragma once

#include <span>

#include "store/cloud/http.h"
#include "store/cloud/place.h"
#include "store/cloud/renewed.h"
#include "store/web/url.h"

namespace ckpt::store::cloud {

struct Token {
  std::string value;    // "": requests are sent without one
  int64_t expires = 0;  // seconds since 1970; 0: never
  std::string source;   // "the metadata server"

  Token() = default;
  Token(Token&&) = default;
  Token& operator=(Token&&) = default;
  ~Token();  // wipes it
  bool anonymous() const { return value.empty(); }
  bool same_as(const Token& other) const { return value == other.value; }
};

// One question: who is asked for a token, when, and how errors name that.
struct TokenQuestion {
  Http& http;
  int64_t now;
  std::string source;

  Status invalid(std::string_view why) const {
    return Status(CKPT_INVALID, strformat("credentials of {}: {}", source, why));
  }
};

// Where secrets may be sent: nobody can read them on the way.
Result<web::Url> private_url(const TokenQuestion& question, std::string_view text, std::string_view field);
// The same of requests to a store.
bool is_private(const Place& place);
// Readies a request that bears a secret: it goes by https, or to this machine and by no proxy, which would read it.
// INVALID where it would go otherwise.
Status bear_secret(const Place& place, std::string_view secret, HttpRequest* http);

// What a server says of its refusal; `secrets`: what it may repeat in its words.
Status refusal_of(const TokenQuestion& question, const HttpReply& reply, std::span<const std::string> secrets);
// As OAuth gives it, as Google's IAM does, or as the metadata of a machine does. FORMAT
Result<Token> read_token(const TokenQuestion& question, std::string text);
Result<Token> post_for_token(const TokenQuestion& question, const web::Url& url, std::vector<Header> headers,
                             const std::string& text, std::span<const std::string> secrets);
Result<Token> post_form(const TokenQuestion& question, const web::Url& url, Query form,
                        std::vector<Header> headers = {}, std::vector<std::string> secrets = {});
// A GET of the metadata of a machine, at an address that no cable carries: who is asked answers at once.
HttpRequest metadata_request(const web::Url& url, std::vector<Header> headers);

// A file that the settings name. Absent or unreadable, it is a wrong setting, and no object of the store.
Result<std::string> read_named(const TokenQuestion& question, const std::string& path);

}  // namespace ckpt::store::cloud

// Who the requests are from: a shared access signature or the key of the account, which options, a connection string or
// the environment has; a token of Microsoft's identity platform for a service principal, a workload or the machine; or
// nobody. The first that is configured counts; if it fails, so does the request, and no later one is tried. Keys and
// signatures of the environment are of the account that the environment names, and go to no other.
// Secrets are in no error and no log. May be used by many threads.
#pragma once

#include "store/azure/config.h"
#include "store/cloud/token.h"

namespace ckpt::store::azure {

struct Credentials : Token {
  std::string key;  // of the account, not encoded
  std::string sas;  // "sv=…&sig=…"

  Credentials() = default;
  explicit Credentials(Token token) : Token(std::move(token)) {}
  Credentials(Credentials&&) = default;
  Credentials& operator=(Credentials&&) = default;
  ~Credentials();  // wipes them
  bool anonymous() const { return value.empty() && key.empty() && sas.empty(); }
  bool same_as(const Credentials& other) const { return value == other.value && key == other.key && sas == other.sas; }
};

class CredentialChain {
 public:
  // Both must outlive it. Reads no environment but that in `config`.
  CredentialChain(const Config& config, Http& http)
      : config_(config), http_(http), renewed_([this](int64_t now) { return ask(now); }) {}
  // See Renewed. INVALID: a setting is wrong.
  Result<std::shared_ptr<const Credentials>> get(int64_t now) { return renewed_.get(now); }
  bool refused(const Credentials& by_server, int64_t now) { return renewed_.refused(by_server, now); }

 private:
  Result<Credentials> ask(int64_t now) const;
  Result<Token> ask_token(int64_t now) const;
  Result<Token> of_application(TokenQuestion question) const;
  Result<Token> of_machine(TokenQuestion question) const;

  const Config& config_;
  Http& http_;
  Renewed<Credentials> renewed_;
};

}  // namespace ckpt::store::azure

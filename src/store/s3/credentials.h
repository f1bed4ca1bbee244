// Who the requests are signed for: the environment, ~/.aws (keys or credential_process), a web identity, a container's
// endpoint, the instance's metadata (version 2), or nobody. The first that is configured counts; if it fails, so does
// the request, and no later one is tried.
// Keys are in no error and no log. May be used by many threads.
#pragma once

#include <memory>

#include "store/cloud/http.h"
#include "store/cloud/renewed.h"
#include "store/s3/config.h"
#include "store/s3/sign.h"

namespace ckpt::store::s3 {

struct Credentials {
  Keys keys;
  int64_t expires = 0;  // seconds since 1970; 0: never
  std::string source;   // "the environment"

  Credentials() = default;
  Credentials(Credentials&&) = default;
  Credentials& operator=(Credentials&&) = default;
  ~Credentials();  // wipes them
  bool anonymous() const { return keys.anonymous(); }
  bool same_as(const Credentials& other) const;
};

class CredentialChain {
 public:
  // Both must outlive it. Reads no environment but that in `config`.
  CredentialChain(const Config& config, Http& http)
      : config_(config), http_(http), renewed_([this](int64_t) { return ask(); }) {}
  // See Renewed.
  Result<std::shared_ptr<const Credentials>> get(int64_t now) { return renewed_.get(now); }
  bool refused(const Credentials& by_server, int64_t now) { return renewed_.refused(by_server, now); }

 private:
  Result<Credentials> ask() const;
  Result<Credentials> of_profile(const Profile& profile) const;
  Result<Credentials> of_process(const std::string& command) const;
  Result<Credentials> of_web_identity(const std::string& role, const std::string& token_file) const;
  Result<Credentials> of_container() const;
  Result<Credentials> of_instance() const;

  const Config& config_;
  Http& http_;
  Renewed<Credentials> renewed_;
};

// Credentials in the JSON of a process, a container or an instance; `token` is the name of the session token there.
// FORMAT
Result<Credentials> parse_credentials(std::string_view json, const char* token, std::string_view source);

}  // namespace ckpt::store::s3

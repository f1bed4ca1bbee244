// Who the requests are signed for: the environment, ~/.aws (keys or credential_process), a web identity, a container's
// endpoint, the instance's metadata (version 2), or nobody. The first that is configured counts; if it fails, so does
// the request, and no later one is tried.
// Keys are in no error and no log. May be used by many threads.
#pragma once

#include <memory>
#include <mutex>

#include "store/s3/config.h"
#include "store/s3/http.h"

namespace ckpt::store::s3 {

struct Credentials {
  Keys keys;
  int64_t expires = 0;  // seconds since 1970; 0: never
  std::string source;   // "the environment"

  Credentials() = default;
  Credentials(Credentials&&) = default;
  Credentials& operator=(Credentials&&) = default;
  ~Credentials();  // wipes them
};

class CredentialChain {
 public:
  // Both must outlive it.
  CredentialChain(const Config& config, Http& http) : config_(config), http_(http) {}
  // Asked for again five minutes before they expire; if that fails, the old ones count until the end.
  Result<std::shared_ptr<const Credentials>> get();
  // The server refused these: the next get() asks again. False if that would bring the same.
  bool refused(const Credentials& by_server);

 private:
  Result<Credentials> ask() const;
  Result<Credentials> of_process(const std::string& command) const;
  Result<Credentials> of_web_identity(const std::string& role, const std::string& token_file) const;
  Result<Credentials> of_container() const;
  Result<Credentials> of_instance() const;

  const Config& config_;
  Http& http_;
  std::mutex mutex_;
  std::shared_ptr<const Credentials> known_;
};

// Credentials in the JSON of a process, a container or an instance; `token` is the name of the session token there.
// FORMAT
Result<Credentials> parse_credentials(std::string_view json, const char* token, std::string_view source);

}  // namespace ckpt::store::s3

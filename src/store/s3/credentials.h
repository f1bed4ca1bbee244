// Who the requests are signed for: the environment, ~/.aws (keys or credential_process), a web identity, a container's
// endpoint, the instance's metadata (version 2), or nobody. The first that is configured counts; if it fails, so does
// the request, and no later one is tried. Keys that are known are never given up for nobody.
// Keys are in no error and no log. May be used by many threads.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

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
};

class CredentialChain {
 public:
  // Both must outlive it. Reads no environment but that in `config`.
  CredentialChain(const Config& config, Http& http) : config_(config), http_(http) {}
  // `now` is the server's time, in seconds. Keys are asked for again five minutes before they expire, by one thread and
  // once in half a minute; meanwhile, and if that fails, the old ones count until their end.
  Result<std::shared_ptr<const Credentials>> get(int64_t now);
  // The server refused these: asks again, once in half a minute. False if that brought no others.
  bool refused(const Credentials& by_server, int64_t now);

 private:
  using Shared = std::shared_ptr<const Credentials>;
  bool are_good(int64_t now) const { return known_ && (known_->expires == 0 || now < known_->expires); }
  bool are_due(int64_t now) const;
  Result<Shared> renew(std::unique_lock<std::mutex>& lock, int64_t now);
  Result<Credentials> ask() const;
  HttpReply exchange(const HttpRequest& request) const;
  Result<Credentials> of_profile(const Profile& profile) const;
  Result<Credentials> of_process(const std::string& command) const;
  Result<Credentials> of_web_identity(const std::string& role, const std::string& token_file) const;
  Result<Credentials> of_container() const;
  Result<Credentials> of_instance() const;

  const Config& config_;
  Http& http_;
  std::mutex mutex_;
  std::condition_variable answered_;
  Shared known_;
  bool asking_ = false;                           // some thread, without the lock
  int64_t asked_ = kNever, refused_at_ = kNever;  // when, by `now`
  Status failure_;                                // of the last question
  static constexpr int64_t kNever = INT64_MIN / 2;
};

// Credentials in the JSON of a process, a container or an instance; `token` is the name of the session token there.
// FORMAT
Result<Credentials> parse_credentials(std::string_view json, const char* token, std::string_view source);

}  // namespace ckpt::store::s3

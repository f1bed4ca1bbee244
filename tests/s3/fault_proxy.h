// Stands between a client and an HTTP server, and does something to one of the requests.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "s3/http_server.h"

namespace ckpt::store {

enum class Fault {
  kNone,
  kReset,        // the connection ends before the server has the request
  kLost,         // the server has done it, and the connection ends before the answer
  kError,        // 500, and the server never had it
  kErrorAfter,   // 500, although the server has done it
  kSlowDown,     // 503
  kStall,        // the server has done it, and the answer never comes
  kTruncate,     // half of the answer comes
  kFlipAnswer,   // a bit of the object that is read is wrong
  kFlipRequest,  // a bit of what is put is wrong
  kTwice,        // the server has it twice, and the first answer comes
  kTwiceSecond,  // the same, with the second answer
  kLate,         // the server has it, and a copy stays on the way until repeat()
  kKill,         // the client is killed before the server has it
  kKillAfter,    // and after that
};
inline constexpr Fault kFaults[] = {Fault::kReset,    Fault::kLost,        Fault::kError,      Fault::kErrorAfter,
                                    Fault::kSlowDown, Fault::kTruncate,    Fault::kFlipAnswer, Fault::kFlipRequest,
                                    Fault::kTwice,    Fault::kTwiceSecond, Fault::kStall};
const char* name_of(Fault fault);
// The answer of a server that refuses.
std::string error_answer(const std::string& status, const std::string& code);

class FaultProxy {
 public:
  // `server`: "http://127.0.0.1:PORT", also with a path
  explicit FaultProxy(const std::string& server);

  std::string endpoint() const { return server_.endpoint() + path_; }
  // Whom kKill kills.
  void victim(pid_t process) { victim_ = process; }
  // Counts from 1 again; request `number` gets the fault. Those that it cannot concern pass it on to the next one.
  void arm(Fault fault, uint64_t number);
  // From now on the server seems to have carried out each request of that verb whose condition does not hold.
  void ignore_conditions(const std::string& verb) { ignored_ = verb; }
  // Asked first about each request, as "PUT /bucket/key?query": what to answer instead of the server; "" for nothing.
  // May arm() a fault for it.
  using Script = std::function<std::string(const std::string& line)>;
  void script(Script script) {
    std::lock_guard lock(mutex_);
    script_ = std::move(script);
  }
  // The copy that kLate kept arrives: what the server answers.
  std::string repeat();
  // From now on the server's clock seems to be so many seconds ahead.
  void shift_dates(int64_t seconds) { ahead_ = seconds; }
  uint64_t requests() const { return count_; }
  // The bytes of all answers that came from the server.
  uint64_t answered() const { return answered_; }
  // "PUT /bucket/key 412" of the request that got it; "" if none did.
  std::string struck();

 private:
  bool answer(int client, const std::string& head, std::string body);
  std::string ask(const std::string& head, const std::string& body);
  bool act(int client, Fault fault, const std::string& head, std::string body);

  const int port_;  // of the server
  const std::string path_;
  std::atomic<uint64_t> count_ = 0, answered_ = 0;
  std::atomic<pid_t> victim_ = 0;
  std::mutex mutex_, replacing_;
  Fault fault_ = Fault::kNone;
  uint64_t number_ = 0;
  std::string struck_, ignored_, late_head_, late_body_;
  Script script_;
  std::atomic<int64_t> ahead_ = 0;
  HttpServer server_;  // last member: its threads use the others
};

}  // namespace ckpt::store

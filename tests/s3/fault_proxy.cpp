#include "s3/fault_proxy.h"

#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>

#include "s3/http_server.h"

namespace ckpt::store {

const char* name_of(Fault fault) {
  static constexpr const char* kNames[] = {"none",      "reset",         "lost",     "error",       "error after",
                                           "slow down", "stall",         "truncate", "flip answer", "flip request",
                                           "twice",     "twice, second", "late",     "killed",      "killed after"};
  return kNames[static_cast<size_t>(fault)];
}

FaultProxy::FaultProxy(const std::string& server)
    : port_(std::atoi(server.c_str() + server.rfind(':') + 1)),
      path_(server.substr(std::min(server.find('/', server.find("://") + 3), server.size()))),
      server_([this](int client, const std::string& head, std::string body) {
        return answer(client, head, std::move(body));
      }) {}

void FaultProxy::arm(Fault fault, uint64_t number) {
  std::lock_guard lock(mutex_);
  fault_ = fault;
  number_ = number;
  count_ = 0;
  struck_.clear();
}

std::string FaultProxy::struck() {
  std::lock_guard lock(mutex_);
  return struck_;
}

static bool concerns(Fault fault, const std::string& head, const std::string& body) {
  const std::string line = head.substr(0, head.find('\r'));
  if (fault == Fault::kFlipAnswer) return line.starts_with("GET") && line.find('?') == line.npos;
  if (fault == Fault::kFlipRequest) return line.starts_with("PUT") && !body.empty();
  return true;
}

std::string error_answer(const std::string& status, const std::string& code) {
  return answer_of(status, "<Error><Code>" + code + "</Code><Message>made up</Message></Error>");
}

bool FaultProxy::answer(int client, const std::string& head, std::string body) {
  Fault fault = Fault::kNone;
  Script script;
  {
    std::lock_guard lock(mutex_);
    script = script_;
  }
  const std::string made = script ? script(head.substr(0, head.find(" HTTP/"))) : "";
  {
    std::lock_guard lock(mutex_);
    if (++count_ >= number_ && number_ != 0 && concerns(fault_, head, body)) {
      fault = fault_;
      number_ = 0;
      struck_ = head.substr(0, head.find(" HTTP/"));
    }
  }
  if (!made.empty())
    return send_all(client, head.starts_with("HEAD") ? made.substr(0, made.find("\r\n\r\n") + 4) : made);
  return act(client, fault, head, std::move(body));
}

std::string FaultProxy::repeat() {
  std::lock_guard lock(mutex_);
  return late_head_.empty() ? "nothing was kept to be repeated" : ask_server(port_, late_head_, late_body_);
}

// An answer with its Date, so many seconds later.
static std::string later(std::string answer, int64_t seconds) {
  constexpr char kFormat[] = "%a, %d %b %Y %H:%M:%S GMT";
  const size_t at = std::min(answer.find("\r\nDate: "), answer.find("\r\ndate: "));  // Azurite's are small
  tm parts{};
  if (seconds == 0 || at == answer.npos || !strptime(answer.c_str() + at + 8, kFormat, &parts)) return answer;
  const time_t then = timegm(&parts) + seconds;
  char text[64];
  strftime(text, sizeof text, kFormat, gmtime_r(&then, &parts));
  return answer.replace(at + 8, answer.find('\r', at + 2) - at - 8, text);
}

// One at a time where it replaces what has a tag: S3Proxy looks at the tag and then puts, so that of four at once up to
// four got 200 (https://github.com/gaul/s3proxy/issues/894).
std::string FaultProxy::ask(const std::string& head, const std::string& body) {
  std::unique_lock one(replacing_, std::defer_lock);
  if (head.starts_with("PUT") && head.find("\r\nif-match:") != head.npos) one.lock();
  return ask_server(port_, head, body);
}

// False: the connection is to end.
bool FaultProxy::act(int client, Fault fault, const std::string& head, std::string body) {
  const bool is_head = head.starts_with("HEAD");
  if (fault == Fault::kReset) return false;
  if (fault == Fault::kKill) {
    ::kill(victim_, SIGKILL);
    return false;
  }
  if (fault == Fault::kError || fault == Fault::kSlowDown) {
    const std::string made = fault == Fault::kError ? error_answer("500 Internal Server Error", "InternalError")
                                                    : error_answer("503 Slow Down", "SlowDown");
    return send_all(client, is_head ? made.substr(0, made.find("\r\n\r\n") + 4) : made);
  }
  if (fault == Fault::kFlipRequest) body[body.size() / 2] ^= 4;
  if (fault == Fault::kLate) {
    std::lock_guard lock(mutex_);
    late_head_ = head;
    late_body_ = body;
  }
  std::string answer = later(ask(head, body), ahead_);
  if (fault == Fault::kTwice) (void)ask(head, body);
  if (fault == Fault::kTwiceSecond) answer = ask(head, body);
  const size_t content = answer.find("\r\n\r\n") + 4;
  if (fault == Fault::kKillAfter) ::kill(victim_, SIGKILL);
  if (fault == Fault::kLost || fault == Fault::kKillAfter) return false;
  if (fault == Fault::kErrorAfter) {
    const std::string made = error_answer("500 Internal Server Error", "InternalError");
    return send_all(client, is_head ? made.substr(0, made.find("\r\n\r\n") + 4) : made);
  }
  if (fault == Fault::kStall) {
    char one;
    while (::recv(client, &one, 1, 0) > 0) {
    }
    return false;
  }
  if (!ignored_.empty() && head.starts_with(ignored_) && answer.find(" 412 ") < 20)
    answer =
        "HTTP/1.1 200 OK\r\netag: \"x\"\r\ncontent-length: "
        "75\r\n\r\n<CompleteMultipartUploadResult><Key>x</Key></CompleteMultipartUploadResult>";
  if (fault == Fault::kTruncate) {
    send_all(client,
             std::string_view(answer).substr(0, (content < answer.size() ? content + answer.size() : content) / 2));
    return false;
  }
  if (fault == Fault::kFlipAnswer && content < answer.size()) answer[(content + answer.size()) / 2] ^= 4;
  answered_ += answer.size();
  return !answer.empty() && send_all(client, answer);
}

}  // namespace ckpt::store

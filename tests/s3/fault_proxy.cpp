#include "s3/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ckpt::store {

const char* name_of(Fault fault) {
  static constexpr const char* kNames[] = {"none",      "reset",    "lost",        "error",        "error after", "slow down",
                                           "stall",     "truncate", "flip answer", "flip request", "twice",       "twice, second"};
  return kNames[static_cast<size_t>(fault)];
}

static sockaddr_in local_address(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

static bool send_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::send(to, text.data(), text.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

static bool receive_more(int from, std::string* text) {
  char buffer[65536];
  const ssize_t count = ::recv(from, buffer, sizeof buffer, 0);
  if (count > 0) text->append(buffer, static_cast<size_t>(count));
  return count > 0;
}

// The value of a header, or "".
static std::string header_of(const std::string& head, const std::string& name) {
  std::string lower = head;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const size_t at = lower.find("\r\n" + name + ":");
  if (at == head.npos) return "";
  const size_t begin = head.find_first_not_of(' ', at + name.size() + 3);
  return head.substr(begin, head.find('\r', begin) - begin);
}

// Takes a head with its blank line off the front of `text`.
static bool take_head(int from, std::string* text, std::string* head) {
  size_t end;
  while ((end = text->find("\r\n\r\n")) == text->npos)
    if (!receive_more(from, text)) return false;
  *head = text->substr(0, end + 4);
  text->erase(0, end + 4);
  return true;
}

static bool take_body(int from, std::string* text, size_t size, std::string* body) {
  while (text->size() < size)
    if (!receive_more(from, text)) return false;
  *body = text->substr(0, size);
  text->erase(0, size);
  return true;
}

FaultProxy::FaultProxy(const std::string& server) : server_port_(std::atoi(server.c_str() + server.rfind(':') + 1)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = local_address(0);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 64) != 0) std::abort();
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

FaultProxy::~FaultProxy() {
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    std::lock_guard lock(mutex_);
    for (int client : clients_) ::shutdown(client, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  for (int client : clients_) ::close(client);
  ::close(listener_);
}

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

void FaultProxy::accept_all() {
  for (;;) {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int yes = 1;
    ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    std::lock_guard lock(mutex_);
    clients_.push_back(client);
    threads_.emplace_back([this, client] { serve(client); });
  }
}

// The descriptor stays open, so that its number means nothing else, until the proxy ends.
void FaultProxy::serve(int client) {
  std::string text, head, body;
  while (take_head(client, &text, &head)) {
    const size_t size = static_cast<size_t>(std::atoll(header_of(head, "content-length").c_str()));
    if (!take_body(client, &text, size, &body) || !answer(client, head, body)) break;
  }
  ::shutdown(client, SHUT_RDWR);
}

// All of the server's answer; "" if there is none.
std::string FaultProxy::forward(const std::string& head, const std::string& body) const {
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = local_address(server_port_);
  std::string text, answer_head, answer_body;
  if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && send_all(server, head) &&
      send_all(server, body) && take_head(server, &text, &answer_head)) {
    const bool empty = head.starts_with("HEAD") || answer_head.find(" 204 ") < 20 || answer_head.find(" 304 ") < 20;
    const std::string length = header_of(answer_head, "content-length");
    if (empty) {
    } else if (!length.empty()) {
      take_body(server, &text, static_cast<size_t>(std::atoll(length.c_str())), &answer_body);
    } else {
      while (!text.ends_with("0\r\n\r\n") && receive_more(server, &text)) {
      }
      answer_body = text;
    }
  }
  ::close(server);
  return answer_head + answer_body;
}

static bool concerns(Fault fault, const std::string& head, const std::string& body) {
  const std::string line = head.substr(0, head.find('\r'));
  if (fault == Fault::kFlipAnswer) return line.starts_with("GET") && line.find('?') == line.npos;
  if (fault == Fault::kFlipRequest) return line.starts_with("PUT") && !body.empty();
  return true;
}

bool FaultProxy::answer(int client, const std::string& head, std::string body) {
  Fault fault = Fault::kNone;
  {
    std::lock_guard lock(mutex_);
    if (++count_ >= number_ && number_ != 0 && concerns(fault_, head, body)) {
      fault = fault_;
      number_ = 0;
      struck_ = head.substr(0, head.find(" HTTP/"));
    }
  }
  return act(client, fault, head, std::move(body));
}

static std::string error_answer(const char* status, const char* code) {
  const std::string body = std::string("<Error><Code>") + code + "</Code><Message>made up</Message></Error>";
  return std::string("HTTP/1.1 ") + status + "\r\ncontent-type: application/xml\r\ncontent-length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

// False: the connection is to end.
bool FaultProxy::act(int client, Fault fault, const std::string& head, std::string body) {
  const bool is_head = head.starts_with("HEAD");
  if (fault == Fault::kReset) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    return false;
  }
  if (fault == Fault::kError || fault == Fault::kSlowDown) {
    const std::string made = fault == Fault::kError ? error_answer("500 Internal Server Error", "InternalError")
                                                    : error_answer("503 Slow Down", "SlowDown");
    return send_all(client, is_head ? made.substr(0, made.find("\r\n\r\n") + 4) : made);
  }
  if (fault == Fault::kFlipRequest) body[body.size() / 2] ^= 4;
  std::string answer = forward(head, body);
  if (fault == Fault::kTwice) (void)forward(head, body);
  if (fault == Fault::kTwiceSecond) answer = forward(head, body);
  const size_t content = answer.find("\r\n\r\n") + 4;
  if (fault == Fault::kLost) return false;
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
  if (fault == Fault::kTruncate) {
    send_all(client, std::string_view(answer).substr(0, (content < answer.size() ? content + answer.size() : content) / 2));
    return false;
  }
  if (fault == Fault::kFlipAnswer && content < answer.size()) answer[(content + answer.size()) / 2] ^= 4;
  return !answer.empty() && send_all(client, answer);
}

}  // namespace ckpt::store

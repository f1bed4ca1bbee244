#include "s3/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace ckpt::store {

static sockaddr_in local_address(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

bool send_all(int to, std::string_view text) {
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

std::string header_of(const std::string& head, const std::string& name) {
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

std::string answer_of(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\ncontent-type: application/xml\r\ncontent-length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

HttpServer::HttpServer(Answer answer) : answer_(std::move(answer)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = local_address(0);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 64) != 0) std::abort();
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

HttpServer::~HttpServer() {
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (int client : clients_) ::shutdown(client, SHUT_RDWR);
  for (std::thread& thread : threads_) thread.join();
  for (int client : clients_) ::close(client);
  ::close(listener_);
}

// A descriptor stays open, so that its number means nothing else, until the server ends.
void HttpServer::accept_all() {
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

void HttpServer::serve(int client) {
  std::string text, head, body;
  while (take_head(client, &text, &head)) {
    const size_t size = static_cast<size_t>(std::atoll(header_of(head, "content-length").c_str()));
    if (!take_body(client, &text, size, &body) || !answer_(client, head, body)) break;
  }
  ::shutdown(client, SHUT_RDWR);
}

std::string ask_server(int port, const std::string& head, const std::string& body) {
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = local_address(port);
  std::string text, answer_head, answer_body;
  if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && send_all(server, head) &&
      send_all(server, body) && take_head(server, &text, &answer_head)) {
    const bool empty = head.starts_with("HEAD") || answer_head.find(" 204 ") < 20 || answer_head.find(" 304 ") < 20;
    const std::string length = header_of(answer_head, "content-length");
    if (!empty && !length.empty()) {
      take_body(server, &text, static_cast<size_t>(std::atoll(length.c_str())), &answer_body);
    } else if (!empty) {
      while (!text.ends_with("0\r\n\r\n") && receive_more(server, &text)) {
      }
      answer_body = text;
    }
  }
  ::close(server);
  return answer_head + answer_body;
}

}  // namespace ckpt::store

// A server for tests that reads requests and leaves what to answer to somebody else.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ckpt::store {

class HttpServer {
 public:
  // Answers on the descriptor; false: the connection is to end. Called by many threads.
  using Answer = std::function<bool(int client, const std::string& head, std::string body)>;
  explicit HttpServer(Answer answer);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  void accept_all();
  void serve(int client);

  const Answer answer_;
  int listener_ = -1, port_ = 0;
  std::mutex mutex_;
  std::vector<int> clients_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

bool send_all(int to, std::string_view text);
// A whole answer: "200 OK", a body.
std::string answer_of(const std::string& status, const std::string& body);
// The value of a header, or "".
std::string header_of(const std::string& head, const std::string& name);
// What a server at a port of this machine answers; "" if nothing.
std::string ask_server(int port, const std::string& head, const std::string& body);

}  // namespace ckpt::store

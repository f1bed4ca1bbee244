// A web server for tests: files in memory, ranges of them, and what is odd about such servers.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "s3/http_server.h"

namespace ckpt::store {

class FileServer {
 public:
  // What it does not do, or does in another way. To be set before it is asked.
  struct Manner {
    bool ranges = true;
    bool ends = true;  // it knows "the last 10 bytes"
    bool etags = true, dates = true, lengths = true;
    bool weak = false;       // ETags
    bool conditions = true;  // it heeds If-Match and If-Unmodified-Since
  };
  FileServer() : FileServer(Manner{}) {}
  explicit FileServer(const Manner& manner);

  std::string address() const { return server_.endpoint(); }
  // `path`: "/run7/a". What was there is replaced.
  void put(const std::string& path, std::string content);
  void remove(const std::string& path);
  // Every file of a directory, and below it.
  void put_directory(const std::string& path, const std::string& from);
  // Asked first about each request; its answer is sent, or "" for the server's own.
  using Script = std::function<std::string(const std::string& head)>;
  void script(Script script);

  // The heads of all requests, and how many bytes of files were sent.
  std::vector<std::string> heads();
  uint64_t sent();
  void forget();

 private:
  struct File {
    std::string content, etag, date;
  };
  bool answer(int client, const std::string& head);
  std::string make_answer(const std::string& head);

  const Manner manner_;
  std::mutex mutex_;
  std::map<std::string, File> files_;
  Script script_;
  std::vector<std::string> heads_;
  uint64_t sent_ = 0;
  int version_ = 0;
  HttpServer server_;  // last member: its threads use the others
};

// An answer that leads elsewhere.
std::string redirect_to(const std::string& location, const std::string& status = "302 Found");

}  // namespace ckpt::store

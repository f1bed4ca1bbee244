#include "s3/file_server.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ckpt::store {

std::string redirect_to(const std::string& location, const std::string& status) {
  return "HTTP/1.1 " + status + "\r\nlocation: " + location + "\r\ncontent-length: 0\r\n\r\n";
}

FileServer::FileServer(const Manner& manner)
    : manner_(manner),
      server_([this](int client, const std::string& head, const std::string&) { return answer(client, head); }) {}

void FileServer::put(const std::string& path, std::string content) {
  std::lock_guard lock(mutex_);
  const int version = ++version_;
  const std::string second = std::to_string(10 + version % 50);
  files_[path] = {std::move(content), (manner_.weak ? "W/\"v" : "\"v") + std::to_string(version) + "\"",
                  "Sun, 06 Nov 1994 08:49:" + second + " GMT"};
}

void FileServer::remove(const std::string& path) {
  std::lock_guard lock(mutex_);
  files_.erase(path);
}

void FileServer::put_directory(const std::string& path, const std::string& from) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    put(path + "/" + std::filesystem::relative(entry.path(), from).string(), text.str());
  }
}

void FileServer::script(Script script) {
  std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

std::vector<std::string> FileServer::heads() {
  std::lock_guard lock(mutex_);
  return heads_;
}

uint64_t FileServer::sent() {
  std::lock_guard lock(mutex_);
  return sent_;
}

void FileServer::forget() {
  std::lock_guard lock(mutex_);
  heads_.clear();
  sent_ = 0;
}

bool FileServer::answer(int client, const std::string& head) {
  Script script;
  {
    std::lock_guard lock(mutex_);
    heads_.push_back(head);
    script = script_;
  }
  std::string text = script ? script(head) : "";
  if (text.empty()) text = make_answer(head);
  const bool whole = send_all(client, text);
  return whole && text.find("connection: close") == text.npos;
}

// "bytes=2-5", "bytes=-4", "bytes=7-": what it means of so many bytes. False: nothing.
static bool parse_range(const std::string& text, size_t size, size_t* begin, size_t* end) {
  const size_t dash = text.find('-');
  if (!text.starts_with("bytes=") || dash == text.npos) return false;
  const std::string from = text.substr(6, dash - 6), to = text.substr(dash + 1);
  const size_t last = static_cast<size_t>(std::atoll(to.c_str()));
  *begin = from.empty() ? size - std::min(size, last) : static_cast<size_t>(std::atoll(from.c_str()));
  *end = from.empty() || to.empty() ? size : std::min(size, last + 1);
  return *begin < *end;
}

std::string FileServer::make_answer(const std::string& head) {
  std::lock_guard lock(mutex_);
  const std::string target = head.substr(head.find(' ') + 1, head.find(" HTTP/") - head.find(' ') - 1);
  const auto found = files_.find(target.substr(0, target.find('?')));
  if (found == files_.end()) return answer_of("404 Not Found", "<html>there is no such page</html>");
  const File& file = found->second;
  const std::string match = header_of(head, "if-match"), since = header_of(head, "if-unmodified-since");
  const bool fails = (!match.empty() && (match != file.etag || manner_.weak)) || (!since.empty() && since != file.date);
  if (manner_.conditions && fails) return answer_of("412 Precondition Failed", "");
  std::string headers;
  if (manner_.etags) headers += "etag: " + file.etag + "\r\n";
  if (manner_.dates) headers += "last-modified: " + file.date + "\r\n";
  const std::string range = header_of(head, "range");
  size_t begin = 0, end = file.content.size();
  const bool ranged = manner_.ranges && !range.empty() && (manner_.ends || !range.starts_with("bytes=-"));
  const std::string size = std::to_string(file.content.size());
  if (ranged && !parse_range(range, file.content.size(), &begin, &end))
    return "HTTP/1.1 416 Range Not Satisfiable\r\ncontent-range: bytes */" + size + "\r\ncontent-length: 0\r\n\r\n";
  if (ranged)
    headers += "content-range: bytes " + std::to_string(begin) + "-" + std::to_string(end - 1) + "/" + size + "\r\n";
  if (manner_.lengths)
    headers += "content-length: " + std::to_string(end - begin) + "\r\n";
  else
    headers += "connection: close\r\n";
  sent_ += end - begin;
  return (ranged ? "HTTP/1.1 206 Partial Content\r\n" : "HTTP/1.1 200 OK\r\n") + headers + "\r\n" +
         file.content.substr(begin, end - begin);
}

}  // namespace ckpt::store

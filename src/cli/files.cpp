#include "cli/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "cli/error.h"

namespace cli {
namespace {

// A file of a name that nobody has, which goes unless it was given another.
class FreshFile {
 public:
  explicit FreshFile(const std::string& path)
      : path_(path + "." + std::to_string(std::random_device()()) + ".new"),
        fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)) {}
  ~FreshFile() {
    if (fd_ >= 0) ::close(fd_), ::unlink(path_.c_str());
  }
  FreshFile(const FreshFile&) = delete;
  bool write(std::string_view text) const { return fd_ >= 0 && write_whole(fd_, text); }
  bool become(const std::string& path) {
    if (std::rename(path_.c_str(), path.c_str()) != 0) return false;
    return ::close(std::exchange(fd_, -1)) == 0;
  }

 private:
  const std::string path_;
  int fd_;
};

}  // namespace

bool write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void replace_file(const std::string& path, std::initializer_list<std::string_view> texts) {
  FreshFile file(path);
  bool done = true;
  for (const std::string_view text : texts) done = done && file.write(text);
  if (!done || !file.become(path)) fail(CKPT_IO, "cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace cli

#include "cli/export_csv.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/rows.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

// A directory that appears when it is complete.
class NewDirectory {
 public:
  explicit NewDirectory(const std::string& path)
      : path_(path.substr(0, path.find_last_not_of('/') + 1)),
        partial_(path_ + ".partial-" + std::to_string(getpid())) {
    refuse_existing();
    remove_killed();
    std::error_code code;
    if (!fs::create_directory(partial_, code)) failed(partial_, code ? code.message() : std::strerror(EEXIST));
    held_ = lock(partial_);
  }
  ~NewDirectory() {
    std::error_code code;
    fs::remove_all(partial_, code);
    ::close(held_);
  }
  NewDirectory(const NewDirectory&) = delete;

  std::string folder(const std::string& name) const {
    std::error_code code;
    fs::create_directory(partial_ + "/" + name, code);
    if (code) failed(partial_ + "/" + name, code.message());
    return name + "/";
  }
  // Calls write(put), which gives the file's text to put.
  template <typename Write>
  void write(const std::string& name, Write&& write) const {
    const std::string file = partial_ + "/" + name;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(file.c_str(), "wxe"), std::fclose);
    if (!out) failed(file, std::strerror(errno));
    write([&](std::string_view text) {
      if (std::fwrite(text.data(), 1, text.size(), out.get()) != text.size()) failed(file, std::strerror(errno));
    });
    if (std::fflush(out.get()) != 0 || ::fsync(::fileno(out.get())) != 0) failed(file, std::strerror(errno));
  }
  void finish() const {
    refuse_existing();
    std::error_code code;
    fs::rename(partial_, path_, code);
    if (code) failed(path_, code.message());
  }

 private:
  // A directory of this user, until its descriptor is closed or its process has ended; -1: it is another's, or locked.
  static int lock(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat found{};
    const bool own = ::fstat(fd, &found) == 0 && found.st_uid == ::geteuid();
    if (own && ::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    return ::close(fd), -1;
  }
  // What exports to the same path have left that were killed.
  void remove_killed() const {
    const fs::path given(path_);
    const std::string begin = given.filename().string() + ".partial-";
    std::error_code code;
    for (fs::directory_iterator at(given.has_parent_path() ? given.parent_path() : ".", code), end; !code && at != end;
         at.increment(code)) {
      if (!at->path().filename().string().starts_with(begin)) continue;
      const int held = lock(at->path());
      std::error_code ignored;
      if (held >= 0) fs::remove_all(at->path(), ignored);
      ::close(held);
    }
  }
  void refuse_existing() const {
    std::error_code code;
    if (fs::exists(fs::symlink_status(path_, code))) fail(CKPT_EXISTS, path_ + " exists; remove it first");
  }
  [[noreturn]] static void failed(const std::string& path, const std::string& why) {
    fail(CKPT_IO, "cannot write " + path + ": " + why);
  }

  const std::string path_, partial_;
  int held_ = -1;
};

// A name as one file's: what is neither letter, digit, '-', '_' nor '.' as in a URL, "a%2Fb", and a '.' in front.
std::string file_name(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-' || c == '_' ||
                       (c == '.' && !out.empty());
    out += plain ? std::string(1, c) : print_format("%%%02X", static_cast<unsigned char>(c));
  }
  return out + ".csv";
}

}  // namespace

uint64_t export_csv(const ckpt::Reader& reader, const ckpt::Reader* since, const std::string& at,
                    const std::string& path, const ckpt::Options& options) {
  std::vector<SparseTable> tables = tables_of(reader);
  std::erase_if(tables, [&](const SparseTable& table) { return !is_under(at, table.name()); });
  if (tables.empty()) fail(CKPT_NOT_FOUND, "no sparse table is there, and CSV is for those");
  const NewDirectory to(path);
  const std::string removed = since ? to.folder("removed") : "";
  for (const SparseTable& table : tables) {
    ckpt::Rowset rows = ckpt::Rowset::all().window(window_rows(table));
    if (since) rows.since(*since);
    const RowReader reading(table, rows, options);
    to.write(file_name(table.name()), [&](const auto& put) { write_csv(table, reading, put); });
    if (since)
      to.write(removed + file_name(table.name()), [&](const auto& put) {
        put("id\r\n");
        for (const uint64_t id : reading.missing()) put(id_text(table, id) + "\r\n");
      });
  }
  to.finish();
  return tables.size();
}

}  // namespace cli

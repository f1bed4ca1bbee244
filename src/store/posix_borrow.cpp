#include "store/posix_borrow.h"

#include <fcntl.h>
#include <unistd.h>

#include "store/keys.h"
#include "store/posix_directory.h"
#include "store/posix_reader.h"

namespace ckpt::store {

namespace {

class Link final : public Borrowed {
 public:
  Link(const Root& root, std::string_view key, Fd directory, bool made)
      : root_(root), key_(key), directory_(std::move(directory)), made_(made) {}

  Status open() {
    // A link in the place of the file, or a FIFO, is refused here.
    auto opened = PosixReader::open(root_, key_, false);
    if (!opened.ok()) return std::move(opened).status();
    file_ = opened.take();
    return Ok();
  }
  const Reader& file() const override { return *file_; }
  void drop() override {
    file_.reset();
    if (std::exchange(made_, false))
      (void)unlink_file(directory_.get(), std::string(last_of(key_)), root_.path(directory_of(key_)));
  }

 private:
  const Root root_;
  const std::string key_;
  const Fd directory_;
  bool made_;  // by this call
  std::unique_ptr<PosixReader> file_;
};

}  // namespace

// A file system, or a rule of the kernel (fs.protected_hardlinks), may not allow the link.
static Status cannot_link(int error, std::string_view path) {
  Status failed = fail(error, "link", path);
  const bool never =
      error == EXDEV || error == EPERM || error == EMLINK || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
  if (!never) return failed;
  return Status(CKPT_UNSUPPORTED, failed.message())
      .with("path", std::string(path))
      .with("errno", std::to_string(error));
}

Result<std::unique_ptr<Borrowed>> borrow_posix(const Root& root, std::string_view from, std::string_view to) {
  CKPT_ASSIGN(const Fd source, root.open(directory_of(from), O_PATH | O_DIRECTORY, Root::Links::kFirst));
  CKPT_ASSIGN(Fd target, root.open_directory(directory_of(to)));
  const std::string name(last_of(from)), own(last_of(to));
  const Busy busy("link", root.path(), to);
  const bool made = retry([&] { return linkat(source.get(), name.c_str(), target.get(), own.c_str(), 0); }) == 0;
  if (!made && errno != EEXIST) return cannot_link(errno, root.path(from));
  auto link = std::make_unique<Link>(root, to, std::move(target), made);
  if (Status opened = link->open(); !opened.ok()) {
    link->drop();
    return opened;
  }
  return std::unique_ptr<Borrowed>(std::move(link));
}

}  // namespace ckpt::store

#include "store/posix_borrow.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
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
  Status publish_durably() override { return sync_directory(directory_.get(), root_.path(directory_of(key_))); }
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

// A file of its own that has the blocks of the other one, as btrfs and XFS can make it: where a link may not be, such
// as between two subvolumes, or to a file of another user. Durable once it has its name. False if it cannot be made
// here. `*made`: nothing had the name.
static Result<bool> clone_file(int source, const std::string& name, int target, const std::string& own,
                               const std::string& path, bool* made) {
  const Fd from(retry([&] { return openat(source, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); }));
  if (!from) return false;
  const std::string temporary = temporary_name(own);
  const Fd to(retry(
      [&] { return openat(target, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666); }));
  if (!to) return fail(errno, "create", path);
  bool stays = true;
  Status status;
  const bool cloned = retry([&] { return ioctl(to.get(), FICLONE, from.get()); }) == 0;
  if (!cloned && (errno == ENOSPC || errno == EDQUOT || errno == EIO)) status = fail(errno, "clone", path);
  if (cloned) status = sync_file(to.get(), path);
  if (cloned && status.ok()) {
    const int error = rename_exclusive(target, temporary.c_str(), own.c_str(), &stays);
    *made = error == 0;
    if (error != 0 && error != EEXIST) status = fail(error, "publish", path);
  }
  if (stays) (void)unlinkat(target, temporary.c_str(), 0);
  if (!status.ok()) return status;
  return cloned;
}

Result<std::unique_ptr<Borrowed>> borrow_posix(const Root& root, std::string_view from, std::string_view to) {
  CKPT_ASSIGN(const Fd source, root.open(directory_of(from), O_PATH | O_DIRECTORY, Root::Links::kFirst));
  CKPT_ASSIGN(Fd target, root.open_directory(directory_of(to)));
  const std::string name(last_of(from)), own(last_of(to));
  const Busy busy("link", root.path(), to);
  bool made = retry([&] { return linkat(source.get(), name.c_str(), target.get(), own.c_str(), 0); }) == 0;
  if (!made && errno != EEXIST) {
    Status failed = cannot_link(errno, root.path(from));
    if (failed.code() != CKPT_UNSUPPORTED) return failed;
    CKPT_ASSIGN(const bool cloned, clone_file(source.get(), name, target.get(), own, root.path(to), &made));
    if (!cloned) return failed;
  }
  auto link = std::make_unique<Link>(root, to, std::move(target), made);
  if (Status opened = link->open(); !opened.ok()) {
    link->drop();
    return opened;
  }
  return std::unique_ptr<Borrowed>(std::move(link));
}

}  // namespace ckpt::store

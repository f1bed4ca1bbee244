#include "store/posix_reader.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "store/keys.h"

namespace ckpt::store {

static Result<Fd> open_regular(const Root& root, std::string_view key, int access, struct stat* found) {
  // O_NONBLOCK: a FIFO in the place of a file must not make us wait for its writer.
  Result<Fd> file = root.open(key, access | O_NONBLOCK | O_NOCTTY);
  if (const std::string* error = file.status().detail("errno"))
    if (*error == std::to_string(ENXIO) || *error == std::to_string(EISDIR)) return not_a_file(root.path(key));
  if (!file.ok()) return file;
  if (fstat(file->get(), found) != 0) return fail(errno, "inspect", root.path(key));
  if (!S_ISREG(found->st_mode)) return not_a_file(root.path(key));
  return file;
}

Result<std::unique_ptr<PosixReader>> PosixReader::open(const Root& root, std::string_view key) {
  struct stat found{};
  CKPT_ASSIGN(Fd file, open_regular(root, key, O_RDONLY, &found));
  return std::unique_ptr<PosixReader>(
      new PosixReader(std::move(file), static_cast<uint64_t>(found.st_size), root.path(key)));
}

PosixReader::~PosixReader() {
  if (map_) munmap(map_, size_);
}

Status PosixReader::read_at(uint64_t offset, MutableBytes out) const {
  return read_all(file_.get(), offset, out, path_);
}

Result<Bytes> PosixReader::map() const {
  if (size_ == 0) return Bytes();
  std::lock_guard lock(mapping_);
  if (!map_) {
    void* address = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file_.get(), 0);
    if (address == MAP_FAILED && errno == ENODEV)
      return Status(CKPT_UNSUPPORTED, "map " + path_ + ": the file system has no mappings").with("path", path_);
    if (address == MAP_FAILED) return fail(errno, "map", path_);
    map_ = address;
  }
  return Bytes(static_cast<const std::byte*>(map_), size_);
}

namespace {

class PosixLock final : public Lock {
 public:
  explicit PosixLock(Fd file) : file_(std::move(file)) {}
  int fd() const { return file_.get(); }
  // Unlocked by name and not just closed: a child forked meanwhile has the descriptor too and would keep the lock.
  ~PosixLock() override {
    retry([&] { return flock(file_.get(), LOCK_UN); });
  }

 private:
  const Fd file_;
};

}  // namespace

static Result<Fd> open_to_lock(const Root& root, std::string_view key, bool exclusive) {
  struct stat found{};
  // NFS makes an exclusive flock of a record lock, which wants a descriptor for writing.
  if (exclusive) {
    Result<Fd> file = open_regular(root, key, O_RDWR, &found);
    if (file.ok() || file.status().code() != CKPT_IO) return file;
  }
  return open_regular(root, key, O_RDONLY, &found);
}

Result<std::unique_ptr<Lock>> lock_posix(const Root& root, std::string_view key, bool exclusive) {
  CKPT_ASSIGN(Fd file, open_to_lock(root, key, exclusive));
  int how = (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
  if (retry([&] { return flock(file.get(), how); }) != 0) {
    if (errno == EWOULDBLOCK) return locked(root.path(key));
    // A file system without locks protects nothing, and says so nowhere else.
    if (errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS) return fail(errno, "lock", root.path(key));
  }
  auto lock = std::make_unique<PosixLock>(std::move(file));
  // Between open and flock a remover may have locked, moved or unlinked the file, and let go.
  CKPT_ASSIGN(bool in_place, root.leads_to(key, lock->fd()));
  if (!in_place) return not_found(root.path(key));
  return std::unique_ptr<Lock>(std::move(lock));
}

}  // namespace ckpt::store

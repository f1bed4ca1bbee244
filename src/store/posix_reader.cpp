#include "store/posix_reader.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "store/keys.h"
#include "store/locked_files.h"

namespace ckpt::store {

static Result<Fd> open_regular(const Root& root, std::string_view key, int access, struct stat* found,
                               Root::Links links = Root::Links::kFirst) {
  // O_NONBLOCK: if a FIFO is in the place of a file, do not wait for its writer.
  Result<Fd> file = root.open(key, access | O_NONBLOCK | O_NOCTTY, links);
  // Another program (a Samba or NFS server) holds a lease on it: then it is a regular file, and the open that waits
  // lets the kernel take the lease back.
  if (const std::string* error = file.status().detail("errno"); error && *error == std::to_string(EWOULDBLOCK))
    file = root.open(key, access | O_NOCTTY, links);
  if (const std::string* error = file.status().detail("errno"))
    if (*error == std::to_string(ENXIO) || *error == std::to_string(EISDIR)) return not_a_file(root.path(key));
  if (!file.ok()) return file;
  const Busy busy("inspection", root.path(), key);
  if (fstat(file->get(), found) != 0) return fail(errno, "inspect", root.path(key));
  if (!S_ISREG(found->st_mode)) return not_a_file(root.path(key));
  return file;
}

Result<std::unique_ptr<PosixReader>> PosixReader::open(const Root& root, std::string_view key, bool direct,
                                                       uint64_t stream_bytes) {
  struct stat found{};
  CKPT_ASSIGN(Fd file, open_regular(root, key, O_RDONLY, &found));
  return std::unique_ptr<PosixReader>(
      new PosixReader(std::move(file), static_cast<uint64_t>(found.st_size), root.path(key), direct, stream_bytes));
}

PosixReader::~PosixReader() {
  if (map_) munmap(map_, size_);
}

Status PosixReader::read_at(uint64_t offset, MutableBytes out) const {
  return read_all(file_.get(), offset, out, path_);
}

Result<Bytes> PosixReader::map() const {
  if (size_ == 0) return Bytes();
  const Busy busy("mapping", path_);
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

Status PosixReader::keep_map() {
  CKPT_TRY(map().status());
  if (map_) file_ = Fd();
  return Ok();
}

// ---- bypassing the page cache ----

// A few pages tell enough, and cost a thousandth of reading the range. To a user who can neither write nor own the
// file, the kernel reports every page as present.
bool PosixReader::cached(uint64_t offset, uint64_t size) const {
  constexpr uint64_t kSamples = 4;
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  Result<Bytes> whole = map();
  if (!whole.ok() || size == 0 || offset >= size_) return true;
  uint64_t last = std::min(size, size_ - offset) - 1;
  for (uint64_t i = 0; i < kSamples; i++) {
    uint64_t at = (offset + last / (kSamples - 1) * i) / page * page;
    unsigned char resident = 0;
    if (mincore(const_cast<std::byte*>(whole->data()) + at, 1, &resident) != 0) return true;
    if ((resident & 1) == 0) return false;
  }
  return true;
}

// Below this, waiting costs more than the page cache.
static constexpr uint64_t kMinDirect = 65536;

Reader::Way PosixReader::way(uint64_t offset, uint64_t size) const {
  const uint64_t align = size < kMinDirect ? 0 : direct_align();
  if (align == 0 || cached(offset, size)) return {};
  return {.queued = true, .unit = kAlign, .align = align};
}

const PosixReader::Direct& PosixReader::direct() const {
  std::call_once(direct_tried_, [this] { direct_ = open_direct(); });
  return direct_;
}

// Opens the same file once more, even if its key is gone or leads to another file by now.
static Fd reopen_direct(int fd, const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  std::string link = "/proc/self/fd/" + std::to_string(fd);
  Fd again(retry([&] { return open(link.c_str(), kFlags); }));
  if (!again && errno != EINVAL) again = Fd(retry([&] { return open(path.c_str(), kFlags); }));
  struct stat wanted, found;
  if (!again || fstat(fd, &wanted) != 0 || fstat(again.get(), &found) != 0 || !same_file(wanted, found)) return Fd();
  // O_NONBLOCK was only for the open; with it, io_uring would fail a read rather than wait.
  return fcntl(again.get(), F_SETFL, O_DIRECT) == 0 ? std::move(again) : Fd();
}

PosixReader::Direct PosixReader::open_direct() const {
  if (!allow_direct_ || lives_in_memory(file_.get())) return {};
  const Busy busy("open", path_);
  Fd file = reopen_direct(file_.get(), path_);
  const uint64_t align = file ? direct_align_of(file.get()) : 0;
  if (align == 0) return {};
  // Some file systems accept the flag but refuse the read, or that at an address of the alignment that they tell.
  alignas(kAlign) std::byte pages[2 * kAlign];
  for (const uint64_t tried : {align, uint64_t{kAlign}})
    if (retry([&] { return pread(file.get(), pages + tried % kAlign, kAlign, 0); }) >= 0)
      return {std::move(file), tried};
  return {};
}

// The descriptor of the stream to which a range belongs. With too many open files, that of another stream.
int PosixReader::stream_at(uint64_t offset) const {
  const size_t stream = stream_bytes_ == 0 ? 0 : offset / stream_bytes_ % kStreams;
  if (stream == 0) return direct().file.get();
  const Busy busy("open", path_);
  std::lock_guard lock(opening_);
  Fd& own = streams_[stream - 1];
  if (!own) own = reopen_direct(direct().file.get(), path_);
  return own ? own.get() : direct().file.get();
}

Status PosixReader::read_direct(uint64_t offset, MutableBytes out) const {
  uint64_t align = direct_align();
  if (align == 0) return read_at(offset, out);
  if ((offset | out.size()) % kAlign != 0 || reinterpret_cast<uintptr_t>(out.data()) % align != 0)
    return Status(CKPT_INVALID, "direct read of " + path_ + ": expected offset and size in multiples of " +
                                    std::to_string(kAlign) + " and an address in multiples of " +
                                    std::to_string(align) + ", found offset " + std::to_string(offset) + ", size " +
                                    std::to_string(out.size()) + " or another address")
        .with("path", path_);
  Status status = read_all(stream_at(offset), offset, out, path_);
  return refuses_direct(status) ? read_at(offset, out) : status;
}

namespace {

class PosixLock final : public Lock {
 public:
  PosixLock(Fd file, bool protects) : file_(std::move(file)), protects_(protects) {
    LockedFiles::of_process().add(fd());
  }
  int fd() const { return file_.get(); }
  bool protects() const override { return protects_; }
  // Unlocks explicitly: after a mere close, a child forked meanwhile could keep the lock through its own descriptor.
  ~PosixLock() override {
    LockedFiles::of_process().remove(fd());
    const Busy busy("unlock", "a file");
    retry([&] { return flock(file_.get(), LOCK_UN); });
  }

 private:
  const Fd file_;
  const bool protects_;
};

}  // namespace

// Whether it is held; false where the file system has no locks (Lustre mounted without -o flock). CONFLICT.
static Result<bool> take_lock(const Root& root, std::string_view key, bool exclusive, const Fd& file) {
  const Busy busy("lock", root.path(), key);
  const int how = (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
  if (retry([&] { return flock(file.get(), how); }) == 0) return true;
  if (errno == EWOULDBLOCK) return locked(root.path(key));
  if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) return false;
  return fail(errno, "lock", root.path(key));
}

Result<std::unique_ptr<Lock>> lock_posix(const Root& root, std::string_view key, bool exclusive, bool common) {
  struct stat found{};
  const Root::Links links = exclusive ? Root::Links::kRefused : Root::Links::kFirst;  // who removes follows none
  CKPT_ASSIGN(Fd file, open_regular(root, key, O_RDONLY, &found, links));
  auto held = take_lock(root, key, exclusive, file);
  // NFS turns an exclusive flock into a record lock, which needs a descriptor open for writing. Elsewhere such a
  // descriptor would keep the file system from being made read-only.
  if (const std::string* error = held.status().detail("errno"); error && *error == std::to_string(EBADF)) {
    CKPT_ASSIGN(file, open_regular(root, key, O_RDWR, &found, links));
    held = take_lock(root, key, exclusive, file);
  }
  CKPT_TRY(held.status());
  auto lock = std::make_unique<PosixLock>(std::move(file), *held && common);
  // Between open and flock, a remover may have locked, moved or unlinked the file and released its lock.
  CKPT_ASSIGN(bool in_place, root.leads_to(key, lock->fd()));
  if (!in_place) return not_found(root.path(key));
  return std::unique_ptr<Lock>(std::move(lock));
}

}  // namespace ckpt::store

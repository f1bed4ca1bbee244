#include "store/posix_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "store/keys.h"
#include "store/posix_recycle.h"

namespace ckpt::store {

static constexpr uint64_t kFirstRoom = 64 << 20;

PosixWriter::PosixWriter(const Root& root, std::string_view key, Fd directory, bool durable)
    : root_(root),
      key_(key),
      path_(root.path(key)),
      name_(last_of(key)),
      temporary_(temporary_name(name_)),
      durable_(durable),
      directory_(std::move(directory)) {}

PosixWriter::~PosixWriter() { drop_temporary(); }

Result<std::unique_ptr<PosixWriter>> PosixWriter::create(const Root& root, std::string_view key,
                                                         const Settings& settings) {
  CKPT_ASSIGN(Fd directory, root.open_directory(directory_of(key)));
  std::unique_ptr<PosixWriter> writer(new PosixWriter(root, key, std::move(directory), settings.durable));
  CKPT_TRY(writer->with_room([&] { return writer->open_temporary(); }));
  if (settings.recycle && settings.size >= kRecycleFrom) writer->take_retired(settings.size);
  if (settings.at_most) {
    writer->room_ = 0;
    writer->make_room(std::min(settings.size, kFirstRoom));
  } else {
    CKPT_TRY(writer->with_room([&] { return writer->preallocate(settings.size); }));
  }
  if (settings.direct) writer->use_direct();
  return writer;
}

Status PosixWriter::open_temporary() {
  const Busy busy("creation", path_);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  file_ = Fd(retry([&] { return openat(directory_.get(), temporary_.c_str(), kFlags, 0666); }));
  if (!file_) return fail(errno, "create", path_);
  has_temporary_ = true;
  return Ok();
}

void PosixWriter::take_retired(uint64_t size) {
  const Busy busy("recycling", path_);
  Fd file = store::take_retired(root_, directory_.get(), temporary_, name_, file_.get(), size);
  recycled_ = static_cast<bool>(file);
  if (recycled_) file_ = std::move(file);
}

// Files that are kept only for speed must not make a save fail for lack of space: deletes them and tries again.
template <typename Call>
Status PosixWriter::with_room(Call&& call) {
  Status status = call();
  if (status.code() != CKPT_NO_SPACE) return status;
  empty_pool(root_);
  return call();
}

// A retired file is only extended, never truncated, since that would give its blocks away. Without KEEP_SIZE: direct
// writes beyond the end would take the file's lock exclusively, one after another.
Status PosixWriter::preallocate(uint64_t size) {
  if (size == 0) return Ok();
  if (size > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) return fail(EFBIG, "preallocate", path_);
  const Busy busy("preallocation", path_);
  if (retry([&] { return fallocate(file_.get(), 0, 0, static_cast<off_t>(size)); }) == 0) return Ok();
  if (errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS) return Ok();
  return fail(errno, "preallocate", path_);
}

// Twice as much each time: one such call waits for all writes under way, and what is left over is given back. Without
// room the write itself has the error.
void PosixWriter::make_room(uint64_t end) {
  if (end <= room_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(growing_);
  const uint64_t room = room_.load(std::memory_order_relaxed);
  if (end <= room || !file_) return;
  const uint64_t more = std::max(end, 2 * room);
  const bool has_more = preallocate(more).ok();
  if (!has_more) (void)with_room([&] { return preallocate(end); });  // the pool is not emptied for what may not come
  room_.store(has_more ? more : end, std::memory_order_release);
}

// By fcntl, not at open: on some kernels an open that refuses O_DIRECT has created the file all the same.
void PosixWriter::use_direct() {
  if (lives_in_memory(file_.get())) return;
  direct_align_ = direct_align_of(file_.get());
  if (direct_align_ == 0) return;
  int flags = fcntl(file_.get(), F_GETFL);
  if (flags >= 0 && fcntl(file_.get(), F_SETFL, flags | O_DIRECT) == 0) direct_.store(true, std::memory_order_release);
}

Status PosixWriter::leave_direct() {
  std::lock_guard lock(leaving_direct_);
  if (!direct()) return Ok();
  int flags = fcntl(file_.get(), F_GETFL);
  if (flags < 0 || fcntl(file_.get(), F_SETFL, flags & ~O_DIRECT) != 0)
    return fail(errno, "leave direct I/O on", path_);
  direct_.store(false, std::memory_order_release);
  return Ok();
}

Status PosixWriter::write_at(uint64_t offset, Bytes data) {
  if (!file_) return already_published(path_);
  return with_room([&] { return direct() ? write_direct(offset, data) : write_all(file_.get(), offset, data, path_); });
}

Status PosixWriter::write_direct(uint64_t offset, Bytes data) {
  if ((offset | data.size()) % kAlign != 0 || reinterpret_cast<uintptr_t>(data.data()) % direct_align_ != 0)
    return Status(CKPT_INVALID, strformat("direct write to {}: expected offset and size in multiples of {} and an "
                                          "address in multiples of {}, found offset {}, size {} or another address",
                                          path_, kAlign, direct_align_, offset, data.size()));
  Status status = write_all(file_.get(), offset, data, path_);
  if (!refuses_direct(status)) return status;
  CKPT_TRY(leave_direct());
  return write_all(file_.get(), offset, data, path_);
}

Status PosixWriter::publish(uint64_t size) {
  if (!file_) return already_published(path_);
  Status status = finish(size);
  if (status.ok()) status = claim();
  drop_temporary();
  return status;
}

Status PosixWriter::finish(uint64_t size) {
  Fd file = std::move(file_);  // whatever happens now, this file must not be written or synced again
  const Busy busy("sync", path_);
  if (size > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) return fail(EFBIG, "resize", path_);
  if (retry([&] { return ftruncate(file.get(), static_cast<off_t>(size)); }) != 0) return fail(errno, "resize", path_);
  if (durable_) CKPT_TRY(sync_file(file.get(), path_));
  if (fstat(file.get(), &identity_) != 0) return fail(errno, "inspect", path_);
  held_ = Fd(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  if (!held_) return fail(errno, "close", path_);
  if (int error = file.close(); error != 0) return fail(error, "close", path_);
  return Ok();
}

// A network file system may do the rename, lose the answer, retry, and report that the retry failed.
bool PosixWriter::holds_key() const {
  const Busy busy("inspection", path_);
  struct stat found;
  return fstatat(directory_.get(), name_.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && same_file(found, identity_);
}

Status PosixWriter::claim() {
  const Busy busy("publication", path_);
  int error = rename_exclusive(directory_.get(), temporary_.c_str(), name_.c_str(), &has_temporary_);
  if (error != 0 && error != ENOENT && holds_key()) error = 0;
  drop_temporary();
  if (error == EEXIST) return already_exists();
  if (error == EOPNOTSUPP)
    return Status(CKPT_UNSUPPORTED,
                  "create " + path_ + " if absent: the file system has neither exclusive rename nor links")
        .with("path", path_);
  if (error != 0) return fail(error, "publish", path_);
  CKPT_TRY(sync_parent());
  CKPT_ASSIGN(bool in_place, root_.leads_to(directory_of(key_), directory_.get()));
  if (in_place) return Ok();
  // The directory was moved away meanwhile, so the file appeared under another key than the caller's.
  unlinkat(directory_.get(), name_.c_str(), 0);
  return not_found(root_.path(directory_of(key_)));
}

bool PosixWriter::taken() const {
  const Busy busy("inspection", path_);
  struct stat found;
  return fstatat(directory_.get(), name_.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0;
}

// The caller will act on the file that has the key, which may even be its own after a failed sync. So that file must
// last.
Status PosixWriter::already_exists() const {
  CKPT_TRY(sync_parent());
  return exists(path_);
}

Status PosixWriter::sync_parent() const {
  return durable_ ? sync_directory(directory_.get(), root_.path(directory_of(key_))) : Ok();
}

void PosixWriter::drop_temporary() {
  const Busy busy("removal", path_);
  if (std::exchange(has_temporary_, false)) unlinkat(directory_.get(), temporary_.c_str(), 0);
  file_.close();
}

}  // namespace ckpt::store

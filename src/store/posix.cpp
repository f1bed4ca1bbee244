// A store in a directory of a file system. The kernel handles concurrency; the only state of a handle is whether it was
// probed.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>

#include "store/io_queue.h"
#include "store/keys.h"
#include "store/mount.h"
#include "store/posix_borrow.h"
#include "store/posix_directory.h"
#include "store/posix_file.h"
#include "store/posix_orphans.h"
#include "store/posix_reader.h"
#include "store/posix_recycle.h"
#include "store/posix_writer.h"
#include "store/store.h"

namespace ckpt::store {
namespace {

// Smaller files are not worth the alignment that direct I/O needs.
constexpr uint64_t kDirectFrom = 1 << 20;

class PosixStore final : public Store {
 public:
  PosixStore(Root root, const StoreSettings& options) : root_(std::move(root)), options_(options) {}

  std::string uri() const override { return root_.path(); }
  std::string path(std::string_view key) const override { return root_.path(key); }
  Traits traits() const override;
  Status make_root() override { return store::make_root(root_); }
  Status prepare() override;
  Status make_directory(std::string_view key) override;
  Status put_if_absent(std::string_view key, Bytes data) override;
  Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size, bool at_most) override;
  Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const override {
    return IoQueue::make(depth, options_.uring);
  }
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override;
  Result<bool> exists(std::string_view key) const override;
  Result<bool> has_directory(std::string_view key) const override { return exists(key); }
  std::string link_of(std::string_view name) const override { return store::link_of(root_, name); }
  Result<std::vector<Entry>> list(std::string_view directory) const override;
  Result<std::vector<FileUse>> usage(std::string_view directory) const override;
  Result<std::unique_ptr<Borrowed>> borrow(std::string_view from, std::string_view to) override;
  Status remove(std::string_view key, bool sync) override;
  Status remove_directory(std::string_view key) override;
  Status retire(std::string_view directory, std::string_view slot, Bytes tombstone) override;
  Status finish_removals() override;
  void sweep(std::string_view directory) override;
  Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const override;
  Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const override;

 private:
  Status put(std::string_view key, Bytes data, bool durable);
  Status probe();
  Status probe_with(const std::string& key);
  Status delete_retired(const std::string& key, std::string_view first);
  Status empty_trash();

  const Root root_;
  const StoreSettings options_;
  std::mutex probing_;
  bool probed_ = false;
  mutable std::mutex mounting_;
  mutable std::optional<Traits> traits_;  // once the root is there
  std::atomic<bool> left_trash_{false};   // what this process had open itself
};

// A disk may hold whoever asks: nobody else waits for the lock meanwhile.
Traits PosixStore::traits() const {
  {
    std::lock_guard lock(mounting_);
    if (traits_) return *traits_;
  }
  const Result<Fd> root = root_.open("", O_PATH);
  if (!root.ok()) return {};
  const Busy busy("inspection", root_.path());
  const Mount mount = find_mount(root->get());
  Traits traits;
  traits.shared = mount.shared();
  traits.common_locks = mount.locks() == Mount::Locks::kForAll;
  if (mount.follows_streams()) {
    traits.stream_bytes = 64 << 20;
    traits.read_depth = PosixReader::kStreams;
  }
  std::lock_guard lock(mounting_);
  return traits_ ? *traits_ : traits_.emplace(traits);
}

Status PosixStore::prepare() {
  std::unique_lock lock(probing_, std::defer_lock);
  {
    const Busy busy("preparation by another call", root_.path());
    lock.lock();
  }
  CKPT_TRY(make_root());
  if (!probed_) {
    CKPT_TRY(probe());
    remove_orphans(root_);
  }
  probed_ = true;
  (void)empty_trash();  // a session begins without it; whoever removes next reports what is left
  return Ok();
}

void PosixStore::sweep(std::string_view directory) { remove_orphans_in(root_, std::string(directory)); }

Status PosixStore::probe() {
  CKPT_TRY(make_directory(".ckpt"));
  std::string key = ".ckpt/" + std::string(kProbePrefix) + to_hex(random_id());
  Status status = probe_with(key);
  (void)remove(key, false);
  return status;
}

// Whether a lock keeps out another descriptor of this process; true where there are none, or none can be had now.
static bool excludes(const Root& root, const std::string& key) {
  const auto held = lock_posix(root, key, true, true), again = lock_posix(root, key, true, true);
  return !held.ok() || !(*held)->protects() || !again.ok();
}

// A file system may not do what it promises, so try it.
Status PosixStore::probe_with(const std::string& key) {
  // Kept open until the end, so that nobody takes it for an orphan.
  CKPT_TRY(exists(key).status());  // absent, which a client may remember
  CKPT_ASSIGN(auto first, PosixWriter::create(root_, key, {.durable = false}));
  CKPT_TRY(first->write_at(0, as_bytes("first")));
  Status published = first->publish(5);
  const std::string* error = published.detail("errno");
  if (error && *error == std::to_string(EIO) && traits().shared)  // rclone's answer to a link
    return Status(CKPT_UNSUPPORTED, strformat("store {}: the file system could write a file, but not give it its name "
                                              "if absent: it has neither exclusive rename nor links ({})",
                                              root_.path(), published.message()))
        .with("path", root_.path());
  CKPT_TRY(std::move(published));
  Status again = put(key, as_bytes("second"), false);
  if (!again.ok() && again.code() != CKPT_EXISTS) return again;
  CKPT_ASSIGN(std::vector<std::byte> found, get(key, 16));
  CKPT_ASSIGN(const bool seen, exists(key));
  if (!seen)
    return Status(CKPT_UNSUPPORTED, "store " + root_.path() + ": the file system hides a file that was just made there")
        .with("path", root_.path());
  if (!excludes(root_, key)) {
    Traits known = traits();
    known.common_locks = false;
    const std::lock_guard lock(mounting_);
    traits_ = known;
  }
  if (again.code() == CKPT_EXISTS && as_text(found) == "first") return Ok();
  return Status(CKPT_UNSUPPORTED, "store " + root_.path() + ": the file system does not hold create-if-absent")
      .with("path", root_.path());
}

Status PosixStore::make_directory(std::string_view key) {
  CKPT_TRY(check_key(key));
  return store::make_directory(root_, key);
}

Status PosixStore::put_if_absent(std::string_view key, Bytes data) {
  CKPT_TRY(check_new_file(key));
  return put(key, data, true);
}

Status PosixStore::put(std::string_view key, Bytes data, bool durable) {
  CKPT_ASSIGN(auto writer, PosixWriter::create(root_, key, {.durable = durable}));
  if (durable && writer->taken())
    return writer->already_exists();  // the probe tests the exclusive rename, so it goes on
  CKPT_TRY(writer->write_at(0, data));
  return writer->publish(data.size());
}

Result<std::unique_ptr<Writer>> PosixStore::create(std::string_view key, uint64_t expected_size, bool at_most) {
  CKPT_TRY(check_new_file(key));
  PosixWriter::Settings settings{.size = expected_size,
                                 .at_most = at_most,
                                 .direct = options_.direct_io && expected_size >= kDirectFrom,
                                 .recycle = options_.recycle};
  CKPT_ASSIGN(auto writer, PosixWriter::create(root_, key, settings));
  return std::unique_ptr<Writer>(std::move(writer));
}

Result<std::unique_ptr<Reader>> PosixStore::open(std::string_view key) const {
  CKPT_TRY(check_key(key));
  CKPT_ASSIGN(auto reader, PosixReader::open(root_, key, options_.direct_io, traits().stream_bytes));
  return std::unique_ptr<Reader>(std::move(reader));
}

Result<bool> PosixStore::exists(std::string_view key) const {
  CKPT_TRY(check_key(key));
  return store::exists(root_, key);
}

Result<std::vector<Entry>> PosixStore::list(std::string_view directory) const {
  if (!directory.empty()) CKPT_TRY(check_key(directory));
  return list_directory(root_, directory);
}

Result<std::vector<FileUse>> PosixStore::usage(std::string_view directory) const {
  if (!directory.empty()) CKPT_TRY(check_key(directory));
  return list_files(root_, directory);
}

Result<std::unique_ptr<Borrowed>> PosixStore::borrow(std::string_view from, std::string_view to) {
  CKPT_TRY(check_key(from));
  CKPT_TRY(check_new_file(to));
  return borrow_posix(root_, from, to);
}

Status PosixStore::remove(std::string_view key, bool sync) {
  CKPT_TRY(check_key(key));
  CKPT_ASSIGN(Fd directory, root_.open_directory(directory_of(key)));
  std::string name(last_of(key));
  const Busy busy("removal", root_.path(), key);
  const auto unlink = [&] {
    return retry([&] { return unlinkat(directory.get(), name.c_str(), 0); }) == 0 ? 0 : errno;
  };
  int error = unlink();
  if (error == ENOENT && root_.appears(key)) error = unlink();
  if (error != 0) return error == EISDIR ? not_a_file(root_.path(key)) : fail(error, "remove", root_.path(key));
  return sync ? sync_directory(directory.get(), root_.path(directory_of(key))) : Ok();
}

Status PosixStore::remove_directory(std::string_view key) {
  CKPT_TRY(check_key(key));
  return store::remove_directory(root_, key, "");
}

// `first` ("" for none) goes before all other files, and that is synced.
Status PosixStore::delete_retired(const std::string& key, std::string_view first) {
  if (options_.recycle) return retire_directory(root_, key, first);
  empty_pool(root_);  // a handle that recycled left it, and nobody else would empty it
  return store::remove_directory(root_, key, first);
}

Status PosixStore::retire(std::string_view directory, std::string_view slot, Bytes /*tombstone*/) {
  CKPT_TRY(check_key(directory));
  CKPT_TRY(check_element(slot));
  CKPT_ASSIGN(auto files, list_directory(root_, directory));
  for (const Entry& file : files)
    if (file.directory) return foreign_directory(path(directory), file.name);
  const std::string trash = trash_key(last_of(directory), random_id());
  const Status made = make_directory(kTrashDir);
  if (made.code() == CKPT_NO_SPACE) {
    // A full disk has no room for a directory: the one that is removed becomes the trash itself.
    Status moved = move_directory(root_, directory, kTrashDir);
    if (moved.ok()) (void)empty_trash();  // which notes what it leaves
    if (moved.code() != CKPT_EXISTS) return moved;
  } else {
    CKPT_TRY(made);
  }
  CKPT_TRY(move_directory(root_, directory, trash));
  // It is out of sight, so what fails from here on does not undo that: finish_removals tries again, and tells.
  const Status status = delete_retired(trash, slot);
  if (!status.ok() && status.code() != CKPT_NOT_FOUND) left_trash_ = true;  // or another session has emptied the trash
  return Ok();
}

Status PosixStore::finish_removals() { return left_trash_.exchange(false) ? empty_trash() : Ok(); }

// Finishes what crashes interrupted. What cannot be deleted now harms nobody: the next removal or session tries again.
// The first error is returned.
Status PosixStore::empty_trash() {
  auto entries = list_directory(root_, kTrashDir);
  if (entries.status().code() == CKPT_NOT_FOUND) return Ok();
  if (!entries.ok()) left_trash_ = true;
  CKPT_TRY(entries.status());
  Status first;
  for (const Entry& entry : *entries) {
    const std::string key = strformat("{}/{}", kTrashDir, entry.name);
    Status status = entry.directory ? delete_retired(key, "") : remove(key, false);
    if (status.ok() || status.code() == CKPT_NOT_FOUND) continue;
    left_trash_ = true;
    if (first.ok() && status.code() != CKPT_CONFLICT) first = std::move(status);
  }
  return first;
}

Result<std::unique_ptr<Lock>> PosixStore::lock_shared(std::string_view key) const {
  CKPT_TRY(check_key(key));
  return lock_posix(root_, key, false, traits().common_locks);
}

Result<std::unique_ptr<Lock>> PosixStore::try_lock_exclusive(std::string_view key) const {
  CKPT_TRY(check_key(key));
  return lock_posix(root_, key, true, traits().common_locks);
}

}  // namespace

Result<std::shared_ptr<Store>> open_posix(std::string_view path, const StoreSettings& options) {
  if (path.empty() || path.find('\0') != path.npos)
    return Status(CKPT_INVALID, "a store's path must not be empty or contain a zero byte");
  // Absolute from now on, since the trainer may change its working directory.
  std::error_code error;
  std::string whole = std::filesystem::absolute(std::filesystem::path(path), error).string();
  if (error) return fail(error.value(), "find the working directory for store", path);
  while (whole.size() > 1 && whole.back() == '/') whole.pop_back();
  return std::shared_ptr<Store>(std::make_shared<PosixStore>(Root(std::move(whole)), options));
}

}  // namespace ckpt::store

#include "store/cache_entry.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "store/locked_files.h"

namespace ckpt::store {

namespace {

// What a file must be to be the entry of an object.
struct Plan {
  uint64_t size, footer_at;
  std::string footer;
  uint64_t file_size() const { return footer_at + footer.size(); }
};

uint64_t footer_at(uint64_t size) { return round_up(size, kAlign) + (size + kCacheBlock - 1) / kCacheBlock; }
std::string before_version(uint64_t size) { return strformat("ckpt cache 1\n{}\n{}\n", kCacheBlock, size); }
std::string after_version(std::string_view identity) { return strformat("\n{}\n", identity); }

Plan plan_of(std::string_view identity, const Reader& object) {
  return {object.size(), footer_at(object.size()),
          before_version(object.size()) + object.version() + after_version(identity)};
}

bool is_laid_out(int fd, const Plan& plan) {
  struct stat found{};
  if (fstat(fd, &found) != 0 || static_cast<uint64_t>(found.st_size) != plan.file_size()) return false;
  std::vector<std::byte> footer(plan.footer.size());
  return read_all(fd, plan.footer_at, footer, "").ok() && as_text(footer) == plan.footer;
}

// The footer is last: without it the file is nothing.
Status lay_out(int fd, const Plan& plan, const std::string& path) {
  const bool sized = retry([&] { return ftruncate(fd, 0); }) == 0 &&
                     retry([&] { return ftruncate(fd, static_cast<off_t>(plan.footer_at)); }) == 0;
  return sized ? write_all(fd, plan.footer_at, as_bytes(plan.footer), path) : fail(errno, "write to", path);
}

Fd open_entry_file(const CacheDirectory& directory, const std::string& name) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Fd file(retry([&] { return openat(directory.fd(), name.c_str(), kFlags, 0600); }));
  struct stat found{};
  if (!file) directory.note(fail(errno, "open", directory.root().path(name)));
  if (!file || fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) return Fd();
  if ((found.st_mode & 07777) != 0600) (void)fchmod(file.get(), 0600);  // whatever the umask is
  return file;
}

bool is_in_place(const CacheDirectory& directory, const std::string& name, const Fd& file) {
  auto found = directory.root().leads_to(name, file.get());
  return found.ok() && *found;
}

// Makes the entry of a file that is none, alone, unless somebody else does.
bool make_entry(const CacheDirectory& directory, const std::string& name, const Fd& file, const Plan& plan) {
  auto is_made = [&] { return is_laid_out(file.get(), plan); };
  if (!lock_patiently(file.get(), LOCK_EX, is_made)) {
    if (is_made()) return true;
    // Others read another version. They keep their file, without a name.
    if (is_in_place(directory, name, file)) unlinkat(directory.fd(), name.c_str(), 0);
    return false;
  }
  if (!is_in_place(directory, name, file)) return false;
  if (is_made()) return true;
  Status laid_out = lay_out(file.get(), plan, directory.root().path(name));
  if (laid_out.ok()) return true;
  directory.note(std::move(laid_out));
  unlinkat(directory.fd(), name.c_str(), 0);
  return false;
}

}  // namespace

std::optional<std::string> CacheEntry::version_of(const CacheDirectory& directory, const std::string& name,
                                                  std::string_view identity, uint64_t size) {
  constexpr uint64_t kLongest = 4096;  // footer
  const Fd file(
      retry([&] { return openat(directory.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); }));
  struct stat found{};
  if (!file || fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  const uint64_t at = footer_at(size), end = static_cast<uint64_t>(found.st_size);
  if (end <= at || end - at > kLongest) return std::nullopt;
  std::vector<std::byte> bytes(end - at);
  if (!read_all(file.get(), at, bytes, "").ok()) return std::nullopt;
  const std::string_view footer = as_text(bytes);
  const std::string before = before_version(size), after = after_version(identity);
  if (footer.size() < before.size() + after.size() || !footer.starts_with(before) || !footer.ends_with(after))
    return std::nullopt;
  return std::string(footer.substr(before.size(), footer.size() - before.size() - after.size()));
}

std::unique_ptr<CacheEntry> CacheEntry::open(const CacheDirectory& directory, const std::string& name,
                                             std::string_view identity, const Reader& object) {
  const Plan plan = plan_of(identity, object);
  rlimit limit{};  // beyond it, a signal would end the process
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && plan.file_size() > limit.rlim_cur) return nullptr;
  constexpr int kTries = 8;  // somebody removes it, or makes it, at the same moment
  for (int i = 0; i < kTries; i++) {
    Fd file = open_entry_file(directory, name);
    if (!file) return nullptr;
    if (!is_laid_out(file.get(), plan) && !make_entry(directory, name, file, plan)) continue;
    // The exclusive lock becomes a shared one, with a moment between.
    if (!lock_patiently(file.get(), LOCK_SH)) return nullptr;
    if (!is_in_place(directory, name, file) || !is_laid_out(file.get(), plan)) continue;
    constexpr timespec kNow[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    (void)futimens(file.get(), kNow);
    std::unique_ptr<CacheEntry> entry(new CacheEntry(std::move(file), directory.root().path(name), plan.size));
    LockedFiles::of_process().add(entry->file_.get());
    return entry;
  }
  return nullptr;
}

// Unlocks explicitly: a child that is being forked may have a copy of the descriptor for a moment.
CacheEntry::~CacheEntry() {
  LockedFiles::of_process().remove(file_.get());
  retry([&] { return flock(file_.get(), LOCK_UN); });
}

bool CacheEntry::read_map(uint64_t first, MutableBytes out) const {
  return read_all(file_.get(), map_offset(size_) + first, out, "").ok();
}

static struct flock map_range(short type, uint64_t begin, uint64_t end) {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(begin);
  range.l_len = static_cast<off_t>(end - begin);
  return range;
}

uint64_t CacheEntry::lock(uint64_t first, uint64_t end) const {
  const uint64_t map_at = map_offset(size_);
  while (end > first) {
    struct flock wanted = map_range(F_WRLCK, map_at + first, map_at + end);
    if (retry([&] { return fcntl(file_.get(), F_OFD_SETLK, &wanted); }) == 0) return end;
    struct flock held = map_range(F_WRLCK, map_at + first, map_at + end);
    if (retry([&] { return fcntl(file_.get(), F_OFD_GETLK, &held); }) != 0) return first;
    if (held.l_type == F_UNLCK) continue;  // it was given back a moment ago
    end = std::clamp<uint64_t>(static_cast<uint64_t>(held.l_start), map_at + first, map_at + end) - map_at;
  }
  return first;
}

void CacheEntry::unlock(uint64_t first, uint64_t end) const {
  struct flock range = map_range(F_UNLCK, map_offset(size_) + first, map_offset(size_) + end);
  retry([&] { return fcntl(file_.get(), F_OFD_SETLK, &range); });
}

Status CacheEntry::write(uint64_t offset, Bytes data) const { return write_all(file_.get(), offset, data, path_); }

Status CacheEntry::mark(uint64_t first, uint64_t end) const {
  const std::vector<std::byte> marks(end - first, std::byte{1});
  return write(map_offset(size_) + first, marks);
}

}  // namespace ckpt::store

#include "interop/src/folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/address.h"
#include "base/parallel.h"
#include "interop/src/input_file.h"
#include "store/keys.h"

namespace ckpt::interop {

namespace {

constexpr size_t kMostNames = 1 << 20;  // in all directories of a folder together
// A file that is opened brings its last bytes, about 128 KiB. Of so many files that is little memory.
constexpr size_t kWithTail = 256;

Status gone_file(const std::string& path, const std::string& what) {
  return Status(CKPT_GONE, path + " " + what).with("path", path);
}

// "x" of W/"x": lists and answers spell an ETag in their own ways.
std::string_view bare_version(std::string_view version) {
  if (version.starts_with("W/")) version.remove_prefix(2);
  const bool quoted = version.size() > 1 && version.front() == '"' && version.back() == '"';
  return quoted ? version.substr(1, version.size() - 2) : version;
}

const store::Entry* find_entry(const std::vector<store::Entry>& entries, std::string_view name) {
  const auto found = std::ranges::lower_bound(entries, name, {}, &store::Entry::name);
  return found != entries.end() && found->name == name ? &*found : nullptr;
}

uintptr_t place_in_memory(Bytes bytes) { return reinterpret_cast<uintptr_t>(bytes.data()); }

}  // namespace

bool RemoteFolder::has(const std::string& path) { return is_bucket_address(path) || store::is_web_url(path); }

Result<std::shared_ptr<RemoteFolder>> RemoteFolder::make(const std::string& url, const store::StoreSettings& options,
                                                         uint64_t keep) {
  const size_t bucket = bucket_address(url).bucket;
  if (bucket == 0) {
    if (url.substr(0, url.find_first_of("?#")).ends_with('/'))
      return Status(CKPT_INVALID, "\"" + shown_url(url) + "\": expected the address of a file: " + kWebListsNothing);
    CKPT_ASSIGN(const store::WebFile file, store::split_web_url(url));
    CKPT_ASSIGN(auto store, store::open_web(file.store, options.web));
    std::string path = store->path(file.key);
    return std::shared_ptr<RemoteFolder>(new RemoteFolder(std::move(store), std::move(path), false, keep));
  }
  std::string path = url;
  while (path.size() > bucket && path.ends_with('/')) path.pop_back();
  // The store is the directory around it: nothing else is ever asked for.
  const bool is_bucket = path.find('/', bucket) == path.npos;
  const size_t last = path.rfind('/');
  CKPT_ASSIGN(auto store, store::open_store(is_bucket ? path : path.substr(0, last), options));
  path = is_bucket ? std::string(store->uri()) : store->path(path.substr(last + 1));  // as the store spells it
  const bool is_directory = is_bucket || url.ends_with('/');
  return std::shared_ptr<RemoteFolder>(new RemoteFolder(std::move(store), std::move(path), is_directory, keep));
}

// An object without bytes may be somebody's mark of a directory.
Result<bool> RemoteFolder::find_kind() {
  if (!store_->traits().lists) return false;
  if (!is_directory_) {
    const Result<std::shared_ptr<RemoteFile>> file = open(path_);
    if (file.ok() ? !(*file)->bytes().empty() : file.status().code() != CKPT_NOT_FOUND)
      return file.ok() ? Result<bool>(false) : file.status();
    CKPT_ASSIGN(is_directory_, store_->has_directory(key_of(path_)));
    if (!is_directory_) CKPT_TRY(file.status());
  }
  if (is_directory_) CKPT_TRY(list(path_).status());
  return is_directory_;
}

// Readers join paths with a slash too many, or end them with one.
std::string RemoteFolder::key_of(std::string_view path) const {
  path.remove_prefix(std::min(path.size(), store_->uri().size()));
  std::string key;
  for (const char c : path)
    if (c != '/' || (!key.empty() && key.back() != '/')) key += c;
  if (key.ends_with('/')) key.pop_back();
  return key;
}

template <typename T>
Result<T> RemoteFolder::noted(Result<T> told) {
  if (told.ok() || told.status().code() == CKPT_NOT_FOUND) return told;
  std::lock_guard lock(mutex_);
  if (failed_.ok()) failed_ = told.status();
  return told;
}

Status RemoteFolder::failed() const {
  std::lock_guard lock(mutex_);
  return failed_;
}

// ---- names ----

Result<const std::vector<store::Entry>*> RemoteFolder::entries(const std::string& directory) {
  size_t known = 0;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = listings_.find(directory); found != listings_.end()) return &found->second;
    // What the directory around it lacks is not asked for.
    const auto around = listings_.find(std::string(store::directory_of(directory)));
    if (!directory.empty() && around != listings_.end() && !find_entry(around->second, store::last_of(directory)))
      return store::not_found(store_->path(directory));
    for (const auto& [key, listed] : listings_) known += listed.size();
  }
  CKPT_ASSIGN(auto listed, store_->list_at_most(directory, kMostNames - std::min(known, kMostNames)));
  for (const store::Entry& entry : listed)
    if (!store::check_element(entry.name).ok())
      return Status(CKPT_FORMAT, strformat("{} holds the name {}, which is none of a file", store_->path(directory),
                                           ckpt::in_quotes(entry.name)))
          .with("path", store_->path(directory))
          .with("found", entry.name);
  std::lock_guard lock(mutex_);
  return &listings_.try_emplace(directory, std::move(listed)).first->second;
}

Result<std::vector<std::string>> RemoteFolder::list(const std::string& path) {
  CKPT_ASSIGN(const auto* listed, noted(entries(key_of(path))));
  std::vector<std::string> names;
  for (const store::Entry& entry : *listed) names.push_back(entry.name);
  return names;
}

bool RemoteFolder::holds(const std::string& path, bool as_directory) {
  const std::string key = key_of(path);
  if (key == key_of(path_)) return is_directory_ == as_directory;
  if (!store_->traits().lists) return false;
  const auto listed = noted(entries(std::string(store::directory_of(key))));
  const store::Entry* entry = listed.ok() ? find_entry(**listed, store::last_of(key)) : nullptr;
  return entry && entry->directory == as_directory;
}

// ---- files ----

// Whether what was opened is what was listed. Where a server tells other versions in lists than in answers, one more
// list of the directory tells whether anything changed until then; after it, sizes tell.
Result<bool> RemoteFolder::is_still(const std::string& key, const store::Entry& listed, const store::Reader& found) {
  if (listed.size >= 0 && static_cast<uint64_t>(listed.size) != found.size()) return false;
  if (listed.version.empty() || bare_version(listed.version) == bare_version(found.version())) return true;
  const std::string directory(store::directory_of(key));
  const std::vector<store::Entry>* again = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (const auto known = listed_again_.find(directory); known != listed_again_.end()) again = &known->second;
  }
  if (!again) {
    CKPT_ASSIGN(auto entries, store_->list_at_most(directory, kMostNames));
    std::lock_guard lock(mutex_);
    again = &listed_again_.try_emplace(directory, std::move(entries)).first->second;
  }
  const store::Entry* entry = find_entry(*again, store::last_of(key));
  return entry && entry->size == listed.size && entry->version == listed.version;
}

Result<std::shared_ptr<RemoteFile>> RemoteFolder::open_key(const std::string& key) {
  const std::string path = store_->path(key);
  std::optional<store::Entry> listed;
  bool with_tail = false;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = files_.find(key); found != files_.end()) return found->second;
    with_tail = files_.size() < kWithTail;
    if (const auto around = listings_.find(std::string(store::directory_of(key))); around != listings_.end()) {
      const store::Entry* entry = find_entry(around->second, store::last_of(key));
      if (!entry) return store::not_found(path);
      if (!entry->directory) listed = *entry;
    }
  }
  Result<std::unique_ptr<store::Reader>> reader = with_tail ? store_->open(key) : store_->open_lazily(key);
  if (listed && !reader.ok() && reader.status().code() == CKPT_NOT_FOUND)
    return gone_file(path, "was in the list of its directory, and is not there any more");
  CKPT_TRY(reader.status());
  if (listed) {
    CKPT_ASSIGN(const bool still, is_still(key, *listed, **reader));
    if (!still)
      return gone_file(path, strformat("was replaced after its directory was listed: expected {} bytes, found {}",
                                       listed->size, (*reader)->size()));
  }
  CKPT_ASSIGN(auto file, RemoteFile::make(reader.take(), path, keep_, held_));
  std::lock_guard lock(mutex_);
  const auto [found, is_new] = files_.try_emplace(key, std::move(file));
  if (is_new && !found->second->bytes().empty()) places_[place_in_memory(found->second->bytes())] = found->second;
  return found->second;
}

Result<std::shared_ptr<RemoteFile>> RemoteFolder::open(const std::string& path) {
  return noted(open_key(key_of(path)));
}

void RemoteFolder::expect(const std::string& directory, const std::vector<std::string>& names) {
  (void)for_each_parallel(kRequestsAtOnce, names.size(), [&](size_t i) {
    (void)open_key(key_of(directory + '/' + names[i]));  // open() will tell
    return Ok();
  });
}

std::shared_ptr<RemoteFile> RemoteFolder::file_at(Bytes bytes) const {
  std::lock_guard lock(mutex_);
  auto found = places_.upper_bound(place_in_memory(bytes));
  if (bytes.empty() || found == places_.begin()) return nullptr;
  const auto& file = (--found)->second;
  return place_in_memory(bytes) - found->first < file->bytes().size() ? file : nullptr;
}

static ByteRange range_in(const RemoteFile& file, Bytes bytes) {
  const uint64_t begin = place_in_memory(bytes) - place_in_memory(file.bytes());
  return {begin, begin + bytes.size()};
}

Status RemoteFolder::need(const std::vector<Bytes>& wanted) const {
  for (const Bytes bytes : wanted)
    if (const auto file = file_at(bytes)) CKPT_TRY(file->fetch({range_in(*file, bytes)}));
  return Ok();
}

void RemoteFolder::release(Bytes bytes) const {
  if (const auto file = file_at(bytes)) file->release(range_in(*file, bytes));
}

// ---- here or there ----

Result<std::vector<std::string>> list_directory(const std::string& path, const Folder& folder) {
  if (folder) return folder->list(path);
  const Busy busy("list", path);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (!directory) return from_errno(errno, "open", path);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(directory.get()))
    if (std::string_view(entry->d_name) != "." && std::string_view(entry->d_name) != "..")
      names.emplace_back(entry->d_name);
  if (errno != 0) return from_errno(errno, "list", path);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> names_in_directory(const std::string& path, const Folder& folder) {
  Result<std::vector<std::string>> names = list_directory(path, folder);
  return names.ok() ? names.take() : std::vector<std::string>();
}

bool is_file(const std::string& path, const Folder& folder) {
  if (folder) return folder->holds(path, false);
  const Busy busy("inspection", path);
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_directory(const std::string& path, const Folder& folder) {
  if (folder) return folder->holds(path, true);
  const Busy busy("inspection", path);
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

void expect_files(const std::string& directory, const std::vector<std::string>& names, const Folder& folder) {
  if (folder) folder->expect(directory, names);
}

}  // namespace ckpt::interop

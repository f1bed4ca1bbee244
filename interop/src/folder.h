// Where the files of a foreign checkpoint are: on this machine, or on a server, which is asked for names and for ranges
// of files. Readers see one thing, paths, and a Folder beside them. Thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "store/store.h"

namespace ckpt::interop {

class RemoteFile;

// A file or directory of an object store or web server, and what is in and beside it, by paths without what must not be
// shown. A directory is listed once, and each file opened once. What was listed must still be the same when it is
// opened: a file that is gone or replaced is GONE by its path.
class RemoteFolder {
 public:
  // Whether a path is on a server: s3://, gs://, az://, https:// or http://.
  static bool has(const std::string& path);
  // `url`: of a file; of a bucket also of a directory. INVALID, UNSUPPORTED. `keep`: about so many bytes of all files
  // together stay in memory, since they may be wanted again.
  static Result<std::shared_ptr<RemoteFolder>> make(const std::string& url, const store::StoreSettings& options,
                                                    uint64_t keep);
  // What the URL names, and whether that is a directory; NOT_FOUND where it is neither. To be asked first.
  const std::string& path() const { return path_; }
  Result<bool> find_kind();

  // NOT_FOUND, GONE.
  Result<std::shared_ptr<RemoteFile>> open(const std::string& path);
  // The names in a directory, in their order. NOT_FOUND; FORMAT for a name that leads out of it; UNSUPPORTED of a web
  // server, and where there are too many.
  Result<std::vector<std::string>> list(const std::string& path);
  // Opens files that will be wanted, several at once. What fails is told by open().
  void expect(const std::string& directory, const std::vector<std::string>& names);
  // Whether a directory has it, as such.
  bool holds(const std::string& path, bool as_directory);
  // The first list() or open() that failed, other than by NOT_FOUND. Detecting a format asks many questions and takes a
  // failure for "no", so the answer counts only if this is OK.
  Status failed() const;

  // Brings the bytes at those addresses, which are of files of this folder; others are in memory already. And they will
  // not be looked at soon.
  Status need(const std::vector<Bytes>& wanted) const;
  void release(Bytes bytes) const;

 private:
  RemoteFolder(std::shared_ptr<store::Store> store, std::string path, bool is_directory, uint64_t keep)
      : store_(std::move(store)),
        path_(std::move(path)),
        keep_(keep),
        held_(std::make_shared<std::atomic<uint64_t>>(0)),
        is_directory_(is_directory) {}
  std::string key_of(std::string_view path) const;
  Result<const std::vector<store::Entry>*> entries(const std::string& directory);
  Result<std::shared_ptr<RemoteFile>> open_key(const std::string& key);
  Result<bool> is_still(const std::string& key, const store::Entry& listed, const store::Reader& found);
  std::shared_ptr<RemoteFile> file_at(Bytes bytes) const;
  template <typename T>
  Result<T> noted(Result<T> told);

  const std::shared_ptr<store::Store> store_;
  const std::string path_;
  const uint64_t keep_;
  const std::shared_ptr<std::atomic<uint64_t>> held_;  // by all files
  bool is_directory_;                                  // path_
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<store::Entry>> listings_, listed_again_;  // by key
  std::map<std::string, std::shared_ptr<RemoteFile>> files_;                  // by key
  std::map<uintptr_t, std::shared_ptr<RemoteFile>> places_;                   // by address
  Status failed_;
};

using Folder = std::shared_ptr<RemoteFolder>;  // null: this machine

// What to do where a directory of a web server was meant.
inline constexpr const char* kWebListsNothing =
    "a web server does not tell what a directory holds: name a file that names the others (index.json, .metadata), or "
    "copy the directory to s3:// or to this machine, whose directories are listed";

// What a directory holds, sorted. NOT_FOUND and other errors.
Result<std::vector<std::string>> list_directory(const std::string& path, const Folder& folder);
// None where it cannot be listed.
std::vector<std::string> names_in_directory(const std::string& path, const Folder& folder);
// Links are followed.
bool is_file(const std::string& path, const Folder& folder);
bool is_directory(const std::string& path, const Folder& folder);
// Of a folder: opens files that will be wanted, several at once.
void expect_files(const std::string& directory, const std::vector<std::string>& names, const Folder& folder);

}  // namespace ckpt::interop

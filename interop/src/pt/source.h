// One .pt file, opened: where its pickle and the bytes of its storages lie. The zip form of torch >= 1.6, the plain
// form before it, and what LibTorch's torch::save writes. Nothing is copied: all points into the mapping. Takes
// untrusted bytes, and asks for those that it looks at. Const calls are thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/pickle/pickle.h"
#include "interop/src/reader.h"
#include "interop/src/zip/reader.h"

namespace ckpt::interop {

class PtSource {
 public:
  // `file` must outlive the source, `path` is for messages. With options.verify: also the CRC-32 of every zip entry
  // (CORRUPT, of a storage when a tensor of it is asked for); without it, of what is read here.
  // FORMAT, UNSUPPORTED (big-endian, compressed or encrypted entries, torch < 0.1.10's tar, functions
  // we do not know).
  static Result<PtSource> parse(std::string path, const FileBytes& file, const ReadOptions& options);

  // Whether the bytes begin like a .pt of any form; for files that are not named so.
  static bool looks_like(Bytes file);
  // Whether they begin like a pickle of protocol 2 to 5, which parse() takes as a file without storages.
  static bool looks_like_pickle(Bytes file);

  const std::string& path() const { return path_; }
  bool legacy() const { return legacy_; }
  bool plain() const { return plain_; }  // a pickle
  const PickleDocument& pickle() const { return pickle_; }
  size_t file_bytes() const { return bytes_.size(); }
  size_t pickle_bytes() const { return pickle_.bytes_read(); }
  // The bytes of storage `key`; null where the file has none.
  const Bytes* storage(std::string_view key) const;
  // Why its bytes are not what was written; OK where they are, or where nobody looked. And of all storages.
  Status damage_of(std::string_view key) const;
  Status damage() const { return damaged_.empty() ? Ok() : damaged_.begin()->second; }
  // Zip entries with content whose CRC-32 was not recorded; all storages of the older form, which has none.
  size_t unchecked() const { return unchecked_; }
  // What torch called the archive: the name of the file that it wrote, without its ending; "archive" where it had none,
  // empty for the older form.
  const std::string& archive() const { return archive_; }
  // A function of TorchScript that the archive has beside the values; empty for none. Nothing runs it.
  const std::string& code() const { return code_; }

 private:
  PtSource(std::string path, const FileBytes& file) : path_(std::move(path)), file_(file), bytes_(file.all()) {}
  Status read(const ReadOptions& options);
  Status read_zip(const ReadOptions& options);
  Status read_plain();
  Status find_damage(const ZipReader& zip, const std::string& data, const ReadOptions& options);
  // ---- the form before torch 1.6: legacy.cpp ----
  Status read_legacy();
  Status fetch_whole() const;
  Status read_legacy_storages(PickleRef list, const PickleDocument& keys, uint64_t at);

  std::string path_;
  FileBytes file_;
  Bytes bytes_;
  bool legacy_ = false, plain_ = false;
  size_t unchecked_ = 0;
  std::string archive_, code_;
  PickleDocument pickle_;
  std::map<std::string, Bytes, std::less<>> storages_;
  std::map<std::string, Status, std::less<>> damaged_;
};

// The tuple that stands for a storage in a pickle: ("storage", type, key, location, numel[, view]).
struct StorageId {
  std::string_view type;  // "torch FloatStorage"
  std::string_view key;
  std::string_view location;  // "cpu", "cuda:0"
  uint64_t count = 0;
  bool is_view =
      false;  // of the old form: elements [view_offset, view_offset + view_count) of the storage, as view_key
  std::string_view view_key;
  uint64_t view_offset = 0, view_count = 0;
};
// FORMAT for a persistent value that is none. In legacy.cpp.
Result<StorageId> storage_id_of(const PickleDocument& pickle, PickleRef ref);

}  // namespace ckpt::interop

// What is done to one object of a bucket, one upload, or one page of a list, in the words of no service. A dialect
// (s3_bucket.h, gcs_bucket.h, azure_bucket.h) makes requests of it; what many of them make is for others (objects.h,
// object_reader.h). Keys are those of the store. May be used by many threads.
#pragma once

#include <optional>
#include <vector>

#include "store/cloud/client.h"

namespace ckpt::store::cloud {

// Every object that ckpt puts bears a number of its own, `put_by`. So whoever put an object, and got no answer or that
// it exists, can tell whether it was the one. And those that one request puts bear their CRC-32C, as crc32c_header has
// it: what the engine keeps in small files has no other checksum.
struct ObjectInfo {
  uint64_t size = 0;
  std::string version{};             // another one each time that something is put: an ETag, a generation
  std::string put_by{}, checksum{};  // "" if it has none
  int64_t age = -1;                  // in seconds of the server's clock; -1 if it does not say
};

struct Put {
  std::string_view key;
  std::span<const Bytes> pieces;
  std::string_view put_by;
  bool absent = false;                    // only if there is none
  const std::string* replaces = nullptr;  // only if that version is there
  bool once = false;                      // without a second try
};

// What became of a request that changes something under a condition.
struct Outcome {
  enum What { kDone, kRefused, kUnknown, kFailed };  // unknown: it may have been carried out, or may still be
  What what = kDone;
  Status error = Ok();  // unless it is done
};

// A multipart upload that was begun: nothing is under the key before its end.
struct Upload {
  std::string key, id;
  std::string put_by = {};
  int64_t age = -1;  // as in ObjectInfo
};

class Bucket : public Client {
 public:
  // Null if there is none. `once`: without a second try.
  virtual Result<std::optional<ObjectInfo>> look(std::string_view key, bool once = false) = 0;
  struct End {
    std::optional<ObjectInfo> info;  // null if the server knows no such range
    size_t received = 0;
  };
  // Its last bytes, at most as many as there is room for. NOT_FOUND
  virtual Result<End> read_end(std::string_view key, MutableBytes into);
  // GONE if that version is not there any more.
  virtual Status read(std::string_view key, const ObjectInfo& object, uint64_t offset, MutableBytes out) = 0;
  virtual Outcome put(const Put& put) = 0;
  // Makes another object of that version, with the same number. GONE as above.
  virtual Status copy(std::string_view key, std::string_view version, std::string_view to) = 0;
  // Of a larger object many pieces are copied at once.
  virtual uint64_t most_copied() const = 0;
  // If there is one.
  Status remove(std::string_view key);
  // What the service itself keeps as a directory, if it is empty.
  virtual Status remove_directory(std::string_view /*key*/) { return Ok(); }

  struct Listed {
    std::string key;  // of the bucket; of a directory with its slash
    bool is_directory = false;
    uint64_t size = 0;
    int64_t age = -1;  // as in ObjectInfo
    std::string version = {};
  };
  struct Page {
    std::vector<Listed> entries;
    bool more = false;
    std::string next;  // for Wanted::token
  };
  struct Wanted {
    std::string token = {};  // of the page before
    bool below = false;      // all that is below, not by directories
    unsigned most = 0;       // names; 0: as many as a page has
  };
  virtual Result<Page> list(std::string_view directory, const Wanted& wanted) = 0;

  struct Piece {
    std::string version, checksum;
  };
  // Its id. `with_checksums`: its pieces have one each; false afterwards if the server does not know them.
  virtual Result<std::string> begin_upload(std::string_view key, std::string_view put_by, bool* with_checksums) = 0;
  virtual Result<Piece> send_piece(const Upload& upload, size_t number, std::span<const Bytes> bytes,
                                   std::string_view checksum) = 0;
  // The server takes these bytes from that version of the object `from`: GONE.
  virtual Result<Piece> copy_piece(const Upload& upload, size_t number, std::string_view from, std::string_view version,
                                   uint64_t first, uint64_t size) = 0;
  // Refused if the key is taken; NOT_FOUND: somebody gave the upload up.
  virtual Outcome complete_upload(const Upload& upload, std::span<const Piece> pieces) = 0;
  virtual Status abort_upload(const Upload& upload) = 0;
  // Those below a directory that have no end yet.
  virtual Result<std::vector<Upload>> list_uploads(std::string_view directory) = 0;

  // Whether only stores of ckpt have such uploads. In other buckets those of other programs may be among them.
  virtual bool owns_uploads() const { return false; }

  // A version that no object has.
  virtual std::string no_version() const = 0;

 protected:
  using Client::Client;
};

// Of times of the server's clock; -1 if one is not known.
inline int64_t age_of(int64_t now, int64_t then) { return now < 0 || then < 0 || then > now ? -1 : now - then; }

bool parse_number(std::string_view text, uint64_t* value);
// Whether a good answer, whose `header` tells a version, brings that range ("0-9") of that object. `*other`: it is of
// another version.
bool brings(const HttpReply& reply, std::string_view header, const ObjectInfo& object, std::string_view range,
            uint64_t bytes, bool* other);
// GONE; and IO, of a range that came short.
Status gone_object(const std::string& path);
Status short_object(const std::string& path, uint64_t expected, uint64_t offset, uint64_t found);

// What lets a listing of many pages end, whatever the server says: but for a few of them, each has a greater name than
// all before it, and there are not many more of them than it takes for the names.
class Pages {
 public:
  // Whether another one may be asked for.
  Status turn(const Client& client, std::string_view directory, std::string_view greatest, size_t names);

 private:
  std::string greatest_;
  size_t pages_ = 0, barren_ = 0;
};

}  // namespace ckpt::store::cloud

// What is done to whole objects of a bucket: looked at, put, replaced, listed, removed. Keys are those of the store.
// May be used by many threads.
#pragma once

#include <functional>
#include <optional>

#include "store/s3/client.h"

namespace ckpt::store::s3 {

// Every object that ckpt puts bears a number of its own in this header. So whoever put an object, and got no answer or
// that it exists, can tell whether it was the one.
inline constexpr std::string_view kPutHeader = "x-amz-meta-ckpt-put";
// And those that one request puts bear their checksum in this one. What the engine keeps in small files has no other.
inline constexpr std::string_view kChecksumHeader = "x-amz-meta-ckpt-crc32c";

struct ObjectInfo {
  uint64_t size = 0;
  std::string etag, put_by, checksum;  // the last two are "" if it has none
  int64_t age = -1;                    // in seconds of the server's clock; -1 if it does not say
};

// Null if there is none. `once`: without a second try.
Result<std::optional<ObjectInfo>> look_at_object(Client& client, std::string_view key, bool once = false);

// From the answer of GET or HEAD. FORMAT if it is none of S3's.
Result<ObjectInfo> describe_object(const Client& client, std::string_view key, const HttpReply& reply);

// What became of a put, a completion or a replacement that was `refused` because of its condition, or whose answer got
// lost: OK if the object is the one with this number, else `otherwise`, but EXISTS if another one is there.
Status settle_put(Client& client, std::string_view key, std::string_view put_by, Status otherwise);

// Creates an object if it is absent. EXISTS; IO leaves open whether it was done.
Status put_object(Client& client, std::string_view key, std::span<const Bytes> pieces);
// Puts an object, whatever is there, by one try.
Status put_object_over(Client& client, std::string_view key, Bytes data);
// Replaces the object that has this ETag by one with this number. GONE if another one is there, or none. IO leaves open
// whether it was done.
Status replace_object(Client& client, std::string_view key, std::string_view etag, std::string_view put_by, Bytes data);
// Makes another object of the one that has this ETag, with the same number. GONE if another one is there, or none.
Status copy_object(Client& client, std::string_view key, std::string_view etag, std::string_view to);
// What a request says that takes its bytes from the object that has this ETag, and its error: GONE as above. (An upload
// that was given up while it copied looks like that, too.)
std::vector<Header> copy_headers(const Client& client, std::string_view key, std::string_view etag);
Status copy_error(const Client& client, std::string_view key, const Answer& answer, const Request& request);
// Removes an object, if there is one.
Status delete_object(Client& client, std::string_view key);
// The same for many, several at a time. The first error.
Status delete_objects(Client& client, const std::vector<std::string>& keys);

struct Listing {
  struct Object {
    std::string name;
    uint64_t size = 0;
    int64_t age = -1;  // as in ObjectInfo
    std::string etag{};
  };
  std::vector<Object> objects;
  std::vector<std::string> directories;  // without the slash
};
// No directory of a store has so many names.
inline constexpr size_t kMostListed = 1 << 20;
// What is in a directory of the store; "" is its root. Keys that no store of ckpt has are left out. UNSUPPORTED where
// that is more than `most`.
Result<Listing> list_objects(Client& client, std::string_view directory, size_t most = kMostListed);
// Whether anything is below it.
Result<bool> holds_objects(Client& client, std::string_view directory);

struct Upload {
  std::string key, id;
  int64_t age = -1;  // as in ObjectInfo
};
// The multipart uploads below a directory that have no end yet.
Result<std::vector<Upload>> list_uploads(Client& client, std::string_view directory);
Status abort_upload(Client& client, std::string_view key, const std::string& upload);

}  // namespace ckpt::store::s3

// What is done to whole objects of a bucket, whatever its service: looked at, put, replaced, listed, removed.
// May be used by many threads.
#pragma once

#include "store/cloud/bucket.h"

namespace ckpt::store::cloud {

// What became of a put, a completion or a replacement that was `refused` because of its condition, or whose answer got
// lost: OK if the object is the one with this number, else `otherwise`, but EXISTS if another one is there.
Status settle_put(Bucket& bucket, std::string_view key, std::string_view put_by, Status otherwise);

// Creates an object if it is absent. EXISTS; IO leaves open whether it was done.
Status put_object(Bucket& bucket, std::string_view key, std::span<const Bytes> pieces);
// Puts an object, whatever is there, by one try.
Status put_object_over(Bucket& bucket, std::string_view key, Bytes data);
// Replaces that version of an object by one with this number. GONE if another one is there, or none. IO leaves open
// whether it was done.
Status replace_object(Bucket& bucket, std::string_view key, const std::string& version, std::string_view put_by,
                      Bytes data);
// Removes many, several at a time. The first error.
Status delete_objects(Bucket& bucket, const std::vector<std::string>& keys);

struct Listing {
  struct Object {
    std::string name;
    uint64_t size = 0;
    int64_t age = -1;  // as in ObjectInfo
    std::string version{};
  };
  std::vector<Object> objects;
  std::vector<std::string> directories;  // without the slash
};
// No directory of a store has so many names.
inline constexpr size_t kMostListed = 1 << 20;
// What is in a directory of the store; "" is its root. Keys that no store of ckpt has are left out. UNSUPPORTED where
// that is more than `most`.
Result<Listing> list_objects(Bucket& bucket, std::string_view directory, size_t most = kMostListed);
// Each page of a list, once its keys are known to have the prefix of the directory. `take` says how many names it has
// found so far.
Status for_each_page(Bucket& bucket, std::string_view directory, Bucket::Wanted wanted,
                     const std::function<Result<size_t>(std::string_view prefix, Bucket::Page& page)>& take);
// Whether anything is below it.
Result<bool> holds_objects(Bucket& bucket, std::string_view directory);

}  // namespace ckpt::store::cloud

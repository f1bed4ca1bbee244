#include "store/cloud/objects.h"

#include <algorithm>

#include "base/parallel.h"
#include "store/keys.h"

namespace ckpt::store::cloud {

static constexpr unsigned kDeletesAtOnce = 8;

// ---- putting ----

Status settle_put(Bucket& bucket, std::string_view key, std::string_view put_by, Status otherwise) {
  const CancelShield until_it_is_known;
  // NOT_FOUND: an upload that the server does not know any more; it was given up, or is done.
  const bool lost = otherwise.code() != CKPT_EXISTS && otherwise.code() != CKPT_NOT_FOUND;
  auto there = bucket.look(key, lost);
  if (!there.ok()) return lost ? otherwise : std::move(there).status();
  if (!*there) return otherwise;
  return (*there)->put_by == put_by ? Ok() : exists(bucket.path(key));
}

Status put_object(Bucket& bucket, std::string_view key, std::span<const Bytes> pieces) {
  const bool conditional = bucket.place().conditional;
  if (!conditional) {
    CKPT_ASSIGN(const auto there, bucket.look(key));
    if (there) return exists(bucket.path(key));
  }
  const std::string put_by = to_hex(random_id());
  Outcome put = bucket.put({.key = key, .pieces = pieces, .put_by = put_by, .absent = conditional});
  if (put.what == Outcome::kRefused) return settle_put(bucket, key, put_by, exists(bucket.path(key)));
  const bool settles = put.what == Outcome::kUnknown && conditional;
  return settles ? settle_put(bucket, key, put_by, std::move(put.error)) : put.error;
}

Status put_object_over(Bucket& bucket, std::string_view key, Bytes data) {
  return bucket.put({.key = key, .pieces = {&data, 1}, .put_by = to_hex(random_id()), .once = true}).error;
}

Status replace_object(Bucket& bucket, std::string_view key, const std::string& version, std::string_view put_by,
                      Bytes data) {
  const std::string* replaces = bucket.place().conditional ? &version : nullptr;
  Outcome put = bucket.put({.key = key, .pieces = {&data, 1}, .put_by = put_by, .replaces = replaces});
  if (put.what == Outcome::kDone || put.what == Outcome::kFailed) return put.error;
  const bool refused = put.what == Outcome::kRefused;
  const Status gone = gone_object(bucket.path(key));
  Status settled = settle_put(bucket, key, put_by, refused ? gone : put.error);
  if (settled.code() != CKPT_EXISTS) return settled;
  // Another one is there: if it is not the one that was to be replaced, ours can no longer come.
  auto there = bucket.look(key);
  const bool same = there.ok() && *there && (*there)->version == version;
  return same ? put.error : gone;
}

// ---- removing ----

Status delete_objects(Bucket& bucket, const std::vector<std::string>& keys) {
  const unsigned threads = keys.size() < 4 ? 1 : kDeletesAtOnce;
  return for_each_parallel(threads, keys.size(), [&](size_t i) { return bucket.remove(keys[i]); });
}

// ---- listing ----

static Status other_prefix(const Client& client, std::string_view directory) {
  return client.stranger(directory, "a listing of keys with another prefix");
}

static constexpr size_t kLongestVersion = 256;  // S3's have 66 bytes at most

Status for_each_page(Bucket& bucket, std::string_view directory, Bucket::Wanted wanted,
                     const std::function<Result<size_t>(std::string_view prefix, Bucket::Page& page)>& take) {
  const std::string prefix = bucket.place().prefix(directory);
  for (Pages pages;;) {
    CKPT_ASSIGN(Bucket::Page page, bucket.list(directory, wanted));
    std::string greatest;
    for (const Bucket::Listed& entry : page.entries) {
      if (!entry.key.starts_with(prefix)) return other_prefix(bucket, directory);
      greatest = std::max(greatest, entry.key);
    }
    CKPT_ASSIGN(const size_t names, take(prefix, page));
    if (!page.more) return Ok();
    if (page.next.empty() || page.next == wanted.token)
      return bucket.stranger(directory, "a listing that does not go on");
    wanted.token = std::move(page.next);
    CKPT_TRY(pages.turn(bucket, directory, greatest, names));
  }
}

Result<Listing> list_objects(Bucket& bucket, std::string_view directory, size_t most) {
  Listing listing;
  const auto take = [&](std::string_view prefix, Bucket::Page& page) -> Result<size_t> {
    for (Bucket::Listed& entry : page.entries) {
      std::string_view name = std::string_view(entry.key).substr(prefix.size());
      if (entry.is_directory && name.ends_with('/')) name.remove_suffix(1);
      if (!check_element(name).ok()) continue;  // somebody's mark of a directory, or what no key of a store is
      if (entry.is_directory) {
        listing.directories.emplace_back(name);
        continue;
      }
      if (entry.version.size() > kLongestVersion) return bucket.stranger(directory, "an object with a very long ETag");
      listing.objects.push_back({std::string(name), entry.size, entry.age, std::move(entry.version)});
    }
    const size_t names = listing.objects.size() + listing.directories.size();
    if (names <= most) return names;
    return Status(CKPT_UNSUPPORTED, strformat("{}: more than {} names in one directory", bucket.path(directory), most))
        .with("path", bucket.path(directory));
  };
  CKPT_TRY(for_each_page(bucket, directory, {}, take));
  return listing;
}

// The first ones may be marks of directories, and a page may be empty.
Result<bool> holds_objects(Bucket& bucket, std::string_view directory) {
  bool found = false;
  const auto take = [&](std::string_view prefix, Bucket::Page& page) -> Result<size_t> {
    for (const Bucket::Listed& entry : page.entries)
      found |= entry.key.size() > prefix.size() && !entry.key.ends_with('/');
    page.more &= !found;
    return size_t{0};
  };
  CKPT_TRY(for_each_page(bucket, directory, {.below = true, .most = 2}, take));
  return found;
}

}  // namespace ckpt::store::cloud

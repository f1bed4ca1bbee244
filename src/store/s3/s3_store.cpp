// The store "s3://bucket/prefix". What each verb of Store becomes is in src/README.md ("Object stores").
#include <algorithm>
#include <map>

#include "base/text.h"
#include "store/io_queue.h"
#include "store/keys.h"
#include "store/s3/probe.h"
#include "store/s3/s3_reader.h"
#include "store/s3/s3_writer.h"

namespace ckpt::store {

namespace s3 {
namespace {

class NoLock final : public Lock {
  bool protects() const override { return false; }
};

class S3Store final : public Store {
 public:
  explicit S3Store(std::shared_ptr<Client> client) : client_(std::move(client)) {}

  std::string uri() const override { return client_->config().uri(); }
  std::string path(std::string_view key) const override { return client_->path(key); }
  Traits traits() const override {
    return {.block_bytes = 8 << 20,
            .least_block_bytes = 5 << 20,
            .write_depth = 8,
            .read_depth = 16,
            .visible_is_durable = true,
            .remote = true,
            .directories = false};
  }
  Status make_root() override { return Ok(); }
  Status prepare() override;
  Status make_directory(std::string_view key) override { return check_key(key); }
  Status put_if_absent(std::string_view key, Bytes data) override;
  Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size, bool at_most) override;
  Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const override { return IoQueue::make(depth, false); }
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override;
  Result<bool> exists(std::string_view key) const override;
  Result<std::vector<Entry>> list(std::string_view directory) const override;
  Result<uint64_t> bytes_in(std::string_view directory) const override;
  Status remove(std::string_view key, bool sync) override;
  Status remove_directory(std::string_view key) override;
  Status open_attempt(std::string_view record, Bytes text, std::string_view directory) override;
  Result<bool> attempt_exists(std::string_view record, std::string_view directory) const override;
  Status retire(std::string_view directory, std::string_view slot, Bytes tombstone) override;
  // What a lock protects elsewhere, nothing protects here: a reader of what is removed gets GONE.
  Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const override { return no_lock(key); }
  Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const override { return no_lock(key); }

 private:
  Result<std::unique_ptr<Lock>> no_lock(std::string_view key) const {
    CKPT_TRY(check_key(key));
    return std::unique_ptr<Lock>(std::make_unique<NoLock>());
  }
  Result<Listing> listing_of(std::string_view directory) const;
  Status finish_retired();
  Status remove_retired(std::string_view directory, std::string_view slot, const Listing& listing, bool with_slot);

  const std::shared_ptr<Client> client_;
};

Status S3Store::put_if_absent(std::string_view key, Bytes data) {
  CKPT_TRY(check_new_file(key));
  return put_object(*client_, key, {&data, 1});
}

Result<std::unique_ptr<Writer>> S3Store::create(std::string_view key, uint64_t expected_size, bool /*at_most*/) {
  CKPT_TRY(check_new_file(key));
  return std::unique_ptr<Writer>(std::make_unique<S3Writer>(client_, key, expected_size));
}

Result<std::unique_ptr<Reader>> S3Store::open(std::string_view key) const {
  CKPT_TRY(check_key(key));
  return S3Reader::open(client_, key);
}

Result<bool> S3Store::exists(std::string_view key) const {
  CKPT_TRY(check_key(key));
  CKPT_ASSIGN(const auto there, look_at_object(*client_, key));
  if (there) return true;
  CKPT_ASSIGN(const bool below, holds_objects(*client_, key));
  return below;
}

// NOT_FOUND
Result<Listing> S3Store::listing_of(std::string_view directory) const {
  if (!directory.empty()) CKPT_TRY(check_key(directory));
  CKPT_ASSIGN(Listing listing, list_objects(*client_, directory));
  if (!directory.empty() && listing.objects.empty() && listing.directories.empty()) return not_found(path(directory));
  return listing;
}

Result<std::vector<Entry>> S3Store::list(std::string_view directory) const {
  CKPT_ASSIGN(const Listing listing, listing_of(directory));
  std::map<std::string, bool> names;  // in the order of bytes; a name may be both
  for (const auto& object : listing.objects) names[object.name] |= false;
  for (const std::string& name : listing.directories) names[name] = true;
  std::vector<Entry> entries;
  for (const auto& [name, is_directory] : names) entries.push_back({name, is_directory});
  return entries;
}

Result<uint64_t> S3Store::bytes_in(std::string_view directory) const {
  CKPT_ASSIGN(const Listing listing, listing_of(directory));
  uint64_t bytes = 0;
  for (const auto& object : listing.objects) bytes += object.size;
  return bytes;
}

Status S3Store::remove(std::string_view key, bool /*sync*/) {
  CKPT_TRY(check_key(key));
  CKPT_ASSIGN(const auto there, look_at_object(*client_, key));
  return there ? delete_object(*client_, key) : not_found(path(key));
}

static std::vector<std::string> keys_of(std::string_view directory, const Listing& listing) {
  std::vector<std::string> keys;
  for (const auto& object : listing.objects) keys.push_back(std::string(directory) + "/" + object.name);
  return keys;
}

Status S3Store::remove_directory(std::string_view key) {
  CKPT_TRY(check_key(key));
  CKPT_ASSIGN(const Listing listing, listing_of(key));
  if (!listing.directories.empty())
    return Status(CKPT_IO, foreign_directory(path(key), listing.directories[0]).message()).with("path", path(key));
  return delete_objects(*client_, keys_of(key, listing));
}

// ---- attempts ----

Status S3Store::open_attempt(std::string_view record, Bytes text, std::string_view directory) {
  CKPT_TRY(check_key(directory));
  Status put = put_if_absent(record, text);
  return put.code() == CKPT_EXISTS ? Ok() : put;
}

Result<bool> S3Store::attempt_exists(std::string_view record, std::string_view /*directory*/) const {
  CKPT_TRY(check_key(record));
  CKPT_ASSIGN(const auto there, look_at_object(*client_, record));
  return there.has_value();
}

// The slot goes last: as long as anything else is there, it says that all of it is given up.
Status S3Store::remove_retired(std::string_view directory, std::string_view slot, const Listing& listing,
                               bool with_slot) {
  std::vector<std::string> keys = keys_of(directory, listing);
  const std::string slot_key = std::string(directory) + "/" + std::string(slot);
  std::erase(keys, slot_key);
  // What nobody may list is left to a lifecycle rule of the bucket.
  if (auto uploads = list_uploads(*client_, directory); uploads.ok())
    for (const Upload& upload : *uploads) (void)abort_upload(*client_, upload.key, upload.id);
  CKPT_TRY(delete_objects(*client_, keys));
  return with_slot ? delete_object(*client_, slot_key) : Ok();
}

// A note in .ckpt/trash, which the next prepare() finds if this process dies on the way.
Status S3Store::retire(std::string_view directory, std::string_view slot, Bytes tombstone) {
  CKPT_TRY(check_key(directory));
  CKPT_TRY(check_element(slot));
  const std::string slot_key = std::string(directory) + "/" + std::string(slot);
  CKPT_ASSIGN(const auto held, look_at_object(*client_, slot_key));
  if (!held) return not_found(path(slot_key));
  CKPT_ASSIGN(const Listing listing, listing_of(directory));
  if (!listing.directories.empty()) return foreign_directory(path(directory), listing.directories[0]);
  if (tombstone.empty()) return remove_retired(directory, slot, listing, false);
  const std::string note = trash_key(last_of(directory), random_id()), put_by = to_hex(random_id()),
                    text = strformat("{}\n{}\n{}\n", directory, slot, put_by);
  CKPT_TRY(put_if_absent(note, as_bytes(text)));
  Status replaced = replace_object(*client_, slot_key, held->etag, put_by, tombstone);
  if (replaced.ok()) CKPT_TRY(remove_retired(directory, slot, listing, true));
  if (replaced.ok() || replaced.code() == CKPT_GONE) CKPT_TRY(delete_object(*client_, note));
  return replaced.code() == CKPT_GONE ? not_found(path(slot_key)) : replaced;
}

// ---- preparing ----

Status S3Store::prepare() {
  if (client_->config().conditional) CKPT_TRY(probe_conditions(client_));
  return finish_retired();
}

// Ends the removals that crashes interrupted, or that are still going on. Only a slot with the very tombstone that the
// note names says that the removal had begun.
Status S3Store::finish_retired() {
  CKPT_ASSIGN(const Listing notes, list_objects(*client_, kTrashDir));
  for (const auto& note : notes.objects) {
    const std::string key = std::string(kTrashDir) + "/" + note.name;
    auto text = get(key, 4096);
    if (!text.ok()) continue;
    const std::vector<std::string_view> lines = split(as_text(*text), '\n');
    if (lines.size() != 4 || !check_key(lines[0]).ok() || !check_element(lines[1]).ok()) continue;
    const std::string slot_key = std::string(lines[0]) + "/" + std::string(lines[1]);
    CKPT_ASSIGN(const auto held, look_at_object(*client_, slot_key));
    if (held && held->put_by == lines[2]) {
      CKPT_ASSIGN(const Listing listing, list_objects(*client_, lines[0]));
      CKPT_TRY(remove_retired(lines[0], lines[1], listing, true));
    }
    CKPT_TRY(delete_object(*client_, key));
  }
  return Ok();
}

}  // namespace
}  // namespace s3

Result<std::shared_ptr<Store>> open_s3(std::string_view uri, const S3Options& options) {
  CKPT_ASSIGN(auto client, s3::Client::make(uri, options));
  return std::shared_ptr<Store>(std::make_shared<s3::S3Store>(std::move(client)));
}

}  // namespace ckpt::store

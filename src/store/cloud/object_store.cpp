// A store in a bucket, "s3://bucket/prefix", "gs://bucket/prefix" or "az://container/prefix". What each verb of Store
// becomes is in README.md.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <map>
#include <optional>

#include "base/address.h"
#include "base/parallel.h"
#include "base/text.h"
#include "store/azure/azure_bucket.h"
#include "store/cloud/object_borrow.h"
#include "store/cloud/object_reader.h"
#include "store/cloud/object_writer.h"
#include "store/cloud/probe.h"
#include "store/gcs/gcs_bucket.h"
#include "store/io_queue.h"
#include "store/keys.h"
#include "store/s3/s3_bucket.h"

namespace ckpt::store {

namespace cloud {
namespace {

// What is being removed.
struct Note {
  std::string_view directory, slot;
  std::string_view tombstone;  // its number
  bool keeps_slot = false;     // the tombstone was there before, and keeps out a writer that wakes up
  int64_t grace = 0;           // so many seconds after the tombstone came the parts may go
};

std::string slot_key(const Note& note) { return std::string(note.directory) + "/" + std::string(note.slot); }

class NoLock final : public Lock {
  bool protects() const override { return false; }
};

class ObjectStore final : public Store {
 public:
  explicit ObjectStore(std::shared_ptr<Bucket> bucket) : bucket_(std::move(bucket)) {}

  std::string uri() const override { return bucket_->place().uri(); }
  std::string identity() const override { return bucket_->place().endpoint() + " " + uri(); }
  std::string path(std::string_view key) const override { return bucket_->path(key); }
  Traits traits() const override {
    return {.block_bytes = 8 << 20,
            .least_block_bytes = ObjectWriter::kLeastPart,
            .most_blocks = ObjectWriter::kMostBlocks,
            .copied_bytes = ObjectWriter::kMostCopied,
            .write_depth = 8,
            .read_depth = 16,
            .read_bytes = 16 << 20,
            .visible_is_durable = true,
            .remote = true,
            .directories = false,
            .exclusive = bucket_->place().conditional,
            .borrows_by_copy = true,
            .grace_ms = bucket_->place().grace_ms,
            .tells_age = true};
  }
  Status make_root() override { return Ok(); }
  Status prepare() override;
  Status make_directory(std::string_view key) override { return check_key(key); }
  Status put_if_absent(std::string_view key, Bytes data) override;
  Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size, bool at_most) override;
  Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const override { return IoQueue::make(depth, false); }
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override { return open_reader(key, true); }
  Result<std::unique_ptr<Reader>> open_lazily(std::string_view key) const override { return open_reader(key, false); }
  Result<bool> exists(std::string_view key) const override;
  Result<bool> has_directory(std::string_view key) const override;
  Result<std::vector<Entry>> list(std::string_view directory) const override {
    return list_at_most(directory, kMostListed);
  }
  Result<std::vector<Entry>> list_at_most(std::string_view directory, size_t most) const override;
  Result<std::vector<FileUse>> usage(std::string_view directory) const override;
  Result<std::unique_ptr<Borrowed>> borrow(std::string_view from, std::string_view to) override {
    CKPT_TRY(check_key(from));
    CKPT_TRY(check_new_file(to));
    return borrow_object(bucket_, from, to, bucket_->most_copied());
  }
  Status remove(std::string_view key, bool sync) override;
  Status remove_directory(std::string_view key) override;
  Status put_over(std::string_view key, Bytes data) override;
  Result<int64_t> age_ms(std::string_view key) const override;
  Status open_attempt(std::string_view record, Bytes text, std::string_view directory) override;
  Result<bool> attempt_exists(std::string_view record, std::string_view directory) const override;
  Status retire(std::string_view directory, std::string_view slot, Bytes tombstone) override;
  Status finish_removals() override { return work_off_notes(false); }
  // What a lock protects elsewhere, nothing protects here: a reader of what is removed gets GONE.
  Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const override { return no_lock(key); }
  Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const override { return no_lock(key); }

 private:
  Result<std::vector<std::byte>> get_once(std::string_view key, uint64_t limit) const override;
  Result<std::unique_ptr<Lock>> no_lock(std::string_view key) const {
    CKPT_TRY(check_key(key));
    return std::unique_ptr<Lock>(std::make_unique<NoLock>());
  }
  Result<std::unique_ptr<Reader>> open_reader(std::string_view key, bool with_tail) const;
  Result<Listing> listing_of(std::string_view directory, size_t most = kMostListed) const;
  Status remove_parts(const Note& note);
  Status put_tombstone(const Note& note, const ObjectInfo& held, Bytes tombstone);
  Status work_off(const Listing::Object& object);
  void end_lost_uploads();
  Status work_off_notes(bool all);

  const std::shared_ptr<Bucket> bucket_;
  std::atomic<bool> probed_ = false;
};

Status ObjectStore::put_if_absent(std::string_view key, Bytes data) {
  CKPT_TRY(check_new_file(key));
  return put_object(*bucket_, key, {&data, 1});
}

Result<std::unique_ptr<Writer>> ObjectStore::create(std::string_view key, uint64_t expected_size, bool /*at_most*/) {
  CKPT_TRY(check_new_file(key));
  return std::unique_ptr<Writer>(std::make_unique<ObjectWriter>(bucket_, key, expected_size));
}

Result<std::unique_ptr<Reader>> ObjectStore::open_reader(std::string_view key, bool with_tail) const {
  CKPT_TRY(check_key(key));
  CKPT_ASSIGN(auto reader, ObjectReader::open(bucket_, key, with_tail));
  return std::unique_ptr<Reader>(std::move(reader));
}

Result<std::vector<std::byte>> ObjectStore::get_once(std::string_view key, uint64_t limit) const {
  CKPT_TRY(check_key(key));
  CKPT_ASSIGN(const auto reader, ObjectReader::open(bucket_, key));
  CKPT_TRY(reader->damage());
  return read_all(*reader, limit, path(key));
}

Result<bool> ObjectStore::exists(std::string_view key) const {
  CKPT_TRY(check_key(key));
  CKPT_ASSIGN(const auto there, bucket_->look(key));
  return there.has_value();
}

Result<bool> ObjectStore::has_directory(std::string_view key) const {
  CKPT_TRY(check_key(key));
  return holds_objects(*bucket_, key);
}

// NOT_FOUND
Result<Listing> ObjectStore::listing_of(std::string_view directory, size_t most) const {
  if (!directory.empty()) CKPT_TRY(check_key(directory));
  CKPT_ASSIGN(Listing listing, list_objects(*bucket_, directory, most));
  if (!directory.empty() && listing.objects.empty() && listing.directories.empty()) return not_found(path(directory));
  return listing;
}

Result<std::vector<Entry>> ObjectStore::list_at_most(std::string_view directory, size_t most) const {
  CKPT_ASSIGN(const Listing listing, listing_of(directory, most));
  std::map<std::string, Entry> names;  // in the order of bytes; a name may be both
  for (const auto& object : listing.objects)
    names[object.name] = {object.name, false, object.age < 0 ? -1 : object.age * 1000,
                          static_cast<int64_t>(object.size), object.version};
  for (const std::string& name : listing.directories) names[name] = {name, true};
  std::vector<Entry> entries;
  for (auto& [name, entry] : names) entries.push_back(std::move(entry));
  return entries;
}

Result<std::vector<FileUse>> ObjectStore::usage(std::string_view directory) const {
  CKPT_ASSIGN(const Listing listing, listing_of(directory));
  std::vector<FileUse> files;
  for (const auto& object : listing.objects) files.push_back({object.name, object.size});
  return files;
}

Status ObjectStore::remove(std::string_view key, bool /*sync*/) {
  CKPT_TRY(check_key(key));
  const CancelShield also_when_cancelled;
  CKPT_ASSIGN(const auto there, bucket_->look(key));
  return there ? bucket_->remove(key) : not_found(path(key));
}

static std::vector<std::string> keys_of(std::string_view directory, const Listing& listing) {
  std::vector<std::string> keys;
  for (const auto& object : listing.objects) keys.push_back(std::string(directory) + "/" + object.name);
  return keys;
}

Status ObjectStore::remove_directory(std::string_view key) {
  CKPT_TRY(check_key(key));
  CKPT_ASSIGN(const Listing listing, listing_of(key));
  if (!listing.directories.empty())
    return Status(CKPT_IO, foreign_directory(path(key), listing.directories[0]).message()).with("path", path(key));
  CKPT_TRY(delete_objects(*bucket_, keys_of(key, listing)));
  return bucket_->remove_directory(key);
}

// ---- signs of life ----

Status ObjectStore::put_over(std::string_view key, Bytes data) {
  CKPT_TRY(check_new_file(key));
  return put_object_over(*bucket_, key, data);
}

Result<int64_t> ObjectStore::age_ms(std::string_view key) const {
  CKPT_TRY(check_key(key));
  CKPT_ASSIGN(const auto there, bucket_->look(key, true));
  if (!there) return not_found(path(key));
  return there->age < 0 ? -1 : there->age * 1000;
}

// ---- attempts ----

Status ObjectStore::open_attempt(std::string_view record, Bytes text, std::string_view directory) {
  CKPT_TRY(check_key(directory));
  return put_same(record, text);
}

Result<bool> ObjectStore::attempt_exists(std::string_view record, std::string_view /*directory*/) const {
  CKPT_TRY(check_key(record));
  CKPT_ASSIGN(const auto there, bucket_->look(record));
  return there.has_value();
}

// ---- removal ----
// A note in .ckpt/trash says what is being removed, and by which tombstone. Both stay for an hour: a PUT that the
// network repeats must find the slot taken, and what it puts beside it goes with the slot. All else goes at once, or
// after the grace that the note tells: until then there is also a copy of what was in the slot, for those who have that
// open. Once the grace has been carried out, a note without one takes the place of the first.
// All times are of the server's clock: how much later than the object it says that it answers.

// Servers refuse a signature that is older than a quarter of an hour, so nothing arrives later.
static constexpr int64_t kSweepAfter = 3600;  // seconds of the server's clock
static constexpr unsigned kNotesAtOnce = 8;

// In seconds, as the server tells times: one more, since it tells no parts of them.
static int64_t seconds_of_grace(int64_t ms) { return ms == 0 ? 0 : (ms + 999) / 1000 + 1; }

// The name of a note tells its grace, too, so that nobody need look into it before it is time.
static constexpr std::string_view kGracePrefix = "stay.";

static std::string key_of(const Note& note) {
  const std::string name(last_of(note.directory));
  return trash_key(note.grace == 0 ? name : strformat("{}{}.{}", kGracePrefix, note.grace, name), random_id());
}

static int64_t parse_seconds(std::string_view text) {
  int64_t seconds = 0;
  const bool number = std::from_chars(text.data(), text.data() + text.size(), seconds).ec == std::errc();
  return number ? seconds : 0;
}

// When a note is to be looked at: so many seconds after it was put.
static int64_t due_after(std::string_view name) {
  return name.starts_with(kGracePrefix) ? parse_seconds(name.substr(kGracePrefix.size())) : kSweepAfter;
}

static std::string to_text(const Note& note) {
  return strformat("{}\n{}\n{}\n{}\n{}\n", note.directory, note.slot, note.tombstone,
                   note.keeps_slot ? "keeps" : "goes", note.grace);
}

static std::optional<Note> parse_note(std::string_view text) {
  const std::vector<std::string_view> lines = split(text, '\n');
  if (lines.size() < 4 || !check_key(lines[0]).ok() || !check_element(lines[1]).ok()) return {};
  return Note{lines[0], lines[1], lines[2], lines[3] == "keeps", lines.size() > 4 ? parse_seconds(lines[4]) : 0};
}

// All but the slot. What comes while this goes on, or is in no list, is left to whoever sweeps the slot.
Status ObjectStore::remove_parts(const Note& note) {
  // What nobody may list is left to a lifecycle rule of the bucket.
  if (auto uploads = bucket_->list_uploads(note.directory); uploads.ok())
    for (const Upload& upload : *uploads) (void)bucket_->abort_upload(upload);
  CKPT_ASSIGN(const Listing listing, list_objects(*bucket_, note.directory));
  std::vector<std::string> keys = keys_of(note.directory, listing);
  std::erase(keys, slot_key(note));
  return delete_objects(*bucket_, keys);
}

// In the place of what is held. GONE if something else is there.
Status ObjectStore::put_tombstone(const Note& note, const ObjectInfo& held, Bytes tombstone) {
  const std::string slot = slot_key(note);
  if (note.grace != 0) CKPT_TRY(bucket_->copy(slot, held.version, retired_key(slot)));
  Status replaced = replace_object(*bucket_, slot, held.version, note.tombstone, tombstone);
  if (replaced.ok() || replaced.code() == CKPT_GONE) return replaced;
  return std::move(replaced).with("undecided", "its tombstone may be there, or may come");
}

Status ObjectStore::retire(std::string_view directory, std::string_view slot, Bytes tombstone) {
  const CancelShield also_when_cancelled;
  CKPT_TRY(check_key(directory));
  CKPT_TRY(check_element(slot));
  Note note{directory, slot, {}, tombstone.empty()};
  // Nobody reads what was never committed.
  if (!note.keeps_slot) note.grace = seconds_of_grace(bucket_->place().grace_ms);
  CKPT_ASSIGN(const auto held, bucket_->look(slot_key(note)));
  const bool was_removed = held && !tombstone.empty() && held->checksum == crc32c_header({&tombstone, 1});
  if (!held || was_removed) return not_found(path(slot_key(note)));
  CKPT_ASSIGN(const Listing listing, listing_of(directory));
  if (!listing.directories.empty()) return foreign_directory(path(directory), listing.directories[0]);
  const std::string number = note.keeps_slot ? held->put_by : to_hex(random_id());
  note.tombstone = number;
  const std::string text = to_text(note), note_key = key_of(note);
  // Who may put but not delete must not begin. The answer does not depend on whether there is such an object.
  CKPT_TRY(bucket_->remove(std::string(directory) + "/" + to_hex(random_id())));
  CKPT_TRY(put_if_absent(note_key, as_bytes(text)));
  if (!note.keeps_slot) {
    Status replaced = put_tombstone(note, *held, tombstone);
    if (!replaced.ok() && !replaced.detail("undecided")) (void)bucket_->remove(note_key);
    if (replaced.code() == CKPT_GONE) return not_found(path(slot_key(note)));
    CKPT_TRY(std::move(replaced));
  }
  // It is removed. Where the rest fails, or meets a crash, the note has it done later.
  if (note.grace == 0) (void)remove_parts(note);
  return Ok();
}

// Does what a note of .ckpt/trash says, as far as it is time for it.
Status ObjectStore::work_off(const Listing::Object& object) {
  const std::string key = std::string(kTrashDir) + "/" + object.name;
  if (object.name.starts_with(kProbePrefix)) return object.age < kSweepAfter ? Ok() : remove_probe(*bucket_, key);
  CKPT_ASSIGN(const auto text, get(key, 4096));
  auto note = parse_note(as_text(text));
  if (!note) return Ok();
  CKPT_ASSIGN(const auto held, bucket_->look(slot_key(*note)));
  // Another tombstone, or none: the removal has not begun, or never will.
  if (!held || held->put_by != note->tombstone) return object.age < kSweepAfter ? Ok() : bucket_->remove(key);
  // A tombstone that keeps its slot may be old; what its removal left on the way is as old as the note.
  const int64_t age = note->keeps_slot ? object.age : held->age;
  if (note->grace != 0 && age < note->grace) return Ok();
  CKPT_TRY(remove_parts(*note));
  if (age >= kSweepAfter) {
    if (!note->keeps_slot) {
      CKPT_TRY(bucket_->remove(slot_key(*note)));
      CKPT_TRY(bucket_->remove_directory(note->directory));
    }
  } else if (note->grace != 0) {
    note->grace = 0;
    CKPT_TRY(put_if_absent(key_of(*note), as_bytes(to_text(*note))));
  } else {
    return Ok();
  }
  return bucket_->remove(key);
}

// All of them, or those for which it is time. One that cannot be worked off now waits, and keeps nobody from anything.
Status ObjectStore::work_off_notes(bool all) {
  CKPT_ASSIGN(Listing notes, list_objects(*bucket_, kTrashDir));
  if (!all) std::erase_if(notes.objects, [](const auto& note) { return note.age < due_after(note.name); });
  return for_each_parallel(kNotesAtOnce, notes.objects.size(), [&](size_t i) {
    Status done = work_off(notes.objects[i]);
    return done.code() == CKPT_NOMEM ? done : Ok();
  });
}

// ---- preparing ----

// A network that repeats the request that begins an upload begins two. The writer knows of one, so the other stays, and
// nobody retires a checkpoint that is committed. No upload of a part takes a week.
static constexpr int64_t kLostAfter = 7 * 24 * 3600;

// Others may have uploads in this bucket, so only those of parts are ended, and of copies of parts.
static bool is_of_part(std::string_view key) {
  const std::string_view name = last_of(key);
  return name.starts_with("PART_") || name.starts_with("BASE_");
}

void ObjectStore::end_lost_uploads() {
  const auto uploads = bucket_->list_uploads("");
  if (!uploads.ok()) return;
  for (const Upload& upload : *uploads)
    if (upload.age >= kLostAfter && (bucket_->owns_uploads() || is_of_part(upload.key)))
      (void)bucket_->abort_upload(upload);
}

Status ObjectStore::prepare() {
  if (bucket_->place().conditional && !probed_) CKPT_TRY(probe_conditions(bucket_));
  probed_ = true;
  end_lost_uploads();
  return work_off_notes(true);
}

}  // namespace
}  // namespace cloud

template <typename Dialect>
static Result<std::shared_ptr<Store>> open_with(std::string_view uri, const S3Options& options) {
  CKPT_ASSIGN(auto bucket, Dialect::make(uri, options));
  return std::shared_ptr<Store>(std::make_shared<cloud::ObjectStore>(std::move(bucket)));
}

Result<std::shared_ptr<Store>> open_bucket(std::string_view uri, const S3Options& options) {
  const std::string_view service = bucket_address(uri).service;
  if (service == "gs") return open_with<gcs::GcsBucket>(uri, options);
  if (service == "az") return open_with<azure::AzureBucket>(uri, options);
  return open_with<s3::S3Bucket>(uri, options);
}

}  // namespace ckpt::store

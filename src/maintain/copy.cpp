// A copy in the target, from first to last: a record that says that the directory is a copy's, the directory, parts,
// MANIFEST. A part appears whole under its name, so whatever is there is done. Sessions leave the record alone: it
// names no run.
#include "maintain/copy.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "base/parallel.h"
#include "checkpoint/catalog.h"
#include "codec/checksum.h"
#include "format/framing.h"
#include "format/names.h"
#include "maintain/checked_stream.h"
#include "maintain/lenders.h"
#include "maintain/verify_part.h"
#include "store/heartbeat.h"

namespace ckpt::maintain {

namespace {

// How many parts at once, and what each of them takes.
struct CopyPlan {
  unsigned parts = 1;
  StreamLimits limits;
};

CopyPlan plan_copy(const store::Traits& from, const store::Traits& to, const CopyOptions& options, uint32_t parts) {
  constexpr unsigned kRemoteParts = 8;  // small ones take as long as their requests take
  CopyPlan plan;
  const uint64_t least = round_up(std::max<uint64_t>(to.least_block_bytes, 1), kAlign);
  const auto memory = static_cast<uint64_t>(options.staging_bytes);
  const uint64_t block = std::min(to.block_bytes, memory / 8) / kAlign * kAlign;
  plan.limits.block = std::max(block, least);
  const uint64_t blocks = memory / plan.limits.block;
  const unsigned threads = resolve_threads(options.threads);
  const unsigned wanted = from.remote || to.remote ? std::max(threads, kRemoteParts) : threads;
  plan.parts =
      static_cast<unsigned>(std::clamp<uint64_t>(blocks / 4, 1, std::max(1u, std::min<unsigned>(wanted, parts))));
  plan.limits.blocks =
      std::clamp<uint64_t>(blocks / plan.parts, 2, uint64_t{from.read_depth} + uint64_t{to.write_depth});
  return plan;
}

// The pages and the root of an index that begins at `base`.
void add_index(const format::Root& root, const checkpoint::IndexPlace& place, uint64_t base, std::vector<Span>* spans) {
  for (auto list : {root.pages, root.part_pages})
    for (const fb::PageRef& page : list)
      spans->push_back({base + page.offset(), page.size(), format::id_of(page.digest())});
  spans->push_back({base + place.size - place.root_size, place.root_size, place.root_digest});
}

// All of a part: header, chunks, index, trailer.
std::vector<Span> spans_of(const PartVerifier& verifier) {
  const checkpoint::PartFile& part = verifier.part();
  const auto header = format::encode_part_header(part.header);
  const auto trailer = format::encode_part_trailer(part.trailer);
  std::vector<Span> spans = {{0, header.size(), codec::xxh3_128(header)},
                             {part.size - trailer.size(), trailer.size(), codec::xxh3_128(trailer)}};
  for (size_t i = 0; i < verifier.chunks().size(); i++) {
    const fb::Chunk& chunk = *verifier.chunks()[i].chunk;
    spans.push_back({chunk.offset(), chunk.stored_size(), format::id_of(chunk.digest()), i});
  }
  add_index(part.index->root(), checkpoint::place_of(part.trailer, part.number), part.trailer.index_offset, &spans);
  sort_by_offset(spans);
  return spans;
}

Status status_of(const Finding& finding) {
  Status status(finding.status, finding.text);
  if (!finding.name.empty()) status = std::move(status).with("tensor", finding.name);
  return std::move(status).with("part", finding.part).with("offset", finding.offset);
}

constexpr uint8_t kBorrowed = 2;  // another checkpoint of the target has it
constexpr uint8_t kWrong = 3;     // in a complete copy: damaged since, and to be replaced

class Copy {
 public:
  Copy(const checkpoint::Checkpoint& from, store::Store& to, const CopyOptions& options, Report* report, Job& job)
      : from_(from),
        to_(to),
        options_(options),
        report_(report),
        job_(job),
        id_(from.entry().id),
        plan_(plan_copy(from.store().traits(), to.traits(), options, from.file_count())),
        there_(from.file_count()) {}
  Status run();

 private:
  Result<bool> is_committed() const;
  Status open_place(bool* existed);
  Status hold();
  void show_life();
  Status look_at_parts(bool committed);
  bool is_whole() const { return std::ranges::count(there_, 1) == std::ssize(there_); }
  Result<bool> part_is_there(uint32_t number) const;
  Status borrow_files();
  Status copy_parts();
  Status copy_part(uint32_t number);
  Status check_part_there(uint32_t number, const PartVerifier& part);
  Status stream(const PartVerifier& part, const store::Store& from, const store::Reader& file, store::Writer* writer,
                const std::function<Status(Status)>& at_part);
  Status publish(uint32_t number, store::Writer& writer, uint64_t size);
  Result<std::vector<std::byte>> read_manifest() const;
  Result<std::vector<Span>> manifest_spans(uint64_t size) const;
  Status put_manifest(Bytes bytes);
  void tidy();
  void tell(bool committed);
  Status other_save(const Id& found) const;
  Status removed_there() const;
  Status may_be_complete(const std::string& why) const;
  // An error of the target, which says so.
  Status there(Status status) const { return status.ok() ? Ok() : Status(std::move(status).with("store", to_.uri())); }

  const checkpoint::Checkpoint& from_;
  store::Store& to_;
  const CopyOptions options_;
  Report* const report_;
  Job& job_;
  const std::string& id_;
  const CopyPlan plan_;
  std::unique_ptr<store::Lock> lock_;            // of the record: somebody works on this copy (dead_copies.h)
  std::unique_ptr<store::Lock> held_;            // of MANIFEST, as a reader's
  std::unique_ptr<store::Heartbeat> heartbeat_;  // on a store without locks
  std::shared_ptr<void> alive_;
  std::vector<uint8_t> there_;       // parts and bases: 1: an earlier copy left it; kBorrowed, kWrong
  bool mended_ = false;              // a complete copy, which lacked some
  std::atomic<uint64_t> memory_{0};  // of the streams that run
};

Status Copy::run() {
  CKPT_TRY(there(to_.prepare()));
  auto found = is_committed();
  CKPT_TRY(there(found.status()));
  const bool committed = *found;
  if (committed) CKPT_TRY(there(look_at_parts(true)));
  const bool whole = committed && is_whole();
  mended_ = committed && !whole;
  bool existed = committed;
  if (!whole) CKPT_TRY(there(open_place(&existed)));
  if (mended_) CKPT_TRY(there(hold()));
  if (!committed && existed) CKPT_TRY(there(look_at_parts(false)));
  if (!committed) CKPT_TRY(there(borrow_files()));
  if (!whole || options_.check == "full") CKPT_TRY(copy_parts());
  CKPT_TRY(job_.check());
  if (!committed) {
    CKPT_ASSIGN(const std::vector<std::byte> manifest, read_manifest());
    CKPT_TRY(job_.call->answer_if_left(may_be_complete("the store has not answered")));
    CKPT_TRY(there(put_manifest(manifest)));
  }
  tidy();
  tell(committed);
  return Ok();
}

// ---- what is there ----

Status Copy::other_save(const Id& found) const {
  return Status(CKPT_EXISTS,
                strformat("{}: another checkpoint has this name: it is save {}, the one to copy is save {}",
                          to_.path(id_), to_hex(found), to_hex(from_.summary().save_id)))
      .with("path", to_.path(id_))
      .with("expected", to_hex(from_.summary().save_id))
      .with("found", to_hex(found));
}

Result<bool> Copy::is_committed() const {
  auto slot = checkpoint::peek_slot(to_, id_);
  if (slot.status().code() == CKPT_NOT_FOUND) return false;
  CKPT_TRY(slot.status());
  if (!slot->committed)
    return Status(CKPT_ABORTED, strformat("{} was closed by a tombstone, so nothing can be put there: {}",
                                          to_.path(id_), slot->tombstone.reason))
        .with("path", to_.path(id_));
  if (slot->summary.save_id != from_.summary().save_id) return other_save(slot->summary.save_id);
  if (slot->trailer == from_.trailer()) return true;
  return Status(CKPT_MISMATCH,
                strformat("{} is the same save with another MANIFEST: one of them was rebuilt by force", to_.path(id_)))
      .with("path", to_.path(id_))
      .with("expected", to_hex(from_.trailer().root_digest))
      .with("found", to_hex(slot->trailer.root_digest));
}

std::string record_of(std::string_view id) {
  const auto name = format::parse_checkpoint_dir(id);
  return name ? format::attempt_key(name->token, name->attempt, name->label) : "";
}

Status Copy::open_place(bool* existed) {
  // A store without an id becomes another place of the same store, so that the copy is found there as it is here.
  CKPT_TRY(checkpoint::adopt_store_id(to_, from_.summary().store_id).status());
  CKPT_ASSIGN(*existed, to_.has_directory(id_));
  const std::string record = record_of(id_);
  if (record.empty()) return to_.make_directory(id_);  // somebody gave it a name of his own
  const std::string text = format::copy_record(from_.summary().save_id);
  show_life();
  for (Backoff backoff(checkpoint::kPatienceMs);; backoff.sleep()) {
    CKPT_TRY(to_.open_attempt(record, as_bytes(text), id_));
    auto lock = to_.lock_shared(record);
    if (!lock.ok() && lock.status().code() != CKPT_NOT_FOUND && lock.status().code() != CKPT_CONFLICT)
      return std::move(lock).status();
    // Whoever removes what an earlier copy left may have removed the record that was locked.
    CKPT_ASSIGN(const bool there, lock.ok() ? to_.exists(record) : Result<bool>(false));
    if (there) lock_ = lock.take();
    if (there) return Ok();
    if (backoff.expired())
      return Status(CKPT_CONFLICT, to_.path(id_) + " is being removed; copy again").with("path", to_.path(id_));
  }
}

// A complete copy, whose parts are replaced: nobody removes it meanwhile, if locks do that.
Status Copy::hold() {
  auto lock = to_.lock_shared(format::slot_key(id_));
  if (lock.status().code() == CKPT_NOT_FOUND) return removed_there();
  CKPT_TRY(lock.status());
  held_ = lock.take();
  CKPT_ASSIGN(const bool committed, is_committed());
  return committed ? Ok() : removed_there();
}

void Copy::show_life() {
  constexpr int64_t kEachMs = 60000;
  if (!to_.traits().tells_age) return;
  // Of the caller, who keeps it longer than this object.
  heartbeat_ =
      std::make_unique<store::Heartbeat>(std::shared_ptr<store::Store>(std::shared_ptr<void>(), &to_), kEachMs);
  alive_ = heartbeat_->begin(format::copy_beat_key(id_, random_id()));
}

Status Copy::look_at_parts(bool committed) {
  if (!committed) to_.sweep(id_);
  return for_each_parallel(plan_.parts, there_.size(), [&](size_t i) -> Status {
    CKPT_TRY(job_.check());
    auto there = part_is_there(static_cast<uint32_t>(i));
    const ckpt_status code = there.status().code();
    const bool wrong = committed && (code == CKPT_MISMATCH || code == CKPT_CONFLICT);
    if (!wrong) CKPT_TRY(there.status());
    there_[i] = wrong ? kWrong : *there ? 1 : 0;
    return Ok();
  });
}

// Whether the target has the part. CONFLICT: that of another save; MISMATCH: not the one that the manifest names.
Result<bool> Copy::part_is_there(uint32_t number) const {
  CKPT_ASSIGN(const fb::Part expected, from_.part_record(number));
  auto part = checkpoint::open_file(to_, id_, expected);
  const ckpt_status code = part.status().code();
  if (code == CKPT_NOT_FOUND) return false;
  auto refuse = [&](ckpt_status status, const std::string& why) {
    return checkpoint::at_file(Status(status, why + "; remove it, and copy again"), to_, id_, from_.name_of(number));
  };
  if (code == CKPT_FORMAT || code == CKPT_CORRUPT || code == CKPT_MISMATCH)
    return refuse(CKPT_MISMATCH, "is there, and is damaged: " + part.status().message());
  CKPT_TRY(part.status());
  const Id save = format::id_of(expected.save_id());
  if (part->header.save_id != save)
    return refuse(CKPT_CONFLICT, strformat("is there, of another save: expected {}, found {}", to_hex(save),
                                           to_hex(part->header.save_id)));
  const format::PartTrailer& trailer = part->trailer;
  if (part->size == expected.size() && trailer.index_offset == expected.index_offset() &&
      trailer.index_size == expected.index_size() && trailer.root_size == expected.root_size() &&
      trailer.root_digest == format::id_of(expected.root_digest()))
    return true;
  return refuse(CKPT_MISMATCH, strformat("is there, of the same save, but another: expected {} bytes, found {}",
                                         uint64_t{expected.size()}, part->size));
}

// ---- what other checkpoints of the target have ----

// What the target has need not be sent. Only a checkpoint with bases can share files with others.
Status Copy::borrow_files() {
  if (from_.summary().base_count == 0) return Ok();
  auto others = checkpoint::list_checkpoints(to_);
  CKPT_TRY(others.status());
  return for_each_parallel(plan_.parts, there_.size(), [&](size_t i) -> Status {
    if (there_[i]) return Ok();
    CKPT_ASSIGN(const fb::Part record, from_.part_record(static_cast<uint32_t>(i)));
    CKPT_ASSIGN(const std::string lender, borrow_from_others(to_, *others, id_, record, false, job_));
    if (lender.empty()) return Ok();
    there_[i] = kBorrowed;
    job_.counters.bytes_reused += record.size();
    return Ok();
  });
}

// ---- parts ----

Status Copy::copy_parts() {
  std::vector<uint32_t> todo;
  for (uint32_t i = 0; i < there_.size(); i++) {
    if (there_[i] && there_[i] != kWrong && options_.check != "full") continue;
    CKPT_ASSIGN(const fb::Part record, from_.part_record(i));
    job_.counters.bytes_total += record.size();
    todo.push_back(i);
  }
  return for_each_parallel(plan_.parts, todo.size(), [&](size_t i) -> Status {
    CKPT_TRY(job_.check());
    return copy_part(todo[i]);
  });
}

// Reads the source's index of a part, which says what every byte of it must be; then copies the part, or checks the one
// that is there.
Status Copy::copy_part(uint32_t number) {
  const VerifyOptions index_only{.threads = 1, .verify_mode = "quick"};
  std::vector<Finding> found;
  Findings findings(&found);
  PartVerifier part(from_, index_only, job_, findings, number);
  CKPT_TRY(part.open());
  if (!found.empty()) return from_.at_part(status_of(found[0]), number);
  const bool replace = there_[number] == kWrong;
  if (there_[number] && !replace) return there(check_part_there(number, part));
  CKPT_ASSIGN(const checkpoint::PartReader file, from_.part(number));
  auto writer = to_.create(format::file_key(id_, from_.name_of(number)), part.part().size);
  if (writer.status().code() == CKPT_NOT_FOUND) return there(removed_there());
  CKPT_TRY(there(writer.status()));
  CKPT_TRY(stream(part, from_.store(), *file, writer->get(),
                  [&](Status status) { return from_.at_part(std::move(status), number); }));
  // Only now, when what replaces it has been read and found sound.
  const Status removed = replace ? to_.remove(format::file_key(id_, from_.name_of(number)), true) : Ok();
  if (!removed.ok() && removed.code() != CKPT_NOT_FOUND) return there(removed);
  return there(publish(number, **writer, part.part().size));
}

Status Copy::check_part_there(uint32_t number, const PartVerifier& part) {
  CKPT_ASSIGN(const bool there, part_is_there(number));
  const std::string name = from_.name_of(number);
  if (!there) {
    CKPT_ASSIGN(const bool committed, is_committed());
    if (!committed) return removed_there();
    return checkpoint::at_file(Status(CKPT_INCOMPLETE, "the part is missing"), to_, id_, name);
  }
  CKPT_ASSIGN(auto file, to_.open(format::file_key(id_, name)));
  return stream(part, to_, *file, nullptr,
                [&](Status status) { return checkpoint::at_file(std::move(status), to_, id_, name); });
}

Status Copy::stream(const PartVerifier& part, const store::Store& from, const store::Reader& file,
                    store::Writer* writer, const std::function<Status(Status)>& at_part) {
  const std::vector<Span> spans = spans_of(part);
  auto blame = [&](const Span* span, Status status) {
    if (span && span->chunk != Span::kNoChunk)
      status = status_of(part.damage(part.chunks()[span->chunk], status.code(), status.message()));
    return at_part(std::move(status));
  };
  CheckedStream stream({from, file, spans, blame}, to_, writer, plan_.limits, job_);
  const uint64_t in_use = memory_ += stream.memory();
  for (uint64_t peak = job_.counters.staging_peak_bytes;
       peak < in_use && !job_.counters.staging_peak_bytes.compare_exchange_weak(peak, in_use);) {
  }
  Status status = stream.run();
  memory_ -= stream.memory();
  return status;
}

Status Copy::removed_there() const {
  return Status(CKPT_ABORTED, to_.path(id_) + " was removed while it was being made; copy again")
      .with("path", to_.path(id_));
}

// Another process may copy the same checkpoint.
Status Copy::publish(uint32_t number, store::Writer& writer, uint64_t size) {
  Status published = writer.publish(size);
  if (published.code() == CKPT_NOT_FOUND) return removed_there();
  if (published.ok()) return published;
  if (published.code() != CKPT_EXISTS && !to_.traits().visible_is_durable) return published;
  CKPT_ASSIGN(const bool there, part_is_there(number));
  return there ? Ok() : published;
}

// ---- the manifest ----

Result<std::vector<Span>> Copy::manifest_spans(uint64_t size) const {
  const format::ManifestTrailer& trailer = from_.trailer();
  CKPT_TRY(format::check_manifest_layout(trailer, size));
  std::vector<Span> spans;
  add_index(from_.root(), {format::IndexKind::kManifest, trailer.index_size, trailer.root_size, trailer.root_digest}, 0,
            &spans);
  for (uint32_t i = 0; trailer.copies_size != 0 && i < from_.summary().part_count; i++) {
    CKPT_ASSIGN(const fb::Part part, from_.part_record(i));
    CKPT_ASSIGN(const checkpoint::IndexFile* index, from_.part_index(i));
    add_index(index->root(),
              {format::IndexKind::kPart, part.index_size(), part.root_size(), format::id_of(part.root_digest())},
              format::manifest_copies_offset(trailer) + part.copy_offset(), &spans);
  }
  spans.push_back({format::manifest_summary_offset(trailer), trailer.summary_size, trailer.summary_digest});
  const auto end = format::encode_manifest_trailer(trailer);
  spans.push_back({size - end.size(), end.size(), codec::xxh3_128(end)});
  sort_by_offset(spans);
  return spans;
}

Result<std::vector<std::byte>> Copy::read_manifest() const {
  constexpr uint64_t kLarge = 64 << 20;  // in a sparse file any size is cheap: all that it holds must be sound first
  if (from_.manifest_file().size() > kLarge) CKPT_TRY(from_.check_manifest());
  bool again = false;
  auto read = store::read_checked(from_.store(), [&]() -> Result<std::vector<std::byte>> {
    const store::Reader& file = from_.manifest_file();
    CKPT_ASSIGN(const std::vector<Span> spans, manifest_spans(file.size()));
    std::vector<std::byte> bytes(file.size());
    CKPT_TRY(file.read(0, bytes, std::exchange(again, true)));
    CKPT_TRY(check_spans(spans, bytes));
    return bytes;
  });
  return read.ok() ? std::move(read) : from_.at_manifest(std::move(read).status());
}

// Of the errors of is_committed(): whether they come from what is there, not from asking for it.
bool tells_what_is_there(ckpt_status code) {
  return code == CKPT_ABORTED || code == CKPT_EXISTS || code == CKPT_MISMATCH || code == CKPT_FORMAT ||
         code == CKPT_CORRUPT;
}

Status Copy::may_be_complete(const std::string& why) const {
  return Status(CKPT_COMMIT_UNKNOWN, to_.path(id_) + " may be complete, and may not last; copy again: " + why)
      .with("path", to_.path(id_));
}

Status Copy::put_manifest(Bytes bytes) {
  Status put = to_.put_own(format::slot_key(id_), bytes);
  if (put.ok()) return put;
  auto committed = is_committed();  // by this call, or by somebody who made the same copy
  if (put.code() == CKPT_NOT_FOUND && committed.ok() && !*committed) return removed_there();
  const bool lasts = put.code() == CKPT_EXISTS || (committed.ok() && to_.traits().visible_is_durable);
  if (!lasts && (committed.ok() ? *committed : !tells_what_is_there(committed.status().code())))
    return may_be_complete(put.message());
  CKPT_TRY(committed.status());
  return *committed ? Ok() : put;
}

// ---- the end ----

// The copy is made, so what fails here is no error: a record that stays is removed by the next copy.
void Copy::tidy() {
  to_.sweep(id_);
  const std::string record = record_of(id_);
  if (record.empty()) return;
  auto text = to_.get(record, 4096);
  if (text.ok() && format::is_copy_record(as_text(*text))) (void)to_.remove(record, false);
}

void Copy::tell(bool committed) {
  const auto kept = static_cast<uint64_t>(std::count(there_.begin(), there_.end(), 1));
  if (mended_)
    report_->add(CKPT_FINDING_REPAIRED, CKPT_OK, id_,
                 strformat("{}: {} of {} parts were missing or damaged there, and were copied again", id_,
                           there_.size() - kept, there_.size()));
  else if (committed)
    report_->add(CKPT_FINDING_KEPT, CKPT_EXISTS, id_, id_ + ": already there");
  else if (kept != 0)
    report_->add(CKPT_FINDING_KEPT, CKPT_OK, id_,
                 strformat("{}: {} of {} parts were there from an earlier copy", id_, kept, there_.size()));
  if (kept != 0) report_->findings.back().count = kept;
  const auto shared = static_cast<uint64_t>(std::count(there_.begin(), there_.end(), kBorrowed));
  if (shared != 0) {
    report_->add(CKPT_FINDING_REUSED, CKPT_OK, id_,
                 strformat("{}: {} of {} files were not sent: other checkpoints of {} have them", id_, shared,
                           there_.size(), to_.uri()));
    report_->findings.back().count = shared;
  }
  auto own = checkpoint::find_store_id(to_);
  if (!own.ok() || *own == from_.summary().store_id) return;
  report_->add(CKPT_FINDING_DIFFERENT, CKPT_OK, id_,
               strformat("{}: {} has checkpoints of its own, so the copy is foreign there: it is listed and can be "
                         "loaded by this id, but is never the latest and has no label",
                         id_, to_.uri()));
}

}  // namespace

Status copy_checkpoint(const checkpoint::Checkpoint& from, store::Store& to, const CopyOptions& options, Report* report,
                       Job& job) {
  CKPT_ASSIGN(const auto past_cache, from.past_cache());
  return Copy(past_cache ? *past_cache : from, to, options, report, job).run();
}

}  // namespace ckpt::maintain

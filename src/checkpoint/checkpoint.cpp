#include "checkpoint/checkpoint.h"

#include <sys/resource.h>

#include <algorithm>
#include <optional>

#include "base/job.h"
#include "codec/checksum.h"
#include "format/names.h"
#include "format/part_record.h"

namespace ckpt::checkpoint {

// Up to this size a manifest is read and checked whole when it is opened: a damaged one is then passed over at once.
static constexpr uint64_t kSmallManifest = 4 << 20;

Result<std::shared_ptr<Checkpoint>> Checkpoint::open(std::shared_ptr<const store::Store> store,
                                                     const Question& question, unsigned threads,
                                                     const std::shared_ptr<const store::Store>& mirror) {
  std::shared_ptr<Checkpoint> checkpoint;
  auto load = [&](const CheckpointEntry& entry) {
    checkpoint.reset(new Checkpoint);  // nothing that was read of one before, which turned out to be damaged, counts
    checkpoint->store_ = entry.in_mirror() ? mirror : store;
    checkpoint->cached_ = checkpoint->store_->traits().cached;
    if (const Call* call = CallContext::current().call()) checkpoint->patience_ms_ = call->patience_ms();
    return checkpoint->load(entry, threads);
  };
  CKPT_ASSIGN(Selection selection, select_checkpoint({*store, mirror.get()}, question, load));
  checkpoint->selection_ = std::move(selection);
  return checkpoint;
}

Status Checkpoint::at_manifest(Status status) const {
  const std::string path = store_->path(format::slot_key(entry().id));
  return std::move(status).in(path).with("path", path);
}

Status Checkpoint::load(const CheckpointEntry& entry, unsigned threads) {
  selection_.entry = entry;
  const std::string path = store_->path(entry.id);
  auto lock = lock_slot();
  Status status = lock.ok() ? read_manifest(threads) : lock.status();
  // It was found a moment ago and is not there now: it was removed in between.
  if (status.code() == CKPT_NOT_FOUND)
    return Status(CKPT_GONE, path + " was removed while it was being opened").with("path", path);
  if (!status.ok()) return at_manifest(std::move(status));
  lock_ = lock.take();
  return Ok();
}

// Whoever removes a checkpoint holds its lock for a moment, and then it is not there any more. A lock that stays is
// another program's, maybe of somebody who may only read: then nobody can remove it, and it is read without a lock.
Result<std::unique_ptr<store::Lock>> Checkpoint::lock_slot() const {
  constexpr int64_t kRemovalMs = 1000;
  for (Backoff backoff(kRemovalMs);; backoff.sleep()) {
    auto lock = store_->lock_shared(format::slot_key(entry().id));
    if (lock.status().code() != CKPT_CONFLICT) return lock;
    if (backoff.expired()) return std::unique_ptr<store::Lock>();
  }
}

Result<std::unique_ptr<Checkpoint>> Checkpoint::open_quietly(const store::Store& store, std::string_view id) {
  CheckpointEntry entry;
  entry.id = id;
  return open_quietly(store, entry);
}

Result<std::unique_ptr<Checkpoint>> Checkpoint::open_quietly(const store::Store& store, const CheckpointEntry& entry) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->store_ = std::shared_ptr<const store::Store>(std::shared_ptr<void>(), &store);
  checkpoint->selection_.entry = entry;
  Status status = checkpoint->read_manifest(1);
  if (!status.ok()) return checkpoint->at_manifest(std::move(status));
  return checkpoint;
}

Result<std::unique_ptr<Checkpoint>> Checkpoint::past_cache() const {
  if (!cached_) return std::unique_ptr<Checkpoint>();
  CKPT_ASSIGN(auto checkpoint, open_quietly(*store_, entry().id));
  if (checkpoint->trailer_ == trailer_) return checkpoint;
  const std::string path = store_->path(entry().id);
  return Status(CKPT_GONE, path + " was replaced by another checkpoint").with("path", path);
}

Result<Selection> find_checkpoint(const Places& places, const Question& question) {
  return select_checkpoint(places, question, [&](const CheckpointEntry& entry) {
    return Checkpoint::open_quietly(places.of(entry), entry).status();
  });
}

// ---- reading the manifest ----

Status Checkpoint::read_manifest(unsigned threads) {
  return store::read_checked(*store_, [&] {
    indexes_.clear();
    manifest_.reset();
    return read_manifest_once(threads);
  });
}

Status Checkpoint::read_manifest_once(unsigned threads) {
  const std::string key = format::slot_key(entry().id);
  file_ = std::exchange(selection_.entry.manifest, nullptr);
  if (!file_) {
    CKPT_ASSIGN(file_, store_->open(key));
  }
  const bool small = file_->size() <= kSmallManifest;
  CKPT_ASSIGN(format::Slot slot, read_slot_end(*file_));
  if (!slot.committed)
    return Status(slot.tombstone.status == CKPT_GONE ? CKPT_GONE : CKPT_ABORTED,
                  "a tombstone: " + slot.tombstone.reason);
  trailer_ = slot.trailer;
  const IndexPlace place{
      format::IndexKind::kManifest, trailer_.index_size,    trailer_.root_size, trailer_.root_digest, 0,
      format::Root::kNoRank,        store_->traits().remote};
  if (small) {
    CKPT_ASSIGN(bytes_, Mapping::make(file_->size(), true));  // texts are given out
    const MutableBytes bytes = bytes_.bytes().first(file_->size());
    CKPT_TRY(file_->read_at(0, bytes));
    CKPT_TRY(format::check_manifest_gaps(bytes, trailer_));
    CKPT_ASSIGN(manifest_, IndexFile::open(place, Bytes(bytes).first(trailer_.index_size)));
  } else {
    CKPT_ASSIGN(manifest_, IndexFile::open(place, [this](uint64_t offset, const IndexMemory& out, bool again) {
                  return read_index(file_, offset, out, again);
                }));
  }
  if (!(summary() == slot.summary)) return Status(CKPT_FORMAT, "the two summaries differ");
  return small ? check_all(threads) : Ok();
}

// The copy of a part's index, which follows that before it, and the gap after it.
Status Checkpoint::check_copy(uint32_t number, const fb::Part& part, uint64_t* next) const {
  if (part.copy_offset() != *next)
    return Status(CKPT_FORMAT, strformat("the copy of the index of part {} does not follow that before", number));
  CKPT_ASSIGN(const IndexFile* index, part_index(number));
  CKPT_TRY(index->load_all());
  *next += round_up(part.index_size(), format::kPageAlign);
  const uint64_t end = part.copy_offset() + part.index_size();
  std::byte gap[format::kPageAlign];
  const MutableBytes out = MutableBytes(gap).first(*next - end);
  CKPT_TRY(file_->read_at(format::manifest_copies_offset(trailer_) + end, out));
  if (format::all_zero(out)) return Ok();
  return Status(CKPT_CORRUPT, strformat("after the copy of the index of part {}: expected zero padding", number));
}

Status Checkpoint::check_manifest(unsigned threads) const {
  Status status = check_all(threads);
  return status.ok() || status.detail("part") ? status : at_manifest(std::move(status));
}

Status Checkpoint::check_all(unsigned threads) const {
  CKPT_TRY(manifest_->load_all(threads));
  uint64_t tensors = 0, part_bytes = 0, copies = 0;
  for (size_t i = 0; i < manifest_->page_count(); i++) {
    CKPT_ASSIGN(const format::Page* page, manifest_->page(i));
    tensors += page->tensors.size();
    for (const fb::Alias& alias : page->aliases) CKPT_TRY(target_of(page, alias).status());
  }
  CKPT_TRY(check_bases());
  for (uint32_t i = 0; i < summary().part_count; i++) {
    CKPT_ASSIGN(fb::Part part, part_record(i));
    if (add_overflows(part_bytes, part.size(), &part_bytes)) return Status(CKPT_FORMAT, "the sizes of parts overflow");
    if (trailer_.copies_size != 0) CKPT_TRY(check_copy(i, part, &copies));
  }
  if (copies != trailer_.copies_size) return Status(CKPT_FORMAT, "copies of indexes that belong to no part");
  if (tensors == summary().tensor_count && part_bytes == summary().part_bytes) return Ok();
  return Status(CKPT_FORMAT, "the summary's counts are not those of the index");
}

// Each page knows only its own records.
Status Checkpoint::check_bases() const {
  std::optional<fb::Part> before;
  uint64_t bytes = 0, used_bytes = 0;
  for (uint32_t i = summary().part_count; i < file_count(); i++) {
    CKPT_ASSIGN(const fb::Part base, part_record(i));
    CKPT_ASSIGN(const uint64_t used, manifest_->used(i));
    CKPT_TRY(format::check_base(base, summary().save_id, before ? &*before : nullptr));
    if (add_overflows(bytes, base.size(), &bytes) || add_overflows(used_bytes, used, &used_bytes))
      return Status(CKPT_FORMAT, "the sizes of bases overflow");
    before = base;
  }
  if (bytes == summary().base_bytes && used_bytes == summary().used_bytes) return Ok();
  return Status(CKPT_FORMAT, "the summary's counts are not those of the bases");
}

// ---- names ----

Result<const format::Page*> Checkpoint::page_of(std::string_view name) const {
  auto page = manifest_->page_of(name);
  return page.ok() ? page : Result<const format::Page*>(at_manifest(std::move(page).status()));
}

// An alias and its target, which may be on another page.
Result<Checkpoint::Named> Checkpoint::target_of(const format::Page* page, const fb::Alias& alias) const {
  const std::string_view target = page->text(alias.target());
  CKPT_ASSIGN(const format::Page* at, page_of(target));
  Named named{{at, at->find_tensor(target)}, page, &alias};
  if (!named.tensor) return Status(CKPT_FORMAT, "alias " + in_quotes(named.name()) + " of a tensor that is not there");
  if (alias.is_view() && !format::view_fits(named.view(), named.tensor.extents(), named.tensor.dtype()))
    return Status(CKPT_FORMAT, "the view of alias " + in_quotes(named.name()) + " leaves its tensor");
  return named;
}

Result<Checkpoint::Named> Checkpoint::named_at(uint64_t position) const {
  const size_t number = root().page_of_name(position);
  auto opened = manifest_->page(number);
  if (!opened.ok()) return at_manifest(std::move(opened).status());
  const format::Page* page = *opened;
  // Tensors and aliases are two lists in the same order: finds how many tensors come before.
  const uint64_t at = position - root().pages[number].name_first();
  size_t low = at > page->aliases.size() ? at - page->aliases.size() : 0,
         high = std::min<uint64_t>(at, page->tensors.size());
  while (low < high) {  // the least count of tensors whose next tensor comes after the alias before
    const size_t tensors = low + (high - low) / 2, aliases = at - tensors;
    if (aliases > 0 && page->text(page->tensors[tensors].name()) < page->text(page->aliases[aliases - 1].name()))
      low = tensors + 1;
    else
      high = tensors;
  }
  const size_t aliases = at - low;
  const bool tensor_next =
      low < page->tensors.size() && (aliases == page->aliases.size() ||
                                     page->text(page->tensors[low].name()) < page->text(page->aliases[aliases].name()));
  if (tensor_next) return Named{{page, &page->tensors[low]}};
  return target_of(page, page->aliases[aliases]);
}

Result<Checkpoint::Named> Checkpoint::find(std::string_view name, uint64_t* position) const {
  CKPT_ASSIGN(const format::Page* page, page_of(name));
  auto tensors =
      std::lower_bound(page->tensors.begin(), page->tensors.end(), name,
                       [&](const fb::Tensor& t, std::string_view key) { return page->text(t.name()) < key; });
  auto aliases = std::lower_bound(page->aliases.begin(), page->aliases.end(), name,
                                  [&](const fb::Alias& a, std::string_view key) { return page->text(a.name()) < key; });
  if (position)
    *position = root().pages[root().page_of(name)].name_first() +
                static_cast<uint64_t>(tensors - page->tensors.begin()) +
                static_cast<uint64_t>(aliases - page->aliases.begin());
  if (tensors != page->tensors.end() && page->text(tensors->name()) == name) return Named{{page, &*tensors}};
  if (aliases == page->aliases.end() || page->text(aliases->name()) != name) return Named{};
  return target_of(page, *aliases);
}

Result<std::span<const fb::Attr>> Checkpoint::attrs_of(std::string_view owner, const format::Page** page) const {
  CKPT_ASSIGN(*page, page_of(owner));
  return (*page)->attrs_of(owner);
}

// ---- parts ----

std::string Checkpoint::name_of(uint32_t number) const {
  if (number < summary().part_count) return format::part_name(number);
  const auto record = part_record(number);
  return record.ok() ? format::file_name(*record) : "BASE";
}

uint32_t Checkpoint::file_of(uint32_t part, const format::Page& page, const fb::Chunk& chunk) const {
  const uint16_t home = page.home_of(chunk);
  if (home == 0) return part;
  std::lock_guard lock(mutex_);
  return indexes_.at(part).bases[home - 1];
}

Status Checkpoint::at_part(Status status, uint32_t number) const {
  std::string name = name_of(number), path = store_->path(entry().id + "/" + name);
  if (status.code() == CKPT_NOT_FOUND) {
    auto slot = peek_slot(*store_, entry().id);
    const bool gone = slot.ok() ? !slot->committed : slot.status().code() == CKPT_NOT_FOUND;
    if (gone)
      status = Status(CKPT_GONE, "the checkpoint was removed while it was being read");
    else if (slot.ok())
      status = Status(CKPT_INCOMPLETE, "the part is missing");
    else
      status = std::move(slot).status().in("the part is missing, and nobody knows whether the checkpoint was removed");
  }
  return std::move(status).in(path).with("part", name).with("path", path);
}

Result<std::unique_ptr<store::Reader>> Checkpoint::open_part_file(uint32_t number) const {
  bool again = false;
  const auto look = [&] { return open_part_file_once(number, std::exchange(again, true)); };
  auto file = store::read_checked(*store_, look);
  // What a cache has under this name may be the part of a checkpoint that had the name before.
  return cached_ && file.status().code() == CKPT_MISMATCH ? look() : std::move(file);
}

static Status other_part(const std::string& text, const Id& expected, const Id& found) {
  return Status(CKPT_MISMATCH, text).with("expected", to_hex(expected)).with("found", to_hex(found));
}

Status Checkpoint::check_header(const store::Reader& file, const fb::Part& expected, bool again) const {
  std::vector<std::byte> head(kAlign);
  CKPT_TRY(file.read(0, head, again));
  CKPT_ASSIGN(const auto header, format::decode_part_header(head));
  if (header.save_id == summary().save_id &&
      (header.world_size != summary().world_size || header.store_id != summary().store_id ||
       header.token != summary().token || header.attempt != summary().attempt))
    return Status(CKPT_FORMAT, "its header contradicts the manifest's summary");
  const Id save = format::id_of(expected.save_id());
  if (header.save_id == save && header.rank == expected.rank()) return Ok();
  return other_part(strformat("part of save {}, rank {}; expected save {}, rank {}", to_hex(header.save_id),
                              header.rank, to_hex(save), expected.rank()),
                    save, header.save_id);
}

// The manifest has all that the end of a part says. On a server it came with the size, and the header would be one more
// request.
Status Checkpoint::check_end(const store::Reader& file, const fb::Part& expected, bool again) const {
  std::vector<std::byte> end(format::kPartTrailerSize);
  CKPT_TRY(file.read(file.size() - end.size(), end, again));
  CKPT_ASSIGN(const auto found, format::decode_part_trailer(end));
  const format::PartTrailer wanted{expected.index_offset(), expected.index_size(), expected.root_size(),
                                   format::id_of(expected.root_digest()), format::id_of(expected.save_id())};
  if (found == wanted) return Ok();
  if (found.save_id == wanted.save_id)
    return other_part("its index is not the one that the manifest names", wanted.root_digest, found.root_digest);
  return other_part(strformat("part of save {}; expected save {}", to_hex(found.save_id), to_hex(wanted.save_id)),
                    wanted.save_id, found.save_id);
}

// The same for the part and for each base that is this file.
static store::Content content_of(const fb::Part& part) {
  return {part.size(), strformat("part {} {} {}", to_hex(format::id_of(part.save_id())), uint32_t{part.rank()},
                                 to_hex(format::id_of(part.root_digest())))};
}

Result<std::unique_ptr<store::Reader>> Checkpoint::open_part_file_once(uint32_t number, bool again) const {
  CKPT_ASSIGN(fb::Part expected, part_record(number));
  const std::string key = format::file_key(entry().id, format::file_name(expected));
  // A web server, too, then takes it to be there, whatever a 404 says.
  const bool cached = cached_ || !store_->traits().lists;
  CKPT_ASSIGN(auto file, cached ? store_->open_cached(key, content_of(expected), again) : store_->open(key));
  if (file->size() < 2 * kAlign || file->size() != expected.size())
    return Status(CKPT_INCOMPLETE, strformat("{} bytes, expected {}", file->size(), expected.size()))
        .with("expected", uint64_t{expected.size()})
        .with("found", file->size());
  CKPT_TRY(store_->traits().remote ? check_end(*file, expected, again) : check_header(*file, expected, again));
  return file;
}

// Each open part takes up to two descriptors: one more for direct reads; from a cache, three. The program needs some
// too.
static size_t open_parts() {
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
  return std::clamp<size_t>(known ? limit.rlim_cur / 16 : 0, 4, 64);
}

PartReader Checkpoint::find_open(uint32_t number) const {
  std::lock_guard lock(mutex_);
  auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& part) { return part.first == number; });
  if (found == open_.end()) return nullptr;
  open_.splice(open_.begin(), open_, found);
  return open_.front().second;
}

// Whoever looks up a name works for no call, and a disk may hold its thread: so another one asks, which may be left
// behind.
Result<PartReader> Checkpoint::ask_for_part(uint32_t number) const {
  auto open = [this, number]() -> Result<PartReader> {
    auto file = open_part_file(number);
    if (!file.ok()) return at_part(std::move(file).status(), number);
    return PartReader(file.take());
  };
  const auto self = weak_from_this().lock();
  if (!self || CallContext::current().call()) return open();
  return make_apart<PartReader>(std::make_shared<Job>(), patience_ms_, [self, open](Job&) { return open(); });
}

Status Checkpoint::read_index(const PartReader& file, uint64_t offset, const IndexMemory& out, bool again) const {
  if (CallContext::current().call()) return file->read(offset, out, again);
  return run_apart(std::make_shared<Job>(), patience_ms_,
                   [file, offset, out, again](Job&) { return file->read(offset, out, again); });
}

Result<PartReader> Checkpoint::part(uint32_t number) const {
  if (PartReader open = find_open(number)) return open;
  CKPT_ASSIGN(PartReader part, ask_for_part(number));
  std::lock_guard lock(mutex_);
  open_.emplace_front(number, part);
  if (open_.size() > open_parts()) open_.pop_back();
  return part;
}

// A disk may hold whoever opens it: nobody else waits for the lock meanwhile.
Result<Bytes> Checkpoint::map_part(uint32_t number) const {
  {
    std::lock_guard lock(mutex_);
    if (const auto found = mapped_.find(number); found != mapped_.end()) return found->second->map();
  }
  auto file = open_part_file(number);
  if (!file.ok()) return at_part(std::move(file).status(), number);
  CKPT_TRY((*file)->keep_map());
  CKPT_TRY((*file)->map().status());
  std::lock_guard lock(mutex_);
  return mapped_.try_emplace(number, file.take()).first->second->map();  // another thread may have been faster
}

Status Checkpoint::check_part(uint32_t number, std::string_view name) const {
  auto opened = part(number);
  return opened.ok() ? Ok() : std::move(opened).status().with("tensor", std::string(name));
}

Status Checkpoint::check_object(const ObjectRef& object, std::string_view name) const {
  for (const fb::Chunk& chunk : object.page->chunks_of(*object.object))
    CKPT_TRY(check_part(file_of(object.part, *object.page, chunk), name));
  return Ok();
}

}  // namespace ckpt::checkpoint

#include "save/reuse.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "base/parallel.h"
#include "checkpoint/chunk_io.h"
#include "checkpoint/part_file.h"
#include "format/names.h"
#include "format/part_record.h"

namespace ckpt::save {

static constexpr size_t kMostBases = 16;    // of a part
static constexpr uint64_t kMostParts = 64;  // whose indexes are read, beside the own one
static constexpr unsigned kCopiesAtOnce = 4;

// ---- places ----

static bool are_rows(const Region& region) { return region.kind == RegionKind::kRows; }

static bool same_codec(const fb::Segment& segment, const codec::CodecSpec& spec) {
  const bool raw = spec.codec == Codec::kRaw;
  const Filter filter = raw ? Filter::kNone : spec.filter;
  return segment.codec() == static_cast<uint8_t>(spec.codec) && segment.filter() == static_cast<uint8_t>(filter) &&
         segment.filter_width() == (filter == Filter::kNone ? 0 : spec.filter_width);
}

// Finds the chunks of the layout that the base has at the same places: first in the part of the same rank, which has
// all of them if nothing was moved, then in others.
class Matcher {
 public:
  Matcher(const checkpoint::Checkpoint& base, const ReuseInput& input, std::vector<Reuse::Match>* matches)
      : base_(base), own_(input.identity.rank), input_(input), matches_(*matches) {}

  Status run() {
    if (own_ < base_.summary().part_count) CKPT_TRY(match_own());
    return match_others();
  }

 private:
  Status match_own() {
    CKPT_ASSIGN(index_, base_.part_index(own_));
    for (const Item& item : input_.layout.items)
      if (item.source.tensor) CKPT_TRY(match_tensor(item));
    auto item = input_.layout.object_items.begin();
    for (const auto& [name, object] : input_.content.objects)
      if (const size_t number = *item++; number != kNoItem)
        CKPT_TRY(match_object(name, object, input_.layout.items[number]));
    return Ok();
  }

  static bool is_same(const SaveTensor& mine, uint16_t dtype, std::span<const uint64_t> extents) {
    return dtype == mine.dtype && std::ranges::equal(extents, mine.extents());
  }

  Status match_tensor(const Item& item) {
    const SaveTensor& tensor = *item.source.tensor;
    CKPT_ASSIGN(const format::Page* page, page_of(tensor.name));
    const fb::Tensor* theirs = page->find_tensor(tensor.name);
    if (!theirs || !is_same(tensor, theirs->dtype(), page->extents_of(*theirs))) return Ok();
    for (const fb::Region& at : page->regions_of(*theirs)) {
      const Region region = page->region_of(at, theirs->ndim());
      if (are_rows(region) != are_rows(tensor.region())) continue;
      for (const fb::Segment& segment : page->segments_of(at)) match_segment(item, own_, *page, region, segment);
    }
    return Ok();
  }

  bool is_matched(const Item& item) const {
    const auto of_item = std::span(matches_).subspan(item.chunk_first, item.chunk_count);
    return std::ranges::all_of(of_item, [](const Reuse::Match& match) { return match.home != 0; });
  }

  // As many parts as are worth their indexes. Where rows lie in others, only all parts together tell.
  Status match_others() {
    std::set<uint32_t> asked;
    for (const Item& item : input_.layout.items) {
      const SaveTensor* tensor = item.source.tensor;
      if (!tensor || are_rows(tensor->region()) || is_matched(item)) continue;
      CKPT_ASSIGN(const auto found, base_.find(tensor->name));
      if (!found.tensor || found.alias || !is_same(*tensor, found.tensor.dtype(), found.tensor.extents())) continue;
      const fb::Layout& layout = base_.root().layouts[found.tensor.page->holding_of(*found.tensor.tensor).layout()];
      const uint64_t parts = base_.root().part_count(layout);
      if (base_.root().is_rows(layout) || parts > kMostParts) continue;
      std::set<uint32_t> with = asked;
      base_.root().for_each_part(layout, 0, parts, [&](uint32_t part) { with.insert(part); });
      if (with.size() > kMostParts) continue;
      asked = std::move(with);
      CKPT_ASSIGN(const auto pieces, base_.pieces(found.tensor));
      for (const checkpoint::Piece& piece : pieces)
        if (piece.part != own_) match_segment(item, piece.part, *piece.page, piece.held(), *piece.segment);
    }
    return Ok();
  }

  void match_segment(const Item& item, uint32_t part, const format::Page& page, const Region& region,
                     const fb::Segment& segment) {
    const SaveTensor& tensor = *item.source.tensor;
    const Place mine = place_of(tensor.region(), tensor.shape(), tensor.dtype);
    const Place theirs = place_of(region, tensor.shape(), tensor.dtype);
    if (mine.box != theirs.box || !same_codec(segment, item.codec)) return;
    const uint64_t start = segment.start() * static_cast<uint64_t>(dtype_bits(tensor.dtype)) / 8;
    match_chunks(item, mine.first + item.source.first, part, page, page.chunks_of(segment), theirs.first + start);
  }

  Status match_object(const std::string& name, const SaveObject& object, const Item& item) {
    CKPT_ASSIGN(const format::Page* page, page_of(name));
    const fb::Object* theirs = page->find_object(name);
    if (theirs && theirs->scope() == object.scope && theirs->placement() == 1)
      match_chunks(item, 0, own_, *page, page->chunks_of(*theirs), 0);
    return Ok();
  }

  // `mine` and `theirs`: the place of the first byte of the item, and of the chunks.
  void match_chunks(const Item& item, uint64_t mine, uint32_t part, const format::Page& page,
                    std::span<const fb::Chunk> chunks, uint64_t theirs) {
    for (const fb::Chunk& chunk : chunks) {
      const uint64_t at = theirs;
      theirs += chunk.raw_size();
      if (at < mine || (at - mine) % item.chunk_raw != 0) continue;
      const uint64_t number = (at - mine) / item.chunk_raw;
      if (number >= item.chunk_count) return;
      if (item.raw_size(number) != chunk.raw_size()) continue;
      matches_[item.chunk_first + number] = {format::id_of(chunk.digest()), chunk.offset(), chunk.stored_size(),
                                             base_.file_of(part, page, chunk) + 1};
    }
  }

  Result<const format::Page*> page_of(std::string_view name) {
    auto page = index_->page_of(name);
    return page.ok() ? page : Result<const format::Page*>(base_.at_part(std::move(page).status(), own_));
  }

  const checkpoint::Checkpoint& base_;
  const uint32_t own_;
  const ReuseInput& input_;
  std::vector<Reuse::Match>& matches_;
  const checkpoint::IndexFile* index_ = nullptr;
};

// ---- the base ----

using Base = std::shared_ptr<checkpoint::Checkpoint>;

static Result<Base> open_base(const ReuseInput& input, std::string_view selector) {
  return checkpoint::Checkpoint::open(input.session.shared_store(),
                                      {.selector = selector, .run = input.session.plan().run});
}

// The one that the caller names; else the newest that this session has committed; else the latest of the run. Null if
// there is none.
static Result<Base> find_base(const ReuseInput& input) {
  if (!input.settings.base.empty()) return open_base(input, input.settings.base);
  for (const std::string& id : input.session.earlier_saves())
    if (auto base = open_base(input, id); base.ok()) return base;
  auto latest = open_base(input, "latest");
  return latest.status().code() == CKPT_NOT_FOUND ? Base() : std::move(latest);
}

bool ends_save(ckpt_status code) { return ends_call(code) || code == CKPT_FENCED; }

static void tell_why(Report* report, const std::string& base, const Status& why) {
  report->add(CKPT_FINDING_REUSED, why.code(), base,
              (base.empty() ? "nothing is reused: " : base + ": not all is reused: ") + why.message());
}

Result<Reuse> Reuse::find(const ReuseInput& input, Report* report) {
  Reuse reuse;
  auto base = input.carried.base ? Result<Base>(input.carried.base) : find_base(input);
  if (base.ok() && !*base) return reuse;
  Status status = base.status();
  if (status.ok()) {
    reuse.in_ = std::make_shared<const ReuseInput>(input);
    reuse.base_ = base.take();
    reuse.from_ = reuse.base_->entry().id;
    reuse.matches_.resize(input.layout.chunk_count);
    status = Matcher(*reuse.base_, input, &reuse.matches_).run();
  }
  if (ends_save(status.code())) return status;
  if (!status.ok()) {
    tell_why(report, reuse.from_, status);
    std::ranges::fill(reuse.matches_, Match());
  }
  if (reuse.base_) CKPT_TRY(reuse.borrow(input, report));
  return reuse;
}

// ---- its files ----

// What this checkpoint can use of a file: `bytes` of this rank, and of a base what other ranks have used until now.
// What they use of parts that are not this rank's nobody can tell before they have saved; the next save can.
static Result<uint64_t> usable_bytes(const checkpoint::Checkpoint& base, uint32_t file, uint64_t bytes,
                                     const ReuseInput& input) {
  CKPT_ASSIGN(const fb::Part record, base.part_record(file));
  const uint32_t own = input.identity.rank, world = base.summary().world_size;
  if (input.identity.summary.world_size == 1) return bytes;
  const bool same_world = world == input.identity.summary.world_size;
  if (file < base.summary().part_count) return file == own && same_world ? bytes : record.size();
  CKPT_ASSIGN(const uint64_t used, base.manifest().used(file));
  if (!same_world) return used;
  uint64_t others = used;
  CKPT_ASSIGN(const checkpoint::IndexFile* index, base.part_index(own));
  for (const fb::Base& one : index->root().bases)
    if (format::same_file(one.part(), record)) others -= std::min<uint64_t>(others, one.used());
  return std::min(used, others + bytes);
}

static Result<bool> is_dead(const checkpoint::Checkpoint& base, uint32_t file, uint64_t bytes,
                            const ReuseInput& input) {
  CKPT_ASSIGN(const fb::Part record, base.part_record(file));
  CKPT_ASSIGN(const uint64_t usable, usable_bytes(base, file, bytes, input));
  const auto held = static_cast<double>(record.index_offset() - kAlign);  // between header and index
  return static_cast<double>(usable) < held * (1 - input.settings.most_dead);
}

// The files of which most is of use, in the order of bases.
static Result<std::vector<std::pair<fb::Part, uint32_t>>> choose_files(const checkpoint::Checkpoint& base,
                                                                       const std::map<uint32_t, uint64_t>& useful,
                                                                       const ReuseInput& input) {
  const auto& carried = input.carried.files;
  std::vector<std::pair<uint64_t, uint32_t>> best;
  for (const auto& [file, bytes] : useful) {
    if (carried.contains(file)) continue;
    CKPT_ASSIGN(const bool dead, is_dead(base, file, bytes, input));
    if (!dead) best.emplace_back(bytes, file);
  }
  std::ranges::sort(best, std::greater());
  if (best.size() > kMostBases) best.resize(kMostBases);
  for (const auto& [file, record] : carried) best.emplace_back(0, file);
  std::vector<std::pair<fb::Part, uint32_t>> chosen;
  for (const auto& [bytes, file] : best) {
    CKPT_ASSIGN(const fb::Part record, base.part_record(file));
    chosen.emplace_back(format::as_base(record), file);
  }
  std::ranges::sort(chosen, {}, [](const auto& one) { return format::identity_of(one.first); });
  return chosen;
}

static std::string key_in(const checkpoint::Checkpoint& base, uint32_t file) {
  return format::file_key(base.entry().id, base.name_of(file));
}

static Status borrow_once(store::Store& store, const checkpoint::Checkpoint& base, uint32_t file,
                          const fb::Part& record, const std::string& directory) {
  CKPT_ASSIGN(const auto borrowed,
              store.borrow(key_in(base, file), format::file_key(directory, format::file_name(record))));
  Status status = checkpoint::check_file(borrowed->file(), record);
  if (status.ok()) status = borrowed->publish();
  if (!status.ok()) borrowed->drop();
  return status;
}

// Of a server: another rank may have put the same copy there, in the place of the one that is looked at.
static Status borrow_file(store::Store& store, const checkpoint::Checkpoint& base, uint32_t file,
                          const fb::Part& record, const std::string& directory) {
  constexpr int kTries = 3;
  Status status;
  for (int i = 0; i < kTries; i++) {
    status = borrow_once(store, base, file, record, directory);
    if (status.code() != CKPT_GONE) break;
  }
  return status;
}

Result<fb::Part> lend_file(session::Session& session, const session::Attempt& attempt,
                           const checkpoint::Checkpoint& base, uint32_t file) {
  store::Store& store = session.store();
  CKPT_ASSIGN(const fb::Part known, base.part_record(file));
  const fb::Part record = format::as_base(known);
  // Where it is a copy, it waits for the end, when it is known what is used. But the first one tells whether the server
  // can copy at all, as long as all can still be written.
  if (!store.traits().borrows_by_copy || !session.has_copied()) {
    CKPT_TRY(borrow_file(store, base, file, record, attempt.directory));
    session.note_copied();
    return record;
  }
  CKPT_ASSIGN(const auto opened, store.open(key_in(base, file)));
  CKPT_TRY(checkpoint::check_file(*opened, record));
  return record;
}

// Of one file that has too many names, or of all.
bool has_no_names(const Status& status) {
  const std::string* error = status.detail("errno");
  return status.code() == CKPT_UNSUPPORTED && !(error && *error == std::to_string(EMLINK));
}

Status Reuse::borrow(const ReuseInput& input, Report* report) {
  std::map<uint32_t, uint64_t> useful;
  for (const Match& match : matches_)
    if (match.home != 0) useful[match.home - 1] += match.stored_size;
  CKPT_ASSIGN(const auto chosen, choose_files(*base_, useful, input));
  std::map<uint32_t, uint32_t> homes;  // by one more than the number of the file
  Status failed;
  for (const auto& [record, file] : chosen) {
    Status status = input.carried.files.contains(file) ? Ok()    // it was lent before
                    : has_no_names(failed)             ? failed  // nor will any other file have a second name
                                           : lend_file(input.session, input.identity.attempt, *base_, file).status();
    if (ends_save(status.code())) return status;
    if (input.settings.incremental == "strict" && has_no_names(status)) return status;
    if (status.ok()) {
      bases_.emplace_back(record, uint64_t{0});
      files_.push_back(file);
      homes[file + 1] = static_cast<uint32_t>(bases_.size());
      continue;
    }
    if (failed.ok()) failed = std::move(status);
  }
  if (!failed.ok() && input.session.tells_why_not_shared()) tell_why(report, from_, failed);
  if (bases_.empty()) matches_.clear();
  for (Match& match : matches_) {
    const auto home = homes.find(match.home);
    match.home = home == homes.end() ? 0 : home->second;
  }
  for (const auto& [file, record] : input.carried.files)
    carried_homes_.emplace(file, static_cast<uint16_t>(homes.at(file + 1)));
  if (!bases_.empty()) homes_.resize(input.layout.chunk_count);
  return Ok();
}

// ---- taking ----

void Reuse::take(size_t number, fb::Chunk* chunk) {
  const Match& match = matches_[number];
  *chunk = fb::Chunk(match.offset, chunk->stored_size(), chunk->raw_size(), chunk->digest());
  homes_[number] = static_cast<uint16_t>(match.home);
}

template <typename Visit>
void Reuse::for_each_taken(std::span<const fb::Chunk> chunks, Visit&& visit) const {
  for (size_t i = 0; i < homes_.size(); i++)
    if (homes_[i] != 0) visit(size_t{homes_[i]} - 1, chunks[i], i);
  if (!in_) return;
  in_->carried.for_each_chunk(in_->identity.rank, [&](uint32_t file, const fb::Chunk& chunk) {
    if (const uint16_t home = carried_homes_.at(file)) visit(size_t{home} - 1, chunk, Batch::kCarried);
  });
}

// Its last name in the directory of the attempt, or the first one where that is a copy, which is not yet made.
std::string Reuse::key_of(size_t base) const {
  return in_->session.store().traits().borrows_by_copy
             ? key_in(*base_, files_[base])
             : format::file_key(in_->identity.attempt.directory, format::file_name(bases_[base].part()));
}

// ---- what little of a file is used ----

// When the files were chosen, nobody knew what had changed.
Result<std::vector<Reuse::Batch>> Reuse::give_up_dead(std::span<fb::Chunk> chunks, uint64_t most_bytes, uint64_t* end) {
  std::vector<uint64_t> used(bases_.size());
  for_each_taken(chunks, [&](size_t base, const fb::Chunk& chunk, size_t) { used[base] += chunk.stored_size(); });
  std::vector<std::vector<Batch::Chunk>> dead(bases_.size());
  std::vector<bool> is_given_up(bases_.size());
  for (size_t i = 0; i < bases_.size(); i++) {
    if (used[i] == 0) continue;
    CKPT_ASSIGN(is_given_up[i], is_dead(*base_, files_[i], used[i], *in_));
  }
  for_each_taken(chunks, [&](size_t base, const fb::Chunk& chunk, size_t number) {
    if (is_given_up[base]) dead[base].push_back({chunk, number});
  });
  std::vector<Batch> batches;
  for (size_t i = 0; i < dead.size(); i++) {
    std::ranges::sort(dead[i], {}, [](const Batch::Chunk& chunk) { return chunk.from.offset(); });
    const size_t first = batches.size();
    for (const Batch::Chunk& chunk : dead[i]) {
      if (batches.size() == first || batches.back().size + chunk.from.stored_size() > most_bytes)
        batches.push_back({.base = i});
      batches.back().chunks.push_back(chunk);
      batches.back().size += chunk.from.stored_size();
    }
  }
  for (Batch& batch : batches) {
    batch.offset = *end;
    *end += batch.size = round_up(batch.size, kAlign);
    place(batch, chunks);
  }
  return batches;
}

void Reuse::place(const Batch& batch, std::span<fb::Chunk> chunks) {
  uint64_t at = batch.offset;
  for (const auto& [from, number] : batch.chunks) {
    if (number == Batch::kCarried) {
      moved_[{files_[batch.base], from.offset()}] = at;
    } else {
      chunks[number] = fb::Chunk(at, from.stored_size(), from.raw_size(), from.digest());
      homes_[number] = 0;
    }
    at += from.stored_size();
  }
}

Status Reuse::read(const Batch& batch, MutableBytes out, Job& job) const {
  auto read_all = [&]() -> Status {
    CKPT_ASSIGN(const auto file, in_->session.store().open(key_of(batch.base)));
    for (const auto& [from, number] : batch.chunks) {
      const MutableBytes to = out.first(from.stored_size());
      CKPT_TRY(checkpoint::plain_read(job, *file, from.offset(), to));
      if (!checkpoint::check_chunk(from, to).ok()) {
        CKPT_TRY(checkpoint::read_again(job, *file, from.offset(), to));
        CKPT_TRY(checkpoint::check_chunk(from, to));
      }
      out = out.subspan(to.size());
    }
    return Ok();
  };
  Status status = read_all();
  return status.ok() ? Ok() : at_base(std::move(status));
}

// ---- the end ----

void Reuse::drop_unused(std::span<const fb::Chunk> chunks) {
  std::vector<uint64_t> used(bases_.size());
  for_each_taken(chunks, [&](size_t base, const fb::Chunk& chunk, size_t number) {
    if (number == Batch::kCarried && moved_.contains({files_[base], chunk.offset()})) return;
    used[base] += chunk.stored_size();
    chunks_++;
  });
  std::vector<uint16_t> number(bases_.size() + 1);
  std::vector<fb::Base> kept;
  std::vector<uint32_t> files;
  for (size_t i = 0; i < bases_.size(); i++) {
    if (used[i] == 0) continue;
    kept.emplace_back(bases_[i].part(), used[i]);
    files.push_back(files_[i]);
    number[i + 1] = static_cast<uint16_t>(kept.size());
    bytes_ += used[i];
  }
  for (uint16_t& home : homes_) home = number[home];
  for (auto& [file, home] : carried_homes_) home = number[home];
  bases_ = std::move(kept);
  files_ = std::move(files);
}

Status Reuse::finish(std::span<const fb::Chunk> chunks) {
  drop_unused(chunks);
  Status copied;
  if (in_ && in_->session.store().traits().borrows_by_copy)
    copied = for_each_parallel(kCopiesAtOnce, files_.size(), [&](size_t i) {
      return borrow_file(in_->session.store(), *base_, files_[i], bases_[i].part(), in_->identity.attempt.directory);
    });
  base_.reset();
  return copied.ok() ? Ok() : at_base(std::move(copied));
}

std::pair<std::vector<fb::Chunk>, std::vector<uint16_t>> Reuse::carry(const format::Page& page,
                                                                      std::span<const fb::Chunk> chunks) const {
  std::vector<fb::Chunk> records;
  std::vector<uint16_t> homes;
  for (const fb::Chunk& chunk : chunks) {
    const uint32_t file = in_->carried.base->file_of(in_->identity.rank, page, chunk);
    const auto moved = moved_.find({file, chunk.offset()});
    const uint64_t at = moved == moved_.end() ? chunk.offset() : moved->second;
    records.emplace_back(at, chunk.stored_size(), chunk.raw_size(), chunk.digest());
    homes.push_back(carried_homes_.at(file));
  }
  if (bases_.empty()) homes.clear();
  return {std::move(records), std::move(homes)};
}

void Reuse::tell(Report* report) const {
  if (bases_.empty()) return;
  report->add(CKPT_FINDING_REUSED, CKPT_OK, from_,
              strformat("{}: {} chunks of {} bytes were not written again, they lie in {} of its files", from_, chunks_,
                        bytes_, bases_.size()),
              bytes_);
  report->findings.back().count = chunks_;
}

}  // namespace ckpt::save

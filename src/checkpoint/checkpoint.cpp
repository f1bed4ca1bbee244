#include "checkpoint/checkpoint.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>

#include "base/parallel.h"
#include "checkpoint/index_coverage.h"
#include "format/checksum.h"
#include "format/framing.h"
#include "format/names.h"

namespace ckpt::checkpoint {

Result<std::shared_ptr<Checkpoint>> Checkpoint::open(std::shared_ptr<store::Store> store, const Question& question,
                                                     unsigned threads) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->store_ = std::move(store);
  auto load = [&](const CheckpointEntry& entry) { return checkpoint->load(entry, threads); };
  CKPT_ASSIGN(checkpoint->selection_, select_checkpoint(*checkpoint->store_, question, load));
  return checkpoint;
}

Status Checkpoint::load(const CheckpointEntry& entry, unsigned threads) {
  selection_.entry = entry;
  lock_.reset();
  index_ = {};
  alias_positions_.clear();
  const std::string path = store_->path(entry.id);
  Status status = read_manifest(threads);
  // It was found a moment ago and is not there now: it was removed in between.
  if (status.code() == CKPT_NOT_FOUND || status.code() == CKPT_CONFLICT)
    return Status(CKPT_GONE, path + " was removed while it was being opened").with("path", path);
  return status.ok() ? Ok() : std::move(status).in(path + "/MANIFEST").with("path", path + "/MANIFEST");
}

// ---- reading the manifest ----

// One huge page: no two threads wait for the same fresh page, and a piece is hashed while the cache holds it.
static constexpr uint64_t kPiece = 2 << 20;

// Reads the whole file and hashes its first `hashed` bytes. XXH3 goes from front to back: the threads read pieces, and
// whichever thread finds the next pieces present hashes them.
static Result<Digest> read_and_hash(const store::Reader& file, MutableBytes out, uint64_t hashed, unsigned threads) {
  const size_t pieces = (out.size() + kPiece - 1) / kPiece;
  std::vector<std::atomic<bool>> there(pieces);
  std::mutex hashing;
  size_t next = 0;
  format::Hasher hasher;
  auto hash_on = [&] {
    std::unique_lock lock(hashing, std::try_to_lock);
    for (; lock && next < pieces && there[next]; next++) {
      uint64_t begin = std::min(next * kPiece, hashed), end = std::min(begin + kPiece, hashed);
      hasher.update(out.subspan(begin, end - begin));
    }
  };
  auto read = [&](size_t i) {
    Status status = file.read_at(i * kPiece, out.subspan(i * kPiece, std::min(kPiece, out.size() - i * kPiece)));
    there[i] = status.ok();
    hash_on();
    return status;
  };
  CKPT_TRY(for_each_parallel(threads, pieces, read));
  hash_on();  // pieces that came while another thread was just leaving
  return hasher.digest();
}

// The size of the index, from the trailer; 0 for a file that is too short, which open_slot refuses.
static Result<uint64_t> index_size(const store::Reader& file) {
  std::byte trailer[format::kManifestTrailerSize];
  if (file.size() < sizeof trailer) return uint64_t{0};
  CKPT_TRY(file.read_at(file.size() - sizeof trailer, trailer));
  return format::slot_index_size(trailer, file.size());
}

Status Checkpoint::read_manifest(unsigned threads) {
  std::string key = format::slot_key(entry().id);
  CKPT_ASSIGN(lock_, store_->lock_shared(key));
  CKPT_ASSIGN(auto file, store_->open(key));
  CKPT_ASSIGN(uint64_t hashed, index_size(*file));
  CKPT_ASSIGN(bytes_, device::Mapping::make(file->size(), true));  // texts were given out
  MutableBytes bytes = bytes_.bytes().first(file->size());
  if (bytes.size() < kPiece) CKPT_TRY(bytes_.populate(bytes.size(), 1));
  CKPT_ASSIGN(Digest digest, read_and_hash(*file, bytes, hashed, threads));
  CKPT_ASSIGN(auto slot, format::open_slot(bytes, digest));
  if (!slot.committed) return Status(CKPT_ABORTED, "a tombstone: " + slot.tombstone.reason);
  CKPT_ASSIGN(index_, format::Index::open(slot.index, format::IndexKind::kManifest, threads));
  if (!(index_.summary == slot.summary)) return Status(CKPT_FORMAT, "the two summaries differ");
  CKPT_TRY(check_index_coverage(index_, threads));
  CKPT_TRY(terminate_texts(threads));
  place_aliases();
  return Ok();
}

// Every text ends with a line feed (FORMAT §4). In our own copy of the manifest, that becomes the NUL of a C string.
Status Checkpoint::terminate_texts(unsigned threads) {
  char* names = const_cast<char*>(index_.names.data());  // bytes_ is ours and writable
  // Atomic, since the texts of a file from elsewhere may overlap.
  auto end = [names](const fb::Text& text) {
    std::atomic_ref(names[text.offset() + text.size()]).store(0, std::memory_order_relaxed);
  };
  constexpr size_t kRange = 1 << 16;
  auto end_tensors = [&](size_t i) {
    auto rest = index_.tensors.subspan(i * kRange);
    for (const auto& tensor : rest.first(std::min(kRange, rest.size()))) end(tensor.name());
    return Ok();
  };
  CKPT_TRY(for_each_parallel(threads, (index_.tensors.size() + kRange - 1) / kRange, end_tensors));
  for (const auto& alias : index_.aliases) {
    end(alias.name());
    end(alias.target());
  }
  for (const auto& object : index_.objects) {
    end(object.name());
    end(object.media_type());
  }
  for (const auto& attr : index_.attrs) {
    end(attr.owner());
    end(attr.key());
    end(attr.value());
  }
  return Ok();
}

// Finds the position of each alias among all names.
void Checkpoint::place_aliases() {
  auto before = [this](const fb::Tensor& tensor, std::string_view name) { return index_.text(tensor.name()) < name; };
  auto at = index_.tensors.begin();
  for (const fb::Alias& alias : index_.aliases) {
    at = std::lower_bound(at, index_.tensors.end(), index_.text(alias.name()), before);
    alias_positions_.push_back(static_cast<size_t>(at - index_.tensors.begin()) + alias_positions_.size());
  }
}

// ---- names ----

Checkpoint::Named Checkpoint::named_at(uint64_t position) const {
  auto at = std::lower_bound(alias_positions_.begin(), alias_positions_.end(), position);
  size_t before = static_cast<size_t>(at - alias_positions_.begin());
  if (at == alias_positions_.end() || *at != position) return {&index_.tensors[position - before], nullptr};
  const fb::Alias& alias = index_.aliases[before];
  return {index_.find_tensor(index_.text(alias.target())), &alias};
}

Checkpoint::Named Checkpoint::find(std::string_view name) const {
  if (const fb::Tensor* tensor = index_.find_tensor(name)) return {tensor, nullptr};
  const fb::Alias* alias = index_.find_alias(name);
  return {alias ? index_.find_tensor(index_.text(alias->target())) : nullptr, alias};
}

std::string_view Checkpoint::name_of(const Named& named) const {
  return index_.text(named.alias ? named.alias->name() : named.tensor->name());
}

// ---- parts ----

Status Checkpoint::at_part(Status status, uint32_t number) const {
  std::string name = format::part_name(number), path = store_->path(entry().id + "/" + name);
  if (status.code() == CKPT_NOT_FOUND) {
    bool gone = store_->open(format::slot_key(entry().id)).status().code() == CKPT_NOT_FOUND;
    status = gone ? Status(CKPT_GONE, "the checkpoint was removed while it was being read")
                  : Status(CKPT_INCOMPLETE, "the part is missing");
  }
  return std::move(status).in(path).with("part", name).with("path", path);
}

Result<std::unique_ptr<store::Reader>> Checkpoint::open_part_file(uint32_t number) const {
  CKPT_ASSIGN(auto file, store_->open(entry().id + "/" + format::part_name(number)));
  const fb::Part& expected = index_.parts[number];
  if (file->size() < 2 * kAlign || file->size() != expected.size())
    return Status(CKPT_INCOMPLETE, strformat("{} bytes, expected {}", file->size(), expected.size()))
        .with("expected", uint64_t{expected.size()})
        .with("found", file->size());
  std::vector<std::byte> head(kAlign);
  CKPT_TRY(file->read_at(0, head));
  CKPT_ASSIGN(auto header, format::decode_part_header(head));
  const format::Summary& summary = index_.summary;
  if (header.save_id == summary.save_id &&
      (header.world_size != summary.world_size || header.store_id != summary.store_id ||
       header.token != summary.token || header.attempt != summary.attempt))
    return Status(CKPT_FORMAT, "its header contradicts the manifest's summary");
  if (header.save_id != format::id_of(expected.save_id()) || header.rank != expected.rank())
    return Status(CKPT_MISMATCH,
                  strformat("part of save {}, rank {}; expected save {}, rank {}", to_hex(header.save_id), header.rank,
                            to_hex(format::id_of(expected.save_id())), expected.rank()))
        .with("expected", to_hex(format::id_of(expected.save_id())))
        .with("found", to_hex(header.save_id));
  return file;
}

// Each open part takes up to two descriptors: one more for direct reads. The program needs some too.
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

Result<PartReader> Checkpoint::part(uint32_t number) const {
  if (PartReader open = find_open(number)) return open;
  auto file = open_part_file(number);
  if (!file.ok()) return at_part(std::move(file).status(), number);
  PartReader part = file.take();
  std::lock_guard lock(mutex_);
  open_.emplace_front(number, part);
  if (open_.size() > open_parts()) open_.pop_back();
  return part;
}

Result<Bytes> Checkpoint::map_part(uint32_t number) const {
  std::lock_guard lock(mutex_);
  auto& mapped = mapped_[number];
  if (!mapped) {
    auto file = open_part_file(number);
    if (!file.ok()) return at_part(std::move(file).status(), number);
    CKPT_TRY((*file)->keep_map());
    mapped = file.take();
  }
  return mapped->map();
}

Status Checkpoint::check_part(uint32_t number, std::string_view name) const {
  auto opened = part(number);
  return opened.ok() ? Ok() : std::move(opened).status().with("tensor", std::string(name));
}

}  // namespace ckpt::checkpoint

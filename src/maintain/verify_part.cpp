#include "maintain/verify_part.h"

#include <algorithm>

#include "checkpoint/part_file.h"
#include "checkpoint/read_pipeline.h"
#include "codec/checksum.h"
#include "format/framing.h"
#include "format/names.h"

namespace ckpt::maintain {

void Findings::add(Finding finding) {
  std::lock_guard lock(mutex_);
  out_->push_back(std::move(finding));
}

void sort_by_offset(std::vector<OwnedChunk>& chunks) {
  std::sort(chunks.begin(), chunks.end(),
            [](const auto& a, const auto& b) { return a.chunk->offset() < b.chunk->offset(); });
}

// ---- what can be wrong ----

Finding PartVerifier::damage(const OwnedChunk& owned, ckpt_status status, std::string what) const {
  Finding finding;
  finding.kind = CKPT_FINDING_DAMAGED;
  finding.status = status;
  finding.part = name_;
  finding.offset = owned.chunk->offset();
  finding.size = owned.chunk->stored_size();
  const fb::Tensor* tensor = owned.piece.tensor;
  if (tensor) finding.name = owned.piece.page->text(tensor->name());
  if (owned.object.object) finding.name = owned.object.page->text(owned.object.object->name());
  std::string where = (tensor ? "tensor \"" : "object \"") + finding.name + "\"";
  if (!owned.listed()) where = "declaration list of a replica group";
  if (owned.unused) where = "nothing of this checkpoint";
  if (tensor) {
    const checkpoint::Piece piece = checkpoint_.placed(owned.piece);
    const checkpoint::ElementRange elements = checkpoint::elements_of(piece, *owned.chunk);
    where += strformat(", elements {} to {}", elements.first, elements.last);
    if (piece.unplaced()) {
      where += " of this part's own rows";
    } else {
      finding.first_element = elements.first;
      finding.last_element = elements.last;
    }
  }
  finding.text = strformat("{} at {}, {} bytes: {}: {}", finding.part, finding.offset, finding.size, where, what);
  return finding;
}

static Finding part_finding(Status status, const std::string& name, int32_t kind) {
  Finding finding;
  finding.kind = kind;
  finding.status = status.code();
  finding.part = name;
  finding.text = status.message();
  if (const std::string* offset = status.detail("offset")) finding.offset = std::strtoull(offset->c_str(), nullptr, 10);
  return finding;
}

void PartVerifier::check_gap(Bytes bytes, uint64_t offset) const {
  size_t wrong = format::leading_zeros(bytes);
  if (wrong == bytes.size()) return;
  Finding finding;
  finding.kind = CKPT_FINDING_DAMAGED;
  finding.status = CKPT_CORRUPT;
  finding.part = name_;
  finding.offset = offset + wrong;
  finding.size = 1;
  finding.text = strformat("{} at {}: expected zero padding", finding.part, finding.offset);
  findings_.add(std::move(finding));
}

void PartVerifier::check_overlaps(uint64_t index_offset) {
  uint64_t end = kAlign;
  for (const OwnedChunk& owned : chunks_) {
    if (owned.chunk->offset() < end) findings_.add(damage(owned, CKPT_FORMAT, "overlaps what lies before it"));
    end = std::max(end, owned.end());
    if (end > index_offset) findings_.add(damage(owned, CKPT_FORMAT, "overlaps the index"));
  }
}

// ---- the batches ----

static constexpr uint64_t kBatchBytes = kVerifyRead - 2 * kAlign;  // fits kVerifyRead even with its ends rounded out

void PartVerifier::add_gap(uint64_t begin, uint64_t end) {
  // A hostile manifest can make gaps of any length.
  for (uint64_t stop; begin < end; begin = stop) {
    stop = begin + std::min(kBatchBytes, end - begin);
    batches_.push_back({this, 0, 0, begin, stop});
  }
}

void PartVerifier::add_samples() {
  size_t number = 0;
  for (size_t i = 0; i < chunks_.size(); i++) {
    if (chunks_[i].unused || (chunks_[i].listed() && !sampled(options_, number++))) continue;
    batches_.push_back({this, i, 1, chunks_[i].chunk->offset(), chunks_[i].end()});
  }
}

void PartVerifier::add_data(uint64_t index_offset) {
  uint64_t begin = kAlign;
  auto fits = [&](uint64_t end) {
    return end <= begin + (begin % kAlign == 0 && end % kAlign == 0 ? kVerifyRead : kBatchBytes);
  };
  for (size_t i = 0; i < chunks_.size();) {
    if (uint64_t next = chunks_[i].chunk->offset(); next > begin && !fits(next)) {
      add_gap(begin, next);
      begin = next;
    }
    size_t first = i;
    uint64_t end = begin;
    for (; i < chunks_.size() && (i == first || fits(chunks_[i].end())); i++) end = std::max(end, chunks_[i].end());
    if (end > begin) batches_.push_back({this, first, i - first, begin, end});
    begin = end;
  }
  add_gap(begin, index_offset);
}

// ---- everything but the data ----

// A wrong digest is a finding, and so is anything else that is wrong with the file. What has no answer, and GONE, end
// the job.
Status PartVerifier::report_unless_fatal(Status status, bool missing) {
  if (is_unanswered(status.code()) || status.code() == CKPT_GONE) return status;
  findings_.add(part_finding(status, name_, missing ? CKPT_FINDING_MISSING : CKPT_FINDING_DAMAGED));
  return Ok();
}

Status PartVerifier::compare_copy() const {
  CKPT_ASSIGN(const checkpoint::IndexFile* index, checkpoint_.part_index(number_));
  return index->load_all();
}

// The index of the part, and that it is the one that the manifest names.
Status PartVerifier::check_framing() {
  CKPT_ASSIGN(fb::Part expected, checkpoint_.part_record(number_));
  CKPT_ASSIGN(part_, checkpoint::open_file(checkpoint_.store(), checkpoint_.entry().id, expected));
  part_.file.reset();  // a thousand parts must not take a thousand descriptors
  if (part_.trailer.root_digest != format::id_of(expected.root_digest()) ||
      part_.trailer.index_offset != expected.index_offset() || part_.trailer.index_size != expected.index_size() ||
      part_.trailer.root_size != expected.root_size())
    return Status(CKPT_CORRUPT, name_ + ": its index is not the one that the manifest names");
  if (part_.summary().save_id != part_.header.save_id || part_.summary().world_size != part_.header.world_size)
    return Status(CKPT_FORMAT, name_ + ": the summary of its index is that of another save");
  return is_base() ? Ok() : compare_copy();
}

// Calls visit(home, chunk) for each chunk of a tensor or object.
template <typename Visit>
Status PartVerifier::for_each_chunk(Visit&& visit) const {
  for (size_t i = 0; i < index_->page_count(); i++) {
    CKPT_ASSIGN(const format::Page* page, index_->page(i));
    for (const fb::Tensor& tensor : page->tensors)
      for (const fb::Region& region : page->regions_of(tensor))
        for (const fb::Segment& segment : page->segments_of(region))
          for (const fb::Chunk& chunk : page->chunks_of(segment))
            visit(page->home_of(chunk), OwnedChunk{&chunk, {number_, page, &tensor, &region, &segment}, {}});
    for (const fb::Object& object : page->objects)
      for (const fb::Chunk& chunk : page->chunks_of(object))
        visit(page->home_of(chunk), OwnedChunk{&chunk, {}, {number_, page, &object}});
  }
  return Ok();
}

// Those in the file itself.
Status PartVerifier::collect_chunks() {
  CKPT_TRY(for_each_chunk([this](uint16_t home, const OwnedChunk& owned) {
    if (home == 0) chunks_.push_back(is_base() ? OwnedChunk{owned.chunk, {}, {}, true} : owned);
  }));
  for (const fb::Group& group : index_->root().groups) chunks_.push_back({&group.list(), {}, {}, is_base()});
  sort_by_offset(chunks_);
  return Ok();
}

std::vector<OwnedChunk> PartVerifier::in_base(uint16_t home) const {
  std::vector<OwnedChunk> chunks;
  if (index_)  // its pages were read before
    (void)for_each_chunk([&](uint16_t at, const OwnedChunk& owned) {
      if (at == home) chunks.push_back(owned);
    });
  return chunks;
}

static bool same_chunk(const fb::Chunk& a, const fb::Chunk& b) {
  return a.offset() == b.offset() && a.stored_size() == b.stored_size() &&
         format::id_of(a.digest()) == format::id_of(b.digest());
}

// Each chunk that lies in this base must be one of its own; from now on it is known as that of this checkpoint. If the
// base's index cannot be read, these are all that is known.
Status PartVerifier::refer(References refer) {
  std::vector<OwnedChunk>& chunks = refer.chunks;
  sort_by_offset(chunks);
  uint64_t used = 0;
  for (const OwnedChunk& owned : chunks) used += owned.chunk->stored_size();
  CKPT_ASSIGN(const uint64_t expected, checkpoint_.manifest().used(number_));
  if (used != expected && refer.all)
    findings_.add(part_finding(
        Status(CKPT_FORMAT, strformat("{}: {} bytes of it are used, the manifest says {}", name_, used, expected)),
        name_, CKPT_FINDING_DAMAGED));
  if (!index_) {
    chunks_ = std::move(chunks);
    return Ok();
  }
  auto own = chunks_.begin();
  for (const OwnedChunk& owned : chunks) {
    while (own != chunks_.end() && own->chunk->offset() < owned.chunk->offset()) own++;
    if (own != chunks_.end() && same_chunk(*own->chunk, *owned.chunk))
      *own = owned;
    else
      findings_.add(damage(owned, CKPT_FORMAT, "is no chunk of that file"));
  }
  return Ok();
}

// Inline objects have digests of their own, beside that of their page.
void PartVerifier::check_inline() const {
  for (size_t i = 0; i < index_->page_count(); i++) {
    const format::Page& page = **index_->page(i);  // it was read before
    for (const fb::Object& object : page.objects) {
      if (object.placement() != 0 || codec::xxh3_128(page.inline_data.subspan(object.inline_offset(), object.size())) ==
                                         format::id_of(object.digest()))
        continue;
      Finding finding = part_finding(Status(CKPT_CORRUPT, strformat("{}: object \"{}\" does not match its checksum",
                                                                    name_, page.text(object.name()))),
                                     name_, CKPT_FINDING_DAMAGED);
      finding.name = page.text(object.name());
      findings_.add(std::move(finding));
    }
  }
}

uint64_t PartVerifier::bytes_to_check() const {
  uint64_t total = 0;
  size_t number = 0;
  for (const OwnedChunk& owned : chunks_)
    if (owned.listed() &&
        (options_.verify_mode == "full" || (options_.verify_mode == "sample" && sampled(options_, number++))))
      total += owned.chunk->stored_size();
  return total;
}

Status PartVerifier::open(References* refer) {
  auto file = checkpoint_.part(number_);
  if (!file.ok()) {
    Status status = std::move(file).status();
    bool missing = status.code() == CKPT_INCOMPLETE && !status.detail("found");
    return report_unless_fatal(std::move(status), missing);
  }
  if (Status status = check_framing(); !status.ok()) {
    // It is open here, but may be gone from the store.
    if (status.code() == CKPT_NOT_FOUND) status = checkpoint_.at_part(std::move(status), number_);
    const bool missing = status.code() == CKPT_INCOMPLETE;
    CKPT_TRY(report_unless_fatal(std::move(status), missing));
    // A copy in the manifest still tells where the chunks are.
    if (!is_base()) {
      auto copy = checkpoint_.part_index(number_);
      if (!copy.ok() || !(*copy)->load_all().ok()) return Ok();
      index_ = *copy;
    }
  } else {
    index_ = part_.index.get();
  }
  if (index_) {
    CKPT_TRY(collect_chunks());
    check_inline();
  }
  if (refer) CKPT_TRY(this->refer(std::move(*refer)));
  CKPT_ASSIGN(fb::Part record, checkpoint_.part_record(number_));
  const uint64_t index_offset = record.index_offset();
  check_overlaps(index_offset);
  if (options_.verify_mode == "sample") add_samples();
  if (options_.verify_mode != "full") return Ok();
  add_data(index_offset);
  add_gap(index_offset + record.index_size(), record.size() - format::kPartTrailerSize);
  return Ok();
}

// ---- the data ----

void PartVerifier::checked(size_t number, Status status) const {
  const OwnedChunk& owned = chunks_[number];
  if (!status.ok()) findings_.add(damage(owned, status.code(), status.message()));
  if (!owned.listed()) return;
  job_.counters.bytes_done += owned.chunk->stored_size();
  job_.counters.chunk_count++;
}

// A chunk that did not match may have been damaged on its way.
Status PartVerifier::check_again(const fb::Chunk& chunk, Status found) const {
  if (!checkpoint_.store().traits().remote) return found;
  std::vector<std::byte> stored(chunk.stored_size());
  CKPT_ASSIGN(const checkpoint::PartReader file, this->file());
  const Status read = checkpoint::read_again(job_, *file, chunk.offset(), stored);
  return read.ok() ? checkpoint::check_chunk(chunk, stored) : found;
}

// Checks the chunks in these bytes, and the gaps before, between and after them.
void PartVerifier::check_bytes(size_t first, size_t count, uint64_t begin, Bytes bytes) const {
  uint64_t at = begin, end = begin + bytes.size();
  for (size_t i = first; i < first + count; i++) {
    const fb::Chunk& chunk = *chunks_[i].chunk;
    if (chunk.offset() > at) check_gap(bytes.subspan(at - begin, chunk.offset() - at), at);
    if (chunk.offset() < begin || chunks_[i].end() > end) continue;  // an overlap, reported already
    Status found = checkpoint::check_chunk(chunk, bytes.subspan(chunk.offset() - begin, chunk.stored_size()));
    checked(i, found.code() == CKPT_CORRUPT ? check_again(chunk, std::move(found)) : std::move(found));
    at = std::max(at, chunks_[i].end());
  }
  if (at < end) check_gap(bytes.subspan(at - begin), at);
}

template <typename Use>
Status PartVerifier::in_pieces(uint64_t begin, uint64_t end, MutableBytes buffer, Use&& use) const {
  CKPT_ASSIGN(const checkpoint::PartReader file, this->file());
  for (uint64_t size; begin < end; begin += size) {
    CKPT_TRY(job_.check());
    size = std::min<uint64_t>(buffer.size(), end - begin);
    Status status = checkpoint::plain_read(job_, *file, begin, buffer.first(size));
    if (!status.ok()) return checkpoint_.at_part(std::move(status), number_);
    use(begin, buffer.first(size));
  }
  return Ok();
}

Status PartVerifier::read_gap(uint64_t begin, uint64_t end, MutableBytes buffer) const {
  return in_pieces(begin, end, buffer, [this](uint64_t offset, Bytes bytes) { check_gap(bytes, offset); });
}

Status PartVerifier::read_long(size_t number, MutableBytes buffer) const {
  codec::Hasher hasher;
  const OwnedChunk& owned = chunks_[number];
  CKPT_TRY(in_pieces(owned.chunk->offset(), owned.end(), buffer, [&](uint64_t, Bytes bytes) { hasher.update(bytes); }));
  checked(number, checkpoint::check_digest(*owned.chunk, hasher.digest()));
  return Ok();
}

Status PartVerifier::read(const Batch& batch, MutableBytes buffer) const {
  uint64_t at = batch.begin;
  for (size_t i = batch.first, last = batch.first + batch.count; i < last;) {
    if (chunks_[i].chunk->offset() < at) {  // an overlap, reported already
      i++;
      continue;
    }
    if (chunks_[i].end() - at > buffer.size()) {
      CKPT_TRY(read_gap(at, chunks_[i].chunk->offset(), buffer));
      CKPT_TRY(read_long(i, buffer));
      at = chunks_[i++].end();
      continue;
    }
    size_t first = i;
    uint64_t end = at;
    for (; i < last && chunks_[i].end() - at <= buffer.size(); i++) end = std::max(end, chunks_[i].end());
    CKPT_TRY(
        in_pieces(at, end, buffer, [&](uint64_t begin, Bytes bytes) { check_bytes(first, i - first, begin, bytes); }));
    at = end;
  }
  return read_gap(at, batch.end, buffer);
}

}  // namespace ckpt::maintain

// Carries out a load plan: a few threads read chunks, check them while they are in cache, decode and scatter them.
#include <algorithm>
#include <cstring>

#include "checkpoint/chunk_io.h"
#include "codec/checksum.h"
#include "load/load.h"

namespace ckpt::load {
namespace {

class LoadReader final : public checkpoint::PipelineWork {
 public:
  LoadReader(const checkpoint::Checkpoint& checkpoint, const LoadPlan& plan, const ReadOptions& options, Job& job)
      : checkpoint_(checkpoint),
        plan_(plan),
        verify_(options.verify || checkpoint.store().traits().cached),
        remote_(checkpoint.store().traits().remote),
        transfers_(options.transfers),
        job_(job),
        limits_(limits_of(plan, options.threads, options.staging_bytes)) {}
  Status run();

  Result<checkpoint::PipelineRead> describe(size_t number) override;
  Status arrived(size_t number, Bytes bytes, unsigned worker) override;
  Status read(size_t number, unsigned worker) override;
  bool may_pad(uint64_t bytes) override;

 private:
  // The buffers of a thread, made when they are first needed.
  struct Worker {
    Mapping stored, raw;
    codec::CodecScratch scratch;
  };
  const fb::Chunk& chunk(size_t number) const { return plan_.chunk_of(plan_.reads[number]); }
  Result<checkpoint::PartReader> file(const GroupedRead& group) const;
  uint64_t end_of(const GroupedRead& group) const;
  size_t piece_end(size_t first, size_t end) const;
  Status read_straight(const GroupedRead& group, const store::Reader& file);
  Status read_long(size_t number, const store::Reader& file, std::byte* target);
  Status read_buffered(const GroupedRead& group, const store::Reader& file, Worker& worker);
  Status finish_straight(size_t number, std::byte* bytes);
  Status finish_chunk(size_t number, Bytes stored, Worker& worker);
  Status ask_again(size_t number, MutableBytes out);
  Status put_chunk(const ChunkRead& read, Bytes stored, Worker& worker);
  Result<uint64_t> scatter(const ChunkRead& read, const Overlap& overlap, Bytes raw) const;
  uint64_t place_rows(const StoredSegment& segment, const WantedBox& wanted, const uint64_t* places, uint64_t first,
                      Bytes raw) const;
  Status explain(size_t number, Status status) const;
  void done(const GroupedRead& group);

  const checkpoint::Checkpoint& checkpoint_;
  const LoadPlan& plan_;
  const bool verify_, remote_;
  device::Transfers* const transfers_;
  Job& job_;
  const LoadLimits limits_;
  std::vector<GroupedRead> groups_;
  std::vector<Worker> workers_;
  std::atomic<uint64_t> units_done_{0};
  std::atomic<int64_t> padding_{0};  // the padding that may still be read
};

Status LoadReader::explain(size_t number, Status status) const {
  if (status.ok()) return status;
  const ChunkRead& read = plan_.reads[number];
  return checkpoint::at_chunk(checkpoint_, plan_.piece_of(read), plan_.chunk_of(read), std::move(status));
}

Result<checkpoint::PartReader> LoadReader::file(const GroupedRead& group) const {
  const ChunkRead& read = plan_.reads[group.first];
  auto file = checkpoint_.part(read.file);
  if (file.ok()) return file;
  return std::move(file).status().with("tensor", std::string(plan_.name_of(read)));
}

uint64_t LoadReader::end_of(const GroupedRead& group) const {
  const fb::Chunk& last = chunk(group.first + group.count - 1);
  return last.offset() + last.stored_size();
}

Result<checkpoint::PipelineRead> LoadReader::describe(size_t number) {
  const GroupedRead& group = groups_[number];
  CKPT_ASSIGN(checkpoint::PartReader file, this->file(group));
  uint64_t offset = chunk(group.first).offset();
  return checkpoint::PipelineRead{std::move(file), offset, end_of(group) - offset, group.target};
}

bool LoadReader::may_pad(uint64_t bytes) {
  int64_t size = static_cast<int64_t>(bytes);
  const int64_t left = padding_ -= size;
  if (left >= 0) return true;
  padding_ += size;
  return false;
}

static Status ensure(Mapping& mapping, uint64_t bytes) {
  if (!mapping.bytes().empty()) return Ok();
  CKPT_ASSIGN(mapping, Mapping::make(bytes));
  return Ok();
}

// ---- reads from the page cache, in pieces that stay in the processor's cache until they were worked on ----

Status LoadReader::read(size_t number, unsigned worker) {
  const GroupedRead& group = groups_[number];
  CKPT_ASSIGN(const checkpoint::PartReader file, this->file(group));
  CKPT_TRY(group.target ? read_straight(group, *file) : read_buffered(group, *file, workers_[worker]));
  done(group);
  return Ok();
}

// Chunks [first, result) are read by one call. At least one chunk.
size_t LoadReader::piece_end(size_t first, size_t end) const {
  size_t next = first + 1;
  while (next < end &&
         chunk(next).offset() + chunk(next).stored_size() - chunk(first).offset() <= checkpoint::kCachePiece)
    next++;
  return next;
}

Status LoadReader::read_straight(const GroupedRead& group, const store::Reader& file) {
  const uint64_t begin = chunk(group.first).offset();
  for (size_t i = group.first, end = group.first + group.count; i < end;) {
    uint64_t offset = chunk(i).offset();
    if (chunk(i).stored_size() > checkpoint::kCachePiece) {
      CKPT_TRY(explain(i, read_long(i, file, group.target + (offset - begin))));
      units_done_ += chunk(i).raw_size() / plan_.segment_of(plan_.reads[i]).width;
      i++;
      continue;
    }
    size_t stop = piece_end(i, end);
    uint64_t size = chunk(stop - 1).offset() + chunk(stop - 1).stored_size() - offset;
    CKPT_TRY(explain(i, checkpoint::plain_read(job_, file, offset, {group.target + (offset - begin), size})));
    for (; i < stop; i++) CKPT_TRY(finish_straight(i, group.target + (chunk(i).offset() - begin)));
  }
  return Ok();
}

Status LoadReader::read_long(size_t number, const store::Reader& file, std::byte* target) {
  const fb::Chunk& chunk = this->chunk(number);
  codec::Hasher hasher;
  for (uint64_t at = 0, size; at < chunk.stored_size(); at += size) {
    size = std::min<uint64_t>(checkpoint::kCachePiece, chunk.stored_size() - at);
    MutableBytes part(target + at, size);
    CKPT_TRY(checkpoint::plain_read(job_, file, chunk.offset() + at, part));
    if (verify_) hasher.update(part);
  }
  Status checked = verify_ ? checkpoint::check_digest(chunk, hasher.digest()) : Ok();
  if (checked.code() != CKPT_CORRUPT || !remote_) return checked;
  const MutableBytes whole(target, chunk.stored_size());
  CKPT_TRY(ask_again(number, whole));
  return checkpoint::check_chunk(chunk, whole);
}

Status LoadReader::read_buffered(const GroupedRead& group, const store::Reader& file, Worker& worker) {
  CKPT_TRY(ensure(worker.stored, limits_.stored_bytes));
  for (size_t i = group.first, end = group.first + group.count; i < end;) {
    size_t stop = piece_end(i, end);
    uint64_t offset = chunk(i).offset(), size = chunk(stop - 1).offset() + chunk(stop - 1).stored_size() - offset;
    MutableBytes bytes = worker.stored.bytes().first(size);
    CKPT_TRY(explain(i, checkpoint::plain_read(job_, file, offset, bytes)));
    for (; i < stop; i++)
      CKPT_TRY(finish_chunk(i, bytes.subspan(chunk(i).offset() - offset, chunk(i).stored_size()), worker));
  }
  return Ok();
}

// ---- bytes that are in memory ----

Status LoadReader::arrived(size_t number, Bytes bytes, unsigned worker) {
  const GroupedRead& group = groups_[number];
  const uint64_t begin = chunk(group.first).offset();
  bool in_place = bytes.data() == group.target;
  for (size_t i = group.first; i < group.first + group.count; i++) {
    uint64_t at = chunk(i).offset() - begin;
    CKPT_TRY(in_place ? finish_straight(i, group.target + at)
                      : finish_chunk(i, bytes.subspan(at, chunk(i).stored_size()), workers_[worker]));
  }
  done(group);
  return Ok();
}

void LoadReader::done(const GroupedRead& group) {
  uint64_t raw = 0;
  for (size_t i = group.first; i < group.first + group.count; i++) raw += chunk(i).raw_size();
  job_.counters.bytes_done += raw;
}

// A raw chunk that is in its place already.
Status LoadReader::finish_straight(size_t number, std::byte* bytes) {
  const fb::Chunk& chunk = this->chunk(number);
  if (verify_) {
    const MutableBytes stored(bytes, chunk.stored_size());
    Status checked = checkpoint::check_chunk(chunk, stored);
    if (checked.code() == CKPT_CORRUPT && remote_) {
      CKPT_TRY(explain(number, ask_again(number, stored)));
      checked = checkpoint::check_chunk(chunk, stored);
    }
    CKPT_TRY(explain(number, std::move(checked)));
  }
  units_done_ += chunk.raw_size() / plan_.segment_of(plan_.reads[number]).width;
  return Ok();
}

Status LoadReader::finish_chunk(size_t number, Bytes stored, Worker& worker) {
  Status put = put_chunk(plan_.reads[number], stored, worker);
  if (put.code() == CKPT_CORRUPT && remote_) {
    std::vector<std::byte> again(stored.size());
    CKPT_TRY(explain(number, ask_again(number, again)));
    put = put_chunk(plan_.reads[number], again, worker);
  }
  return explain(number, std::move(put));
}

// For a chunk that did not match: its bytes may have been damaged on their way.
Status LoadReader::ask_again(size_t number, MutableBytes out) {
  CKPT_ASSIGN(const checkpoint::PartReader file, checkpoint_.part(plan_.reads[number].file));
  return checkpoint::read_again(job_, *file, chunk(number).offset(), out);
}

// Checks, decodes and scatters a chunk whose stored bytes are in a buffer.
Status LoadReader::put_chunk(const ChunkRead& read, Bytes stored, Worker& worker) {
  const fb::Chunk& chunk = plan_.chunk_of(read);
  const StoredSegment& segment = plan_.segment_of(read);
  std::byte* target = plan_.whole_target(read);
  const uint64_t units = chunk.raw_size() / segment.width;
  if (target && checkpoint::stored_raw(chunk)) {
    // Copies and hashes in one pass over memory.
    if (verify_)
      CKPT_TRY(checkpoint::check_digest(chunk, codec::copy_xxh3_128(stored.data(), target, stored.size())));
    else
      std::memcpy(target, stored.data(), stored.size());
    units_done_ += units;
    return Ok();
  }
  if (verify_) CKPT_TRY(checkpoint::check_chunk(chunk, stored));
  if (target) {
    CKPT_TRY(checkpoint::decode_chunk(*segment.piece.segment, stored, {target, chunk.raw_size()}, worker.scratch));
    units_done_ += units;
    return Ok();
  }
  Bytes raw = stored;
  if (!checkpoint::stored_raw(chunk)) {
    CKPT_TRY(ensure(worker.raw, limits_.raw_bytes));
    MutableBytes out = worker.raw.bytes().first(chunk.raw_size());
    CKPT_TRY(checkpoint::decode_chunk(*segment.piece.segment, stored, out, worker.scratch));
    raw = out;
  }
  for (uint32_t number : plan_.targets_of(read)) {
    CKPT_ASSIGN(const uint64_t copied, scatter(read, plan_.overlaps[number], raw));
    units_done_ += copied;
  }
  return Ok();
}

Result<uint64_t> LoadReader::scatter(const ChunkRead& read, const Overlap& overlap, Bytes raw) const {
  const StoredSegment& segment = plan_.segments[overlap.segment];
  const uint64_t first = plan_.first_unit(read), units = raw.size() / segment.width;
  if (overlap.count == 0) {
    const WantedBox& wanted = plan_.boxes[overlap.box];
    if (const uint64_t* places = plan_.places_of(overlap.box)) return place_rows(segment, wanted, places, first, raw);
    if (wanted.device != 0)
      return transfers_->scatter(raw, segment.dtype, plan_.box_of(segment), first, units, plan_.box_of(wanted),
                                 plan_.memory_of(wanted));
    return device::scatter(raw, segment.dtype, plan_.box_of(segment), first, units, plan_.box_of(wanted),
                           plan_.memory_of(wanted));
  }
  uint64_t begin = std::max(first, overlap.source), end = std::min(first + units, overlap.source + overlap.count);
  std::memcpy(overlap.to + (begin - overlap.source) * segment.width, raw.data() + (begin - first) * segment.width,
              (end - begin) * segment.width);
  return end - begin;
}

// A chunk may begin and end within a row.
uint64_t LoadReader::place_rows(const StoredSegment& segment, const WantedBox& wanted, const uint64_t* places,
                                uint64_t first, Bytes raw) const {
  const Box stored = plan_.box_of(segment), box = plan_.box_of(wanted);
  const uint64_t row_units = stored.volume() / stored.extent[0], row_bytes = row_units * segment.width;
  const uint64_t begin = (box.offset[0] - stored.offset[0]) * row_units, end = begin + box.extent[0] * row_units;
  const uint64_t from = std::max(first, begin), to = std::min(first + raw.size() / segment.width, end);
  for (uint64_t at = from, count = 0; at < to; at += count) {
    const uint64_t row = (at - begin) / row_units, before = at % row_units;
    count = std::min(row_units - before, to - at);
    std::memcpy(wanted.data + places[row] * row_bytes + before * segment.width,
                raw.data() + (at - first) * segment.width, count * segment.width);
  }
  return to - from;
}

// ---- the whole load ----

Status LoadReader::run() {
  groups_ = group_reads(plan_, limits_.pipeline.buffer_bytes);
  padding_ = static_cast<int64_t>(plan_.bytes_allowed);
  for (const GroupedRead& group : groups_)
    padding_ -= static_cast<int64_t>(end_of(group) - chunk(group.first).offset());
  checkpoint::PipelineLimits limits = limits_.pipeline;
  limits.threads = static_cast<unsigned>(std::min<size_t>(limits.threads, std::max<size_t>(groups_.size(), 1)));
  workers_.resize(limits.threads);
  job_.counters.threads = limits.threads;
  job_.counters.chunk_count += plan_.reads.size();
  CKPT_TRY(checkpoint::run_pipeline(checkpoint_.store(), *this, groups_.size(), limits, job_));
  for (const Worker& worker : workers_)
    job_.counters.staging_peak_bytes += worker.stored.bytes().size() + worker.raw.bytes().size();
  if (units_done_ == plan_.units) return Ok();
  return Status(CKPT_INTERNAL, strformat("{} of {} elements were written", units_done_.load(), plan_.units));
}

}  // namespace

Status execute_reads(const checkpoint::Checkpoint& checkpoint, const LoadPlan& plan, const ReadOptions& options,
                     Job& job) {
  return LoadReader(checkpoint, plan, options, job).run();
}

}  // namespace ckpt::load

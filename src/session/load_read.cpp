// Carrying out a load plan: chunks are read, checked while they are in cache, decoded and scattered, by a few threads.
#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "format/checksum.h"
#include "format/codec.h"
#include "format/names.h"
#include "plan/box.h"
#include "session/load.h"

namespace ckpt::session {

static constexpr uint64_t kMaxIo = 4 << 20;    // neighbouring chunks are read together up to this
static constexpr uint64_t kMinDirect = 65536;  // smaller chunks are cheaper read together and copied
static constexpr uint64_t kMaxGap =
    kAlign;  // over gaps that alignment leaves, no more: what is read must have been asked for

Status check_chunk(const fb::Chunk& chunk, Bytes stored) {
  Digest found = format::xxh3_128(stored), expected = format::id_of(chunk.digest());
  if (found == expected) return Ok();
  return Status(CKPT_CORRUPT, strprintf("%u bytes at %llu: expected XXH3-128 %s, found %s", chunk.stored_size(),
                                        static_cast<unsigned long long>(chunk.offset()), to_hex(expected).c_str(),
                                        to_hex(found).c_str()))
      .with("offset", uint64_t{chunk.offset()})
      .with("expected", to_hex(expected))
      .with("found", to_hex(found));
}

static Status at_chunk(const Checkpoint& checkpoint, const ChunkRead& read, Status status) {
  std::string name(checkpoint.index().text(read.tensor->name()));
  status = checkpoint.at_part(std::move(status), read.part);
  return std::move(status)
      .in("tensor \"" + name + "\"")
      .with("tensor", name)
      .with("offset", uint64_t{read.chunk->offset()});
}

static Status decode(const fb::Chunk& chunk, const format::CodecSpec& spec, Bytes stored, MutableBytes raw) {
  if (chunk.stored_size() == chunk.raw_size()) {
    if (stored.data() != raw.data()) std::memcpy(raw.data(), stored.data(), raw.size());
    return Ok();
  }
  thread_local format::CodecScratch scratch;
  return format::decode_chunk(spec, stored, raw, scratch);
}

Status read_chunk(const Checkpoint& checkpoint, uint32_t part, const fb::Chunk& chunk, Codec codec, Filter filter,
                  int filter_width, bool verify, MutableBytes raw, std::vector<std::byte>& stored) {
  CKPT_ASSIGN(const store::Reader* file, checkpoint.part(part));
  stored.resize(std::max<size_t>(stored.size(), chunk.stored_size()));
  MutableBytes bytes(stored.data(), chunk.stored_size());
  Status status = file->read_at(chunk.offset(), bytes);
  if (status.ok() && verify) status = check_chunk(chunk, bytes);
  if (status.ok()) status = decode(chunk, {codec, filter, filter_width}, bytes, raw);
  return status.ok() ? status : checkpoint.at_part(std::move(status), part);
}

Status read_object(const Checkpoint& checkpoint, const fb::Object& object, MutableBytes out) {
  const format::Index& index = checkpoint.index();
  if (object.placement() == 0) {
    if (object.size() != 0) std::memcpy(out.data(), index.inline_data.data() + object.inline_offset(), object.size());
    return Ok();
  }
  std::vector<std::byte> stored;
  uint64_t at = 0;
  for (const fb::Chunk& chunk : index.chunks_of(object)) {
    Status status = read_chunk(checkpoint, object.part(), chunk, Codec::kRaw, Filter::kNone, 0, true,
                               out.subspan(at, chunk.raw_size()), stored);
    if (!status.ok()) {
      std::string name(index.text(object.name()));
      return std::move(status).in("object \"" + name + "\"").with("tensor", name);
    }
    at += chunk.raw_size();
  }
  return Ok();
}

class ReadExecutor {
 public:
  ReadExecutor(const Checkpoint& checkpoint, const LoadPlan& plan, const ReadOptions& options, Job& job)
      : checkpoint_(checkpoint), plan_(plan), options_(options), job_(job) {}
  Status run();

 private:
  // Reads that are neighbours in a part and are made with one request.
  struct Io {
    size_t first, count;
  };
  void group();
  Status work(const std::atomic<bool>& stop);
  Status read_io(const Io& io, device::Mapping& buffer, device::Mapping& raw);
  std::byte* direct_target(const ChunkRead& read) const;
  Status finish_chunk(const ChunkRead& read, Bytes stored, device::Mapping& raw);
  Status ensure(device::Mapping& mapping, uint64_t bytes);

  const Checkpoint& checkpoint_;
  const LoadPlan& plan_;
  const ReadOptions& options_;
  Job& job_;
  std::vector<Io> ios_;
  std::vector<std::byte*> direct_;  // of each read; null where it goes through a buffer
  std::atomic<size_t> next_{0};
  std::atomic<uint64_t> units_done_{0};
  uint64_t max_io_ = kMaxIo;
};

void ReadExecutor::group() {
  max_io_ = std::clamp<uint64_t>(options_.staging_bytes / std::max(1u, options_.threads) / 2, 1 << 20, kMaxIo);
  uint64_t begin = 0, end = 0;
  direct_.resize(plan_.reads.size());
  for (size_t i = 0; i < plan_.reads.size(); i++) {
    const ChunkRead& read = plan_.reads[i];
    direct_[i] = direct_target(read);
    uint64_t offset = read.chunk->offset(), stop = offset + read.chunk->stored_size();
    bool joins = !ios_.empty() && plan_.reads[i - 1].part == read.part && offset >= end && offset - end < kMaxGap &&
                 stop - begin <= max_io_ && !direct_[i] && !direct_[i - 1];
    if (joins)
      ios_.back().count++;
    else {
      ios_.push_back({i, 1});
      begin = offset;
    }
    end = stop;
  }
}

// Where a chunk may be read to without a stop: it is raw, one box wants all of it, and in one piece.
std::byte* ReadExecutor::direct_target(const ChunkRead& read) const {
  if (read.wanted_count != 1 || read.chunk->stored_size() != read.chunk->raw_size() ||
      read.chunk->raw_size() < kMinDirect)
    return nullptr;
  const WantedBox& wanted = plan_.boxes[plan_.targets[read.wanted_first]];
  const format::Index& index = checkpoint_.index();
  Geometry geometry = *geometry_of(read.tensor->dtype(), index.shape_of(*read.tensor));
  if (wanted.memory.dtype != geometry.dtype) return nullptr;
  Region region = *to_units(geometry, read.tensor->dtype(), index.shape_of(*read.tensor),
                            index.region_of(*read.segment, read.tensor->ndim()));
  Order order = order_of(geometry, region);
  uint64_t units = read.chunk->raw_size() / geometry.width, runs = 0, target = 0, count = 0;
  plan::for_each_run(order.box, read.first, read.first + units, wanted.box,
                     std::span(wanted.memory.strides.data(), static_cast<size_t>(wanted.memory.ndim)),
                     [&](const plan::Run& run) {
                       if (runs++ == 0) {
                         target = run.target;
                         count = run.count;
                       }
                     });
  return runs == 1 && count == units ? wanted.memory.data + target * geometry.width : nullptr;
}

Status ReadExecutor::ensure(device::Mapping& mapping, uint64_t bytes) {
  if (mapping.bytes().size() >= bytes) return Ok();
  CKPT_ASSIGN(mapping, device::Mapping::make(bytes));
  return Ok();
}

// Checks, decodes and scatters one chunk whose stored bytes are in memory.
Status ReadExecutor::finish_chunk(const ChunkRead& read, Bytes stored, device::Mapping& raw) {
  const fb::Chunk& chunk = *read.chunk;
  const fb::Segment& segment = *read.segment;
  if (options_.verify) CKPT_TRY(check_chunk(chunk, stored));
  Bytes bytes = stored;
  if (chunk.stored_size() != chunk.raw_size()) {
    CKPT_TRY(ensure(raw, chunk.raw_size()));
    MutableBytes out = raw.bytes().first(chunk.raw_size());
    CKPT_TRY(decode(
        chunk, {static_cast<Codec>(segment.codec()), static_cast<Filter>(segment.filter()), segment.filter_width()},
        stored, out));
    bytes = out;
  }
  const format::Index& index = checkpoint_.index();
  Shape shape = index.shape_of(*read.tensor);
  Geometry geometry = *geometry_of(read.tensor->dtype(), shape);
  Region region = *to_units(geometry, read.tensor->dtype(), shape, index.region_of(segment, read.tensor->ndim()));
  Order order = order_of(geometry, region);
  for (uint32_t i = 0; i < read.wanted_count; i++) {
    const WantedBox& wanted = plan_.boxes[plan_.targets[read.wanted_first + i]];
    units_done_ += device::scatter(bytes, geometry.dtype, order.box, read.first, bytes.size() / geometry.width,
                                   wanted.box, wanted.memory);
  }
  return Ok();
}

Status ReadExecutor::read_io(const Io& io, device::Mapping& buffer, device::Mapping& raw) {
  const ChunkRead &first = plan_.reads[io.first], &last = plan_.reads[io.first + io.count - 1];
  auto file = checkpoint_.part(first.part);
  if (!file.ok())
    return std::move(file).status().with("tensor", std::string(checkpoint_.index().text(first.tensor->name())));
  uint64_t offset = first.chunk->offset(), size = last.chunk->offset() + last.chunk->stored_size() - offset;
  std::byte* direct = direct_[io.first];
  if (!direct) CKPT_TRY(ensure(buffer, size));
  MutableBytes bytes(direct ? direct : buffer.bytes().data(), size);
  if (Status status = (*file)->read_at(offset, bytes); !status.ok())
    return at_chunk(checkpoint_, first, std::move(status));
  job_.counters.bytes_read += size;
  job_.counters.io_count++;
  if (direct) {
    if (options_.verify)
      if (Status status = check_chunk(*first.chunk, bytes); !status.ok())
        return at_chunk(checkpoint_, first, std::move(status));
    units_done_ += size / geometry_of(first.tensor->dtype(), checkpoint_.index().shape_of(*first.tensor))->width;
    job_.counters.bytes_done += size;
    return Ok();
  }
  for (size_t i = io.first; i < io.first + io.count; i++) {
    const ChunkRead& read = plan_.reads[i];
    Status status = finish_chunk(read, bytes.subspan(read.chunk->offset() - offset, read.chunk->stored_size()), raw);
    if (!status.ok()) return at_chunk(checkpoint_, read, std::move(status));
    job_.counters.bytes_done += read.chunk->raw_size();
  }
  return Ok();
}

Status ReadExecutor::work(const std::atomic<bool>& stop) {
  device::Mapping buffer, raw;
  for (size_t i; !stop && (i = next_++) < ios_.size();) {
    CKPT_TRY(job_.check());
    CKPT_TRY(read_io(ios_[i], buffer, raw));
  }
  uint64_t held = buffer.bytes().size() + raw.bytes().size();
  job_.counters.staging_peak_bytes += held;
  return Ok();
}

Status ReadExecutor::run() {
  group();
  unsigned threads = static_cast<unsigned>(std::min<size_t>(options_.threads, std::max<size_t>(ios_.size(), 1)));
  job_.counters.threads = threads;
  job_.counters.chunk_count = plan_.reads.size();
  CKPT_TRY(run_parallel(threads, [this](unsigned, const std::atomic<bool>& stop) { return work(stop); }));
  if (units_done_ != plan_.units)
    return Status(CKPT_INTERNAL,
                  strprintf("%llu of %llu elements were written", static_cast<unsigned long long>(units_done_.load()),
                            static_cast<unsigned long long>(plan_.units)));
  return Ok();
}

Status execute_reads(const Checkpoint& checkpoint, const LoadPlan& plan, const ReadOptions& options, Job& job) {
  return ReadExecutor(checkpoint, plan, options, job).run();
}

}  // namespace ckpt::session

// Writes one part: blocks are staged (copied or only hashed), encoded, given their place in the file, and written, by a
// few threads that take whichever step is due. Blocks get their places in order, so a part's layout does not depend on
// timing.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/parallel.h"
#include "format/checksum.h"
#include "format/framing.h"
#include "format/names.h"
#include "session/layout.h"

namespace ckpt::session {

static constexpr uint64_t kBlockBytes = 8 << 20;
static constexpr uint64_t kTrailerBytes = 64;

// A staged block on its way to the file.
struct Staged {
  std::byte* buffer = nullptr;  // null: written from the caller's memory
  Bytes source;                 // then this
};

class PartWriter {
 public:
  PartWriter(Session& session, const SaveIdentity& identity, const SaveContent& content, const SaveSettings& settings,
             bool async, Job& job)
      : session_(session), identity_(identity), content_(content), settings_(settings), async_(async), job_(job) {}
  ~PartWriter() {
    if (arena_) session_.give_arena(std::move(arena_));
  }
  Status write();

 private:
  enum class Step { kStage, kWrite, kWait, kDone };

  Status prepare();
  Status cut_arena();
  Status work(unsigned worker, const std::atomic<bool>& stop);
  Step next_step(bool prefer_staging, size_t* block, Staged* staged);
  Status stage(size_t index, Staged* staged);
  void stage_chunk(const Block& block, const Item& item, uint64_t number, std::byte* to);
  Status write_block(size_t index, const Staged& staged, unsigned worker, const std::atomic<bool>& stop);
  uint64_t encode(const Block& block, const Staged& staged, std::byte* out, format::CodecScratch& scratch);
  bool take_place(size_t index, uint64_t bytes, uint64_t* offset, const std::atomic<bool>& stop);
  Status write_tail();
  Result<std::vector<std::byte>> encode_index();
  template <typename Visit>
  void for_each_chunk(const Block& block, Visit&& visit) const;

  Session& session_;
  const SaveIdentity& identity_;
  const SaveContent& content_;
  const SaveSettings& settings_;
  const bool async_;
  Job& job_;

  PartLayout layout_;
  std::vector<fb::Chunk> chunks_;
  std::unique_ptr<store::Writer> file_;
  std::unique_ptr<device::Arena> arena_;
  unsigned threads_ = 1;
  uint64_t block_bytes_ = 0, buffer_bytes_ = 0;
  std::vector<std::byte*> encode_buffers_;  // one for each worker, where something is encoded

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte*> free_;
  std::vector<Staged> staged_;  // by block
  std::vector<uint8_t> is_staged_;
  size_t next_stage_ = 0, next_write_ = 0, next_place_ = 0, staged_count_ = 0;
  uint64_t file_end_ = kAlign;
  uint64_t buffers_in_use_ = 0;
};

// Calls visit(item, number of the chunk in its item, index of the chunk) for the chunks of a block.
template <typename Visit>
void PartWriter::for_each_chunk(const Block& block, Visit&& visit) const {
  size_t item_index = block.item_first;
  for (size_t c = block.chunk_first; c < block.chunk_first + block.chunk_count; c++) {
    while (c >= layout_.items[item_index].chunk_first + layout_.items[item_index].chunk_count) item_index++;
    const Item& item = layout_.items[item_index];
    visit(item, c - item.chunk_first, c);
  }
}

Status PartWriter::prepare() {
  uint64_t chunk_bytes = session_.plan().chunk_bytes;
  block_bytes_ = std::max(chunk_bytes, std::min(kBlockBytes, settings_.staging_bytes / 4 / kAlign * kAlign));
  CKPT_ASSIGN(layout_, lay_out(content_, {chunk_bytes, session_.plan().large_tensor_bytes, block_bytes_,
                                          settings_.compression, identity_.rank}));
  chunks_.resize(layout_.chunk_count);
  staged_.resize(layout_.blocks.size());
  is_staged_.resize(layout_.blocks.size());
  job_.counters.bytes_total = layout_.data_bytes;
  job_.counters.chunk_count = layout_.chunk_count;
  uint64_t expected = 2 * kAlign;
  bool any_encoded = false;
  for (const Block& block : layout_.blocks) {
    buffer_bytes_ = std::max(buffer_bytes_, round_up(block.raw_bytes, kAlign));
    expected += round_up(block.raw_bytes, kAlign);
    any_encoded |= block.encoded && block.raw_bytes > kBlockBytes / 2;
  }
  // A compressed part may be far smaller; reserving its raw size could fail where it would fit.
  std::string key = identity_.attempt.directory + "/" + format::part_name(identity_.rank);
  CKPT_ASSIGN(file_, session_.store().create(key, any_encoded ? 0 : expected));
  job_.counters.direct_io = file_->direct();
  return cut_arena();
}

// Cuts the budget into buffers: one for each worker to encode into, the rest to stage in.
Status PartWriter::cut_arena() {
  if (layout_.blocks.empty()) return Ok();
  bool encodes =
      std::any_of(layout_.blocks.begin(), layout_.blocks.end(), [](const Block& block) { return block.encoded; });
  threads_ = static_cast<unsigned>(std::min<size_t>(settings_.threads, layout_.blocks.size()));
  uint64_t encode_bytes = encodes ? round_up(buffer_bytes_ + format::kEncodeSlack, kAlign) : 0;
  while (threads_ > 1 && (encode_bytes + buffer_bytes_) * threads_ > settings_.staging_bytes) threads_--;
  uint64_t left = settings_.staging_bytes - std::min(settings_.staging_bytes, encode_bytes * threads_);
  uint64_t count = std::max<uint64_t>(left / buffer_bytes_, 1);
  // Without staging, more buffers than are in flight would only be colder.
  count = std::min<uint64_t>(count, async_ ? layout_.blocks.size() : 2 * threads_);
  uint64_t bytes = count * buffer_bytes_ + threads_ * encode_bytes;
  arena_ = session_.take_arena(bytes);
  if (!arena_) {
    CKPT_ASSIGN(auto mapping, device::Mapping::make(bytes));
    arena_ = std::make_unique<device::Arena>(std::move(mapping));
  }
  std::byte* at = arena_->bytes().data();
  for (uint64_t i = 0; i < count; i++, at += buffer_bytes_) free_.push_back(at);
  for (unsigned i = 0; i < threads_ && encodes; i++, at += encode_bytes) encode_buffers_.push_back(at);
  job_.counters.threads = threads_;
  return Ok();
}

Status PartWriter::write() {
  CKPT_TRY(prepare());
  if (layout_.blocks.empty())
    job_.counters.stage_us = job_.elapsed_us();
  else
    CKPT_TRY(run_parallel(threads_, [this](unsigned worker, const std::atomic<bool>& stop) {
      Status status = work(worker, stop);
      if (!status.ok()) changed_.notify_all();
      return status;
    }));
  job_.reach(CKPT_JOB_STAGED);
  return write_tail();
}

Status PartWriter::work(unsigned worker, const std::atomic<bool>& stop) {
  // In the background the caller waits for staging, so only one thread keeps the disk busy until that is done.
  bool prefer_staging = async_ && worker + 1 < std::max(threads_, 2u);
  while (!stop) {
    CKPT_TRY(job_.check());
    size_t block = 0;
    Staged staged;
    switch (next_step(prefer_staging, &block, &staged)) {
      case Step::kDone:
        return Ok();
      case Step::kWait:
        break;
      case Step::kStage: {
        CKPT_TRY(stage(block, &staged));
        std::lock_guard lock(mutex_);
        staged_[block] = staged;
        is_staged_[block] = 1;
        if (++staged_count_ == layout_.blocks.size()) {
          job_.counters.stage_us = job_.elapsed_us();
          // Blocks that are written from the caller's memory keep it ours until they are written.
          if (async_) job_.reach(CKPT_JOB_STAGED);
        }
        changed_.notify_all();
        break;
      }
      case Step::kWrite: {
        CKPT_TRY(write_block(block, staged, worker, stop));
        std::lock_guard lock(mutex_);
        if (staged.buffer) {
          free_.push_back(staged.buffer);
          buffers_in_use_--;
        }
        changed_.notify_all();
        break;
      }
    }
  }
  return Ok();
}

// Takes the next piece of work. A block to stage comes with its buffer, so that the lowest unstaged block never waits
// for one that a later block holds.
PartWriter::Step PartWriter::next_step(bool prefer_staging, size_t* block, Staged* staged) {
  std::unique_lock lock(mutex_);
  bool can_stage = next_stage_ < layout_.blocks.size() && !free_.empty();
  bool can_write = next_write_ < layout_.blocks.size() && is_staged_[next_write_];
  if (can_stage && (prefer_staging || !can_write)) {
    *block = next_stage_++;
    staged->buffer = free_.back();
    free_.pop_back();
    uint64_t in_use = ++buffers_in_use_ * buffer_bytes_ + encode_buffers_.size() * buffer_bytes_;
    if (in_use > job_.counters.staging_peak_bytes) job_.counters.staging_peak_bytes = in_use;
    return Step::kStage;
  }
  if (can_write) {
    *block = next_write_++;
    *staged = staged_[*block];
    return Step::kWrite;
  }
  if (next_write_ == layout_.blocks.size()) return Step::kDone;
  changed_.wait_for(lock, std::chrono::milliseconds(50));
  return Step::kWait;
}

void PartWriter::stage_chunk(const Block& block, const Item& item, uint64_t number, std::byte* to) {
  uint64_t size = chunk_raw_size(item, number);
  size_t index = item.chunk_first + number;
  Bytes source = contiguous_source(item, number, 1);
  Digest digest;
  if (!source.empty() && !block.encoded) {
    digest = format::copy_xxh3_128(source.data(), to, size);
  } else {
    if (!source.empty())
      std::memcpy(to, source.data(), size);
    else {
      uint64_t width = item.tensor->geometry.width;
      device::gather(item.tensor->memory, item.tensor->memory_extent, item.first + number * item.chunk_raw / width,
                     size / width, {to, size});
    }
    if (!block.encoded) digest = format::xxh3_128({to, size});
  }
  chunks_[index] = fb::Chunk(0, static_cast<uint32_t>(size), static_cast<uint32_t>(size), format::digest_of(digest));
}

// Brings a block's raw bytes into its buffer, or, where they may be written from where they are, only hashes them.
Status PartWriter::stage(size_t index, Staged* staged) {
  const Block& block = layout_.blocks[index];
  const Item& first = layout_.items[block.item_first];
  uint64_t number = block.chunk_first - first.chunk_first;
  if (!async_ && !block.encoded && block.chunk_first + block.chunk_count <= first.chunk_first + first.chunk_count) {
    Bytes source = contiguous_source(first, number, block.chunk_count);
    bool aligned = reinterpret_cast<uintptr_t>(source.data()) % kAlign == 0 && source.size() % kAlign == 0;
    if (!source.empty() && (aligned || !file_->direct())) {
      for_each_chunk(block, [&](const Item& item, uint64_t n, size_t c) {
        Bytes bytes = contiguous_source(item, n, 1);
        uint32_t size = static_cast<uint32_t>(bytes.size());
        chunks_[c] = fb::Chunk(0, size, size, format::digest_of(format::xxh3_128(bytes)));
      });
      std::lock_guard lock(mutex_);
      free_.push_back(staged->buffer);
      buffers_in_use_--;
      *staged = {nullptr, source};
      return Ok();
    }
  }
  uint64_t at = 0;
  for_each_chunk(block, [&](const Item& item, uint64_t n, size_t) {
    uint64_t place = place_chunk(item, n, at);
    std::memset(staged->buffer + at, 0, place - at);
    stage_chunk(block, item, n, staged->buffer + place);
    at = place + chunk_raw_size(item, n);
  });
  std::memset(staged->buffer + at, 0, round_up(at, kAlign) - at);
  return Ok();
}

// Encodes a staged block into `out`; returns its size and leaves each chunk's place in the block in its offset.
uint64_t PartWriter::encode(const Block& block, const Staged& staged, std::byte* out, format::CodecScratch& scratch) {
  uint64_t raw_at = 0, at = 0;
  for_each_chunk(block, [&](const Item& item, uint64_t n, size_t c) {
    uint64_t raw_place = place_chunk(item, n, raw_at), place = place_chunk(item, n, at);
    uint64_t size = chunk_raw_size(item, n);
    std::memset(out + at, 0, place - at);
    uint64_t stored = format::encode_chunk(item.codec, {staged.buffer + raw_place, size},
                                           {out + place, size + format::kEncodeSlack}, scratch);
    chunks_[c] = fb::Chunk(place, static_cast<uint32_t>(stored), static_cast<uint32_t>(size),
                           format::digest_of(format::xxh3_128({out + place, stored})));
    raw_at = raw_place + size;
    at = place + stored;
  });
  uint64_t end = round_up(at, kAlign);
  std::memset(out + at, 0, end - at);
  return end;
}

// Waits for the blocks before to have their places, then takes the next one. False once another thread failed.
bool PartWriter::take_place(size_t index, uint64_t bytes, uint64_t* offset, const std::atomic<bool>& stop) {
  std::unique_lock lock(mutex_);
  while (next_place_ != index) {
    if (stop) return false;
    changed_.wait_for(lock, std::chrono::milliseconds(50));
  }
  *offset = file_end_;
  file_end_ += bytes;
  next_place_++;
  changed_.notify_all();
  return true;
}

Status PartWriter::write_block(size_t index, const Staged& staged, unsigned worker, const std::atomic<bool>& stop) {
  const Block& block = layout_.blocks[index];
  Bytes data = staged.buffer ? Bytes(staged.buffer, round_up(block.raw_bytes, kAlign)) : staged.source;
  if (block.encoded) {
    thread_local format::CodecScratch scratch;
    data = {encode_buffers_[worker], encode(block, staged, encode_buffers_[worker], scratch)};
  }
  uint64_t offset;
  if (!take_place(index, round_up(data.size(), kAlign), &offset, stop)) return Ok();
  uint64_t at = 0, raw = 0;
  for_each_chunk(block, [&](const Item& item, uint64_t n, size_t c) {
    fb::Chunk& chunk = chunks_[c];
    uint64_t place = block.encoded ? chunk.offset() : place_chunk(item, n, at);
    chunk = fb::Chunk(offset + place, chunk.stored_size(), chunk.raw_size(), chunk.digest());
    at = place + chunk.stored_size();
    raw += chunk.raw_size();
  });
  CKPT_TRY(file_->write_at(offset, data));
  job_.counters.bytes_written += data.size();
  job_.counters.bytes_done += raw;
  job_.counters.io_count++;
  return Ok();
}

// ---- the part's own index ----

static void add_objects(format::IndexBuilder& builder, const SaveContent& content, const PartLayout& layout,
                        std::span<const fb::Chunk> chunks, uint32_t rank) {
  size_t i = 0;
  for (const auto& [name, object] : content.objects) {
    size_t item = layout.object_items[i++];
    bool declared = object.scope == CKPT_OBJECT_SHARED && rank != 0;
    bool inlined = !declared && item == kNoItem;
    builder.add_object(
        {.name = name,
         .media_type = object.media_type,
         .scope = object.scope,
         .placement = static_cast<uint8_t>(declared  ? 2
                                           : inlined ? 0
                                                     : 1),
         .rank = object.scope == CKPT_OBJECT_PER_RANK ? rank : 0,
         .part = rank,
         .size = object.data.size(),
         .digest = format::xxh3_128(object.data),
         .inline_bytes = inlined ? Bytes(object.data) : Bytes(),
         .chunks = item == kNoItem ? std::span<const fb::Chunk>()
                                   : chunks.subspan(layout.items[item].chunk_first, layout.items[item].chunk_count)});
  }
}

Result<std::vector<std::byte>> PartWriter::encode_index() {
  format::IndexBuilder builder;
  builder.summary = identity_.summary;
  std::span<const fb::Chunk> chunks(chunks_);
  uint32_t rank = identity_.rank;
  size_t next = 0;
  for (const SaveTensor& tensor : content_.tensors) {
    bool here = next < layout_.items.size() && layout_.items[next].tensor == &tensor;
    if (!here && tensor.bytes != 0) continue;
    builder.add_tensor(tensor.name, tensor.dtype, tensor.shape);
    for (; next < layout_.items.size() && layout_.items[next].tensor == &tensor; next++) {
      const Item& item = layout_.items[next];
      bool filtered = item.codec.codec != Codec::kRaw && item.codec.filter != Filter::kNone;
      builder.add_segment(rank, to_elements(tensor.geometry, tensor.dtype, tensor.shape, item.units), tensor.shape,
                          item.codec.codec, item.codec.filter, filtered ? item.codec.filter_width : 0,
                          chunks.subspan(item.chunk_first, item.chunk_count));
    }
  }
  for (const auto& [name, alias] : content_.aliases)
    builder.add_alias(name, alias.target, alias.is_view, alias.view, alias.ndim);
  add_objects(builder, content_, layout_, chunks, rank);
  for (const auto& [owner, values] : content_.attrs) {
    if (owner.empty() && rank != 0) continue;
    for (const auto& [key, value] : values) builder.add_attr(owner, key, value);
  }
  for (const GroupPlan& group : layout_.groups)
    builder.add_group(group.id, group.index, group.count, group.digest, group.entries,
                      chunks_[layout_.items[group.item].chunk_first]);
  return builder.encode();
}

// Header, index and trailer; then the part is made durable and gets its name, which is the receipt.
Status PartWriter::write_tail() {
  CKPT_ASSIGN(auto index, encode_index());
  const format::Summary& summary = identity_.summary;
  auto header = format::encode_part_header({summary.revision, summary.save_id, identity_.rank, summary.world_size,
                                            summary.store_id, summary.token, summary.attempt});
  auto trailer = format::encode_part_trailer({file_end_, index.size(), format::xxh3_128(index), summary.save_id});
  uint64_t tail_bytes = round_up(index.size() + kTrailerBytes, kAlign);
  CKPT_ASSIGN(auto mapping, device::Mapping::make(kAlign + tail_bytes));
  MutableBytes head = mapping.bytes().first(kAlign), tail = mapping.bytes().subspan(kAlign, tail_bytes);
  std::memcpy(head.data(), header.data(), header.size());
  std::memcpy(tail.data(), index.data(), index.size());
  std::memcpy(tail.data() + tail_bytes - kTrailerBytes, trailer.data(), kTrailerBytes);
  CKPT_TRY(file_->write_at(0, head));
  CKPT_TRY(file_->write_at(file_end_, tail));
  job_.counters.bytes_written += head.size() + tail.size();
  job_.counters.io_count += 2;
  CKPT_TRY(job_.check());
  return file_->publish(file_end_ + tail_bytes);
}

Status write_part(Session& session, const SaveIdentity& identity, SaveContent& content, const SaveSettings& settings,
                  bool async, Job& job) {
  PartWriter writer(session, identity, content, settings, async, job);
  return writer.write();
}

}  // namespace ckpt::session

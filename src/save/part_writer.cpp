// Writes one part. A few threads stage its blocks (copy and hash them, only hash them, or encode them). The blocks get
// their places in the file in order, so that a part's layout does not depend on timing. A queue writes them and keeps
// several transfers in flight: the disk never waits for a hash, and no thread waits for the disk. Where rows of tables
// are gathered there are more threads instead, which write what they staged. If the save copies, one thread more opens
// the attempt and the file meanwhile.
#include "save/part_writer.h"

#include <cstring>
#include <mutex>

#include "base/parallel.h"
#include "codec/checksum.h"
#include "format/framing.h"
#include "format/names.h"
#include "save/part_index.h"
#include "save/part_stage.h"
#include "save/staging_buffers.h"
#include "store/io_queue.h"

namespace ckpt::save {

class PartWriter {
 public:
  PartWriter(session::Session& session, const SaveIdentity& identity, const SaveContent& content,
             const SaveSettings& settings, std::span<const Digest> values, device::Transfers& transfers, bool copies,
             const Opening& open_attempt, Job& job)
      : session_(session),
        identity_(identity),
        content_(content),
        settings_(settings),
        values_(values),
        transfers_(transfers),
        copies_(copies),
        open_attempt_(open_attempt),
        job_(job) {}
  ~PartWriter() {
    queue_.reset();  // nothing is in flight from here on
    transfers_.drain();
    session_.give_arena(buffers_.end());
  }
  Status write();
  // Once nothing is in flight.
  std::unique_ptr<store::Writer> give_file() {
    queue_.reset();
    return std::move(file_);
  }

 private:
  enum class Step { kOpen, kSubmit, kStage, kArrive, kEncode, kWait, kDone };
  enum class Phase : uint8_t { kUntouched, kFetching, kCopied, kReady };
  struct BlockState {
    Phase phase = Phase::kUntouched;
    std::byte* buffer = nullptr;  // null: written from the caller's memory
    Bytes data;                   // what to write, once it is ready
    uint64_t offset = 0;          // its place in the file, once it is submitted
    device::Fences fences{};      // of what is on its way from devices
  };

  Status prepare();
  Status lay_out_in(uint64_t block_bytes);
  // What of so much memory is for buffers; the rest is for the store's writer.
  uint64_t budget(uint64_t all) const { return all - std::min(traits_.copied_bytes, all / 2); }
  Status make_buffers(bool encodes);
  Status populate(std::byte* buffer);
  Status open();
  Status go_on();
  Status write_blocks();
  Status work(unsigned worker, const std::atomic<bool>& stop);
  Status take(Step step, size_t block, std::byte* buffer, StageScratch& scratch);
  Step next_step(unsigned worker, size_t* block, std::byte** buffer);
  Step next_work(size_t* block, std::byte** buffer);
  Step begin_opening();
  Step end_refused();
  bool stays_in_place(size_t index) const;
  std::vector<std::vector<Bytes>> sources() const;
  Status wait_for_memory(size_t index);
  Status stage(size_t index, std::byte* buffer, StageScratch& scratch);
  Status fetch(size_t index, std::byte* buffer);
  Status arrive(size_t index, StageScratch& scratch);
  bool keeps_copy(const Block& block) const { return copies_ || block.on_device; }
  void look_whether_staged();
  Status encode(size_t index, std::byte* buffer, StageScratch& scratch);
  void finish_stage(size_t index, BlockState state, bool staged);
  void submit(size_t index);
  void written(size_t index, Status status);
  Status write_header();
  Status write_tail();

  session::Session& session_;
  const SaveIdentity& identity_;
  const SaveContent& content_;
  const SaveSettings& settings_;
  const std::span<const Digest> values_;
  device::Transfers& transfers_;
  const bool copies_;
  const Opening& open_attempt_;
  Job& job_;
  const store::Traits traits_ = session_.store().traits();

  PartLayout layout_;
  std::vector<fb::Chunk> chunks_;
  std::unique_ptr<BlockStager> stager_;
  uint64_t expected_bytes_ = 2 * kAlign;
  std::unique_ptr<store::Writer> file_;
  unsigned threads_ = 1;  // that work at once,
  unsigned workers_ = 1;  // and all, with those that wait for the disk
  uint64_t buffer_bytes_ = 0;
  size_t reserve_ = 0;  // buffers that staging leaves to encoding

  std::mutex mutex_;
  std::condition_variable changed_;
  Status error_;
  Status refused_;  // why the file could not be opened
  StagingBuffers buffers_;
  std::vector<BlockState> blocks_;
  size_t next_stage_ = 0, next_arrive_ = 0, next_encode_ = 0, next_submit_ = 0, in_flight_ = 0, written_ = 0;
  size_t working_ = 0;               // threads that stage or encode a block
  size_t staged_ = 0, fetched_ = 0;  // blocks; the first `fetched_` blocks are known to have left devices
  bool all_staged_ = false;
  bool opening_ = false, is_open_ = false;  // the file
  uint64_t file_end_ = kAlign;
  std::unique_ptr<store::IoQueue> queue_;  // last member, so it is destroyed first
};

// ---- before the first byte ----

Status PartWriter::lay_out_in(uint64_t block_bytes) {
  CKPT_ASSIGN(layout_, lay_out(content_, {.chunk_bytes = session_.plan().chunk_bytes,
                                          .large_tensor_bytes = session_.plan().large_tensor_bytes,
                                          .block_bytes = block_bytes,
                                          .compression = settings_.compression,
                                          .rank = identity_.rank,
                                          .in_place = !copies_,
                                          .values = values_,
                                          .sampled = settings_.replicas == ReplicaCheck::kSample,
                                          .memory = settings_.memory.get(),
                                          .transfers = &transfers_,
                                          .least_block_bytes = std::min(traits_.least_block_bytes, block_bytes)}));
  return Ok();
}

Status PartWriter::prepare() {
  uint64_t chunk_bytes = session_.plan().chunk_bytes;
  const uint64_t preferred = std::max(std::min(traits_.least_block_bytes, budget(settings_.staging_bytes) / 2),
                                      std::min(traits_.block_bytes, settings_.staging_bytes / 4));
  const uint64_t block_bytes = std::max(chunk_bytes, preferred / kAlign * kAlign);
  CKPT_TRY(lay_out_in(block_bytes));
  const uint64_t larger =
      std::min(round_up(layout_.data_bytes / traits_.most_blocks, kAlign), settings_.staging_bytes / 4);
  if (larger > block_bytes) CKPT_TRY(lay_out_in(larger / kAlign * kAlign));
  CKPT_TRY(transfers_.end_bounce());
  chunks_.resize(layout_.chunk_count);
  blocks_.resize(layout_.blocks.size());
  stager_ = std::make_unique<BlockStager>(layout_, chunks_);
  job_.counters.bytes_total = layout_.data_bytes;
  job_.counters.chunk_count = layout_.chunk_count;
  bool encodes = false;
  for (const Block& block : layout_.blocks) {
    buffer_bytes_ = std::max(buffer_bytes_, round_up(block.raw_bytes, kAlign));
    expected_bytes_ += round_up(block.raw_bytes, kAlign);
    encodes |= block.encoded && keeps_copy(block);
  }
  if (settings_.memory) CKPT_TRY(settings_.memory->begin(sources()));
  return layout_.blocks.empty() ? Ok() : make_buffers(encodes);
}

std::vector<std::vector<Bytes>> PartWriter::sources() const {
  std::vector<std::vector<Bytes>> sources;
  sources.reserve(layout_.blocks.size());
  for (const Block& block : layout_.blocks) sources.push_back(stager_->sources_of(block));
  return sources;
}

// A save that copies gets a buffer for each block, if the budget allows it or there is none, and the session and the
// machine have the memory: then the caller waits for one copy, not for the disk. Any other save gets the buffers that
// can be in use at once.
Status PartWriter::make_buffers(bool encodes) {
  const size_t blocks = layout_.blocks.size();
  threads_ = static_cast<unsigned>(std::min<size_t>(settings_.threads, blocks));
  const bool grows = copies_ && settings_.staging_grows;
  const size_t at_once = threads_ + traits_.write_depth;
  const uint64_t had = session_.arena_size();
  const uint64_t all = grows ? std::max(settings_.staging_bytes, had) : settings_.staging_bytes;
  const size_t least = encodes ? 2 : 1;  // a copy, and what it is encoded to
  if (!settings_.staging_grows && least * buffer_bytes_ > all)
    return Status(CKPT_INVALID,
                  strformat("option staging_bytes: this save needs at least {}, for a block of {} and what "
                            "it is encoded to, found {}",
                            least * buffer_bytes_, buffer_bytes_, all))
        .with("expected", least * buffer_bytes_)
        .with("found", std::to_string(all));
  const size_t sure = std::max<size_t>(budget(all) / buffer_bytes_, least);
  if (encodes) reserve_ = std::clamp<size_t>(sure / 2, 1, grows ? threads_ : at_once);
  size_t count = copies_ ? blocks + reserve_ : std::min(blocks + reserve_, at_once + reserve_);
  const uint64_t room = grows ? session_.arena_room() : 0;
  count = std::min<uint64_t>(count, sure + (room < StagingBuffers::kStep ? 0 : room / buffer_bytes_));
  CKPT_ASSIGN(auto memory, session_.take_arena(count * buffer_bytes_));
  const bool fresh = copies_ && had < count * buffer_bytes_;
  buffers_ =
      StagingBuffers(std::move(memory), buffer_bytes_, count, sure, fresh, [this] { return session_.arena_room(); });
  job_.counters.threads = workers_ = threads_;
  if (blocks < 2) return Ok();
  // While rows are gathered the processors are busy, and each time that a block passes from one thread to another, it
  // waits for one of them; so does the thread of the kernel that ends what io_uring writes into a fresh file. So the
  // threads that gather rows also write them.
  if (std::ranges::any_of(content_.tables, [](const SaveTable& table) { return !table.order.empty(); })) {
    workers_ += traits_.write_depth;
    return Ok();
  }
  CKPT_ASSIGN(queue_, session_.store().make_queue(traits_.write_depth));
  job_.counters.io_engine = static_cast<uint32_t>(queue_->engine());
  return Ok();
}

// ---- the file, from front to back ----

Status PartWriter::go_on() {
  CKPT_TRY(job_.check());
  std::lock_guard lock(mutex_);
  return error_;
}

Status PartWriter::open() {
  CKPT_TRY(open_attempt_([this] { return go_on(); }));
  const std::string key = format::part_key(identity_.attempt.directory, identity_.rank);
  CKPT_ASSIGN(file_, session_.store().create(key, expected_bytes_, settings_.compression != "none"));
  job_.counters.direct_io = file_->direct();
  job_.counters.recycled = file_->recycled();
  CKPT_TRY(write_header());
  std::lock_guard lock(mutex_);
  is_open_ = true;
  changed_.notify_all();
  return Ok();
}

Status PartWriter::write_header() {
  const format::Summary& summary = identity_.summary;
  const auto header = format::encode_part_header({summary.revision, summary.save_id, identity_.rank, summary.world_size,
                                                  summary.store_id, summary.token, summary.attempt});
  alignas(kAlign) std::byte page[kAlign]{};
  std::memcpy(page, header.data(), header.size());
  CKPT_TRY(file_->write_at(0, page));
  job_.counters.bytes_written += kAlign;
  job_.counters.io_count++;
  return Ok();
}

Status PartWriter::write() {
  CKPT_TRY(prepare());
  const bool empty = layout_.blocks.empty();
  if (empty) look_whether_staged();
  // Who does not copy must know the file before the first block: whether memory can be written as it lies.
  opening_ = !copies_ || empty;
  if (opening_) CKPT_TRY(open());
  if (!empty) CKPT_TRY(write_blocks());
  queue_.reset();
  job_.reach(CKPT_JOB_STAGED);
  return write_tail();
}

Status PartWriter::write_blocks() {
  const unsigned workers = workers_ + (opening_ ? 0 : 1);  // one of them waits for the store and for other ranks first
  Status done =
      run_parallel(workers, [this](unsigned worker, const std::atomic<bool>& stop) { return work(worker, stop); });
  if (!done.ok() && file_) file_->abandon();  // a block that has its place may never be submitted
  return done;
}

Status PartWriter::work(unsigned worker, const std::atomic<bool>& stop) {
  StageScratch scratch;
  while (!stop) {
    size_t block = 0;
    std::byte* buffer = nullptr;
    const Step step = next_step(worker, &block, &buffer);
    Status status = step == Step::kDone ? Ok() : call_guarded([&] { return take(step, block, buffer, scratch); });
    std::lock_guard lock(mutex_);
    if (error_.ok()) error_ = std::move(status);
    if (!error_.ok()) changed_.notify_all();  // who opens the file asks for it
    if (step == Step::kDone || !error_.ok()) return error_;
  }
  return Ok();
}

Status PartWriter::take(Step step, size_t block, std::byte* buffer, StageScratch& scratch) {
  CKPT_TRY(job_.check());
  switch (step) {
    case Step::kSubmit:
      submit(block);
      break;
    case Step::kStage:
      return stage(block, buffer, scratch);
    case Step::kArrive:
      return arrive(block, scratch);
    case Step::kEncode:
      return encode(block, buffer, scratch);
    case Step::kOpen: {
      Status opened = open();
      std::lock_guard lock(mutex_);
      refused_ = std::move(opened);
      changed_.notify_all();
      break;
    }
    default:
      break;
  }
  return Ok();
}

PartWriter::Step PartWriter::next_step(unsigned worker, size_t* block, std::byte** buffer) {
  std::unique_lock lock(mutex_);
  if (!error_.ok() || written_ == blocks_.size()) return Step::kDone;
  look_whether_staged();
  // The first one copies: where no other thread could be had, no copy waits for the store.
  if (!opening_ && worker != 0) return begin_opening();
  if (!refused_.ok() && all_staged_) return end_refused();
  if (is_open_ && next_submit_ < blocks_.size() && blocks_[next_submit_].phase == Phase::kReady &&
      in_flight_ < traits_.write_depth) {
    *block = next_submit_++;
    blocks_[*block].offset = file_end_;
    file_end_ += round_up(blocks_[*block].data.size(), kAlign);
    in_flight_++;
    return Step::kSubmit;
  }
  if (working_ < threads_)
    if (const Step step = next_work(block, buffer); step != Step::kWait) {
      working_++;
      return step;
    }
  if (!opening_) return begin_opening();
  if (!refused_.ok() && working_ == 0) return end_refused();
  changed_.wait_for(lock, std::chrono::milliseconds(50));
  return Step::kWait;
}

PartWriter::Step PartWriter::begin_opening() {
  opening_ = true;
  return Step::kOpen;
}

PartWriter::Step PartWriter::end_refused() {
  error_ = refused_;
  return Step::kDone;
}

// Takes the next piece of work and the buffer that it needs. Blocks are taken in order, so the first block that is not
// written never waits for a buffer that a later one holds.
PartWriter::Step PartWriter::next_work(size_t* block, std::byte** buffer) {
  const size_t count = blocks_.size();
  auto take_buffer = [&] {
    *buffer = buffers_.take();
    const uint64_t in_use = buffers_.bytes_in_use();
    if (in_use > job_.counters.staging_peak_bytes) job_.counters.staging_peak_bytes = in_use;
  };
  const bool in_place = next_stage_ < count && stays_in_place(next_stage_);
  if (next_stage_ < count && (in_place || buffers_.has(reserve_ + 1))) {
    *block = next_stage_++;
    if (!in_place) take_buffer();
    return Step::kStage;
  }
  while (next_arrive_ < next_stage_ && !layout_.blocks[next_arrive_].on_device) next_arrive_++;
  if (next_arrive_ < next_stage_ && blocks_[next_arrive_].phase == Phase::kFetching) {
    *block = next_arrive_++;
    return Step::kArrive;
  }
  auto encodes_copy = [this](const Block& next) { return next.encoded && keeps_copy(next); };
  while (next_encode_ < next_stage_ && !encodes_copy(layout_.blocks[next_encode_])) next_encode_++;
  if (next_encode_ < next_stage_ && blocks_[next_encode_].phase == Phase::kCopied && buffers_.has(1)) {
    *block = next_encode_++;
    take_buffer();
    return Step::kEncode;
  }
  return Step::kWait;
}

// Whether a block is written from the caller's memory: the save does not copy, and the memory has it as the file will.
bool PartWriter::stays_in_place(size_t index) const {
  if (copies_) return false;
  Bytes source = stager_->source_of(layout_.blocks[index]);
  // Whole pages even without direct I/O: the padding of the last page must be written, since a recycled file holds old
  // bytes.
  bool whole_pages = !source.empty() && source.size() % kAlign == 0;
  return whole_pages && (!file_->direct() || reinterpret_cast<uintptr_t>(source.data()) % kAlign == 0);
}

Status PartWriter::populate(std::byte* buffer) {
  if (!buffers_.fresh()) return Ok();
  const uint64_t before = job_.elapsed_us();
  CKPT_TRY(buffers_.populate(buffer));
  job_.counters.arena_us += (job_.elapsed_us() - before) / threads_;
  return Ok();
}

// The caller's memory of a block, if it is filled only now.
Status PartWriter::wait_for_memory(size_t index) {
  if (!settings_.memory) return Ok();
  return settings_.memory->wait(index, [this]() -> Status {
    CKPT_TRY(job_.check());
    std::lock_guard lock(mutex_);
    return error_;
  });
}

Status PartWriter::stage(size_t index, std::byte* buffer, StageScratch& scratch) {
  CKPT_TRY(wait_for_memory(index));
  if (buffer) CKPT_TRY(populate(buffer));
  const Block& block = layout_.blocks[index];
  if (block.on_device) return fetch(index, buffer);
  BlockState state{Phase::kReady, buffer, {}};
  const Busy busy("read", "the memory of a tensor");  // which may be a file that a disk or a server holds
  if (!buffer) {
    stager_->hash_in_place(block);
    state.data = stager_->source_of(block);
  } else if (block.encoded && !copies_) {
    state.data = stager_->encode(block, buffer, scratch);
  } else {
    state.data = stager_->copy(block, buffer);
    if (block.encoded) state.phase = Phase::kCopied;
  }
  if (buffer && settings_.memory) settings_.memory->done(index);
  finish_stage(index, std::move(state), true);
  return Ok();
}

// Begins to copy a block from devices. Later ones are begun before it is there: the devices never wait for the host.
Status PartWriter::fetch(size_t index, std::byte* buffer) {
  CKPT_TRY(buffers_.pin(buffer, transfers_));
  BlockState state{Phase::kFetching, buffer, {}};
  CKPT_ASSIGN(state.data, stager_->fetch(layout_.blocks[index], buffer, transfers_, &state.fences));
  finish_stage(index, std::move(state), true);
  return Ok();
}

Status PartWriter::arrive(size_t index, StageScratch& scratch) {
  const Block& block = layout_.blocks[index];
  BlockState& fetched = blocks_[index];
  CKPT_TRY(fetched.fences.wait());
  stager_->finish_fetched(block, fetched.buffer, scratch);
  finish_stage(index, {block.encoded ? Phase::kCopied : Phase::kReady, fetched.buffer, fetched.data}, false);
  return Ok();
}

Status PartWriter::encode(size_t index, std::byte* buffer, StageScratch& scratch) {
  CKPT_TRY(populate(buffer));
  std::byte* copied = blocks_[index].buffer;
  Bytes data = stager_->encode_copy(layout_.blocks[index], copied, buffer, scratch);
  {
    std::lock_guard lock(mutex_);
    buffers_.give(copied);
  }
  finish_stage(index, {Phase::kReady, buffer, data}, false);
  return Ok();
}

void PartWriter::finish_stage(size_t index, BlockState state, bool staged) {
  std::lock_guard lock(mutex_);
  working_--;
  blocks_[index] = std::move(state);
  if (staged) staged_++;
  look_whether_staged();
  changed_.notify_all();
}

// Device memory may change again once its copies are there, hashed or not.
void PartWriter::look_whether_staged() {
  if (all_staged_ || staged_ != blocks_.size()) return;
  auto has_left = [](const BlockState& block) { return block.phase != Phase::kFetching || block.fences.reached(); };
  while (fetched_ < blocks_.size() && has_left(blocks_[fetched_])) fetched_++;
  if (fetched_ != blocks_.size()) return;
  all_staged_ = true;
  job_.counters.stage_us = job_.elapsed_us();
  // A save that does not copy needs the caller's memory until it is written.
  if (copies_) job_.reach(CKPT_JOB_STAGED);
}

void PartWriter::submit(size_t index) {
  const Block& block = layout_.blocks[index];
  uint64_t offset = blocks_[index].offset;
  for (size_t c = block.chunk_first; c < block.chunk_first + block.chunk_count; c++)
    chunks_[c] =
        fb::Chunk(offset + chunks_[c].offset(), chunks_[c].stored_size(), chunks_[c].raw_size(), chunks_[c].digest());
  Bytes data = blocks_[index].data;
  if (queue_)
    queue_->write(*file_, offset, data, [this, index](Status status) { written(index, std::move(status)); });
  else
    written(index, file_->write_at(offset, data));
}

void PartWriter::written(size_t index, Status status) {
  const Block& block = layout_.blocks[index];
  if (status.ok()) {
    uint64_t raw = 0;
    for (size_t c = block.chunk_first; c < block.chunk_first + block.chunk_count; c++) raw += chunks_[c].raw_size();
    job_.counters.bytes_written += blocks_[index].data.size();
    job_.counters.bytes_done += raw;
    job_.counters.io_count++;
  }
  if (!blocks_[index].buffer && settings_.memory) settings_.memory->done(index);
  std::lock_guard lock(mutex_);
  if (blocks_[index].buffer) buffers_.give(blocks_[index].buffer);
  in_flight_--;
  written_++;
  if (error_.ok()) error_ = std::move(status);
  changed_.notify_all();
}

// ---- the end ----

// Writes index and trailer. Then makes the part durable and gives it its name, which is the receipt.
Status PartWriter::write_tail() {
  CKPT_ASSIGN(auto index, encode_part_index(identity_, content_, layout_, chunks_));
  const uint64_t index_size = index.bytes.size();
  auto trailer = format::encode_part_trailer(
      {file_end_, index_size, index.root_size, index.root_digest, identity_.summary.save_id});
  uint64_t tail_bytes = round_up(index_size + trailer.size(), kAlign);
  CKPT_ASSIGN(auto mapping, Mapping::make(tail_bytes));
  MutableBytes tail = mapping.bytes().first(tail_bytes);
  std::memcpy(tail.data(), index.bytes.data(), index_size);
  std::memcpy(tail.data() + tail_bytes - trailer.size(), trailer.data(), trailer.size());
  CKPT_TRY(file_->write_at(file_end_, tail));
  job_.counters.bytes_written += tail.size();
  job_.counters.io_count++;
  // Rank 0 may commit once it is there.
  const Status if_left(CKPT_COMMIT_UNKNOWN, "rank 0 may still commit: this rank's part may be there");
  CKPT_TRY(identity_.rank == 0 ? job_.check() : job_.call->answer_if_left(if_left));
  return file_->publish(file_end_ + tail_bytes);
}

Status write_part(session::Session& session, const SaveIdentity& identity, SaveContent& content,
                  const SaveSettings& settings, std::span<const Digest> values, device::Transfers& transfers,
                  bool copies, const Opening& open_attempt, Job& job, std::unique_ptr<store::Writer>* unfinished) {
  PartWriter writer(session, identity, content, settings, values, transfers, copies, open_attempt, job);
  Status written = writer.write();
  if (!written.ok()) *unfinished = writer.give_file();
  return written;
}

}  // namespace ckpt::save

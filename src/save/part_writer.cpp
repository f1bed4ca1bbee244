// Writes one part. A few threads take whichever step a BlockSchedule says: they stage blocks (copy and hash them, only
// hash them, or encode them), and a queue writes these and keeps several transfers in flight: the disk never waits for
// a hash, and no thread waits for the disk. Where rows of tables are gathered there are more threads instead, which
// write what they staged. If the save copies, one thread more opens the attempt and the file meanwhile.
#include "save/part_writer.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/parallel.h"
#include "codec/checksum.h"
#include "format/framing.h"
#include "format/names.h"
#include "save/block_schedule.h"
#include "save/part_index.h"
#include "save/part_stage.h"
#include "save/reuse.h"
#include "store/io_queue.h"

namespace ckpt::save {

class PartWriter {
 public:
  explicit PartWriter(const PartInput& input) : in_(input) {}
  ~PartWriter() {
    queue_.reset();  // nothing is in flight from here on
    in_.transfers.drain();
    in_.session.give_arena(buffers_.end());
  }
  Status write();
  // Once nothing is in flight.
  std::unique_ptr<store::Writer> give_file() {
    queue_.reset();
    return std::move(file_);
  }

 private:
  Status prepare();
  Status lay_out_in(uint64_t block_bytes);
  // What of so much memory is for buffers; the rest is for the store's writer.
  uint64_t budget(uint64_t all) const { return all - std::min(traits_.copied_bytes, all / 2); }
  Status make_buffers(bool encodes);
  Status populate(std::byte* buffer);
  Status open();
  Status find_reuse();
  bool reuses() const { return in_.settings.incremental != "off"; }
  uint64_t expected_bytes() const;
  Status go_on();
  Status write_blocks();
  Status work(unsigned worker, const std::atomic<bool>& stop);
  Status take(const Task& task, StageScratch& scratch);
  void sort_ahead(const std::atomic<bool>& stop);
  Task next_task(unsigned worker);
  BlockSchedule::Needs needs_of(const Block& block) const;
  Status stage(size_t index, std::byte* buffer, StageScratch& scratch);
  Status fetch(size_t index, std::byte* buffer);
  Status arrive(size_t index, StageScratch& scratch);
  bool encodes_copy(const Block& block) const { return block.encoded && (in_.copies || block.on_device); }
  void look_whether_staged();
  Status encode(size_t index, std::byte* buffer, StageScratch& scratch);
  Status settle(size_t index);
  // Tells the schedule, and then all that wait for something, what has come.
  template <typename Tell>
  void tell(Tell&& tell);
  uint64_t raw_bytes_of(const Block& block) const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < block.chunk_count; i++) bytes += chunks_[block.chunk_first + i].raw_size();
    return bytes;
  }
  void submit(size_t index);
  void written(size_t index, Status status);
  Status write_header();
  Status write_again(uint64_t* end);
  Status write_tail();

  const PartInput& in_;
  Job& job_ = in_.job;
  const store::Traits traits_ = in_.session.store().traits();

  PartLayout layout_;
  std::vector<fb::Chunk> chunks_;
  std::unique_ptr<BlockStager> stager_;
  Reuse reuse_;  // once the file is open
  uint64_t expected_bytes_ = 2 * kAlign;
  std::unique_ptr<store::Writer> file_;
  unsigned threads_ = 1;  // that work at once,
  unsigned workers_ = 1;  // and all, with those that wait for the disk
  unsigned sorter_ = 0;   // which of them sorts tables first
  uint64_t buffer_bytes_ = 0;
  bool opening_ = false;

  std::mutex mutex_;  // of what follows, but for the queue
  std::condition_variable changed_;
  StagingBuffers buffers_;
  BlockSchedule schedule_;
  std::unique_ptr<store::IoQueue> queue_;  // last member, so it is destroyed first
};

// ---- before the first byte ----

Status PartWriter::lay_out_in(uint64_t block_bytes) {
  CKPT_ASSIGN(layout_, lay_out(in_.content, {.chunk_bytes = in_.session.plan().chunk_bytes,
                                             .large_tensor_bytes = in_.session.plan().large_tensor_bytes,
                                             .block_bytes = block_bytes,
                                             .compression = in_.settings.compression,
                                             .rank = in_.identity.rank,
                                             .in_place = !in_.copies,
                                             .on_grid = reuses(),
                                             .values = in_.values,
                                             .sampled = in_.settings.replicas == ReplicaCheck::kSample,
                                             .memory = in_.settings.memory.get(),
                                             .transfers = &in_.transfers,
                                             .least_block_bytes = std::min(traits_.least_block_bytes, block_bytes)}));
  return Ok();
}

Status PartWriter::prepare() {
  uint64_t chunk_bytes = in_.session.plan().chunk_bytes;
  const uint64_t preferred = std::max(std::min(traits_.least_block_bytes, budget(in_.settings.staging_bytes) / 2),
                                      std::min(traits_.block_bytes, in_.settings.staging_bytes / 4));
  const uint64_t block_bytes = std::max(chunk_bytes, preferred / kAlign * kAlign);
  CKPT_TRY(lay_out_in(block_bytes));
  const uint64_t larger =
      std::min(round_up(layout_.data_bytes / traits_.most_blocks, kAlign), in_.settings.staging_bytes / 4);
  if (larger > block_bytes) CKPT_TRY(lay_out_in(larger / kAlign * kAlign));
  CKPT_TRY(in_.transfers.end_bounce());
  chunks_.resize(layout_.chunk_count);
  stager_ = std::make_unique<BlockStager>(layout_, chunks_);
  job_.counters.bytes_total = layout_.data_bytes;
  job_.counters.chunk_count = layout_.chunk_count;
  bool encodes = false;
  for (const Block& block : layout_.blocks) {
    buffer_bytes_ = std::max(buffer_bytes_, round_up(block.raw_bytes, kAlign));
    expected_bytes_ += round_up(block.raw_bytes, kAlign);
    encodes |= encodes_copy(block);
  }
  if (in_.settings.memory) {
    std::vector<std::vector<Bytes>> sources;
    for (const Block& block : layout_.blocks) sources.push_back(stager_->sources_of(block));
    CKPT_TRY(in_.settings.memory->begin(std::move(sources)));
  }
  return layout_.blocks.empty() ? Ok() : make_buffers(encodes);
}

// A save that copies gets a buffer for each block, if the budget allows it or there is none, and the session and the
// machine have the memory: then the caller waits for one copy, not for the disk. Any other save gets the buffers that
// can be in use at once.
Status PartWriter::make_buffers(bool encodes) {
  const size_t blocks = layout_.blocks.size();
  threads_ = static_cast<unsigned>(std::min<size_t>(in_.settings.threads, blocks));
  const bool grows = in_.copies && in_.settings.staging_grows;
  const uint64_t had = in_.session.arena_size();
  const uint64_t all = grows ? std::max(in_.settings.staging_bytes, had) : in_.settings.staging_bytes;
  const size_t least = encodes ? 2 : 1;  // a copy, and what it is encoded to
  if (!in_.settings.staging_grows && least * buffer_bytes_ > all)
    return Status(CKPT_INVALID,
                  strformat("option staging_bytes: this save needs at least {}, for a block of {} and what "
                            "it is encoded to, found {}",
                            least * buffer_bytes_, buffer_bytes_, all))
        .with("expected", least * buffer_bytes_)
        .with("found", std::to_string(all));
  const bool gathers =
      std::ranges::any_of(in_.content.tables, [](const SaveTable& table) { return !table.order.empty(); });
  // While a thread gathers rows it does not look after the disk, so each has a block ready beside that.
  const size_t at_once = threads_ * (gathers ? 2 : 1) + traits_.write_depth;
  const BufferCounts counts = count_buffers({.staging = in_.copies ? blocks : std::min(blocks, at_once),
                                             .most_reserve = !encodes ? 0
                                                             : grows  ? threads_
                                                                      : at_once,
                                             .buffer_bytes = buffer_bytes_,
                                             .budget = budget(all),
                                             .room = grows ? in_.session.arena_room() : 0});
  CKPT_ASSIGN(auto memory, in_.session.take_arena(counts.all * buffer_bytes_));
  const bool fresh = in_.copies && had < counts.all * buffer_bytes_;
  buffers_ =
      StagingBuffers(std::move(memory), buffer_bytes_, counts, fresh, [this] { return in_.session.arena_room(); });
  job_.counters.threads = workers_ = threads_;
  if (blocks < 2) return Ok();
  // While rows are gathered the processors are busy, and each time that a block passes from one thread to another, it
  // waits for one of them; so does the thread of the kernel that ends what io_uring writes into a fresh file. So the
  // threads that gather rows also write them.
  if (gathers) {
    workers_ += traits_.write_depth;
    return Ok();
  }
  CKPT_ASSIGN(queue_, in_.session.store().make_queue(traits_.write_depth));
  job_.counters.io_engine = static_cast<uint32_t>(queue_->engine());
  return Ok();
}

// ---- the file, from front to back ----

Status PartWriter::go_on() {
  CKPT_TRY(job_.check());
  std::lock_guard lock(mutex_);
  return schedule_.error();
}

Status PartWriter::find_reuse() {
  CKPT_ASSIGN(reuse_, Reuse::find({.session = in_.session,
                                   .identity = in_.identity,
                                   .content = in_.content,
                                   .layout = layout_,
                                   .settings = in_.settings,
                                   .carried = in_.carried},
                                  &job_.report));
  return Ok();
}

// Nobody knows how much has changed. It is mostly about as much as the time before.
uint64_t PartWriter::expected_bytes() const {
  const uint64_t last = in_.session.last_bytes_written();
  return reuse_.bases().empty() || last == 0 ? expected_bytes_ : std::min(expected_bytes_, last + last / 4);
}

Status PartWriter::open() {
  CKPT_TRY(in_.open_attempt([this] { return go_on(); }));
  if (reuses()) CKPT_TRY(find_reuse());
  const std::string key = format::part_key(in_.identity.attempt.directory, in_.identity.rank);
  const bool at_most = in_.settings.compression != "none" || !reuse_.bases().empty();
  CKPT_ASSIGN(file_, in_.session.store().create(key, expected_bytes(), at_most));
  job_.counters.direct_io = file_->direct();
  job_.counters.recycled = file_->recycled();
  return write_header();
}

Status PartWriter::write_header() {
  const format::Summary& summary = in_.identity.summary;
  const auto header =
      format::encode_part_header({summary.revision, summary.save_id, in_.identity.rank, summary.world_size,
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
  // Who does not copy must know the file before the first block: whether memory can be written as it lies. One that
  // reuses hashes first, and most is not written: it takes the file to be the most demanding one.
  opening_ = (!in_.copies && !reuses()) || empty;
  if (opening_) CKPT_TRY(open());
  if (!empty) CKPT_TRY(write_blocks());
  queue_.reset();
  job_.reach(CKPT_JOB_STAGED);
  return write_tail();
}

// A block is written from the caller's memory if the save does not copy, and the memory has it as the file will.
BlockSchedule::Needs PartWriter::needs_of(const Block& block) const {
  const Bytes source = in_.copies ? Bytes() : stager_->source_of(block);
  // Whole pages even without direct I/O: the padding of the last page must be written, since a recycled file holds old
  // bytes.
  const bool whole_pages = !source.empty() && source.size() % kAlign == 0;
  const uint64_t align = !file_ ? kAlign : file_->direct() ? file_->direct_align() : 1;
  const bool stays = whole_pages && reinterpret_cast<uintptr_t>(source.data()) % align == 0;
  return {.buffer = !stays, .arrival = block.on_device, .encoding = encodes_copy(block), .settling = reuses()};
}

Status PartWriter::write_blocks() {
  std::vector<BlockSchedule::Needs> needs;
  for (const Block& block : layout_.blocks) needs.push_back(needs_of(block));
  schedule_ = BlockSchedule(needs, {.threads = threads_, .in_flight = traits_.write_depth}, &buffers_, opening_);
  const unsigned workers = workers_ + (opening_ ? 0 : 1);  // one of them waits for the store and for other ranks first
  sorter_ = workers - 1;
  Status done =
      run_parallel(workers, [this](unsigned worker, const std::atomic<bool>& stop) { return work(worker, stop); });
  if (!done.ok() && file_) file_->abandon();  // a block that has its place may never be submitted
  return done;
}

Status PartWriter::work(unsigned worker, const std::atomic<bool>& stop) {
  StageScratch scratch;
  if (worker != 0 && worker == sorter_) sort_ahead(stop);
  while (!stop) {
    const Task task = next_task(worker);
    Status status = task.step == Step::kDone ? Ok() : call_guarded([&] { return take(task, scratch); });
    std::lock_guard lock(mutex_);
    schedule_.fail(std::move(status));
    if (!schedule_.error().ok()) changed_.notify_all();  // who opens the file asks for it
    if (task.step == Step::kDone || !schedule_.error().ok()) return schedule_.error();
  }
  return Ok();
}

// Beside those that stage, which wait for what comes late. If it fails, they are told.
void PartWriter::sort_ahead(const std::atomic<bool>& stop) {
  for (size_t wave = 1; wave < in_.order.waves() && !stop; wave++)
    if (!call_guarded([&] { return in_.order.sort(wave); }).ok()) return;
}

Task PartWriter::next_task(unsigned worker) {
  std::unique_lock lock(mutex_);
  if (schedule_.error().ok()) look_whether_staged();
  // The first one copies: where no other thread could be had, no copy waits for the store.
  const Task task = schedule_.next(worker != 0);
  if (task.buffer) {
    const uint64_t in_use = buffers_.bytes_in_use();
    if (in_use > job_.counters.staging_peak_bytes) job_.counters.staging_peak_bytes = in_use;
  }
  if (task.step == Step::kWait) changed_.wait_for(lock, std::chrono::milliseconds(50));
  return task;
}

Status PartWriter::take(const Task& task, StageScratch& scratch) {
  CKPT_TRY(job_.check());
  switch (task.step) {
    case Step::kOpen: {
      Status opened = open();
      tell([&] { schedule_.opened(std::move(opened)); });
      break;
    }
    case Step::kSubmit:
      submit(task.block);
      break;
    case Step::kStage:
      return stage(task.block, task.buffer, scratch);
    case Step::kArrive:
      return arrive(task.block, scratch);
    case Step::kEncode:
      return encode(task.block, task.buffer, scratch);
    case Step::kSettle:
      return settle(task.block);
    case Step::kWait:
    case Step::kDone:
      break;
  }
  return Ok();
}

template <typename Tell>
void PartWriter::tell(Tell&& tell) {
  std::lock_guard lock(mutex_);
  tell();
  look_whether_staged();
  changed_.notify_all();
}

void PartWriter::look_whether_staged() {
  if (!schedule_.has_just_staged()) return;
  job_.counters.stage_us = job_.elapsed_us();
  // A save that does not copy needs the caller's memory until it is written.
  if (in_.copies) job_.reach(CKPT_JOB_STAGED);
}

Status PartWriter::populate(std::byte* buffer) {
  if (!buffers_.fresh()) return Ok();
  const uint64_t before = job_.elapsed_us();
  CKPT_TRY(buffers_.populate(buffer));
  job_.counters.arena_us += (job_.elapsed_us() - before) / threads_;
  return Ok();
}

Status PartWriter::stage(size_t index, std::byte* buffer, StageScratch& scratch) {
  if (in_.settings.memory) CKPT_TRY(in_.settings.memory->wait(index, [this] { return go_on(); }));
  if (buffer) CKPT_TRY(populate(buffer));
  const Block& block = layout_.blocks[index];
  CKPT_TRY(in_.order.sort(block.wave));
  if (block.on_device) return fetch(index, buffer);
  const Busy busy("read", "the memory of a tensor");  // which may be a file that a disk or a server holds
  Bytes data;
  if (!buffer) {
    stager_->hash_in_place(block);
    data = stager_->source_of(block);
  } else if (block.encoded && !in_.copies) {
    CKPT_ASSIGN(data, stager_->encode(block, nullptr, buffer, scratch));
  } else {
    CKPT_ASSIGN(data, stager_->copy(block, buffer));
  }
  if (buffer && in_.settings.memory) in_.settings.memory->done(index);
  tell([&] { schedule_.staged(index, data); });
  return Ok();
}

// Begins to copy a block from devices. Later ones are begun before it is there: the devices never wait for the host.
Status PartWriter::fetch(size_t index, std::byte* buffer) {
  CKPT_TRY(buffers_.pin(buffer, in_.transfers));
  device::Fences fences;
  CKPT_ASSIGN(const Bytes data, stager_->fetch(layout_.blocks[index], buffer, in_.transfers, &fences));
  tell([&] { schedule_.staged(index, data, std::move(fences)); });
  return Ok();
}

Status PartWriter::arrive(size_t index, StageScratch& scratch) {
  CKPT_TRY(schedule_.at(index).fences.wait());
  stager_->finish_fetched(layout_.blocks[index], schedule_.at(index).buffer, scratch);
  tell([&] { schedule_.arrived(index); });
  return Ok();
}

Status PartWriter::encode(size_t index, std::byte* buffer, StageScratch& scratch) {
  CKPT_TRY(populate(buffer));
  CKPT_ASSIGN(const Bytes data, stager_->encode(layout_.blocks[index], schedule_.at(index).buffer, buffer, scratch));
  tell([&] { schedule_.encoded(index, buffer, data); });
  return Ok();
}

// Leaves out what an earlier file has. What is written from the caller's memory is written whole, or not at all.
Status PartWriter::settle(size_t index) {
  const Block& block = layout_.blocks[index];
  const BlockSchedule::State& at = schedule_.at(index);
  std::vector<uint8_t> shared(block.chunk_count);
  for (size_t i = 0; i < shared.size(); i++)
    shared[i] = reuse_.has(block.chunk_first + i, chunks_[block.chunk_first + i]);
  const auto count = static_cast<size_t>(std::ranges::count(shared, 1));
  const bool all = count == shared.size();
  Bytes data = all ? Bytes() : at.data;
  if (count != 0 && !all && at.buffer)
    data = stager_->leave_out(block, at.buffer, [&](size_t number) { return shared[number - block.chunk_first] != 0; });
  for (size_t i = 0; i < shared.size() && (all || at.buffer); i++)
    if (shared[i]) reuse_.take(block.chunk_first + i, &chunks_[block.chunk_first + i]);
  if (all) {
    job_.counters.bytes_done += raw_bytes_of(block);
    if (!at.buffer && in_.settings.memory) in_.settings.memory->done(index);
  }
  tell([&] { schedule_.settled(index, data); });
  return Ok();
}

void PartWriter::submit(size_t index) {
  const Block& block = layout_.blocks[index];
  const uint64_t offset = schedule_.at(index).offset;
  for (size_t i = block.chunk_first; i < block.chunk_first + block.chunk_count; i++) {
    if (reuse_.taken(i)) continue;
    const fb::Chunk& chunk = chunks_[i];
    chunks_[i] = fb::Chunk(offset + chunk.offset(), chunk.stored_size(), chunk.raw_size(), chunk.digest());
  }
  const Bytes data = schedule_.at(index).data;
  file_->make_room(offset + data.size());
  if (queue_)
    queue_->write(*file_, offset, data, [this, index](Status status) { written(index, std::move(status)); });
  else
    written(index, file_->write_at(offset, data));
}

void PartWriter::written(size_t index, Status status) {
  const Block& block = layout_.blocks[index];
  if (status.ok()) {
    job_.counters.bytes_written += schedule_.at(index).data.size();
    job_.counters.bytes_done += raw_bytes_of(block);
    job_.counters.io_count++;
  }
  if (!schedule_.at(index).buffer && in_.settings.memory) in_.settings.memory->done(index);
  tell([&] {
    schedule_.written(index);
    schedule_.fail(std::move(status));
  });
}

// ---- the end ----

// Copies what is used of earlier files of which too little is.
Status PartWriter::write_again(uint64_t* end) {
  const uint64_t most = std::max(buffer_bytes_, traits_.least_block_bytes);
  CKPT_ASSIGN(const auto batches, reuse_.give_up_dead(chunks_, most, end));
  Status done = for_each_parallel(in_.settings.threads, batches.size(), [&](size_t i) -> Status {
    CKPT_TRY(go_on());
    CKPT_ASSIGN(const auto memory, Mapping::make(batches[i].size));
    const MutableBytes bytes = memory.bytes().first(batches[i].size);
    CKPT_TRY(reuse_.read(batches[i], bytes, job_));
    CKPT_TRY(file_->write_at(batches[i].offset, bytes));
    job_.counters.bytes_written += bytes.size();
    job_.counters.io_count++;
    return Ok();
  });
  if (!done.ok()) file_->abandon();
  return done;
}

// Writes index and trailer. Then makes the part durable and gives it its name, which is the receipt.
Status PartWriter::write_tail() {
  uint64_t end = schedule_.file_end();
  CKPT_TRY(write_again(&end));
  CKPT_TRY(reuse_.finish(chunks_));
  CKPT_ASSIGN(auto index, encode_part_index(in_.identity, in_.content, layout_, chunks_, reuse_, in_.carried));
  const uint64_t index_size = index.bytes.size();
  auto trailer =
      format::encode_part_trailer({end, index_size, index.root_size, index.root_digest, in_.identity.summary.save_id});
  uint64_t tail_bytes = round_up(index_size + trailer.size(), kAlign);
  CKPT_ASSIGN(auto mapping, Mapping::make(tail_bytes));
  MutableBytes tail = mapping.bytes().first(tail_bytes);
  std::memcpy(tail.data(), index.bytes.data(), index_size);
  std::memcpy(tail.data() + tail_bytes - trailer.size(), trailer.data(), trailer.size());
  CKPT_TRY(file_->write_at(end, tail));
  job_.counters.bytes_written += tail.size();
  job_.counters.io_count++;
  // Rank 0 may commit once it is there.
  const Status if_left(CKPT_COMMIT_UNKNOWN, "rank 0 may still commit: this rank's part may be there");
  CKPT_TRY(in_.identity.rank == 0 ? job_.check() : job_.call->answer_if_left(if_left));
  CKPT_TRY(file_->publish(end + tail_bytes));
  reuse_.tell(&job_.report);
  job_.counters.bytes_reused = reuse_.bytes();
  return Ok();
}

Status write_part(const PartInput& input, std::unique_ptr<store::Writer>* unfinished) {
  PartWriter writer(input);
  Status written = writer.write();
  if (!written.ok()) *unfinished = writer.give_file();
  return written;
}

}  // namespace ckpt::save

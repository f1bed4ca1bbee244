#include "maintain/checked_stream.h"

#include <algorithm>

#include "checkpoint/chunk_io.h"
#include "codec/checksum.h"
#include "format/framing.h"

namespace ckpt::maintain {

void sort_by_offset(std::vector<Span>& spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.offset < b.offset; });
}

static Status mismatch(const Span& span, const Digest& found) {
  return Status(CKPT_CORRUPT, strformat("{} bytes at {}: expected XXH3-128 {}, found {}", span.size, span.offset,
                                        to_hex(span.digest), to_hex(found)))
      .with("offset", span.offset)
      .with("expected", to_hex(span.digest))
      .with("found", to_hex(found));
}

Status check_span(const Span* span, uint64_t offset, Bytes bytes) {
  if (span) {
    const Digest found = codec::xxh3_128(bytes);
    return found == span->digest ? Ok() : mismatch(*span, found);
  }
  const size_t zeros = format::leading_zeros(bytes);
  if (zeros == bytes.size()) return Ok();
  return Status(CKPT_CORRUPT, strformat("at {}: expected zero padding", offset + zeros)).with("offset", offset + zeros);
}

Status check_spans(const std::vector<Span>& spans, Bytes file) {
  uint64_t at = 0;
  for (const Span& span : spans) {
    if (span.offset < at || span.size > file.size() || span.offset > file.size() - span.size)
      return Status(CKPT_FORMAT, strformat("{} bytes at {} overlap what lies before, or leave a file of {} bytes",
                                           span.size, span.offset, file.size()));
    CKPT_TRY(check_span(nullptr, at, file.subspan(at, span.offset - at)));
    CKPT_TRY(check_span(&span, span.offset, file.subspan(span.offset, span.size)));
    at = span.end();
  }
  return check_span(nullptr, at, file.subspan(at));
}

// How many blocks a span may lie in.
static size_t widest(const std::vector<Span>& spans, uint64_t block) {
  uint64_t most = 0;
  for (const Span& span : spans) most = std::max(most, span.size);
  return most / block + 2;
}

CheckedStream::CheckedStream(const From& from, const store::Store& to, store::Writer* writer, StreamLimits limits,
                             Job& job)
    : from_(from),
      to_(to),
      writer_(writer),
      limits_(limits),
      job_(job),
      size_(from.file.size()),
      count_((size_ + limits.block - 1) / limits.block),
      slots_(std::clamp<size_t>(std::max(limits.blocks, widest(from.spans, limits.block)), 1,
                                std::max<size_t>(count_, 1))) {}

Status CheckedStream::run() {
  CKPT_ASSIGN(memory_, Mapping::make(memory()));
  Status status = count_ > 1 ? make_queues() : Ok();
  if (status.ok()) status = stream();
  reads_.reset();
  writes_.reset();
  return status;
}

// A single block gains nothing from a queue.
Status CheckedStream::make_queues() {
  CKPT_ASSIGN(reads_, from_.store.make_queue(from_.store.traits().read_depth));
  if (writer_) {
    CKPT_ASSIGN(writes_, to_.make_queue(to_.traits().write_depth));
  }
  job_.counters.io_engine = static_cast<uint32_t>(reads_->engine());
  return Ok();
}

Status CheckedStream::stream() {
  for (;;) {
    CKPT_TRY(job_.check());
    Lock lock(mutex_);
    CKPT_TRY(failure_);
    if (written_ == count_) return Ok();
    Status failed;
    if (!step(lock, &failed)) changed_.wait(lock);
    CKPT_TRY(std::move(failed));
  }
}

// Does the next thing, and says whether there was one. Transfers are begun first, so that both stores are always busy;
// what would be read on this thread comes last, so that what is in the processor's cache is checked and written.
bool CheckedStream::step(Lock& lock, Status* failed) {
  const bool room = next_read_ < count_ && slot(next_read_).state == State::kFree;
  if (room && reading_ < from_.store.traits().read_depth && is_queued()) {
    *failed = read_queued(lock);
  } else if (next_write_ < next_check_ && begin_of(next_write_) + size_of(next_write_) <= checked_ &&
             writing_ < to_.traits().write_depth) {
    *failed = write(lock);
  } else if (next_check_ < next_read_ && slot(next_check_).state == State::kThere) {
    *failed = check(lock);
  } else if (room && !is_queued()) {
    *failed = read_here(lock);
  } else {
    return false;
  }
  return true;
}

// ---- reading ----

bool CheckedStream::is_queued() {
  if (!queued_) {
    const uint64_t offset = begin_of(next_read_), size = size_of(next_read_);
    const store::Reader::Way way = from_.file.way(offset, size);
    queued_ = reads_ && way.queued && offset % way.unit == 0 && size % way.unit == 0 && kAlign % way.align == 0;
  }
  return *queued_;
}

Status CheckedStream::read_queued(Lock& lock) {
  const size_t block = next_read_++;
  queued_.reset();
  Slot& slot = this->slot(block);
  slot.state = State::kReading;
  reading_++;
  lock.unlock();
  job_.counters.direct_io = 1;
  job_.counters.io_count++;
  job_.counters.bytes_read += size_of(block);
  reads_->read(from_.file, begin_of(block), bytes_of(block), [this, &slot](Status status) {
    std::lock_guard guard(mutex_);
    slot.read = std::move(status);
    slot.state = State::kThere;
    reading_--;
    changed_.notify_one();
  });
  return Ok();
}

Status CheckedStream::read_here(Lock& lock) {
  const size_t block = next_read_++;
  queued_.reset();
  Slot& slot = this->slot(block);
  lock.unlock();
  Status status = checkpoint::plain_read(job_, from_.file, begin_of(block), bytes_of(block));
  lock.lock();
  slot.state = State::kThere;
  return status.ok() ? Ok() : from_.blame(nullptr, std::move(status));
}

// ---- checking ----

Status CheckedStream::check(Lock& lock) {
  const size_t block = next_check_++;
  Slot& slot = this->slot(block);
  lock.unlock();
  // A direct read that failed is repeated as a plain one.
  if (!std::exchange(slot.read, Ok()).ok())
    if (Status again = checkpoint::plain_read(job_, from_.file, begin_of(block), bytes_of(block)); !again.ok())
      return from_.blame(nullptr, std::move(again));
  return check_until(begin_of(block) + size_of(block));
}

// Checks what ends before `end`, up to where the bytes are in memory.
Status CheckedStream::check_until(uint64_t end) {
  while (checked_ < end) {
    const Span* next = next_span_ < from_.spans.size() ? &from_.spans[next_span_] : nullptr;
    const uint64_t gap_end = std::min(next ? next->offset : size_, end);
    if (checked_ < gap_end) {
      CKPT_TRY(checked(nullptr, checked_, gap_end));
      checked_ = gap_end;
    }
    if (!next || next->offset >= end || next->end() > end) return Ok();
    CKPT_TRY(checked(next, next->offset, next->end()));
    checked_ = next->end();
    next_span_++;
  }
  return Ok();
}

template <typename Use>
Status CheckedStream::in_pieces(uint64_t begin, uint64_t end, Use&& use) {
  for (uint64_t stop; begin < end; begin = stop) {
    const size_t block = begin / limits_.block;
    stop = std::min(end, begin_of(block) + limits_.block);
    CKPT_TRY(use(begin, bytes_of(block).subspan(begin - begin_of(block), stop - begin)));
  }
  return Ok();
}

Status CheckedStream::check_range(const Span* span, uint64_t begin, uint64_t end) {
  const bool one_piece = begin / limits_.block == (end - 1) / limits_.block;
  if (!span || one_piece)
    return in_pieces(begin, end, [&](uint64_t at, Bytes bytes) { return check_span(span, at, bytes); });
  codec::Hasher hasher;
  CKPT_TRY(in_pieces(begin, end, [&](uint64_t, Bytes bytes) {
    hasher.update(bytes);
    return Ok();
  }));
  const Digest found = hasher.digest();
  return found == span->digest ? Ok() : mismatch(*span, found);
}

// What does not match may have been damaged on its way.
Status CheckedStream::checked(const Span* span, uint64_t begin, uint64_t end) {
  Status found = check_range(span, begin, end);
  if (!found.ok() && from_.store.traits().remote) {
    Status read = in_pieces(begin, end, [&](uint64_t at, MutableBytes bytes) {
      return checkpoint::read_again(job_, from_.file, at, bytes);
    });
    found = read.ok() ? check_range(span, begin, end) : std::move(read);
  }
  if (found.ok() && span && span->chunk != Span::kNoChunk) job_.counters.chunk_count++;
  return found.ok() ? Ok() : from_.blame(span, std::move(found));
}

// ---- writing ----

void CheckedStream::written(size_t block, Status status) {
  std::lock_guard guard(mutex_);
  slot(block).state = State::kFree;
  writing_--;
  written_++;
  if (status.ok())
    job_.counters.bytes_done += size_of(block);
  else if (failure_.ok())
    failure_ = std::move(status).with("store", to_.uri());
  changed_.notify_one();
}

Status CheckedStream::write(Lock& lock) {
  const size_t block = next_write_++;
  slot(block).state = State::kWriting;
  writing_++;
  lock.unlock();
  if (writer_) job_.counters.bytes_written += size_of(block);
  if (writer_ && writes_)
    writes_->write(*writer_, begin_of(block), bytes_of(block),
                   [this, block](Status status) { written(block, status); });
  else
    written(block, writer_ ? writer_->write_at(begin_of(block), bytes_of(block)) : Ok());
  return Ok();
}

}  // namespace ckpt::maintain

#include "store/cloud/object_writer.h"

#include <algorithm>
#include <new>

#include "store/keys.h"

namespace ckpt::store::cloud {

static constexpr uint64_t kSmall = 8 << 20;      // up to this size, one request puts all
static constexpr uint64_t kPlannedParts = 9000;  // of 10,000
static constexpr uint64_t kGrowingParts = 1000;  // beyond what was expected: parts of a thousandth of what is there
static constexpr size_t kMostParts = 10000;
static constexpr std::chrono::minutes kTurn{5};  // only a mistake of the caller's takes so long

ObjectWriter::ObjectWriter(std::shared_ptr<Bucket> bucket, std::string_view key, uint64_t expected_size,
                           uint64_t least_part)
    : bucket_(std::move(bucket)), key_(key), expected_(expected_size), least_(least_part), upload_(bucket_, key) {}

// ---- parts ----

uint64_t ObjectWriter::part_bytes() const {
  const uint64_t planned = std::max(least_, round_up(expected_ / kPlannedParts, kAlign));
  if (bucket_->place().uniform) return std::max(planned, least_ == kLeastPart ? kSmall : least_);
  if (least_ == kLeastPart && expected_ <= kSmall && taken_ <= kSmall) return kSmall + 1;
  return std::max(planned, taken_ > expected_ ? taken_ / kGrowingParts : 0);
}

Status ObjectWriter::take_turn(Lock& lock, uint64_t offset) {
  const bool came = changed_.wait_for(lock, kTurn, [&] { return published_ || !error_.ok() || offset <= taken_; });
  changed_.wait(lock,
                [&] { return published_ || !error_.ok() || copied_ == 0 || copied_ + carried_.size() <= kMostCopied; });
  if (published_) return already_published(bucket_->path(key_));
  CKPT_TRY(error_);
  if (came && offset == taken_) return Ok();
  return Status(CKPT_INVALID, strformat("{}: a write at {} where {} bytes were written{}", bucket_->path(key_), offset,
                                        taken_, came ? "" : ", and nothing came between for five minutes"));
}

// What of the data is enough for parts becomes parts; the rest is carried.
Status ObjectWriter::cut(Bytes data, std::vector<Part>* parts) {
  taken_ += data.size();
  for (uint64_t least = part_bytes(); carried_.size() + data.size() >= least;) {
    const size_t count = bucket_->place().uniform ? least - carried_.size() : data.size();
    if (sent_.size() == kMostParts)
      return Status(CKPT_UNSUPPORTED, strformat("{}: more than {} parts", bucket_->path(key_), kMostParts));
    parts->push_back({sent_.size(), std::move(carried_), data.first(count)});
    carried_ = {};
    sent_.emplace_back();
    data = data.subspan(count);
  }
  if (part_bytes() > kSmall + 1) carried_.reserve(part_bytes());  // growing would take twice as much
  carried_.insert(carried_.end(), data.begin(), data.end());
  return Ok();
}

Status ObjectWriter::send(const Part& part) {
  const Bytes pieces[] = {part.carried, part.rest};
  CKPT_ASSIGN(Multipart::Piece sent, upload_.send(part.number, pieces));
  std::lock_guard lock(mutex_);
  sent_[part.number] = std::move(sent);
  return Ok();
}

static Status no_memory_for(const std::string& path) { return Status(CKPT_NOMEM, path + ": no memory for a part"); }

// Bytes that were taken and then lost must end the whole file.
Status ObjectWriter::take(Bytes data, std::vector<Part>* parts) {
  try {
    CKPT_TRY(cut(data, parts));
    return !parts->empty() && !upload_.begun() ? upload_.begin(true) : Ok();
  } catch (const std::bad_alloc&) {
    return no_memory_for(bucket_->path(key_));
  }
}

Status ObjectWriter::send_all_of(const std::vector<Part>& parts) {
  try {
    for (const Part& part : parts) CKPT_TRY(send(part));
    return Ok();
  } catch (const std::bad_alloc&) {
    return no_memory_for(bucket_->path(key_));
  }
}

static uint64_t copied_bytes(const auto& parts) {
  uint64_t bytes = 0;
  for (const auto& part : parts) bytes += part.carried.size();
  return bytes;
}

Status ObjectWriter::write_at(uint64_t offset, Bytes data) {
  std::vector<Part> parts;
  {
    Lock lock(mutex_);
    CKPT_TRY(take_turn(lock, offset));
    error_ = take(data, &parts);
    changed_.notify_all();
    CKPT_TRY(error_);
    sending_++;
    copied_ += copied_bytes(parts);
  }
  Status status = send_all_of(parts);
  Lock lock(mutex_);
  sending_--;
  copied_ -= copied_bytes(parts);
  if (error_.ok()) error_ = status;
  changed_.notify_all();
  return status;
}

void ObjectWriter::abandon() {
  Lock lock(mutex_);
  if (error_.ok()) error_ = Status(CKPT_IO, bucket_->path(key_) + " was given up while it was written");
  changed_.notify_all();
}

// ---- the end ----

Status ObjectWriter::publish(uint64_t size) {
  {
    Lock lock(mutex_);
    if (published_) return already_published(bucket_->path(key_));
    published_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return sending_ == 0; });
  }
  CKPT_TRY(error_);
  if (size != taken_)
    return Status(CKPT_INVALID,
                  strformat("{}: published with {} bytes where {} were written", bucket_->path(key_), size, taken_));
  if (!upload_.begun()) {
    const Bytes all = carried_;
    return put_object(*bucket_, key_, {&all, 1});
  }
  Status done = carried_.empty() ? Ok() : send_last();
  if (done.ok()) return upload_.complete(sent_);
  upload_.give_up();
  return done;
}

Status ObjectWriter::send_last() {
  const size_t number = sent_.size();
  sent_.emplace_back();
  return send({number, std::move(carried_), {}});
}

}  // namespace ckpt::store::cloud

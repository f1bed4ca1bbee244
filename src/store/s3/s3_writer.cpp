#include "store/s3/s3_writer.h"

#include <algorithm>
#include <new>

#include "store/keys.h"

namespace ckpt::store::s3 {

static constexpr uint64_t kSmall = 8 << 20;      // up to this size, one request puts all
static constexpr uint64_t kPlannedParts = 9000;  // of 10,000
static constexpr uint64_t kGrowingParts = 1000;  // beyond what was expected: parts of a thousandth of what is there
static constexpr size_t kMostParts = 10000;
static constexpr std::chrono::minutes kTurn{5};  // only a mistake of the caller's takes so long

S3Writer::S3Writer(std::shared_ptr<Client> client, std::string_view key, uint64_t expected_size, uint64_t least_part)
    : client_(std::move(client)),
      key_(key),
      expected_(expected_size),
      least_(least_part),
      put_by_(to_hex(random_id())) {}

S3Writer::~S3Writer() { give_up(); }

// Without memory the upload stays; whoever retires its attempt ends it.
void S3Writer::give_up() {
  try {
    if (!upload_.empty()) (void)abort_upload(*client_, key_, upload_);
  } catch (const std::bad_alloc&) {
  }
  upload_.clear();
}

// ---- parts ----

uint64_t S3Writer::part_bytes() const {
  const uint64_t planned = std::max(least_, round_up(expected_ / kPlannedParts, kAlign));
  if (client_->config().uniform) return std::max(planned, least_ == kLeastPart ? kSmall : least_);
  if (least_ == kLeastPart && expected_ <= kSmall && taken_ <= kSmall) return kSmall + 1;
  return std::max(planned, taken_ > expected_ ? taken_ / kGrowingParts : 0);
}

Status S3Writer::take_turn(Lock& lock, uint64_t offset) {
  const bool came = changed_.wait_for(lock, kTurn, [&] { return published_ || !error_.ok() || offset <= taken_; });
  changed_.wait(lock,
                [&] { return published_ || !error_.ok() || copied_ == 0 || copied_ + carried_.size() <= kMostCopied; });
  if (published_) return already_published(client_->path(key_));
  CKPT_TRY(error_);
  if (came && offset == taken_) return Ok();
  return Status(CKPT_INVALID, strformat("{}: a write at {} where {} bytes were written{}", client_->path(key_), offset,
                                        taken_, came ? "" : ", and nothing came between for five minutes"));
}

// What of the data is enough for parts becomes parts; the rest is carried.
Status S3Writer::cut(Bytes data, std::vector<Part>* parts) {
  taken_ += data.size();
  for (uint64_t least = part_bytes(); carried_.size() + data.size() >= least;) {
    const size_t count = client_->config().uniform ? least - carried_.size() : data.size();
    if (sent_.size() == kMostParts)
      return Status(CKPT_UNSUPPORTED, strformat("{}: more than {} parts", client_->path(key_), kMostParts));
    parts->push_back({sent_.size(), std::move(carried_), data.first(count)});
    carried_ = {};
    sent_.emplace_back();
    data = data.subspan(count);
  }
  if (part_bytes() > kSmall + 1) carried_.reserve(part_bytes());  // growing would take twice as much
  carried_.insert(carried_.end(), data.begin(), data.end());
  return Ok();
}

Status S3Writer::begin_upload() {
  Request request("POST", key_, {{"uploads", ""}});
  request.headers = {{std::string(kPutHeader), put_by_}};
  request.has_checksums = true;
  const Answer answer = client_->ask(request);
  if (!answer.good()) return client_->error(answer, request);
  with_checksums_ = client_->knows_checksums();
  auto root = parse_xml(answer.http.text);
  if (root.ok()) upload_ = root->text_of("UploadId");
  if (!upload_.empty()) return Ok();
  return Status(CKPT_IO, strformat("{}: the server at {} began an upload without an id", client_->path(key_),
                                   client_->config().endpoint()));
}

Status S3Writer::send(const Part& part) {
  const Bytes pieces[] = {part.carried, part.rest};
  Request request("PUT", key_, {{"partNumber", std::to_string(part.number + 1)}, {"uploadId", upload_}});
  request.body = pieces;
  request.of_upload = true;
  // All of its parts have one, or none.
  if (with_checksums_) request.checksum = crc32c_header(pieces);
  const Answer answer = client_->ask(request);
  if (!answer.good()) return client_->error(answer, request);
  const std::string* etag = answer.http.header("etag");
  if (!etag || etag->empty()) return Status(CKPT_IO, client_->path(key_) + ": a part of an upload got no ETag");
  std::lock_guard lock(mutex_);
  sent_[part.number] = {*etag, request.checksum};
  return Ok();
}

static Status no_memory_for(const std::string& path) { return Status(CKPT_NOMEM, path + ": no memory for a part"); }

// Bytes that were taken and then lost must end the whole file.
Status S3Writer::take(Bytes data, std::vector<Part>* parts) {
  try {
    CKPT_TRY(cut(data, parts));
    return !parts->empty() && upload_.empty() ? begin_upload() : Ok();
  } catch (const std::bad_alloc&) {
    return no_memory_for(client_->path(key_));
  }
}

Status S3Writer::send_all_of(const std::vector<Part>& parts) {
  try {
    for (const Part& part : parts) CKPT_TRY(send(part));
    return Ok();
  } catch (const std::bad_alloc&) {
    return no_memory_for(client_->path(key_));
  }
}

static uint64_t copied_bytes(const auto& parts) {
  uint64_t bytes = 0;
  for (const auto& part : parts) bytes += part.carried.size();
  return bytes;
}

Status S3Writer::write_at(uint64_t offset, Bytes data) {
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

void S3Writer::abandon() {
  Lock lock(mutex_);
  if (error_.ok()) error_ = Status(CKPT_IO, client_->path(key_) + " was given up while it was written");
  changed_.notify_all();
}

// ---- the end ----

Status S3Writer::publish(uint64_t size) {
  {
    Lock lock(mutex_);
    if (published_) return already_published(client_->path(key_));
    published_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return sending_ == 0; });
  }
  CKPT_TRY(error_);
  if (size != taken_)
    return Status(CKPT_INVALID,
                  strformat("{}: published with {} bytes where {} were written", client_->path(key_), size, taken_));
  if (upload_.empty()) {
    const Bytes all = carried_;
    return put_object(*client_, key_, {&all, 1});
  }
  Status done = carried_.empty() ? Ok() : send_last();
  if (done.ok()) done = complete();
  if (done.ok()) upload_.clear();
  give_up();
  return done;
}

Status S3Writer::send_last() {
  const size_t number = sent_.size();
  sent_.emplace_back();
  return send({number, std::move(carried_), {}});
}

Status S3Writer::complete() {
  if (!client_->config().conditional) {
    CKPT_ASSIGN(const auto there, look_at_object(*client_, key_));
    if (there) return exists(client_->path(key_));
  }
  std::string text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < sent_.size(); i++) {
    text += strformat("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag>", i + 1, xml_escape(sent_[i].etag));
    if (!sent_[i].checksum.empty()) text += strformat("<ChecksumCRC32C>{}</ChecksumCRC32C>", sent_[i].checksum);
    text += "</Part>";
  }
  text += "</CompleteMultipartUpload>";
  const Bytes body = as_bytes(text);
  Request request("POST", key_, {{"uploadId", upload_}});
  request.headers = {{"content-type", "application/xml"}};
  if (client_->config().conditional) request.headers.push_back({"if-none-match", "*"});
  request.body = std::span(&body, 1);
  request.ends_late = true;
  const Answer answer = client_->ask(request);
  return outcome_of(answer, request);
}

// Only an answer that says so is a success. In any other case the object that is there tells.
Status S3Writer::outcome_of(const Answer& answer, const Request& request) {
  if (answer.good()) {
    auto root = parse_xml(answer.http.text);
    if (root.ok() && root->name == "CompleteMultipartUploadResult") return Ok();
  }
  if (answer.is(412)) return settle_put(*client_, key_, put_by_, exists(client_->path(key_)));
  Status error = client_->error(answer, request);
  if (answer.is_absent())
    error = Status(CKPT_NOT_FOUND, client_->path(key_) + ": the upload was given up by another session, or is done")
                .with("path", client_->path(key_));
  Status settled = settle_put(*client_, key_, put_by_, std::move(error));
  if (settled.ok() || settled.code() == CKPT_EXISTS) return settled;
  // An upload that was given up is not completed later; before that, it may have been.
  if (!abort_upload(*client_, key_, upload_).ok()) return settled;
  upload_.clear();
  return settle_put(*client_, key_, put_by_, std::move(settled));
}

}  // namespace ckpt::store::s3

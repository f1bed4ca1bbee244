#include "store/s3/s3_reader.h"

#include <algorithm>

#include "store/keys.h"

namespace ckpt::store::s3 {

// The end of a part and all of a small manifest are in it.
static constexpr size_t kTail = 128 << 10;

static constexpr int kTries = 3;  // of bytes that arrive damaged

static Status gone_object(std::string_view path) {
  return Status(CKPT_GONE, std::string(path) + " was removed or replaced").with("path", std::string(path));
}

// False if the server knows no such range.
Result<bool> S3Reader::open_with_tail() {
  tail_.resize(kTail);
  Request request("GET", key_);
  request.into = tail_;
  request.headers = {{"range", strformat("bytes=-{}", kTail)}};
  request.wants_bytes = true;
  // The whole of an object may be too much.
  request.accept = [&](const HttpReply& reply) {
    auto info = describe_object(*client_, key_, reply);
    return !info.ok() || reply.status == 206 || info->size <= kTail;
  };
  const Answer answer = client_->ask(request);
  if (answer.is_absent()) return not_found(path());
  if (answer.is(416)) return false;
  if (!answer.good()) return client_->error(answer, request);
  CKPT_ASSIGN(info_, describe_object(*client_, key_, answer.http));
  const bool whole = answer.http.received == std::min<uint64_t>(info_.size, kTail);
  tail_.resize(whole ? answer.http.received : 0);
  tail_.shrink_to_fit();
  return whole;
}

// CORRUPT if all of the object is here and is not what was put.
Status S3Reader::check_whole() const {
  if (tail_.size() != info_.size || info_.checksum.empty()) return Ok();
  const Bytes all = tail_;
  const std::string found = crc32c_header({&all, 1});
  if (found == info_.checksum) return Ok();
  return Status(CKPT_CORRUPT, strformat("{}: expected CRC-32C {}, found {}", path(), info_.checksum, found))
      .with("path", path())
      .with("expected", info_.checksum)
      .with("found", found);
}

Result<std::unique_ptr<S3Reader>> S3Reader::open(std::shared_ptr<Client> client, std::string_view key, bool with_tail) {
  std::unique_ptr<S3Reader> reader(new S3Reader(std::move(client), key));
  bool opened = false;
  for (int i = 0; with_tail && (i == 0 || (i < kTries && !reader->damage_.ok())); i++) {
    CKPT_ASSIGN(opened, reader->open_with_tail());
    reader->damage_ = opened ? reader->check_whole() : Ok();
  }
  if (!opened) {
    reader->tail_ = {};
    CKPT_ASSIGN(auto info, look_at_object(*reader->client_, key));
    if (!info) return not_found(reader->path());
    reader->info_ = *std::move(info);
  }
  return reader;
}

// Of the object, or of its copy.
Status S3Reader::get(std::string_view key, const std::string& etag, uint64_t offset, MutableBytes out) const {
  const std::string range = strformat("{}-{}", offset, offset + out.size() - 1);
  Request request("GET", key);
  request.into = out;
  request.headers = {{"range", "bytes=" + range}, {"if-match", etag}};
  request.wants_bytes = true;
  bool other = false;  // object
  request.accept = [&](const HttpReply& reply) {
    const std::string *told = reply.header("etag"), *found = reply.header("content-range");
    other = told && *told != etag;
    if (!told || other) return false;
    if (reply.status == 206) return found && *found == strformat("bytes {}/{}", range, info_.size);
    return out.size() == info_.size;
  };
  const Answer answer = client_->ask(request);
  if (other || answer.is(412) || answer.is_absent()) return gone_object(path());
  if (!answer.good() || answer.http.refused) return client_->error(answer, request);
  if (answer.http.received == out.size()) return Ok();
  return Status(CKPT_IO,
                strformat("{}: expected {} bytes at {}, found {}", path(), out.size(), offset, answer.http.received))
      .with("path", path());
}

std::string S3Reader::known_copy() const {
  std::lock_guard lock(mutex_);
  return copy_;
}

// The ETag of the copy. GONE if there is none.
Result<std::string> S3Reader::find_copy() const {
  CKPT_ASSIGN(const auto there, look_at_object(*client_, retired_key(key_)));
  if (!there || info_.put_by.empty() || there->put_by != info_.put_by || there->size != info_.size)
    return gone_object(path());
  std::lock_guard lock(mutex_);
  return copy_ = there->etag;
}

Status S3Reader::fetch(uint64_t offset, MutableBytes out) const {
  std::string copy = known_copy();
  if (copy.empty()) {
    Status found = get(key_, info_.etag, offset, out);
    if (found.code() != CKPT_GONE) return found;
    CKPT_ASSIGN(copy, find_copy());
  }
  return get(retired_key(key_), copy, offset, out);
}

}  // namespace ckpt::store::s3

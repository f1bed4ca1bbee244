#include "store/s3/multipart.h"

#include <new>

#include "store/keys.h"

namespace ckpt::store::s3 {

Multipart::Multipart(std::shared_ptr<Client> client, std::string_view key)
    : client_(std::move(client)), key_(key), put_by_(to_hex(random_id())) {}

void Multipart::give_up() {
  try {
    if (begun()) (void)abort_upload(*client_, key_, id_);
  } catch (const std::bad_alloc&) {
  }
  id_.clear();
}

Status Multipart::begin(bool with_checksums) {
  Request request("POST", key_, {{"uploads", ""}});
  request.headers = {{std::string(kPutHeader), put_by_}};
  request.has_checksums = with_checksums;
  const Answer answer = client_->ask(request);
  if (!answer.good()) return client_->error(answer, request);
  with_checksums_ = with_checksums && client_->knows_checksums();
  auto root = parse_xml(answer.http.text);
  if (root.ok()) id_ = root->text_of("UploadId");
  if (begun()) return Ok();
  return Status(CKPT_IO, strformat("{}: the server at {} began an upload without an id", client_->path(key_),
                                   client_->config().endpoint()));
}

// ---- parts ----

Request Multipart::part_request(size_t number) const {
  Request request("PUT", key_, {{"partNumber", std::to_string(number + 1)}, {"uploadId", id_}});
  request.of_upload = true;
  return request;
}

static Status no_tag(std::string_view path) {
  return Status(CKPT_IO, std::string(path) + ": a part of an upload got no ETag");
}

Result<Multipart::Part> Multipart::send(size_t number, std::span<const Bytes> pieces) const {
  Request request = part_request(number);
  request.body = pieces;
  // All of its parts have one, or none.
  if (with_checksums_) request.checksum = crc32c_header(pieces);
  const Answer answer = client_->ask(request);
  if (!answer.good()) return client_->error(answer, request);
  const std::string* etag = answer.http.header("etag");
  if (!etag || etag->empty()) return no_tag(client_->path(key_));
  return Part{*etag, request.checksum};
}

Result<Multipart::Part> Multipart::copy(size_t number, std::string_view from, std::string_view etag, uint64_t first,
                                        uint64_t size) const {
  Request request = part_request(number);
  request.ends_late = true;
  request.headers = copy_headers(*client_, from, etag);
  request.headers.push_back({"x-amz-copy-source-range", strformat("bytes={}-{}", first, first + size - 1)});
  const Answer answer = client_->ask(request);
  if (!answer.good()) return copy_error(*client_, from, answer, request);
  const auto root = parse_xml(answer.http.text);
  const std::string_view copied = root.ok() ? root->text_of("ETag") : std::string_view();
  if (copied.empty()) return no_tag(client_->path(key_));
  return Part{std::string(copied), ""};
}

// ---- the end ----

Status Multipart::complete(std::span<const Part> parts) {
  Status done = finish(parts);
  if (done.ok()) id_.clear();
  give_up();
  return done;
}

Status Multipart::finish(std::span<const Part> parts) {
  if (!client_->config().conditional) {
    CKPT_ASSIGN(const auto there, look_at_object(*client_, key_));
    if (there) return exists(client_->path(key_));
  }
  std::string text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < parts.size(); i++) {
    text += strformat("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag>", i + 1, xml_escape(parts[i].etag));
    if (!parts[i].checksum.empty()) text += strformat("<ChecksumCRC32C>{}</ChecksumCRC32C>", parts[i].checksum);
    text += "</Part>";
  }
  text += "</CompleteMultipartUpload>";
  const Bytes body = as_bytes(text);
  Request request("POST", key_, {{"uploadId", id_}});
  request.headers = {{"content-type", "application/xml"}};
  if (client_->config().conditional) request.headers.push_back({"if-none-match", "*"});
  request.body = std::span(&body, 1);
  request.ends_late = true;
  const Answer answer = client_->ask(request);
  return outcome_of(answer, request);
}

// Only an answer that says so is a success. In any other case the object that is there tells.
Status Multipart::outcome_of(const Answer& answer, const Request& request) {
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
  if (!abort_upload(*client_, key_, id_).ok()) return settled;
  id_.clear();
  return settle_put(*client_, key_, put_by_, std::move(settled));
}

}  // namespace ckpt::store::s3

// S3's requests for what bucket.h names.
#include <charconv>

#include "store/keys.h"
#include "store/s3/s3_bucket.h"

namespace ckpt::store::s3 {

// ---- looking ----

// By its first byte. HEAD's answers have no words, so an absent object, an absent bucket and whatever answers in the
// server's place would look alike.
Result<std::optional<ObjectInfo>> S3Bucket::look(std::string_view key, bool once) {
  constexpr int kTries = 3;  // of one that goes or comes between two questions
  Request by_byte("GET", key), by_head("HEAD", key);
  std::byte first;
  by_byte.once = by_head.once = once;
  by_byte.headers = {{"range", "bytes=0-0"}};
  by_byte.into = {&first, 1};
  by_byte.wants_bytes = true;
  by_byte.accept = [](const HttpReply& reply) { return reply.status == 206; };  // not all of it
  for (int i = 1;; i++) {
    const Request* asked = &by_byte;
    Answer answer = ask(by_byte);
    if (answer.absent) return std::optional<ObjectInfo>();
    // An empty object has no first byte, and one in an archive gives none.
    if (answer.is(416) || answer.code == "InvalidObjectState") answer = ask(*(asked = &by_head));
    if (answer.is(404) && asked == &by_head && i < kTries) continue;
    if (!answer.good()) return error(answer, *asked);
    CKPT_ASSIGN(ObjectInfo info, describe(key, answer.http));
    return std::optional<ObjectInfo>(std::move(info));
  }
}

Result<S3Bucket::End> S3Bucket::read_end(std::string_view key, MutableBytes into) {
  Request request("GET", key);
  request.into = into;
  request.headers = {{"range", strformat("bytes=-{}", into.size())}};
  request.wants_bytes = true;
  // The whole of an object may be too much.
  request.accept = [&](const HttpReply& reply) {
    auto info = describe(key, reply);
    return !info.ok() || reply.status == 206 || info->size <= into.size();
  };
  const Answer answer = ask(request);
  if (answer.absent) return not_found(path(key));
  if (answer.is(416)) return End();
  if (!answer.good()) return error(answer, request);
  CKPT_ASSIGN(ObjectInfo info, describe(key, answer.http));
  return End{std::move(info), answer.http.received};
}

// ---- putting ----

std::vector<Header> S3Bucket::copy_headers(std::string_view key, std::string_view version) const {
  const Config& config = *config_;
  return {{"x-amz-copy-source", "/" + percent_encode(config.bucket + "/" + config.key(key), true)},
          {"x-amz-copy-source-if-match", std::string(version)}};
}

// The server copies it, and may answer before it has.
Status S3Bucket::copy(std::string_view key, std::string_view version, std::string_view to) {
  Request request("PUT", to);
  request.ends_late = true;
  request.headers = copy_headers(key, version);
  const Answer answer = ask(request);
  return answer.good() ? Ok() : copy_error(key, answer, request);
}

// ---- listing ----

Result<S3Bucket::Page> S3Bucket::list(std::string_view directory, const Wanted& wanted) {
  Query query = {{"list-type", "2"}, {"prefix", config_->prefix(directory)}};
  if (!wanted.below) query.push_back({"delimiter", "/"});
  if (wanted.most != 0) query.push_back({"max-keys", std::to_string(wanted.most)});
  if (!wanted.token.empty()) query.push_back({"continuation-token", wanted.token});
  CKPT_ASSIGN(const XmlPage xml, list_xml(directory, std::move(query), "ListBucketResult"));
  Page page;
  for (const XmlElement& element : xml.root.children) {
    if (element.name == "CommonPrefixes") page.entries.push_back({std::string(element.text_of("Prefix")), true});
    if (element.name != "Contents") continue;
    Listed object{std::string(element.text_of("Key"))};
    if (!parse_number(element.text_of("Size"), &object.size)) return stranger(directory, "an object without a size");
    object.age = age_of(xml.date, seconds_of_iso(std::string(element.text_of("LastModified"))));
    object.version = element.text_of("ETag");
    page.entries.push_back(std::move(object));
  }
  page.more = xml.root.text_of("IsTruncated") == "true";
  page.next = xml.root.text_of("NextContinuationToken");
  return page;
}

// ---- uploads ----

Result<std::string> S3Bucket::begin_upload(std::string_view key, std::string_view put_by, bool* with_checksums) {
  Request request("POST", key, {{"uploads", ""}});
  request.headers = {{names().put_by, std::string(put_by)}};
  request.has_checksums = *with_checksums;
  const Answer answer = ask(request);
  if (!answer.good()) return error(answer, request);
  *with_checksums &= knows_checksums_;
  auto root = parse_xml(answer.http.text);
  std::string id(root.ok() ? root->text_of("UploadId") : std::string_view());
  if (!id.empty()) return id;
  return Status(CKPT_IO,
                strformat("{}: the server at {} began an upload without an id", path(key), config_->endpoint()));
}

static Request piece_request(const Upload& upload, size_t number) {
  Request request("PUT", upload.key, {{"partNumber", std::to_string(number + 1)}, {"uploadId", upload.id}});
  request.of_upload = true;
  return request;
}

static Status no_tag(std::string_view path) {
  return Status(CKPT_IO, std::string(path) + ": a part of an upload got no ETag");
}

Result<S3Bucket::Piece> S3Bucket::send_piece(const Upload& upload, size_t number, std::span<const Bytes> bytes,
                                             std::string_view checksum) {
  Request request = piece_request(upload, number);
  request.body = bytes;
  request.checksum = checksum;
  const Answer answer = ask(request);
  if (!answer.good()) return error(answer, request);
  const std::string* etag = answer.http.header("etag");
  if (!etag || etag->empty()) return no_tag(path(upload.key));
  return Piece{*etag, request.checksum};
}

Result<S3Bucket::Piece> S3Bucket::copy_piece(const Upload& upload, size_t number, std::string_view from,
                                             std::string_view version, uint64_t first, uint64_t size) {
  Request request = piece_request(upload, number);
  request.ends_late = true;
  request.headers = copy_headers(from, version);
  request.headers.push_back({"x-amz-copy-source-range", strformat("bytes={}-{}", first, first + size - 1)});
  const Answer answer = ask(request);
  if (!answer.good()) return copy_error(from, answer, request);
  const auto root = parse_xml(answer.http.text);
  const std::string_view copied = root.ok() ? root->text_of("ETag") : std::string_view();
  if (copied.empty()) return no_tag(path(upload.key));
  return Piece{std::string(copied), ""};
}

// Only an answer that says so is a success.
Outcome S3Bucket::complete_upload(const Upload& upload, std::span<const Piece> pieces) {
  std::string text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < pieces.size(); i++) {
    text += strformat("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag>", i + 1, xml_escape(pieces[i].version));
    if (!pieces[i].checksum.empty()) text += strformat("<ChecksumCRC32C>{}</ChecksumCRC32C>", pieces[i].checksum);
    text += "</Part>";
  }
  text += "</CompleteMultipartUpload>";
  const Bytes body = as_bytes(text);
  Request request("POST", upload.key, {{"uploadId", upload.id}});
  request.headers = {{"content-type", "application/xml"}};
  if (config_->conditional) request.headers.push_back({"if-none-match", "*"});
  request.body = std::span(&body, 1);
  request.ends_late = true;
  const Answer answer = ask(request);
  if (answer.good()) {
    auto root = parse_xml(answer.http.text);
    if (root.ok() && root->name == "CompleteMultipartUploadResult") return {};
  }
  return not_completed(answer, request, answer.absent);
}

Status S3Bucket::abort_upload(const Upload& upload) {
  Request request("DELETE", upload.key, {{"uploadId", upload.id}});
  const Answer answer = ask(request);
  return answer.good() || answer.absent ? Ok() : error(answer, request);
}

static constexpr size_t kMostUploads = 1 << 20;

Result<std::vector<Upload>> S3Bucket::list_uploads(std::string_view directory) {
  const std::string prefix = config_->prefix(directory), root = config_->key("");
  std::vector<Upload> uploads;
  Pages pages;
  std::string key_marker, id_marker;
  for (;;) {
    Query query = {{"uploads", ""}, {"prefix", prefix}};
    if (!key_marker.empty()) query.push_back({"key-marker", key_marker});
    if (!id_marker.empty()) query.push_back({"upload-id-marker", id_marker});
    CKPT_ASSIGN(const XmlPage page, list_xml(directory, std::move(query), "ListMultipartUploadsResult"));
    for (const XmlElement& upload : page.root.children) {
      std::string_view key = upload.text_of("Key");
      if (upload.name != "Upload" || !key.starts_with(prefix)) continue;
      if (!root.empty()) key.remove_prefix(root.size() + 1);
      const int64_t begun = seconds_of_iso(std::string(upload.text_of("Initiated")));
      uploads.push_back({std::string(key), std::string(upload.text_of("UploadId")), "", age_of(page.date, begun)});
    }
    const std::string next_key(page.root.text_of("NextKeyMarker")), next_id(page.root.text_of("NextUploadIdMarker"));
    if (page.root.text_of("IsTruncated") != "true") return uploads;
    if (next_key == key_marker && next_id == id_marker)
      return stranger(directory, "a list of uploads that does not go on");
    key_marker = next_key;
    id_marker = next_id;
    CKPT_TRY(pages.turn(*this, directory, key_marker, uploads.size()));
    if (uploads.size() > kMostUploads) return stranger(directory, "a list of more uploads than there can be");
  }
}

}  // namespace ckpt::store::s3

// S3's requests for what bucket.h names.
#include <charconv>

#include "store/keys.h"
#include "store/s3/s3_bucket.h"

namespace ckpt::store::s3 {

static constexpr std::string_view kPutHeader = "x-amz-meta-ckpt-put";
static constexpr std::string_view kChecksumHeader = "x-amz-meta-ckpt-crc32c";

// ---- looking ----

// From the answer of GET or HEAD.
Result<ObjectInfo> S3Bucket::describe(std::string_view key, const HttpReply& reply) const {
  ObjectInfo info;
  const std::string *range = reply.header("content-range"), *length = reply.header("content-length"),
                    *etag = reply.header("etag"), *put_by = reply.header(kPutHeader),
                    *checksum = reply.header(kChecksumHeader);
  if (reply.status == 206 && !range) return stranger(key, "a range without Content-Range");
  const std::string_view size = reply.status == 206 ? std::string_view(*range).substr(range->rfind('/') + 1)
                                : length            ? std::string_view(*length)
                                                    : std::string_view();
  if (!parse_number(size, &info.size)) return stranger(key, "an object without a size");
  if (!etag || etag->empty()) return stranger(key, "an object without an ETag");
  info.version = *etag;
  info.put_by = put_by ? *put_by : "";
  info.checksum = checksum ? *checksum : "";
  info.age = age_of(date_of(reply), date_of(reply, "last-modified"));
  return info;
}

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

Status S3Bucket::read(std::string_view key, const ObjectInfo& object, uint64_t offset, MutableBytes out) {
  const std::string range = strformat("{}-{}", offset, offset + out.size() - 1);
  Request request("GET", key);
  request.into = out;
  request.headers = {{"range", "bytes=" + range}, {"if-match", object.version}};
  request.wants_bytes = true;
  bool other = false;
  request.accept = [&](const HttpReply& reply) { return brings(reply, "etag", object, range, out.size(), &other); };
  const Answer answer = ask(request);
  if (other || answer.is(412) || answer.absent) return gone_object(path(key));
  if (!answer.good() || answer.http.refused) return error(answer, request);
  if (answer.http.received == out.size()) return Ok();
  return short_object(path(key), out.size(), offset, answer.http.received);
}

// ---- putting ----

// With what its body is checked by, now and whenever it is read.
static Request put_request(std::string_view key, std::span<const Bytes> pieces, std::string_view put_by) {
  Request request("PUT", key);
  request.body = pieces;
  request.checksum = crc32c_header(pieces);
  request.headers = {{std::string(kPutHeader), std::string(put_by)}, {std::string(kChecksumHeader), request.checksum}};
  return request;
}

// Every server gives an object an ETag; what stands between may answer anything.
Outcome S3Bucket::put(const Put& put) {
  Request request = put_request(put.key, put.pieces, put.put_by);
  request.once = put.once;
  if (put.absent) request.headers.push_back({"if-none-match", "*"});
  if (put.replaces) request.headers.push_back({"if-match", *put.replaces});
  const Answer answer = ask(request);
  if (answer.good() && answer.http.header("etag")) return {};
  Status failed = answer.good() ? stranger(put.key, "a put without an ETag") : error(answer, request);
  if (answer.is(412) || (put.replaces && answer.absent)) return {Outcome::kRefused, std::move(failed)};
  const bool unknown = answer.maybe_done || answer.good();
  return {unknown ? Outcome::kUnknown : Outcome::kFailed, std::move(failed)};
}

std::vector<Header> S3Bucket::copy_headers(std::string_view key, std::string_view version) const {
  const Config& config = *config_;
  return {{"x-amz-copy-source", "/" + percent_encode(config.bucket + "/" + config.key(key), true)},
          {"x-amz-copy-source-if-match", std::string(version)}};
}

Status S3Bucket::copy_error(std::string_view key, const Answer& answer, const Request& request) const {
  const bool shorter = answer.is(416);  // S3Proxy looks at the range first
  if (answer.is(412) || shorter || answer.absent) return gone_object(path(key));
  return error(answer, request);
}

// The server copies it, and may answer before it has.
Status S3Bucket::copy(std::string_view key, std::string_view version, std::string_view to) {
  Request request("PUT", to);
  request.ends_late = true;
  request.headers = copy_headers(key, version);
  const Answer answer = ask(request);
  return answer.good() ? Ok() : copy_error(key, answer, request);
}

// ---- removing ----

Status S3Bucket::remove(std::string_view key) {
  Request request("DELETE", key);
  const Answer answer = ask(request);
  return answer.good() || answer.absent ? Ok() : error(answer, request);
}

// ---- listing ----

// One page of a list: what the server said, as an element of that name.
struct S3Bucket::XmlPage {
  XmlElement root;
  int64_t date = -1;  // of the answer
};

Result<S3Bucket::XmlPage> S3Bucket::list_xml(std::string_view directory, Query query, std::string_view root) {
  Request request("GET", directory, std::move(query));
  request.of_bucket = true;
  const Answer answer = ask(request);
  if (!answer.good()) return error(answer, request);
  auto page = parse_xml(answer.http.text);
  if (!page.ok()) return stranger(directory, page.status().message());
  if (page->name != root)
    return stranger(directory, strformat("expected {}, found {}", root,
                                         page->name == "html" ? "a page for people" : "something else"));
  return XmlPage{page.take(), date_of(answer.http)};
}

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
  request.headers = {{std::string(kPutHeader), std::string(put_by)}};
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
  if (answer.is(412)) return {Outcome::kRefused, error(answer, request)};
  if (!answer.absent) return {Outcome::kUnknown, error(answer, request)};
  return {Outcome::kUnknown,
          Status(CKPT_NOT_FOUND, path(upload.key) + ": the upload was given up by another session, or is done")
              .with("path", path(upload.key))};
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

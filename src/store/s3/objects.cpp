#include "store/s3/objects.h"

#include <algorithm>
#include <charconv>

#include "base/parallel.h"
#include "store/keys.h"

namespace ckpt::store::s3 {

static constexpr unsigned kDeletesAtOnce = 8;

static bool parse_number(std::string_view text, uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

static Status not_s3(const Client& client, std::string_view key, std::string_view what) {
  return Status(CKPT_IO, strformat("{}: the server at {} does not answer as S3 does: {}", client.path(key),
                                   client.config().endpoint(), what))
      .with("path", client.path(key));
}

// ---- looking ----

static int64_t age_of(int64_t now, int64_t then) { return now < 0 || then < 0 || then > now ? -1 : now - then; }

Result<ObjectInfo> describe_object(const Client& client, std::string_view key, const HttpReply& reply) {
  ObjectInfo info;
  const std::string *range = reply.header("content-range"), *length = reply.header("content-length"),
                    *etag = reply.header("etag"), *put_by = reply.header(kPutHeader),
                    *checksum = reply.header(kChecksumHeader);
  if (reply.status == 206 && !range) return not_s3(client, key, "a range without Content-Range");
  const std::string_view size = reply.status == 206 ? std::string_view(*range).substr(range->rfind('/') + 1)
                                : length            ? std::string_view(*length)
                                                    : std::string_view();
  if (!parse_number(size, &info.size)) return not_s3(client, key, "an object without a size");
  if (!etag || etag->empty()) return not_s3(client, key, "an object without an ETag");
  info.etag = *etag;
  info.put_by = put_by ? *put_by : "";
  info.checksum = checksum ? *checksum : "";
  info.age = age_of(client.date_of(reply), client.date_of(reply, "last-modified"));
  return info;
}

// By its first byte. HEAD's answers have no words, so an absent object, an absent bucket and whatever answers in the
// server's place would look alike.
Result<std::optional<ObjectInfo>> look_at_object(Client& client, std::string_view key, bool once) {
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
    Answer answer = client.ask(by_byte);
    if (answer.is_absent()) return std::optional<ObjectInfo>();
    // An empty object has no first byte, and one in an archive gives none.
    if (answer.is(416) || answer.code == "InvalidObjectState") answer = client.ask(*(asked = &by_head));
    if (answer.is(404) && asked == &by_head && i < kTries) continue;
    if (!answer.good()) return client.error(answer, *asked);
    CKPT_ASSIGN(ObjectInfo info, describe_object(client, key, answer.http));
    return std::optional<ObjectInfo>(std::move(info));
  }
}

// ---- putting ----

Status settle_put(Client& client, std::string_view key, std::string_view put_by, Status otherwise) {
  const CancelShield until_it_is_known;
  const bool lost = otherwise.code() != CKPT_EXISTS;
  auto there = look_at_object(client, key, lost);
  if (!there.ok()) return lost ? otherwise : std::move(there).status();
  if (!*there) return otherwise;
  return (*there)->put_by == put_by ? Ok() : exists(client.path(key));
}

// With what its body is checked by, now and whenever it is read.
static Request put_request(std::string_view key, std::span<const Bytes> pieces, std::string_view put_by) {
  Request request("PUT", key);
  request.body = pieces;
  request.checksum = crc32c_header(pieces);
  request.headers = {{std::string(kPutHeader), std::string(put_by)}, {std::string(kChecksumHeader), request.checksum}};
  return request;
}

static Status put_unconditionally(Client& client, std::string_view key, std::span<const Bytes> pieces) {
  CKPT_ASSIGN(const auto there, look_at_object(client, key));
  if (there) return exists(client.path(key));
  const Request request = put_request(key, pieces, to_hex(random_id()));
  const Answer answer = client.ask(request);
  return answer.good() ? Ok() : client.error(answer, request);
}

// Every server gives an object an ETag; what stands between may answer anything.
static bool was_put(const Answer& answer) { return answer.good() && answer.http.header("etag"); }

static Status put_error(const Client& client, const Answer& answer, const Request& request) {
  return answer.good() ? not_s3(client, request.key, "a put without an ETag") : client.error(answer, request);
}

Status put_object(Client& client, std::string_view key, std::span<const Bytes> pieces) {
  if (!client.config().conditional) return put_unconditionally(client, key, pieces);
  const std::string put_by = to_hex(random_id());
  Request request = put_request(key, pieces, put_by);
  request.headers.push_back({"if-none-match", "*"});
  const Answer answer = client.ask(request);
  if (was_put(answer)) return Ok();
  if (answer.is(412)) return settle_put(client, key, put_by, exists(client.path(key)));
  Status error = put_error(client, answer, request);
  return answer.maybe_done || answer.good() ? settle_put(client, key, put_by, std::move(error)) : error;
}

Status put_object_over(Client& client, std::string_view key, Bytes data) {
  Request request = put_request(key, {&data, 1}, to_hex(random_id()));
  request.once = true;
  const Answer answer = client.ask(request);
  return was_put(answer) ? Ok() : put_error(client, answer, request);
}

Status replace_object(Client& client, std::string_view key, std::string_view etag, std::string_view put_by,
                      Bytes data) {
  Request request = put_request(key, {&data, 1}, put_by);
  if (client.config().conditional) request.headers.push_back({"if-match", std::string(etag)});
  const Answer answer = client.ask(request);
  if (was_put(answer)) return Ok();
  const bool refused = answer.is(412) || answer.is_absent();
  Status error = put_error(client, answer, request);
  if (!refused && !answer.maybe_done && !answer.good()) return error;
  Status gone = Status(CKPT_GONE, client.path(key) + " was replaced or removed").with("path", client.path(key));
  Status settled = settle_put(client, key, put_by, refused ? gone : error);
  if (settled.code() != CKPT_EXISTS) return settled;
  // Another one is there: if it is not the one that was to be replaced, ours can no longer come.
  auto there = look_at_object(client, key);
  const bool same = there.ok() && *there && (*there)->etag == etag;
  return same ? error : gone;
}

std::vector<Header> copy_headers(const Client& client, std::string_view key, std::string_view etag) {
  const Config& config = client.config();
  return {{"x-amz-copy-source", "/" + percent_encode(config.bucket + "/" + config.key(key), true)},
          {"x-amz-copy-source-if-match", std::string(etag)}};
}

Status copy_error(const Client& client, std::string_view key, const Answer& answer, const Request& request) {
  const bool shorter = answer.is(416);  // S3Proxy looks at the range first
  if (answer.is(412) || shorter || answer.is_absent())
    return Status(CKPT_GONE, client.path(key) + " was replaced or removed").with("path", client.path(key));
  return client.error(answer, request);
}

// The server copies it, and may answer before it has.
Status copy_object(Client& client, std::string_view key, std::string_view etag, std::string_view to) {
  Request request("PUT", to);
  request.ends_late = true;
  request.headers = copy_headers(client, key, etag);
  const Answer answer = client.ask(request);
  return answer.good() ? Ok() : copy_error(client, key, answer, request);
}

// ---- removing ----

Status delete_object(Client& client, std::string_view key) {
  Request request("DELETE", key);
  const Answer answer = client.ask(request);
  return answer.good() || answer.is_absent() ? Ok() : client.error(answer, request);
}

Status delete_objects(Client& client, const std::vector<std::string>& keys) {
  const unsigned threads = keys.size() < 4 ? 1 : kDeletesAtOnce;
  return for_each_parallel(threads, keys.size(), [&](size_t i) { return delete_object(client, keys[i]); });
}

// ---- listing ----

// One page of a list: what the server said, as an element of that name.
struct Page {
  XmlElement root;
  int64_t date = -1;  // of the answer
};
static Result<Page> list_page(Client& client, std::string_view directory, Query query, std::string_view root) {
  Request request("GET", directory, std::move(query));
  request.of_bucket = true;
  const Answer answer = client.ask(request);
  if (!answer.good()) return client.error(answer, request);
  auto page = parse_xml(answer.http.text);
  if (!page.ok()) return not_s3(client, directory, page.status().message());
  if (page->name != root)
    return not_s3(
        client, directory,
        strformat("expected {}, found {}", root, page->name == "html" ? "a page for people" : "something else"));
  return Page{page.take(), client.date_of(answer.http)};
}

static std::string prefix_of(const Client& client, std::string_view directory) {
  const std::string key = client.config().key(directory);
  return key.empty() ? "" : key + "/";
}

// What lets a listing of many pages end, whatever the server says: but for a few of them, each has a greater name than
// all before it, and there are not many more of them than it takes for the names.
class Pages {
 public:
  // Whether another one may be asked for.
  Status turn(const Client& client, std::string_view directory, std::string_view greatest, size_t names) {
    constexpr size_t kMostBarren = 100, kMostSmall = 1000, kLeastNames = 10;
    pages_++;
    barren_ = greatest > greatest_ ? 0 : barren_ + 1;
    if (greatest > greatest_) greatest_ = greatest;
    const bool goes_on = barren_ < kMostBarren && pages_ < kMostSmall + names / kLeastNames;
    return goes_on ? Ok() : not_s3(client, directory, strformat("a listing that does not end ({} pages)", pages_));
  }

 private:
  std::string greatest_;
  size_t pages_ = 0, barren_ = 0;
};

static Status other_prefix(const Client& client, std::string_view directory) {
  return not_s3(client, directory, "a listing of keys with another prefix");
}

static constexpr size_t kLongestTag = 256;  // ETag; S3's have 66 bytes at most

// Adds what a page shows. Each key must be below the prefix.
static Status read_page(const Client& client, std::string_view directory, const std::string& prefix, const Page& page,
                        Listing* listing, std::string* greatest) {
  for (const XmlElement& element : page.root.children) {
    const bool is_object = element.name == "Contents";
    if (!is_object && element.name != "CommonPrefixes") continue;
    std::string_view key = element.text_of(is_object ? "Key" : "Prefix");
    if (!key.starts_with(prefix)) return other_prefix(client, directory);
    key.remove_prefix(prefix.size());
    if (key > *greatest) *greatest = key;
    if (!is_object && key.ends_with('/')) key.remove_suffix(1);
    if (!check_element(key).ok()) continue;  // somebody's mark of a directory, or what no key of a store is
    if (!is_object) {
      listing->directories.emplace_back(key);
      continue;
    }
    uint64_t size = 0;
    if (!parse_number(element.text_of("Size"), &size)) return not_s3(client, directory, "an object without a size");
    const int64_t then = seconds_of_iso(std::string(element.text_of("LastModified")));
    const std::string_view etag = element.text_of("ETag");
    if (etag.size() > kLongestTag) return not_s3(client, directory, "an object with a very long ETag");
    listing->objects.push_back({std::string(key), size, age_of(page.date, then), std::string(etag)});
  }
  return Ok();
}

Result<Listing> list_objects(Client& client, std::string_view directory, size_t most) {
  const std::string prefix = prefix_of(client, directory);
  Listing listing;
  Pages pages;
  std::string token;
  for (;;) {
    Query query = {{"list-type", "2"}, {"prefix", prefix}, {"delimiter", "/"}};
    if (!token.empty()) query.push_back({"continuation-token", token});
    CKPT_ASSIGN(const Page page, list_page(client, directory, std::move(query), "ListBucketResult"));
    std::string greatest;
    CKPT_TRY(read_page(client, directory, prefix, page, &listing, &greatest));
    const size_t names = listing.objects.size() + listing.directories.size();
    if (names > most)
      return Status(CKPT_UNSUPPORTED,
                    strformat("{}: more than {} names in one directory", client.path(directory), most))
          .with("path", client.path(directory));
    if (page.root.text_of("IsTruncated") != "true") return listing;
    const std::string next(page.root.text_of("NextContinuationToken"));
    if (next.empty() || next == token) return not_s3(client, directory, "a listing that does not go on");
    token = next;
    CKPT_TRY(pages.turn(client, directory, greatest, names));
  }
}

Result<bool> holds_objects(Client& client, std::string_view directory) {
  const std::string prefix = prefix_of(client, directory);
  // The first one may be somebody's mark of the directory.
  CKPT_ASSIGN(const Page page, list_page(client, directory, {{"list-type", "2"}, {"prefix", prefix}, {"max-keys", "2"}},
                                         "ListBucketResult"));
  for (const XmlElement& element : page.root.children) {
    if (element.name != "Contents") continue;
    const std::string_view key = element.text_of("Key");
    if (!key.starts_with(prefix)) return other_prefix(client, directory);
    if (key.size() > prefix.size() && !key.ends_with('/')) return true;
  }
  return false;
}

// ---- uploads ----

Status abort_upload(Client& client, std::string_view key, const std::string& upload) {
  Request request("DELETE", key, {{"uploadId", upload}});
  const Answer answer = client.ask(request);
  return answer.good() || answer.is_absent() ? Ok() : client.error(answer, request);
}

Result<std::vector<Upload>> list_uploads(Client& client, std::string_view directory) {
  const std::string prefix = prefix_of(client, directory), root = client.config().key("");
  std::vector<Upload> uploads;
  Pages pages;
  std::string key_marker, id_marker;
  for (;;) {
    Query query = {{"uploads", ""}, {"prefix", prefix}};
    if (!key_marker.empty()) query.push_back({"key-marker", key_marker});
    if (!id_marker.empty()) query.push_back({"upload-id-marker", id_marker});
    CKPT_ASSIGN(const Page page, list_page(client, directory, std::move(query), "ListMultipartUploadsResult"));
    for (const XmlElement& upload : page.root.children) {
      std::string_view key = upload.text_of("Key");
      if (upload.name != "Upload" || !key.starts_with(prefix)) continue;
      if (!root.empty()) key.remove_prefix(root.size() + 1);
      const int64_t begun = seconds_of_iso(std::string(upload.text_of("Initiated")));
      uploads.push_back({std::string(key), std::string(upload.text_of("UploadId")), age_of(page.date, begun)});
    }
    const std::string next_key(page.root.text_of("NextKeyMarker")), next_id(page.root.text_of("NextUploadIdMarker"));
    if (page.root.text_of("IsTruncated") != "true") return uploads;
    if (next_key == key_marker && next_id == id_marker)
      return not_s3(client, directory, "a list of uploads that does not go on");
    key_marker = next_key;
    id_marker = next_id;
    CKPT_TRY(pages.turn(client, directory, key_marker, uploads.size()));
    if (uploads.size() > kMostListed) return not_s3(client, directory, "a list of more uploads than there can be");
  }
}

}  // namespace ckpt::store::s3

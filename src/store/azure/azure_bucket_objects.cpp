// Azure's requests for what bucket.h names. What is larger than one request is put in blocks, which belong to the name
// and not to a writer: so their ids begin with the number of the upload, and its list names no others.
#include "base/text.h"
#include "store/azure/azure_bucket.h"
#include "store/azure/sign.h"
#include "store/keys.h"

namespace ckpt::store::azure {

// ---- looking ----

// A directory of an account that has them is an entry of its own, and so is some programs' mark of one.
static bool is_directory(const HttpReply& reply) {
  const std::string *mark = reply.header("x-ms-meta-hdi_isfolder"), *type = reply.header("x-ms-resource-type");
  return (mark && in_lower_case(*mark) == "true") || (type && *type == "directory");
}

Result<std::optional<ObjectInfo>> AzureBucket::look(std::string_view key, bool once) {
  Request request("HEAD", key);
  request.once = once;
  const Answer answer = ask(request);
  if (answer.absent || (answer.good() && is_directory(answer.http))) return std::optional<ObjectInfo>();
  if (!answer.good()) return error(answer, request);
  CKPT_ASSIGN(ObjectInfo info, describe(key, answer.http));
  return std::optional<ObjectInfo>(std::move(info));
}

// ---- copying ----

// The server reads the source as anybody would, so the source needs a right of its own.
Result<std::vector<Header>> AzureBucket::copy_headers(std::string_view key, std::string_view version) {
  constexpr int64_t kLasts = 3600;  // seconds, of the signature
  CKPT_ASSIGN(const auto used, credentials_.get(server_time()));
  if (!used->key.empty() && !is_private(*config_))
    return Status(CKPT_UNSUPPORTED, path(key) + ": a copy by the server needs a signature that whoever reads it may " +
                                        "use, and the endpoint has no TLS")
        .with("path", path(key));
  const std::string object = config_->key(key);
  std::string source = config_->endpoint() + config_->path_of(object), right = used->sas;
  if (!used->key.empty())
    right = read_signature(config_->account, config_->bucket + "/" + object, used->key, server_time() + kLasts);
  std::vector<Header> headers = {{"x-ms-copy-source", source + (right.empty() ? "" : "?" + right)},
                                 {"x-ms-source-if-match", std::string(version)}};
  if (!used->value.empty()) headers.push_back({"x-ms-copy-source-authorization", "Bearer " + used->value});
  return headers;
}

// The service says the same of a source that is not there, and of one that it cannot reach or may not read.
Status AzureBucket::failed_copy(std::string_view from, const Answer& answer, const Request& request) {
  if (!answer.is(404) || answer.code != "CannotVerifyCopySource") return copy_error(from, answer, request);
  const auto there = look(from);
  return there.ok() && !*there ? cloud::gone_object(path(from)) : error(answer, request);
}

Status AzureBucket::copy(std::string_view key, std::string_view version, std::string_view to) {
  Request request("PUT", to);
  CKPT_ASSIGN(request.headers, copy_headers(key, version));
  request.headers.push_back({"x-ms-requires-sync", "true"});
  request.ends_late = true;
  const Answer answer = ask(request);
  if (!answer.good()) return failed_copy(key, answer, request);
  const std::string* status = answer.http.header("x-ms-copy-status");
  return status && *status == "success" ? Ok() : stranger(to, "a copy without an end");
}

// ---- removing ----

// Of an account that has directories: one that is empty now. Where others put something into it, it stays.
Status AzureBucket::remove_directory(std::string_view key) {
  const Request request("HEAD", key);
  const Answer answer = ask(request);
  if (answer.good() && is_directory(answer.http)) {
    const Request removal("DELETE", key);
    const Answer removed = ask(removal);
    return removed.good() || removed.absent || removed.is(409) ? Ok() : error(removed, removal);
  }
  return answer.good() || answer.absent ? Ok() : error(answer, request);
}

// ---- listing ----

Result<AzureBucket::Page> AzureBucket::list(std::string_view directory, const Wanted& wanted) {
  Query query = {{"restype", "container"}, {"comp", "list"}, {"include", "metadata"}};
  const std::string prefix = config_->prefix(directory);
  if (!prefix.empty()) query.push_back({"prefix", prefix});
  if (!wanted.below) query.push_back({"delimiter", "/"});
  // With metadata, which may have 8 KiB of each, an answer may have 16 MiB, and is refused if it would have more.
  constexpr uint64_t kMost = 1000;
  query.push_back({"maxresults", std::to_string(wanted.most != 0 ? wanted.most : kMost)});
  if (!wanted.token.empty()) query.push_back({"marker", wanted.token});
  CKPT_ASSIGN(const XmlPage xml, list_xml(directory, std::move(query), "EnumerationResults"));
  const XmlElement* blobs = xml.root.child("Blobs");
  if (!blobs) return stranger(directory, "a list without names");
  Page page;
  for (const XmlElement& element : blobs->children) {
    Listed entry{std::string(element.text_of("Name")), element.name == "BlobPrefix"};
    const XmlElement *properties = element.child("Properties"), *metadata = element.child("Metadata");
    if (element.name == "Blob") {
      if (!properties || !parse_number(properties->text_of("Content-Length"), &entry.size))
        return stranger(directory, "an object without a size");
      entry.is_directory = properties->text_of("ResourceType") == "directory" ||
                           (metadata && in_lower_case(metadata->text_of("hdi_isfolder")) == "true");
      entry.age = age_of(xml.date, http().seconds_of(std::string(properties->text_of("Last-Modified"))));
      entry.version = properties->text_of("Etag");
      if (!entry.version.starts_with('"')) entry.version = "\"" + entry.version + "\"";  // as headers have it
    }
    if (entry.is_directory && !entry.key.ends_with('/')) entry.key += '/';
    page.entries.push_back(std::move(entry));
  }
  page.next = xml.root.text_of("NextMarker");
  page.more = !page.next.empty();
  return page;
}

// ---- uploads ----

// Each block has a checksum, as any other body.
Result<std::string> AzureBucket::begin_upload(std::string_view /*key*/, std::string_view /*put_by*/,
                                              bool* with_checksums) {
  *with_checksums = false;
  return to_hex(random_id());
}

// All ids of one object have one length.
static std::string block_id(const Upload& upload, size_t number) {
  return base64_of(as_bytes(strformat("{}.{:05}", upload.id, number)));
}

static Request block_request(const Upload& upload, size_t number) {
  Request request("PUT", upload.key, {{"comp", "block"}, {"blockid", block_id(upload, number)}});
  request.of_upload = true;
  return request;
}

Result<AzureBucket::Piece> AzureBucket::send_piece(const Upload& upload, size_t number, std::span<const Bytes> bytes,
                                                   std::string_view /*checksum*/) {
  Request request = block_request(upload, number);
  request.body = bytes;
  const Answer answer = ask(request);
  if (!answer.good()) return error(answer, request);
  return Piece{block_id(upload, number), ""};
}

Result<AzureBucket::Piece> AzureBucket::copy_piece(const Upload& upload, size_t number, std::string_view from,
                                                   std::string_view version, uint64_t first, uint64_t size) {
  Request request = block_request(upload, number);
  CKPT_ASSIGN(request.headers, copy_headers(from, version));
  request.headers.push_back({"x-ms-source-range", strformat("bytes={}-{}", first, first + size - 1)});
  request.ends_late = true;
  const Answer answer = ask(request);
  if (!answer.good()) return failed_copy(from, answer, request);
  return Piece{block_id(upload, number), ""};
}

// Once another list of this name was committed, its blocks are gone: whoever looks finds what came before.
Outcome AzureBucket::complete_upload(const Upload& upload, std::span<const Piece> pieces) {
  std::string text = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>";
  for (const Piece& piece : pieces) text += strformat("<Uncommitted>{}</Uncommitted>", piece.version);
  text += "</BlockList>";
  const Bytes body = as_bytes(text);
  Request request("PUT", upload.key, {{"comp", "blocklist"}});
  request.headers = {{names().put_by, upload.put_by}, {"content-type", "application/xml"}};
  if (config_->conditional) request.headers.push_back({"if-none-match", "*"});
  request.body = std::span(&body, 1);
  request.ends_late = true;
  const Answer answer = ask(request);
  if (answer.good() && answer.http.header("etag")) return {};
  return not_completed(answer, request, answer.code == "InvalidBlockList");
}

// Only an object under their name ends blocks, and an empty one there would be taken for the part. The service drops
// them after a week.
Status AzureBucket::abort_upload(const Upload& upload) {
  return Status(CKPT_UNSUPPORTED, path(upload.key) + ": the blocks of an upload stay for a week")
      .with("path", upload.key);
}

Result<std::vector<Upload>> AzureBucket::list_uploads(std::string_view /*directory*/) { return std::vector<Upload>(); }

}  // namespace ckpt::store::azure

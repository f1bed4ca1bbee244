// Requests of Google's JSON API for what bucket.h names. What is larger than one request is put in pieces of their own
// name, which the service then composes: its uploads in parallel take no condition, and its resumable ones go one after
// the other.
#include <algorithm>
#include <map>

#include "base/parallel.h"
#include "base/text.h"
#include "store/cloud/objects.h"
#include "store/cloud/secret_json.h"
#include "store/gcs/gcs_bucket.h"
#include "store/keys.h"

namespace ckpt::store::gcs {

using nlohmann::json;

static constexpr const char *kPutName = "ckpt-put", *kFields = "size,generation,crc32c,timeCreated,metadata";
static constexpr unsigned kAtOnce = 8;
static constexpr size_t kMostSources = 32;  // of one composition

std::string GcsBucket::objects_path(std::string_view before) const {
  return std::string(before) + "/storage/v1/b/" + percent_encode(place().bucket, false) + "/o";
}

std::string GcsBucket::object_path(std::string_view key) const {
  return objects_path() + "/" + percent_encode(place().key(key), false);
}

// ---- looking ----

static ObjectInfo read_resource(const json& resource, int64_t now, bool* complete) {
  ObjectInfo info;
  info.version = text_member(resource, "generation");
  info.checksum = text_member(resource, "crc32c");
  if (const json* metadata = member(resource, "metadata")) info.put_by = text_member(*metadata, kPutName);
  info.age = age_of(now, seconds_of_iso(text_member(resource, "timeCreated")));
  *complete = parse_number(text_member(resource, "size"), &info.size) && !info.version.empty();
  return info;
}

Result<ObjectInfo> GcsBucket::describe(std::string_view key, const Answer& answer) const {
  const auto resource = parse_json(answer.http.text);
  if (!resource.is_object()) return stranger(key, "an object that is no JSON");
  bool complete = false;
  ObjectInfo info = read_resource(resource, date_of(answer.http), &complete);
  if (!complete) return stranger(key, "an object without a size or a generation");
  return info;
}

// The service has said of an object in a bucket that is not there what it says of one that is not there.
Status GcsBucket::check_bucket() {
  if (bucket_is_there_) return Ok();
  CKPT_TRY(list("", {.most = 1}).status());
  bucket_is_there_ = true;
  return Ok();
}

Result<std::optional<ObjectInfo>> GcsBucket::look(std::string_view key, bool once) {
  Request request("GET", key, {{"fields", kFields}});
  request.once = once;
  const Answer answer = ask(request);
  if (answer.absent) {
    CKPT_TRY(check_bucket());
    return std::optional<ObjectInfo>();
  }
  if (!answer.good()) return error(answer, request);
  bucket_is_there_ = true;
  CKPT_ASSIGN(ObjectInfo info, describe(key, answer));
  return std::optional<ObjectInfo>(std::move(info));
}

// `again`: it is said to be absent, and is there.
Status GcsBucket::try_to_read(std::string_view key, const ObjectInfo& object, uint64_t offset, MutableBytes out,
                              bool* again) {
  const std::string range = strformat("{}-{}", offset, offset + out.size() - 1);
  Request request("GET", key, {{"alt", "media"}, {"generation", object.version}});
  request.into = out;
  // What is stored compressed comes as it is stored; else its ranges would be of other bytes.
  request.headers = {{"range", "bytes=" + range}, {"accept-encoding", "gzip"}};
  request.wants_bytes = true;
  bool other = false;
  request.accept = [&](const HttpReply& reply) {
    return brings(reply, "x-goog-generation", object, range, out.size(), &other);
  };
  const Answer answer = ask(request);
  if (other || answer.is(412)) return gone_object(path(key));
  if (answer.absent) {
    CKPT_ASSIGN(const auto there, look(key, false));
    if (!there || there->version != object.version) return gone_object(path(key));
    *again = true;
  }
  if (!answer.good() || answer.http.refused) return error(answer, request);
  if (answer.http.received == out.size()) return Ok();
  return short_object(path(key), out.size(), offset, answer.http.received);
}

Status GcsBucket::read(std::string_view key, const ObjectInfo& object, uint64_t offset, MutableBytes out) {
  constexpr int kTries = 3;
  for (int i = 1;; i++) {
    bool again = false;
    Status told = try_to_read(key, object, offset, out, &again);
    if (!again) return told;
    if (i == kTries) return Status(CKPT_IO, told.message() + ", though it is there").with("path", path(key));
  }
}

// ---- putting ----

Outcome GcsBucket::outcome_of(const Answer& answer, const Request& request) const {
  if (answer.good()) {
    auto made = describe(request.key, answer);
    return made.ok() ? Outcome() : Outcome{Outcome::kUnknown, std::move(made).status()};
  }
  if (answer.is(412)) return {Outcome::kRefused, error(answer, request)};
  return {answer.maybe_done ? Outcome::kUnknown : Outcome::kFailed, error(answer, request)};
}

// With what its body is checked by: a related text with the object's properties, and the bytes behind it.
Outcome GcsBucket::insert(const Put& put, bool of_upload) {
  const std::string name = place().key(put.key);
  if (!valid_utf8(name)) return {Outcome::kFailed, Status(CKPT_INVALID, path(put.key) + ": the name is no UTF-8")};
  Request request("POST", put.key, {{"uploadType", "multipart"}, {"name", name}, {"fields", kFields}});
  request.path = objects_path("/upload");
  request.once = put.once;
  request.of_upload = of_upload;
  if (put.absent) request.query.push_back({"ifGenerationMatch", "0"});
  if (put.replaces) request.query.push_back({"ifGenerationMatch", *put.replaces});
  json properties = {
      {"name", name}, {"contentType", "application/octet-stream"}, {"crc32c", crc32c_header(put.pieces)}};
  if (!put.put_by.empty()) properties["metadata"] = {{kPutName, put.put_by}};
  const std::string boundary = to_hex(random_id());
  request.headers = {{"content-type", "multipart/related; boundary=" + boundary}};
  const std::string head = strformat(
      "--{}\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n{}\r\n--{}\r\n"
      "content-type: application/octet-stream\r\n\r\n",
      boundary, properties.dump(), boundary);
  const std::string tail = strformat("\r\n--{}--\r\n", boundary);
  std::vector<Bytes> body = {as_bytes(head)};
  body.insert(body.end(), put.pieces.begin(), put.pieces.end());
  body.push_back(as_bytes(tail));
  request.body = body;
  const Answer answer = ask(request);
  Outcome outcome = outcome_of(answer, request);
  if (put.replaces && answer.absent) outcome.what = Outcome::kRefused;
  return outcome;
}

Outcome GcsBucket::put(const Put& put) { return insert(put, false); }

// The service copies it, a large one by several requests.
Status GcsBucket::copy(std::string_view key, std::string_view version, std::string_view to) {
  constexpr int kMostBegun = 3;
  std::string token;
  int begun = 1;
  for (uint64_t copied = 0;;) {
    Request request("POST", to, {{"ifSourceGenerationMatch", std::string(version)}});
    request.path = object_path(key) + "/rewriteTo" + object_path(to).substr(std::string_view("/storage/v1").size());
    request.ends_late = true;
    if (!token.empty()) request.query.push_back({"rewriteToken", token});
    const Answer answer = ask(request);
    if (answer.is(412) || answer.absent) return gone_object(path(key));
    // A request that was carried out, whose answer got lost, may have used the token up.
    if (answer.is(400) && !token.empty() && begun < kMostBegun) {
      begun++;
      copied = 0;
      token.clear();
      continue;
    }
    if (!answer.good()) return error(answer, request);
    const auto told = parse_json(answer.http.text);
    const json* done = member(told, "done");
    if (!done || !done->is_boolean()) return stranger(to, "a copy without an end");
    if (done->get<bool>()) return Ok();
    const uint64_t before = std::exchange(copied, 0);
    token = text_member(told, "rewriteToken");
    const bool grows = parse_number(text_member(told, "totalBytesRewritten"), &copied) && copied > before;
    if (token.empty() || !grows) return stranger(to, "a copy that does not go on");
  }
}

// ---- listing ----

Result<GcsBucket::Page> GcsBucket::list(std::string_view directory, const Wanted& wanted) {
  Request request("GET", directory,
                  {{"prefix", place().prefix(directory)},
                   {"fields", "kind,items(name,size,generation,timeCreated),prefixes,nextPageToken"}});
  request.path = objects_path();
  request.of_bucket = true;
  if (!wanted.below) request.query.push_back({"delimiter", "/"});
  if (wanted.most != 0) request.query.push_back({"maxResults", std::to_string(wanted.most)});
  if (!wanted.token.empty()) request.query.push_back({"pageToken", wanted.token});
  const Answer answer = ask(request);
  if (!answer.good()) return error(answer, request);
  const auto told = parse_json(answer.http.text);
  if (text_member(told, "kind") != "storage#objects") return stranger(directory, "something else than a list");
  bucket_is_there_ = true;
  Page page;
  const json *items = member(told, "items"), *prefixes = member(told, "prefixes");
  if ((items && !items->is_array()) || (prefixes && !prefixes->is_array()))
    return stranger(directory, "a list without names");
  static const json kNone = json::array();
  for (const json& prefix : prefixes ? *prefixes : kNone)
    if (prefix.is_string()) page.entries.push_back({prefix.get<std::string>(), true});
  const int64_t now = date_of(answer.http);
  for (const json& item : items ? *items : kNone) {
    bool complete = false;
    const ObjectInfo info = read_resource(item, now, &complete);
    if (!complete) return stranger(directory, "an object without a size or a generation");
    page.entries.push_back({text_member(item, "name"), false, info.size, info.age, info.version});
  }
  page.next = text_member(told, "nextPageToken");
  page.more = !page.next.empty();
  return page;
}

// ---- uploads: pieces with names below .ckpt/pieces ----

static constexpr std::string_view kPieces = ".ckpt/pieces";

static std::string piece_key(const Upload& upload, std::string_view number) {
  return strformat("{}/{}/{}.{}", kPieces, upload.key, upload.id, number);
}

// Each piece is an object with its checksum, as any other.
Result<std::string> GcsBucket::begin_upload(std::string_view /*key*/, std::string_view /*put_by*/,
                                            bool* with_checksums) {
  *with_checksums = false;
  return to_hex(random_id());
}

Result<GcsBucket::Piece> GcsBucket::send_piece(const Upload& upload, size_t number, std::span<const Bytes> bytes,
                                               std::string_view /*checksum*/) {
  const std::string key = piece_key(upload, strformat("{:05}", number));
  Outcome put = insert({.key = key, .pieces = bytes, .put_by = {}}, true);
  if (put.what != Outcome::kDone) return std::move(put.error);
  return Piece{key, ""};
}

// copy() takes objects of any size.
Result<GcsBucket::Piece> GcsBucket::copy_piece(const Upload& upload, size_t, std::string_view, std::string_view,
                                               uint64_t, uint64_t) {
  return Status(CKPT_UNSUPPORTED, path(upload.key) + ": a part of an object is not copied here");
}

// `finishes`: what is made is the object itself. `removes`: the sources go with it.
Outcome GcsBucket::compose(std::string_view to, std::span<const std::string> sources, const Upload* finishes,
                           bool removes) {
  json names = json::array();
  for (const std::string& source : sources) names.push_back({{"name", place().key(source)}});
  json destination = {{"contentType", "application/octet-stream"}};
  if (finishes) destination["metadata"] = {{kPutName, finishes->put_by}};
  const json order = {{"kind", "storage#composeRequest"},
                      {"sourceObjects", names},
                      {"destination", destination},
                      {"deleteSourceObjects", removes}};
  const std::string text = order.dump();
  const Bytes body = as_bytes(text);
  Request request("POST", to, {{"fields", kFields}});
  request.path = object_path(to) + "/compose";
  request.headers = {{"content-type", "application/json"}};
  request.body = std::span(&body, 1);
  request.ends_late = true;
  request.of_upload = !finishes;
  if (finishes && place().conditional) request.query.push_back({"ifGenerationMatch", "0"});
  const Answer answer = ask(request);
  if (answer.is(403) && removes) return compose(to, sources, finishes, false);  // to put takes no right to delete
  Outcome outcome = outcome_of(answer, request);
  if (answer.absent)  // a source
    outcome = {
        Outcome::kUnknown,
        Status(CKPT_NOT_FOUND, path(to) + ": the upload was given up by another session").with("path", path(to))};
  return outcome;
}

// Composes until one composition takes all.
Result<std::vector<std::string>> GcsBucket::merge(const Upload& upload, std::vector<std::string> sources) {
  for (int level = 1; sources.size() > kMostSources; level++) {
    std::vector<std::string> merged((sources.size() + kMostSources - 1) / kMostSources);
    CKPT_TRY(for_each_parallel(kAtOnce, merged.size(), [&](size_t i) {
      merged[i] = piece_key(upload, strformat("{}-{:05}", level, i));
      const size_t first = i * kMostSources, count = std::min(kMostSources, sources.size() - first);
      Status made = compose(merged[i], std::span(sources).subspan(first, count), nullptr).error;
      if (made.code() != CKPT_NOT_FOUND) return made;
      CKPT_ASSIGN(const auto there, look(merged[i]));  // where an answer got lost, its sources are gone
      return there ? Ok() : made;
    }));
    sources = std::move(merged);
  }
  return sources;
}

Outcome GcsBucket::complete_upload(const Upload& upload, std::span<const Piece> pieces) {
  std::vector<std::string> sources;
  for (const Piece& piece : pieces) sources.push_back(piece.version);
  auto merged = merge(upload, std::move(sources));
  if (!merged.ok()) return {Outcome::kFailed, std::move(merged).status()};
  Outcome made = compose(upload.key, *merged, &upload);
  // Emulators leave the sources. Where it is not done, whoever asked for it ends the upload.
  if (made.what == Outcome::kDone) (void)abort_upload(upload);
  return made;
}

// All pieces below a directory of the store, or of one key.
Result<std::vector<GcsBucket::Lone>> GcsBucket::list_pieces(std::string_view directory) {
  const std::string below = strformat("{}{}{}", kPieces, directory.empty() ? "" : "/", directory);
  const size_t start = place().prefix(kPieces).size();
  std::vector<Lone> found;
  const auto take = [&](std::string_view, Page& page) -> Result<size_t> {
    for (const Listed& entry : page.entries) {
      const std::string_view key = std::string_view(entry.key).substr(start);
      const size_t slash = key.rfind('/'), dot = key.rfind('.');
      if (slash == key.npos || dot == key.npos || dot < slash) continue;
      found.push_back({strformat("{}/{}", kPieces, key), std::string(key.substr(0, slash)),
                       std::string(key.substr(slash + 1, dot - slash - 1)), entry.age});
    }
    if (found.size() > kMostListed) return stranger(below, "a list of more pieces than there can be");
    return found.size();
  };
  CKPT_TRY(for_each_page(*this, below, {.below = true}, take));
  return found;
}

Status GcsBucket::abort_upload(const Upload& upload) {
  CKPT_ASSIGN(std::vector<Lone> pieces, list_pieces(upload.key));
  std::erase_if(pieces, [&](const Lone& piece) { return piece.id != upload.id; });
  return for_each_parallel(kAtOnce, pieces.size(), [&](size_t i) { return remove(pieces[i].piece); });
}

// As old as its youngest piece.
Result<std::vector<Upload>> GcsBucket::list_uploads(std::string_view directory) {
  CKPT_ASSIGN(const std::vector<Lone> pieces, list_pieces(directory));
  std::map<std::pair<std::string, std::string>, int64_t> ages;
  for (const Lone& piece : pieces) {
    const auto [known, first] = ages.try_emplace({piece.key, piece.id}, piece.age);
    if (!first) known->second = std::min(known->second, piece.age);
  }
  std::vector<Upload> uploads;
  for (const auto& [upload, age] : ages) uploads.push_back({upload.first, upload.second, "", age});
  return uploads;
}

}  // namespace ckpt::store::gcs

#include "store/cloud/xml_bucket.h"

#include "base/address.h"

namespace ckpt::store::cloud {

// ---- objects ----

Result<ObjectInfo> XmlBucket::describe(std::string_view key, const HttpReply& reply) const {
  ObjectInfo info;
  const std::string *range = reply.header("content-range"), *length = reply.header("content-length"),
                    *etag = reply.header("etag"), *put_by = reply.header(names().put_by),
                    *checksum = reply.header(names().checksum);
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

Status XmlBucket::read(std::string_view key, const ObjectInfo& object, uint64_t offset, MutableBytes out) {
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

// Every server gives an object an ETag; what stands between may answer anything.
Outcome XmlBucket::put(const Put& put) {
  Request request("PUT", put.key);
  request.body = put.pieces;
  request.once = put.once;
  request.checksum = crc32c_header(put.pieces);
  request.headers = {{names().put_by, std::string(put.put_by)}, {names().checksum, request.checksum}};
  if (put.absent) request.headers.push_back({"if-none-match", "*"});
  if (put.replaces) request.headers.push_back({"if-match", *put.replaces});
  const Answer answer = ask(request);
  if (answer.good() && answer.http.header("etag")) return {};
  Status failed = answer.good() ? stranger(put.key, "a put without an ETag") : error(answer, request);
  if (is_refusal(answer) || (put.replaces && answer.absent)) return {Outcome::kRefused, std::move(failed)};
  const bool unknown = answer.maybe_done || answer.good();
  return {unknown ? Outcome::kUnknown : Outcome::kFailed, std::move(failed)};
}

Status XmlBucket::copy_error(std::string_view key, const Answer& answer, const Request& request) const {
  const bool shorter = answer.is(416);  // S3Proxy looks at the range first
  if (answer.is(412) || shorter || answer.absent) return gone_object(path(key));
  return error(answer, request);
}

Outcome XmlBucket::not_completed(const Answer& answer, const Request& request, bool given_up) const {
  if (is_refusal(answer)) return {Outcome::kRefused, error(answer, request)};
  if (!given_up) return {Outcome::kUnknown, error(answer, request)};
  const std::string where = path(request.key);
  return {
      Outcome::kUnknown,
      Status(CKPT_NOT_FOUND, where + ": the upload was given up by another session, or is done").with("path", where)};
}

// ---- lists and errors ----

Result<XmlBucket::XmlPage> XmlBucket::list_xml(std::string_view directory, Query query, std::string_view root) {
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

void XmlBucket::read_xml(Answer* answer, const std::vector<std::string>& secrets) {
  for (Header& header : answer->http.headers) header.value = blotted(std::move(header.value), secrets);
  auto parsed = parse_xml(answer->http.text);
  if (!parsed.ok() || parsed->name != "Error") return;
  answer->code = blotted(std::string(parsed->text_of("Code")), secrets);
  answer->words = blotted(std::string(parsed->text_of("Message")), secrets);
  if (answer->code.empty()) answer->code = "Error";
}

}  // namespace ckpt::store::cloud

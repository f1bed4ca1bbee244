#include "store/s3/s3_bucket.h"

#include <algorithm>

#include "base/address.h"
#include "store/keys.h"

namespace ckpt::store::s3 {

static constexpr uint64_t kHashed = 64 << 10;  // bodies up to this size are part of the signature

Result<std::shared_ptr<S3Bucket>> S3Bucket::make(std::string_view uri, const S3Options& options) {
  CKPT_ASSIGN(Config config, make_config(uri, options));
  CKPT_ASSIGN(auto http, Http::make(config.ca_file));
  const auto shared = std::make_shared<const Config>(std::move(config));
  return std::shared_ptr<S3Bucket>(new S3Bucket(shared, std::move(http)));
}

// ---- requests ----

// Signs what is sent, all headers included: a proxy that drops a condition makes the signature wrong.
static void sign(HttpRequest* http, const std::string& path, const std::string& query, const Config& config,
                 const Keys& keys, int64_t now, bool hashed) {
  const std::string date = amz_date(now);
  http->headers.push_back({"host", config.host});
  http->headers.push_back({"x-amz-content-sha256", hashed ? hex_of(sha256(http->body)) : "UNSIGNED-PAYLOAD"});
  const std::string hash = http->headers.back().value;
  if (keys.anonymous()) return;
  http->headers.push_back({"x-amz-date", date});
  if (!keys.session_token.empty()) http->headers.push_back({"x-amz-security-token", keys.session_token});
  const ToSign to_sign{http->method, path, query, http->headers, hash};
  http->headers.push_back({"authorization", authorization(to_sign, keys, config.region, "s3", date)});
}

Result<Client::Who> S3Bucket::dress(const Request& request, HttpRequest* http) {
  CKPT_ASSIGN(auto used, credentials_.get(server_time()));
  const std::string query = canonical_query(request.query);
  std::string path = config_->base;
  if (!request.of_bucket) path += "/" + percent_encode(config_->key(request.key), true);
  if (path.empty()) path = "/";
  http->url = config_->endpoint() + path + (query.empty() ? "" : "?" + query);
  const bool checksums = knows_checksums_;
  if (checksums && request.has_checksums) http->headers.push_back({"x-amz-checksum-algorithm", "CRC32C"});
  if (checksums && !request.checksum.empty()) http->headers.push_back({"x-amz-checksum-crc32c", request.checksum});
  // A server without checksums checks the hash.
  const bool hashed = size_of(request.body) <= kHashed || !checksums;
  sign(http, path, query, *config_, used->keys, server_time(), hashed);
  return Who(std::move(used));
}

// What the server may have from us and nobody else may see, as it was sent.
static std::vector<std::string> secrets_of(const Keys& keys, const HttpRequest& http) {
  std::vector<std::string> secrets = {keys.secret_key};
  for (const Header& header : http.headers) {
    if (header.name == "authorization") secrets.push_back(header.value.substr(header.value.rfind('=') + 1));
    if (header.name == "x-amz-security-token") secrets.push_back(header.value);
  }
  for (const std::string& secret : std::vector(secrets)) secrets.push_back(percent_encode(secret, false));
  return secrets;
}

// No key is asked for in a list, so none is missing.
static bool is_stray(const Answer& answer, const Request& request) {
  if (!answer.is(404) || request.verb == "HEAD") return false;
  return answer.code.empty() || answer.code == "Error" || (request.of_bucket && answer.absent);
}

static const Keys& keys_of(const std::shared_ptr<const void>& who) {
  return static_cast<const Credentials*>(who.get())->keys;
}

void S3Bucket::read_error(const Request& request, const HttpRequest& sent, const Who& who, Answer* answer) const {
  answer->unsigned_request = keys_of(who).anonymous();
  read_xml(answer, secrets_of(keys_of(who), sent));
  // An answer to HEAD cannot have a code.
  answer->absent = answer->is(404) &&
                   (answer->code == "NoSuchKey" || answer->code == "NoSuchVersion" || answer->code == "NoSuchUpload");
  answer->stray = is_stray(*answer, request);
  answer->absent &= !answer->stray;
}

// ---- again ----

// Also of a body that arrived with other bytes than it was sent with.
bool S3Bucket::is_passing_code(const Answer& answer) const {
  const auto is_one_of = [&](std::initializer_list<std::string_view> codes) {
    return std::find(codes.begin(), codes.end(), answer.code) != codes.end();
  };
  if (answer.http.good()) return is_one_of({"InternalError", "SlowDown", "ServiceUnavailable"});
  return is_one_of({"RequestTimeout", "BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch",
                    "XAmzContentChecksumMismatch", "OperationAborted", "ConditionalRequestConflict"});
}

// Whether the next try may do better at once: with other keys, the server's time, or another kind of checksum.
bool S3Bucket::repair(const Request& request, const Answer& answer, const Who& who, Try* tries) {
  const long status = answer.http.status;
  if (!answer.failure.ok() || answer.http.good()) return false;
  if (status == 403 && !tries->set_clock && set_clock(answer.http)) return tries->set_clock = true;
  // A bit of a header may have been damaged on its way.
  if (answer.code == "SignatureDoesNotMatch" && !tries->signed_again) return tries->signed_again = true;
  const bool expired = answer.code == "ExpiredToken" || answer.code == "InvalidToken" ||
                       answer.code == "TokenRefreshRequired" || (status == 403 && answer.code.empty());
  if (expired && !tries->asked_keys) {
    tries->asked_keys = true;
    return credentials_.refused(*static_cast<const Credentials*>(who.get()), server_time());
  }
  // A 501 may also be about a condition.
  const bool conditional = std::any_of(request.headers.begin(), request.headers.end(),
                                       [](const Header& header) { return header.name.starts_with("if-"); });
  const bool no_checksum =
      (status == 501 && !conditional) || (status == 400 && answer.words.find("hecksum") != std::string::npos &&
                                          answer.code != "BadDigest" && answer.code != "XAmzContentChecksumMismatch");
  if ((request.has_checksums || !request.checksum.empty()) && no_checksum) return knows_checksums_.exchange(false);
  return false;
}

// ---- errors ----

std::string S3Bucket::hint_of(const Answer& answer, const Request& request) const {
  const std::string* region = answer.http.header("x-amz-bucket-region");
  const long status = answer.http.status;
  if ((status == 301 || status == 307 || status == 400) && region && *region != config_->region)
    return strformat("; the bucket is in region {}: set option region", printable(*region));
  if (answer.code == "RequestTimeTooSkewed") return "; this machine's clock is wrong";
  if (answer.code == "SignatureDoesNotMatch") return "; the secret key is another one, or a proxy changed the request";
  if (status == 403 && answer.unsigned_request) return "; the request was not signed, since no credentials were found";
  const bool denied = status == 403 && (answer.code.empty() || answer.code == "AccessDenied");
  if (denied && !request.of_bucket && (request.verb == "GET" || request.verb == "HEAD"))
    return "; servers answer so for an absent key, too, if the credentials may not list the bucket";
  return "";
}

// NOT_FOUND means a key, and where something is put, what it would be a part of.
ckpt_status S3Bucket::code_of(const Answer& answer, const Request& request) const {
  const long status = answer.http.status;
  if (answer.code == "NoSuchUpload") return CKPT_NOT_FOUND;
  if (answer.absent && request.verb != "PUT" && request.verb != "POST") return CKPT_NOT_FOUND;
  if (status == 501) return CKPT_UNSUPPORTED;
  if (status == 507 || answer.code == "QuotaExceeded" || answer.code == "XMinioStorageFull") return CKPT_NO_SPACE;
  return CKPT_IO;
}

}  // namespace ckpt::store::s3

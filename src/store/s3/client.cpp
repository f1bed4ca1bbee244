#include "store/s3/client.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>

#include "base/address.h"
#include "base/call.h"
#include "store/keys.h"

namespace ckpt::store::s3 {

static constexpr uint64_t kHashed = 64 << 10;  // bodies up to this size are part of the signature
static constexpr int64_t kMostSkew = 300;      // seconds; servers refuse more than 900
static constexpr int64_t kSlowest = 64;        // bytes in a ms: so much longer may a large body take

int64_t Client::server_time() const { return time(nullptr) + skew_; }

int64_t Client::date_of(const HttpReply& reply, std::string_view header) const {
  const std::string* date = reply.header(header);
  return date ? http_->seconds_of(*date) : -1;
}

Result<std::shared_ptr<Client>> Client::make(std::string_view uri, const S3Options& options) {
  CKPT_ASSIGN(Config config, make_config(uri, options));
  std::shared_ptr<Client> client(new Client(std::move(config)));
  CKPT_ASSIGN(client->http_, Http::make(client->config_.ca_file));
  client->credentials_ = std::make_unique<CredentialChain>(client->config_, *client->http_);
  return client;
}

// ---- one try ----

static uint64_t size_of(std::span<const Bytes> pieces) {
  uint64_t size = 0;
  for (Bytes piece : pieces) size += piece.size();
  return size;
}

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

// Servers and what stands before them may echo what they got.
static void read_error(Answer* answer, const std::vector<std::string>& secrets) {
  for (Header& header : answer->http.headers) header.value = blotted(std::move(header.value), secrets);
  auto parsed = parse_xml(answer->http.text);
  if (!parsed.ok() || parsed->name != "Error") return;
  answer->code = blotted(std::string(parsed->text_of("Code")), secrets);
  answer->words = blotted(std::string(parsed->text_of("Message")), secrets);
  if (answer->code.empty()) answer->code = "Error";
}

// No key is asked for in a list, so none is missing.
static bool is_stray(const Answer& answer, const Request& request) {
  if (!answer.is(404) || request.verb == "HEAD") return false;
  return answer.code.empty() || answer.code == "Error" || (request.of_bucket && answer.is_absent());
}

// One that took too long is named already.
Status Client::is_over(const Request& request) const {
  Status over = CallContext::current().check();
  return over.detail("path") ? over : std::move(over).in(path(request.key));
}

Answer Client::ask_once(const Request& request, std::shared_ptr<const Credentials>* used) {
  Answer answer;
  answer.failure = is_over(request);
  if (!answer.failure.ok()) return answer;
  auto credentials = credentials_->get(server_time());
  if (!credentials.ok()) {
    answer.failure = std::move(credentials).status().in(path(request.key));
    return answer;
  }
  *used = credentials.take();
  answer.unsigned_request = (*used)->keys.anonymous();
  HttpRequest http;
  const uint64_t size = size_of(request.body);
  const std::string query = canonical_query(request.query);
  std::string sent_path = config_.base;
  if (!request.of_bucket) sent_path += "/" + percent_encode(config_.key(request.key), true);
  if (sent_path.empty()) sent_path = "/";
  http.method = request.verb;
  http.url = config_.endpoint() + sent_path + (query.empty() ? "" : "?" + query);
  http.headers = request.headers;
  http.body = request.body;
  http.into = request.into;
  http.wants_bytes = request.wants_bytes;
  http.accept = request.accept;
  http.context = &CallContext::current();
  http.connect_ms = config_.timing.connect_ms;
  http.stall_s = config_.timing.stall_s * (request.ends_late ? 6 : 1);
  http.most_ms = config_.timing.connect_ms + 1000 * http.stall_s * 3 +
                 static_cast<int64_t>((size + request.into.size()) / kSlowest);
  const bool checksums = knows_checksums_;
  if (checksums && request.has_checksums) http.headers.push_back({"x-amz-checksum-algorithm", "CRC32C"});
  if (checksums && !request.checksum.empty()) http.headers.push_back({"x-amz-checksum-crc32c", request.checksum});
  // A server without checksums checks the hash.
  sign(&http, sent_path, query, config_, (*used)->keys, server_time(), size <= kHashed || !checksums);
  answer.http = http_->exchange(http);
  if (answer.http.no_memory) {
    answer.failure = Status(CKPT_NOMEM, path(request.key) + ": no memory for a request");
  } else if (!answer.http.ended.ok()) {
    answer.failure = is_over(request);
  } else if (!answer.http.trouble.empty()) {
    answer.failure = Status(CKPT_IO, strformat("{}: {} at {}: {}", path(request.key), request.verb, config_.endpoint(),
                                               answer.http.trouble))
                         .with("path", path(request.key));
  } else {
    if (!answer.http.good() || request.ends_late) read_error(&answer, secrets_of((*used)->keys, http));
    answer.stray = is_stray(answer, request);
    if (!answer.stray) patience_.answered();
  }
  return answer;
}

// ---- again ----

struct Client::Try : Patience::Try {
  bool asked_keys = false, set_clock = false, signed_again = false;
};

// Also of a body that arrived with other bytes than it was sent with.
static bool is_passing(const Answer& answer) {
  if (!answer.failure.ok())
    return answer.failure.code() == CKPT_IO && !answer.http.final && !answer.http.trouble.empty();
  const long status = answer.http.status;
  if (answer.http.good())  // an error in the body of a good answer
    return answer.code == "InternalError" || answer.code == "SlowDown" || answer.code == "ServiceUnavailable";
  return is_passing_status(status) || answer.stray || answer.code == "RequestTimeout" || answer.code == "BadDigest" ||
         answer.code == "InvalidDigest" || answer.code == "XAmzContentSHA256Mismatch" ||
         answer.code == "XAmzContentChecksumMismatch" || answer.code == "OperationAborted" ||
         answer.code == "ConditionalRequestConflict";
}

// Whether the next try may do better at once: with other keys, the server's time, or another kind of checksum.
bool Client::repair(const Request& request, const Answer& answer, const Credentials& used, Try* tries) {
  const long status = answer.http.status;
  if (!answer.failure.ok() || answer.http.good()) return false;
  if (status == 403 && !tries->set_clock) {
    const int64_t theirs = date_of(answer.http), skew = theirs - time(nullptr);
    if (theirs > 0 && std::abs(skew - skew_) > kMostSkew) {
      skew_ = skew;
      return tries->set_clock = true;
    }
  }
  // A bit of a header may have been damaged on its way.
  if (answer.code == "SignatureDoesNotMatch" && !tries->signed_again) return tries->signed_again = true;
  const bool expired = answer.code == "ExpiredToken" || answer.code == "InvalidToken" ||
                       answer.code == "TokenRefreshRequired" || (status == 403 && answer.code.empty());
  if (expired && !tries->asked_keys) {
    tries->asked_keys = true;
    return credentials_->refused(used, server_time());
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

static bool may_be_done(const Answer& answer) {
  return answer.failure.ok() ? answer.http.status >= 500 || answer.http.status == 409 : answer.http.sent;
}

bool Client::wait_to_try_again(const Answer& answer, const Try& tries) {
  const bool busy = answer.http.status == 503 || answer.http.status == 429 || answer.code == "SlowDown";
  return patience_.wait_to_try_again(answer.http, busy, tries, CallContext::current());
}

// What did not get to the server costs nothing.
void Client::count(const Request& request, const Answer& answer, bool again) {
  if (!answer.http.sent && answer.http.status == 0) return;
  const bool reads = request.verb == "GET" || request.verb == "HEAD";
  const RequestKind kind = request.verb == "DELETE" ? RequestKind::kDelete
                           : !reads                 ? RequestKind::kPut
                           : request.of_bucket      ? RequestKind::kList
                                                    : RequestKind::kGet;
  count_request(kind, again, size_of(request.body), answer.http.received + answer.http.text.size());
}

Answer Client::ask(const Request& request) {
  const std::string where = path(request.key);
  Busy busy(request.verb.c_str(), where);
  const CallContext own = CallContext::current();
  const ContextScope asking((request.may_end() ? own : own.shielded()).of(busy));
  bool maybe_done = false;
  Status last;  // of a try that failed
  for (Try tries;; tries.count++) {
    patience_.wait_for_calm(CallContext::current());
    std::shared_ptr<const Credentials> used;
    Answer answer = ask_once(request, &used);
    count(request, answer, tries.count > 0);
    maybe_done |= may_be_done(answer);
    answer.maybe_done = maybe_done && !answer.good();
    if (answer.good() || request.once) return answer;
    Patience::failed(&tries);
    if (used && repair(request, answer, *used, &tries)) continue;
    const bool passing = is_passing(answer);
    if (passing) last = error(answer, request);
    if (passing && wait_to_try_again(answer, tries)) continue;
    // The time may also be up amid a try, which then has nothing to tell.
    const Status over = is_over(request);
    if (!over.ok() && !last.ok() && (passing || answer.failure.code() == over.code()))
      answer.failure = with_last_try(over, last);
    busy.ended(error(answer, request));
    return answer;
  }
}

// ---- errors ----

// Of somebody else's text, for one line of an error. What is not ASCII could be cut, or be no UTF-8.
static std::string printable(std::string text) {
  constexpr size_t kMost = 300;
  if (text.size() > kMost) text.resize(kMost);
  for (char& c : text)
    if (c < ' ' || c > '~') c = c == '\t' || c == '\n' ? ' ' : '?';
  return text;
}

static std::string hint_of(const Answer& answer, const Request& request, const Config& config) {
  const std::string* region = answer.http.header("x-amz-bucket-region");
  const long status = answer.http.status;
  if ((status == 301 || status == 307 || status == 400) && region && *region != config.region)
    return strformat("; the bucket is in region {}: set option region", printable(*region));
  if (status >= 300 && status < 400) return "; redirects are not followed: set option endpoint to the server itself";
  if (answer.stray)
    return "; no answer of S3: something before the server gave it, or option endpoint names another server";
  if (answer.code == "RequestTimeTooSkewed") return "; this machine's clock is wrong";
  if (answer.code == "SignatureDoesNotMatch") return "; the secret key is another one, or a proxy changed the request";
  if (status == 403 && answer.unsigned_request) return "; the request was not signed, since no credentials were found";
  const bool denied = status == 403 && (answer.code.empty() || answer.code == "AccessDenied");
  if (denied && !request.of_bucket && (request.verb == "GET" || request.verb == "HEAD"))
    return "; servers answer so for an absent key, too, if the credentials may not list the bucket";
  return "";
}

// NOT_FOUND means a key, and where something is put, what it would be a part of.
static ckpt_status code_of(const Answer& answer, const Request& request) {
  const long status = answer.http.status;
  if (answer.code == "NoSuchUpload") return CKPT_NOT_FOUND;
  if (answer.is_absent() && request.verb != "PUT" && request.verb != "POST") return CKPT_NOT_FOUND;
  if (status == 501) return CKPT_UNSUPPORTED;
  if (status == 507 || answer.code == "QuotaExceeded" || answer.code == "XMinioStorageFull") return CKPT_NO_SPACE;
  return CKPT_IO;
}

Status Client::error(const Answer& answer, const Request& request) const {
  if (!answer.failure.ok()) return answer.failure;
  const std::string* id = answer.http.header("x-amz-request-id");
  const std::string where = path(request.key);
  std::string text =
      strformat("{}: {} at {}: HTTP status {}", where, request.verb, config_.endpoint(), answer.http.status);
  if (!answer.code.empty()) text += " " + printable(answer.code);
  if (!answer.words.empty()) text += ": " + printable(answer.words);
  if (answer.http.refused) text += ": not the bytes that were asked for";
  if (id) text += " (request " + printable(*id) + ")";
  text += hint_of(answer, request, config_);
  return Status(code_of(answer, request), text)
      .with("path", where)
      .with("bucket", config_.bucket)
      .with("key", config_.key(request.key))
      .with("http_status", static_cast<uint64_t>(answer.http.status))
      .with("s3_code", printable(answer.code))
      .with("request_id", id ? printable(*id) : "");
}

}  // namespace ckpt::store::s3

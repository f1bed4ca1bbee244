#include "store/cloud/client.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>

#include "base/call.h"
#include "store/keys.h"

namespace ckpt::store::cloud {

static constexpr int64_t kMostSkew = 300;  // seconds; servers refuse more than 900
static constexpr int64_t kSlowest = 64;    // bytes in a ms: so much longer may a large body take

int64_t Client::server_time() const { return time(nullptr) + skew_; }

bool Client::set_clock(const HttpReply& reply) {
  const int64_t theirs = date_of(reply), skew = theirs - time(nullptr);
  if (theirs <= 0 || std::abs(skew - skew_) <= kMostSkew) return false;
  skew_ = skew;
  return true;
}

int64_t Client::date_of(const HttpReply& reply, std::string_view header) const {
  const std::string* date = reply.header(header);
  return date ? http_->seconds_of(*date) : -1;
}

// ---- one try ----

uint64_t size_of(std::span<const Bytes> pieces) {
  uint64_t size = 0;
  for (Bytes piece : pieces) size += piece.size();
  return size;
}

// One that took too long is named already.
Status Client::is_over(const Request& request) const {
  Status over = CallContext::current().check();
  return over.detail("path") ? over : std::move(over).in(path(request.key));
}

Answer Client::ask_once(const Request& request, Who* who) {
  Answer answer;
  answer.failure = is_over(request);
  if (!answer.failure.ok()) return answer;
  HttpRequest http;
  const uint64_t size = size_of(request.body);
  http.method = request.verb;
  http.headers = request.headers;
  http.body = request.body;
  http.into = request.into;
  http.wants_bytes = request.wants_bytes;
  http.accept = request.accept;
  http.context = &CallContext::current();
  http.connect_ms = place().timing.connect_ms;
  http.stall_s = place().timing.stall_s * (request.ends_late ? 6 : 1);
  http.most_ms =
      http.connect_ms + 1000 * http.stall_s * 3 + static_cast<int64_t>((size + request.into.size()) / kSlowest);
  auto dressed = dress(request, &http);
  if (!dressed.ok()) {
    answer.failure = std::move(dressed).status().in(path(request.key));
    return answer;
  }
  *who = dressed.take();
  answer.http = http_->exchange(http);
  if (answer.http.no_memory) {
    answer.failure = Status(CKPT_NOMEM, path(request.key) + ": no memory for a request");
  } else if (!answer.http.ended.ok()) {
    answer.failure = is_over(request);
  } else if (!answer.http.trouble.empty()) {
    answer.failure = Status(CKPT_IO, strformat("{}: {} at {}: {}", path(request.key), request.verb, place().endpoint(),
                                               answer.http.trouble))
                         .with("path", path(request.key));
  } else {
    if (!answer.http.good() || request.ends_late) read_error(request, http, *who, &answer);
    if (!answer.stray) patience_.answered();
  }
  return answer;
}

// ---- again ----

bool Client::is_passing(const Answer& answer) const {
  if (!answer.failure.ok())
    return answer.failure.code() == CKPT_IO && !answer.http.final && !answer.http.trouble.empty();
  if (answer.http.good()) return is_passing_code(answer);  // an error in the body of a good answer
  return is_passing_status(answer.http.status) || answer.stray || is_passing_code(answer);
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
    Who who;
    Answer answer = ask_once(request, &who);
    count(request, answer, tries.count > 0);
    maybe_done |= may_be_done(answer);
    answer.maybe_done = maybe_done && !answer.good();
    if (answer.good() || request.once) return answer;
    Patience::failed(&tries);
    if (who && repair(request, answer, who, &tries)) continue;
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
std::string printable(std::string text) {
  constexpr size_t kMost = 300;
  if (text.size() > kMost) text.resize(kMost);
  for (char& c : text)
    if (c < ' ' || c > '~') c = c == '\t' || c == '\n' ? ' ' : '?';
  return text;
}

static std::string hint_of_any(const Answer& answer, const char* service) {
  const long status = answer.http.status;
  if (status >= 300 && status < 400) return "; redirects are not followed: set option endpoint to the server itself";
  if (!answer.stray) return "";
  return strformat("; no answer of {}: something before the server gave it, or option endpoint names another server",
                   service);
}

Status Client::error(const Answer& answer, const Request& request) const {
  if (!answer.failure.ok()) return answer.failure;
  const Words dialect = words();
  const std::string* id = answer.http.header(dialect.id);
  const std::string where = path(request.key);
  std::string text =
      strformat("{}: {} at {}: HTTP status {}", where, request.verb, place().endpoint(), answer.http.status);
  if (!answer.code.empty()) text += " " + printable(answer.code);
  if (!answer.words.empty()) text += ": " + printable(answer.words);
  if (answer.http.refused) text += ": not the bytes that were asked for";
  if (id) text += " (request " + printable(*id) + ")";
  const std::string hint = hint_of(answer, request);
  text += hint.empty() ? hint_of_any(answer, dialect.service) : hint;
  return Status(code_of(answer, request), text)
      .with("path", where)
      .with("bucket", place().bucket)
      .with("key", place().key(request.key))
      .with("http_status", static_cast<uint64_t>(answer.http.status))
      .with(dialect.code, printable(answer.code))
      .with("request_id", id ? printable(*id) : "");
}

Status Client::stranger(std::string_view key, std::string_view what) const {
  return Status(CKPT_IO, strformat("{}: the server at {} does not answer as {} does: {}", path(key), place().endpoint(),
                                   words().service, what))
      .with("path", path(key));
}

}  // namespace ckpt::store::cloud

#include "store/web/client.h"

#include <unistd.h>

#include <algorithm>

#include "base/address.h"
#include "base/call.h"
#include "base/text.h"
#include "store/cloud/encoding.h"
#include "store/keys.h"

namespace ckpt::store::web {

static constexpr int kMostRedirects = 10;
static constexpr int64_t kSlowest = 64;  // bytes in a ms: so much longer may a large body take

// ---- who asks ----

static std::string variable(std::string_view name) {
  for (char** entry = environ; entry && *entry; entry++) {
    const std::string_view line = *entry;
    if (line.starts_with(name) && line.substr(name.size()).starts_with('='))
      return std::string(line.substr(name.size() + 1));
  }
  return "";
}

static bool is_sendable(std::string_view value) {
  return std::none_of(value.begin(), value.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

// "Authorization: Bearer x". Errors do not show the value.
static Result<cloud::Header> parse_header(std::string_view line) {
  const size_t colon = line.find(':');
  const std::string name = in_lower_case(line.substr(0, colon));
  const bool is_name = !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") == name.npos;
  if (colon == line.npos || !is_name || !is_sendable(line))
    return Status(CKPT_INVALID,
                  "option http_header: expected \"Name: value\" in one line, such as \"Authorization: Bearer …\"");
  for (const char* own :
       {"host", "range", "if-match", "if-unmodified-since", "accept-encoding", "content-length", "connection"})
    if (name == own)
      return Status(CKPT_INVALID, strformat("option http_header: {} is set by ckpt itself", name)).with("found", name);
  std::string_view value = line.substr(colon + 1);
  while (value.starts_with(' ')) value.remove_prefix(1);
  if (value.empty())
    return Status(CKPT_INVALID, strformat("option http_header: {} has no value", name)).with("found", name);
  return cloud::Header{name, std::string(value)};
}

// The host and the token in "host=token"; no host if it is all token. A token may end with '='.
static std::pair<std::string, std::string> host_and_token(const std::string& value) {
  const size_t equals = value.find('=');
  const std::string host = in_lower_case(value.substr(0, equals));
  const bool is_host =
      equals != value.npos && value.find_first_not_of('=', equals) != value.npos &&
      parse_url("https://" + host + "/").ok() &&
      (host.find('.') != host.npos || host == "localhost" || host.starts_with("localhost:") || host.starts_with('['));
  return is_host ? std::pair(host, value.substr(equals + 1)) : std::pair(std::string(), value);
}

// HF_TOKEN is a person's key to all of a place, so it goes there only.
static bool is_hugging_face(const Url& url) {
  return url.scheme == "https" && (url.host == "huggingface.co" || url.host.ends_with(".huggingface.co"));
}

// What was said closest to the call counts: the option, the address, the environment.
Status Client::take_authority(const WebOptions& options) {
  const std::string user = std::exchange(root_.user, "");
  bool authorized = false;
  if (!options.header.empty()) {
    CKPT_ASSIGN(cloud::Header header, parse_header(options.header));
    authorized = header.name == "authorization";
    secrets_.push_back(std::move(header));
  }
  if (authorized) return Ok();
  if (!user.empty()) {
    secrets_.push_back({"authorization", "Basic " + cloud::base64_of(as_bytes(user))});
    return Ok();
  }
  const size_t before = secrets_.size();
  CKPT_TRY(take_token("CKPT_HTTP_TOKEN"));
  return secrets_.size() == before && is_hugging_face(root_) ? take_token("HF_TOKEN") : Ok();
}

// It is meant for some host, and nobody said that it is this one: so it goes nowhere where others can read it.
Status Client::take_token(const char* name) {
  const auto [host, token] = host_and_token(variable(name));
  if (token.empty()) return Ok();
  if (!is_sendable(token)) return Status(CKPT_INVALID, strformat("{} has characters that no header may have", name));
  if (!host.empty() && host != root_.host && host != root_.name())
    withheld_ = strformat("{} is for another host", name);
  else if (!root_.is_private())
    withheld_ = strformat("{} is sent by https:// and to this machine only", name);
  else
    secrets_.push_back({"authorization", "Bearer " + token});
  return Ok();
}

Result<std::shared_ptr<Client>> Client::make(std::string_view uri, const WebOptions& options) {
  CKPT_ASSIGN(Url root, parse_url(uri));
  while (root.path.ends_with('/')) root.path.pop_back();
  std::shared_ptr<Client> client(new Client(std::move(root), options));
  CKPT_TRY(client->take_authority(options));
  CKPT_ASSIGN(client->http_, cloud::Http::make(options.ca_file));
  return client;
}

std::string Client::path(std::string_view key) const {
  return root_.shown() + (key.empty() ? "" : "/") + std::string(key);
}

// ---- asking ----

cloud::HttpReply Client::ask_once(const Get& get, const Url& address) {
  cloud::HttpRequest http;
  http.method = "GET";
  http.url = address.sent();
  http.headers = get.pinned;
  if (!get.range.empty()) http.headers.push_back({"range", get.range});
  if (address.origin() == root_.origin()) http.headers.insert(http.headers.end(), secrets_.begin(), secrets_.end());
  http.direct = address.scheme == "http" && address.is_loopback() && !secrets_.empty();  // else a proxy reads them
  http.wants_bytes = get.wants_bytes;
  http.into = get.into;
  http.accept = get.accept;
  http.connect_ms = timing_.connect_ms;
  http.stall_s = timing_.stall_s;
  http.context = &CallContext::current();
  http.most_ms = timing_.connect_ms + 3000 * timing_.stall_s + static_cast<int64_t>(get.into.size()) / kSlowest;
  return http_->exchange(http);
}

static bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static Status no_redirect(const Url& from, std::string_view why) {
  return Status(CKPT_IO, strformat("redirected by {} {}", from.origin(), why));
}

// One try, through all redirects.
Answer Client::follow(const Get& get, bool again) {
  Answer answer;
  answer.from = get.address;
  for (int hops = 0;; hops++) {
    answer.http = ask_once(get, answer.from);
    if (answer.http.sent || answer.http.status != 0)
      count_request(RequestKind::kGet, again, 0, answer.http.received + answer.http.text.size());
    const std::string* location = answer.http.header("location");
    if (!answer.http.trouble.empty() || !is_redirect(answer.http.status) || !location) return answer;
    auto next = redirected(answer.from, *location);
    if (!next.ok())
      answer.failure = no_redirect(answer.from, "to what is no address");
    else if (answer.from.scheme == "https" && next->scheme != "https")
      answer.failure =
          no_redirect(answer.from, "to " + next->origin() + ", which is not encrypted; ckpt does not follow");
    else if (hops == kMostRedirects)
      answer.failure = no_redirect(answer.from, strformat("more than {} times", kMostRedirects));
    if (!answer.failure.ok()) return answer;
    answer.from = next.take();
    answer.from.user.clear();
  }
}

static bool is_passing(const Answer& answer, const Get& get) {
  if (!answer.failure.ok()) return false;
  if (!answer.http.trouble.empty()) return !answer.http.final && !answer.http.no_memory && answer.http.ended.ok();
  return cloud::is_passing_status(answer.http.status) || (get.expected && answer.is(404));
}

Answer Client::ask(const Get& get) {
  const std::string where = get.address.shown();
  Busy operation("GET", where);
  const ContextScope asking(CallContext::current().of(operation));
  Answer last;  // that was no good
  for (cloud::Patience::Try tries;; tries.count++) {
    patience_.wait_for_calm(CallContext::current());
    Answer answer = follow(get, tries.count > 0);
    if (tries.count > 0 && !answer.http.ended.ok()) {  // amid a try, which has nothing to tell
      last.over = answer.http.ended;
      operation.ended(last.over);
      return last;
    }
    if (answer.http.trouble.empty()) patience_.answered();
    if (!is_passing(answer, get)) return answer;
    cloud::Patience::failed(&tries);
    const bool busy = answer.http.status == 503 || answer.http.status == 429;
    const bool again = patience_.wait_to_try_again(answer.http, busy, tries, CallContext::current());
    last = std::move(answer);
    if (again) continue;
    last.over = CallContext::current().check();
    operation.ended(error(last, ""));
    return last;
  }
}

// ---- errors ----

static std::string hint_of(long status, bool authorized, bool elsewhere, const std::string& withheld) {
  if (status == 401 || status == 403) {
    if (elsewhere) return "; the server redirected there, where ckpt sends no token";
    if (authorized) return "; the server refuses the token or user that was sent";
    return "; without a token: " + (withheld.empty() ? "set CKPT_HTTP_TOKEN, or option http_header" : withheld);
  }
  if (cloud::is_passing_status(status)) return "; the server is busy or broken: try again later";
  return "";
}

Status Client::error(const Answer& answer, std::string_view key) const {
  const std::string where = path(key);
  const cloud::HttpReply& http = answer.http;
  if (!answer.over.ok()) {
    Answer last = answer;
    last.over = Ok();
    return cloud::with_last_try(Status(answer.over).in(where).with("path", where), error(last, key));
  }
  if (!answer.failure.ok()) return Status(answer.failure).in(where).with("path", where);
  if (!http.ended.ok()) return Status(http.ended).in(where).with("path", where);
  if (http.no_memory) return Status(CKPT_NOMEM, where + ": no memory for a request");
  const bool elsewhere = answer.from.origin() != root_.origin();
  const std::string at = elsewhere ? " (from " + answer.from.origin() + ")" : "";
  if (!http.trouble.empty()) {
    const char* hint = http.absent ? "; is the address right, and does this machine need a proxy (https_proxy)?" : "";
    return Status(CKPT_IO, strformat("{}{}: {}{}", where, at, http.trouble, hint)).with("path", where);
  }
  return Status(answer.is_absent() ? CKPT_NOT_FOUND : CKPT_IO,
                strformat("{}{}: HTTP status {}{}", where, at, http.status,
                          hint_of(http.status, !secrets_.empty(), elsewhere, withheld_)))
      .with("path", where)
      .with("http_status", static_cast<uint64_t>(http.status));
}

}  // namespace ckpt::store::web

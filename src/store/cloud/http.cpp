#include "store/cloud/http.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/address.h"
#include "base/text.h"

namespace ckpt::store::cloud {

static constexpr size_t kMostHeaders = 256;
static constexpr size_t kMostHead = 1 << 20;  // all lines before a body, also of interim answers
static constexpr long kBuffer = 128 << 10;    // of libcurl, for each request in each direction

const std::string* HttpReply::header(std::string_view name) const {
  for (const Header& header : headers)
    if (header.name == name) return &header.value;
  return nullptr;
}

namespace {

// A server that closes its connection must not end the program: TLS writes without MSG_NOSIGNAL. Only for this thread,
// and only for as long as a request takes.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pending;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec now{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

// What libcurl's callbacks work on.
struct Exchange {
  explicit Exchange(const HttpRequest& asked) : request(asked) {}

  // False: the answer is not what was asked for.
  bool begin_body() {
    if (begun) return !reply.refused;
    begun = true;
    reply.refused = reply.good() && request.accept && !request.accept(reply);
    return !reply.refused;
  }

  const HttpRequest& request;
  HttpReply reply;
  bool has_head = false;  // all of the headers came
  bool begun = false;
  size_t head_bytes = 0;
  std::string too_much;      // why the exchange was ended
  size_t piece = 0, at = 0;  // of the body: how far it was sent
};

// False ends the exchange.
bool take_header(Exchange& exchange, std::string_view line) {
  exchange.head_bytes += line.size();
  if (exchange.head_bytes > kMostHead) {
    exchange.too_much = strformat("headers of more than {} bytes", kMostHead);
    return false;
  }
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (exchange.begun) return true;  // those after a body
  exchange.has_head = line.empty();
  if (line.starts_with("HTTP/")) {  // also after an interim answer
    const size_t blank = line.find(' ');
    exchange.reply.headers.clear();
    exchange.reply.status = 0;
    for (size_t i = blank + 1; blank != line.npos && i < line.size() && i < blank + 4; i++)
      if (line[i] >= '0' && line[i] <= '9') exchange.reply.status = exchange.reply.status * 10 + (line[i] - '0');
    return true;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos || exchange.reply.headers.size() >= kMostHeaders) return true;
  std::string name = in_lower_case(line.substr(0, colon));
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  while (!value.empty() && value.back() == ' ') value.remove_suffix(1);
  exchange.reply.headers.push_back({std::move(name), std::string(value)});
  return true;
}

// False ends the exchange.
bool take_body(Exchange& exchange, std::string_view data) {
  HttpReply& reply = exchange.reply;
  if (!exchange.begin_body()) return false;
  if (!reply.good() || !exchange.request.wants_bytes) {
    if (data.size() > exchange.request.most_text - reply.text.size()) {
      exchange.too_much = strformat("an answer of more than {} bytes", exchange.request.most_text);
      return false;
    }
    reply.text.append(data);
    return true;
  }
  if (data.size() > exchange.request.into.size() - reply.received) {
    reply.refused = true;
    return false;
  }
  std::memcpy(exchange.request.into.data() + reply.received, data.data(), data.size());
  reply.received += data.size();
  return true;
}

// What libcurl calls must not throw through it.
template <typename Take>
size_t guarded(Exchange& exchange, size_t count, Take&& take) {
  try {
    return take() ? count : 0;
  } catch (const std::bad_alloc&) {
    exchange.reply.no_memory = true;
    return 0;
  }
}

size_t on_header(char* data, size_t one, size_t size, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  return guarded(exchange, one * size, [&] { return take_header(exchange, {data, one * size}); });
}

size_t on_body(char* data, size_t one, size_t size, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  return guarded(exchange, one * size, [&] { return take_body(exchange, {data, one * size}); });
}

size_t on_send(char* data, size_t one, size_t size, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  const auto body = exchange.request.body;
  while (exchange.piece < body.size() && exchange.at == body[exchange.piece].size()) {
    exchange.piece++;
    exchange.at = 0;
  }
  if (exchange.piece == body.size()) return 0;
  const Bytes rest = body[exchange.piece].subspan(exchange.at);
  const size_t count = std::min(rest.size(), one * size);
  std::memcpy(data, rest.data(), count);
  exchange.at += count;
  return count;
}

// libcurl sends a body again if a kept connection turns out to be closed.
int on_seek(void* user, curl_off_t offset, int origin) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  if (offset != 0 || origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  exchange.piece = exchange.at = 0;
  return CURL_SEEKFUNC_OK;
}

// libcurl calls it whenever something happens, and about once a second while nothing does. Not 0 ends the exchange.
int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  try {
    exchange.reply.ended = exchange.request.context->check();
  } catch (const std::bad_alloc&) {
    exchange.reply.no_memory = true;
  }
  return exchange.reply.no_memory || !exchange.reply.ended.ok();
}

bool is_final(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_URL_MALFORMAT ||
         code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_NOT_BUILT_IN || code == CURLE_SSL_CERTPROBLEM ||
         code == CURLE_SSL_CIPHER || code == CURLE_SSL_ENGINE_NOTFOUND;
}

}  // namespace

// The user and the password in each variable that names a proxy, also where the host behind them was forgotten.
static std::vector<std::string> secrets_of_proxies() {
  std::vector<std::string> secrets;
  for (char** entry = environ; entry && *entry; entry++) {
    const std::string_view line = *entry;
    const size_t equals = line.find('='), last = line.rfind(':');
    if (equals == line.npos || !in_lower_case(line.substr(0, equals)).ends_with("_proxy")) continue;
    size_t at = line.rfind('@');
    if (at == line.npos && last != line.npos && line.find_first_not_of("0123456789/", last + 1) != line.npos)
      at = line.size();
    if (at == line.npos) continue;
    const size_t scheme = line.find("://");
    const size_t begin = scheme == line.npos || scheme > at ? equals + 1 : scheme + 3;
    if (begin >= at) continue;
    const std::string_view user = line.substr(begin, at - begin);
    secrets.emplace_back(user);
    if (const size_t colon = user.find(':'); colon != user.npos) secrets.emplace_back(user.substr(colon + 1));
  }
  return secrets;
}

// They must not change the request.
static bool has_line_break(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) != text.npos;
}

static bool is_one_request(const HttpRequest& request) {
  return !has_line_break(request.url) && std::none_of(request.headers.begin(), request.headers.end(), [](auto& header) {
    return has_line_break(header.name) || has_line_break(header.value);
  });
}

Http::Http(const Curl& curl, std::string_view ca_file)
    : curl_(curl), ca_file_(ca_file), secrets_(secrets_of_proxies()) {}

Result<std::unique_ptr<Http>> Http::make(std::string_view ca_file) {
  CKPT_ASSIGN(const Curl* curl, Curl::load());
  return std::unique_ptr<Http>(new Http(*curl, ca_file));
}

Http::~Http() {
  for (CURL* handle : idle_) curl_.easy_cleanup(handle);
}

CURL* Http::take() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) return curl_.easy_init();
  CURL* handle = idle_.back();
  idle_.pop_back();
  return handle;
}

void Http::give(CURL* handle) {
  curl_.easy_reset(handle);  // keeps its connections
  try {
    std::lock_guard lock(mutex_);
    idle_.push_back(handle);
  } catch (const std::bad_alloc&) {
    curl_.easy_cleanup(handle);
  }
}

// One request's handle and headers. The handle goes back with its connections, unless a setting failed.
class Http::Handle {
 public:
  explicit Handle(Http& http) : http_(http), curl_(http.curl_), handle_(http.take()) {}
  ~Handle() {
    curl_.slist_free_all(headers_);
    if (handle_ && (refused_ != 0 || no_memory_))
      curl_.easy_cleanup(handle_);
    else if (handle_)
      http_.give(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  CURL* get() const { return handle_; }

  int refused() const { return refused_; }

  // False: libcurl refused a setting, or there is no memory.
  bool set_up(const HttpRequest& request, Exchange* exchange, char* words) {
    option(CURLOPT_URL, request.url.c_str());
    option(CURLOPT_ERRORBUFFER, words);
    set_headers(request);
    set_connection(request);
    option(CURLOPT_HEADERFUNCTION, on_header);
    option(CURLOPT_HEADERDATA, exchange);
    option(CURLOPT_WRITEFUNCTION, on_body);
    option(CURLOPT_WRITEDATA, exchange);
    set_method(request, exchange);
    if (request.context) {
      option(CURLOPT_NOPROGRESS, 0L);
      option(CURLOPT_XFERINFOFUNCTION, on_progress);
      option(CURLOPT_XFERINFODATA, exchange);
    }
    return refused_ == 0 && !no_memory_;
  }

 private:
  template <typename Value>
  void option(CURLoption key, Value value) {
    if (curl_.easy_setopt(handle_, key, value) != CURLE_OK && refused_ == 0) refused_ = key;
  }
  // Of an older libcurl, which works without it.
  template <typename Value>
  void optional(CURLoption key, Value value) {
    (void)curl_.easy_setopt(handle_, key, value);
  }
  void header(const std::string& line) {
    curl_slist* longer = curl_.slist_append(headers_, line.c_str());
    no_memory_ |= longer == nullptr;
    if (longer) headers_ = longer;
  }

  void set_headers(const HttpRequest& request) {
    for (const Header& given : request.headers)
      if (given.name != "host") header(given.name + ": " + given.value);
    header("Expect:");
    option(CURLOPT_HTTPHEADER, headers_);
    option(CURLOPT_USERAGENT, "ckpt/" CKPT_VERSION);
  }

  void set_connection(const HttpRequest& request) {
    option(CURLOPT_PATH_AS_IS, 1L);
    option(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    option(CURLOPT_FOLLOWLOCATION, 0L);
    option(CURLOPT_NOSIGNAL, 1L);
    optional(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    optional(CURLOPT_TCP_KEEPALIVE, 1L);
    option(CURLOPT_SSL_VERIFYPEER, 1L);
    option(CURLOPT_SSL_VERIFYHOST, 2L);
    const std::string& trusted = http_.ca_file_.empty() ? curl_.certificates : http_.ca_file_;
    if (!trusted.empty()) option(CURLOPT_CAINFO, trusted.c_str());
    if (request.direct) option(CURLOPT_PROXY, "");
    option(CURLOPT_CONNECTTIMEOUT_MS, request.connect_ms);
    option(CURLOPT_LOW_SPEED_LIMIT, 1024L);
    option(CURLOPT_LOW_SPEED_TIME, request.stall_s);
    // Of libcurl's own accord, since it asks on_progress once a second only.
    const int64_t left = request.context ? request.context->left_ms() : Call::kNever;
    option(CURLOPT_TIMEOUT_MS, static_cast<long>(std::clamp<int64_t>(left, 1, request.most_ms)));
    optional(CURLOPT_BUFFERSIZE, kBuffer);  // refused of a handle whose last request ended before it had a connection
  }

  void set_method(const HttpRequest& request, Exchange* exchange) {
    if (request.method == "HEAD") {
      option(CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT" || request.method == "POST") {
      uint64_t size = 0;
      for (Bytes piece : request.body) size += piece.size();
      option(CURLOPT_UPLOAD, 1L);
      optional(CURLOPT_UPLOAD_BUFFERSIZE, kBuffer);
      option(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(size));
      option(CURLOPT_READFUNCTION, on_send);
      option(CURLOPT_READDATA, exchange);
      option(CURLOPT_SEEKFUNCTION, on_seek);
      option(CURLOPT_SEEKDATA, exchange);
      if (request.method == "POST") option(CURLOPT_CUSTOMREQUEST, "POST");
    } else if (request.method != "GET") {
      option(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }
  }

  Http& http_;
  const Curl& curl_;
  CURL* const handle_;
  curl_slist* headers_ = nullptr;
  int refused_ = 0;  // the number of a setting
  bool no_memory_ = false;
};

HttpReply Http::exchange(const HttpRequest& request) {
  Exchange exchange(request);
  HttpReply& reply = exchange.reply;
  char words[CURL_ERROR_SIZE] = "";
  if (!is_one_request(request)) {
    reply.final = true;
    reply.trouble = "a header or an address with a line break, which would be another request";
    return reply;
  }
  Handle handle(*this);
  if (!handle.get() || !handle.set_up(request, &exchange, words)) {
    reply.final = handle.get() && handle.refused() != 0;
    reply.no_memory = !reply.final;
    reply.trouble =
        reply.final ? strformat("libcurl refused its setting {}", handle.refused()) : "no memory for a request";
    return reply;
  }
  CURLcode code;
  {
    NoSigpipe quiet;
    code = curl_.easy_perform(handle.get());
  }
  long request_size = 0;
  curl_.easy_getinfo(handle.get(), CURLINFO_REQUEST_SIZE, &request_size);
  reply.sent = request_size > 0;
  reply.absent = code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST;
  if (code == CURLE_OK && !exchange.has_head) code = CURLE_GOT_NOTHING;  // libcurl takes half of the headers, too
  if (code == CURLE_OK) (void)exchange.begin_body();                     // of an answer without a body
  const bool told = reply.refused || reply.status >= 400;  // then it does not matter how the connection ended
  if (reply.status == 0 || (code != CURLE_OK && !told)) {
    std::string said = *words ? words : curl_.easy_strerror(code);
    if (code == CURLE_SSL_CACERT_BADFILE) said += "; install ca-certificates, or name a file by option ca_file";
    reply.trouble = exchange.too_much.empty() ? without_secrets(blotted(said, secrets_)) : exchange.too_much;
    reply.final = is_final(code) || !exchange.too_much.empty();
    // libcurl says so of a header of more than 100 KiB, too, of which the status came.
    const bool long_header = reply.status != 0 && !exchange.has_head;
    reply.no_memory |= code == CURLE_OUT_OF_MEMORY && !long_header;
  }
  return std::move(reply);
}

}  // namespace ckpt::store::cloud

#include "store/web/web_reader.h"

#include <charconv>

#include "base/text.h"
#include "store/keys.h"

namespace ckpt::store::web {

// The end of a part, all of a small manifest and the directory of a zip archive are in it.
static constexpr uint64_t kTail = 128 << 10;
// What a server without ranges may have: an answer of more does not fit into HttpReply::text.
static constexpr uint64_t kMostWhole = 16 << 20;

static bool parse_number(std::string_view text, uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

static std::string header_or_none(const cloud::HttpReply& reply, std::string_view name) {
  const std::string* value = reply.header(name);
  return value ? *value : "";
}

// The bytes of an answer: [begin, end) of a file of so many.
struct ContentRange {
  uint64_t begin = 0, end = 0, size = 0;
};
static bool parse_range(std::string_view text, ContentRange* range) {  // "bytes 0-9/100"
  const size_t dash = text.find('-'), slash = text.rfind('/');
  if (!text.starts_with("bytes ") || dash == text.npos || slash == text.npos || dash > slash) return false;
  uint64_t last = 0;
  if (!parse_number(text.substr(6, dash - 6), &range->begin) || !parse_number(text.substr(slash + 1), &range->size) ||
      !parse_number(text.substr(dash + 1, slash - dash - 1), &last))
    return false;
  range->end = last + 1;
  return range->begin < range->end && range->end <= range->size;
}

// ---- which content ----

// An ETag that begins with W/ matches no condition.
std::vector<cloud::Header> Identity::conditions() const {
  if (!etag.empty() && !etag.starts_with("W/")) return {{"if-match", etag}};
  if (!modified.empty()) return {{"if-unmodified-since", modified}};
  return {};
}

bool Identity::matches(const cloud::HttpReply& reply) const {
  const std::string other = header_or_none(reply, "etag"), date = header_or_none(reply, "last-modified");
  if (!etag.empty() && !other.empty()) return etag == other;
  return modified.empty() || date.empty() || modified == date;
}

Result<Identity> WebReader::describe(const cloud::HttpReply& reply) const {
  auto odd = [&](std::string_view what) {
    return Status(CKPT_IO, path() + ": the server's answer makes no sense: " + std::string(what)).with("path", path());
  };
  const std::string encoding = in_lower_case(header_or_none(reply, "content-encoding"));
  if (!encoding.empty() && encoding != "identity") return odd("content that is encoded, which nobody asked for");
  Identity identity{0, header_or_none(reply, "etag"), header_or_none(reply, "last-modified")};
  const std::string range = header_or_none(reply, "content-range"), length = header_or_none(reply, "content-length");
  ContentRange content;
  if (reply.status == 206 && !parse_range(range, &content)) return odd("a range that does not say which");
  if (reply.status == 206)
    identity.size = content.size;
  else if (!parse_number(length, &identity.size))
    identity.size = reply.text.size();  // it tells no length, and the body has come
  return identity;
}

// ---- opening ----

Status WebReader::no_ranges() const {
  return Status(CKPT_UNSUPPORTED,
                strformat("{}: the server gives no ranges of files (it ignores the header Range), so more than {} MiB "
                          "cannot be read; serve it by another one, or download it",
                          path(), kMostWhole >> 20))
      .with("path", path());
}

// The server's answer to a request for the last bytes, or for the first one. False: it knows no such range.
Result<bool> WebReader::open_by(const std::string& range, bool expected) {
  Get get(client_->root().below(key_));
  get.expected = expected;
  get.range = range;
  bool large = false;
  get.accept = [&](const cloud::HttpReply& reply) {
    uint64_t length = 0;
    large =
        reply.status != 206 && parse_number(header_or_none(reply, "content-length"), &length) && length > kMostWhole;
    return !large;
  };
  Answer answer = client_->ask(get);
  if (answer.is_absent()) return not_found(path());
  const std::string content = header_or_none(answer.http, "content-range");
  const bool empty = answer.is(416) && content.ends_with("/0");
  if (answer.is(416) && !empty) return false;
  // Without a length, it is known to be large only once it is too much.
  if (answer.is(200) && !answer.http.trouble.empty() && answer.http.text.size() > kMostWhole / 2) return no_ranges();
  if (!answer.failure.ok() || !answer.http.trouble.empty() || (!answer.http.good() && !empty))
    return client_->error(answer, key_);
  found_at_ = answer.from;
  if (empty) {
    identity_ = {0, header_or_none(answer.http, "etag"), header_or_none(answer.http, "last-modified")};
    return true;
  }
  CKPT_ASSIGN(identity_, describe(answer.http));
  // A server that gives no range of the end may give others.
  if (large) return range.starts_with("bytes=-") ? Result<bool>(false) : no_ranges();
  ContentRange got{0, identity_.size, identity_.size};
  if (answer.http.status == 206) (void)parse_range(content, &got);
  if (got.end == identity_.size && got.begin + answer.http.text.size() == got.end) tail_ = std::move(answer.http.text);
  return true;
}

Result<std::unique_ptr<WebReader>> WebReader::open(std::shared_ptr<Client> client, std::string_view key,
                                                   bool expected) {
  std::unique_ptr<WebReader> reader(new WebReader(std::move(client), key));
  CKPT_ASSIGN(bool opened, reader->open_by(strformat("bytes=-{}", kTail), expected));
  if (!opened) {
    CKPT_ASSIGN(opened, reader->open_by("bytes=0-0", expected));
  }
  if (opened) return reader;
  return Status(CKPT_IO, reader->path() + ": the server says that it has no first byte").with("path", reader->path());
}

// ---- reading ----

// Where a redirect led once may be good for a while only.
Answer WebReader::ask_for(Get get) const {
  Url start = client_->root().below(key_);
  {
    std::lock_guard lock(mutex_);
    get.address = found_at_;
  }
  const bool redirected = get.address.sent() != start.sent();
  get.expected = !redirected;
  Answer answer = client_->ask(get);
  if (!redirected || !(answer.is(401) || answer.is(403) || answer.is_absent())) return answer;
  get.address = std::move(start);
  get.expected = true;
  answer = client_->ask(get);
  std::lock_guard lock(mutex_);
  found_at_ = answer.from;
  return answer;
}

Status WebReader::fetch(uint64_t offset, MutableBytes out) const {
  Get get(Url{});
  get.range = strformat("bytes={}-{}", offset, offset + out.size() - 1);
  get.pinned = identity_.conditions();
  get.into = out;
  get.wants_bytes = true;
  bool other = false, whole = false;
  get.accept = [&](const cloud::HttpReply& reply) {
    ContentRange range;
    whole = reply.status != 206;
    other = !identity_.matches(reply);
    if (other || whole) return !other && out.size() == identity_.size;
    const bool right = parse_range(header_or_none(reply, "content-range"), &range);
    other = right && range.size != identity_.size;
    return right && range.begin == offset && range.end == offset + out.size() && !other;
  };
  const Answer answer = ask_for(std::move(get));
  if (other || answer.is(412) || answer.is(416) || answer.is_absent())
    return Status(CKPT_GONE, path() + " was removed or replaced while it was open").with("path", path());
  if (answer.http.refused && whole) return no_ranges();
  if (answer.http.refused)
    return Status(CKPT_IO, path() + ": the server answers with other bytes than were asked for").with("path", path());
  if (!answer.failure.ok() || !answer.http.trouble.empty() || !answer.http.good()) return client_->error(answer, key_);
  if (answer.http.received == out.size()) return Ok();
  return Status(CKPT_IO,
                strformat("{}: expected {} bytes at {}, found {}", path(), out.size(), offset, answer.http.received))
      .with("path", path());
}

}  // namespace ckpt::store::web

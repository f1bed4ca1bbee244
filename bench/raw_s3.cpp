// The limit on a server: libcurl alone, with its own signatures, which leave bodies unsigned; checksums of parts only
// where they are asked for, to tell what a server's look at them costs.
#include <curl/curl.h>
#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include "machine.h"
#include "raw_io.h"

namespace ckpt_bench {
namespace {

constexpr long kBuffer = 512 << 10;  // of libcurl; a larger one is not faster

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value) fail(std::string(name) + " is not set");
  return value;
}

// One request after the other to one object, over a connection of its own.
class Connection {
 public:
  explicit Connection(const std::string& uri)
      : url_(variable("AWS_ENDPOINT_URL") + uri.substr(std::strlen("s3:/"))),
        keys_(variable("AWS_ACCESS_KEY_ID") + ":" + variable("AWS_SECRET_ACCESS_KEY")),
        handle_(curl_easy_init()),
        headers_(curl_slist_append(nullptr, "x-amz-content-sha256: UNSIGNED-PAYLOAD")) {
    headers_ = curl_slist_append(headers_, "Expect:");
  }
  ~Connection() {
    curl_slist_free_all(headers_);
    curl_easy_cleanup(handle_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Sends the bytes. The answer's body is in text() then, its ETag in etag().
  void send(const char* method, const std::string& query, const std::byte* data, size_t size,
            const std::string& header = "") {
    begin(query);
    if (!header.empty()) add(header);
    from_ = data;
    left_ = size;
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_UPLOAD_BUFFERSIZE, kBuffer);
    set(CURLOPT_CUSTOMREQUEST, method);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(size));
    set(CURLOPT_READFUNCTION, on_send);
    set(CURLOPT_READDATA, this);
    perform(method);
    curl_slist_free_all(more_);
    more_ = nullptr;
  }

  void receive(size_t offset, std::byte* data, size_t size) {
    begin("");
    into_ = data;
    left_ = size;
    const std::string range = std::to_string(offset) + "-" + std::to_string(offset + size - 1);
    set(CURLOPT_RANGE, range.c_str());
    perform("GET");
    if (left_ != 0) fail("GET " + url_ + ": too few bytes");
  }

  const std::string& text() const { return text_; }
  const std::string& etag() const { return etag_; }

 private:
  template <typename Value>
  void set(CURLoption option, Value value) {
    if (curl_easy_setopt(handle_, option, value) != CURLE_OK) fail("libcurl refused a setting");
  }

  // To the headers of one request.
  void add(const std::string& header) {
    for (const curl_slist* each = headers_; each; each = each->next) more_ = curl_slist_append(more_, each->data);
    more_ = curl_slist_append(more_, header.c_str());
    set(CURLOPT_HTTPHEADER, more_);
  }

  void begin(const std::string& query) {
    curl_easy_reset(handle_);  // keeps the connection
    text_.clear();
    etag_.clear();
    into_ = nullptr;
    const std::string url = url_ + (query.empty() ? "" : "?" + query);
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:s3");
    set(CURLOPT_USERPWD, keys_.c_str());
    set(CURLOPT_HTTPHEADER, headers_);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_BUFFERSIZE, kBuffer);
    set(CURLOPT_HEADERFUNCTION, on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, on_body);
    set(CURLOPT_WRITEDATA, this);
  }

  void perform(const char* method) {
    const CURLcode code = curl_easy_perform(handle_);
    long status = 0;
    curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK && status / 100 == 2) return;
    fail(std::string(method) + " " + url_ + ": " + curl_easy_strerror(code) + ", HTTP status " +
         std::to_string(status) + " " + text_);
  }

  static size_t on_header(char* data, size_t one, size_t size, void* user) {
    const std::string line(data, one * size);
    const size_t colon = line.find(':'), begin = line.find('"'), end = line.rfind('"');
    if (colon == 4 && strncasecmp(line.c_str(), "etag", 4) == 0 && begin < end)
      static_cast<Connection*>(user)->etag_ = line.substr(begin, end + 1 - begin);
    return one * size;
  }

  static size_t on_body(char* data, size_t one, size_t size, void* user) {
    Connection& self = *static_cast<Connection*>(user);
    const size_t count = one * size;
    if (!self.into_) {
      self.text_.append(data, count);
      return count;
    }
    if (count > self.left_) return 0;
    std::memcpy(self.into_, data, count);
    self.into_ += count;
    self.left_ -= count;
    return count;
  }

  static size_t on_send(char* data, size_t one, size_t size, void* user) {
    Connection& self = *static_cast<Connection*>(user);
    const size_t count = std::min(self.left_, one * size);
    if (count != 0) std::memcpy(data, self.from_, count);
    self.from_ += count;
    self.left_ -= count;
    return count;
  }

  const std::string url_, keys_;
  CURL* const handle_;
  curl_slist* headers_;
  curl_slist* more_ = nullptr;
  const std::byte* from_ = nullptr;
  std::byte* into_ = nullptr;
  size_t left_ = 0;
  std::string text_, etag_;
};

// One for each thread; a process has one object.
Connection& connection_of_thread(const std::string& uri) {
  thread_local const auto connection = std::make_unique<Connection>(uri);
  return *connection;
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin), to = text.find(end, from);
  if (from == text.npos || to == text.npos) fail("no " + begin + " in: " + text);
  return text.substr(from + begin.size(), to - from - begin.size());
}

// As the header has it: base64 of the four bytes, the highest first.
#if defined(__x86_64__)
[[gnu::target("sse4.2")]]
#endif
std::string crc32c(const std::byte* data, size_t size) {
#if defined(__x86_64__)
  uint64_t crc = 0xffffffff;
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, data, sizeof word);
    crc = _mm_crc32_u64(crc, word);
  }
  for (; size != 0; data++, size--) crc = _mm_crc32_u8(static_cast<uint32_t>(crc), static_cast<uint8_t>(*data));
  const uint32_t sum = ~static_cast<uint32_t>(crc);
  const char* const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (int shift : {26, 20, 14, 8, 2}) text += digits[sum >> shift & 63];
  return text + digits[sum << 4 & 63] + "==";
#else
  (void)data, (void)size;
  fail("--checksums: only for x86-64");
#endif
}

}  // namespace

void put_object(const std::string& uri, const std::byte* data, size_t size, const RawWay& way) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  Connection& main = connection_of_thread(uri);
  main.send("POST", "uploads=", nullptr, 0, way.checksums ? "x-amz-checksum-algorithm: CRC32C" : "");
  const std::string id = "uploadId=" + between(main.text(), "<UploadId>", "</UploadId>");
  std::vector<std::string> etags((size + way.block - 1) / way.block), sums(etags.size());
  for_each_block(size, way, [&](size_t at, size_t bytes) {
    const size_t part = at / way.block;
    Connection& connection = connection_of_thread(uri);
    if (way.checksums) sums[part] = crc32c(data + at, bytes);
    connection.send("PUT", "partNumber=" + std::to_string(part + 1) + "&" + id, data + at, bytes,
                    way.checksums ? "x-amz-checksum-crc32c: " + sums[part] : "");
    etags[part] = connection.etag();
  });
  std::string list = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < etags.size(); i++)
    list += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + etags[i] + "</ETag>" +
            (way.checksums ? "<ChecksumCRC32C>" + sums[i] + "</ChecksumCRC32C>" : "") + "</Part>";
  list += "</CompleteMultipartUpload>";
  main.send("POST", id, reinterpret_cast<const std::byte*>(list.data()), list.size());
  (void)between(main.text(), "<CompleteMultipartUploadResult", ">");  // an error may come with status 200
}

void get_object(const std::string& uri, size_t offset, std::byte* data, size_t size, const RawWay& way) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  for_each_block(size, way,
                 [&](size_t at, size_t bytes) { connection_of_thread(uri).receive(offset + at, data + at, bytes); });
}

}  // namespace ckpt_bench

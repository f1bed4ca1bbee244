#include "store/s3/sign.h"

#include <time.h>

#include <algorithm>

namespace ckpt::store::s3 {

std::string amz_date(int64_t seconds) {
  const time_t when = seconds;
  tm parts{};
  gmtime_r(&when, &parts);
  return strformat("{:04}{:02}{:02}T{:02}{:02}{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                   parts.tm_hour, parts.tm_min, parts.tm_sec);
}

static std::vector<Header> sorted(std::vector<Header> headers) {
  std::sort(headers.begin(), headers.end(), [](const Header& a, const Header& b) { return a.name < b.name; });
  return headers;
}

// Without blanks around it, and with one for several inside.
static std::string trimmed(std::string_view value) {
  std::string text;
  for (char c : value) {
    if (c == ' ' && (text.empty() || text.back() == ' ')) continue;
    text += c;
  }
  if (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

static std::string names_of(const std::vector<Header>& headers) {
  std::string names;
  for (const Header& header : headers) names += (names.empty() ? "" : ";") + header.name;
  return names;
}

std::string canonical_request(const ToSign& request) {
  const std::vector<Header> headers = sorted(request.headers);
  std::string text = strformat("{}\n{}\n{}\n", request.method, request.path, request.query);
  for (const Header& header : headers) text += header.name + ":" + trimmed(header.value) + "\n";
  return text + strformat("\n{}\n{}", names_of(headers), request.payload_hash);
}

std::string authorization(const ToSign& request, const Keys& keys, std::string_view region, std::string_view service,
                          std::string_view date) {
  const std::string_view day = date.substr(0, 8);
  const std::string scope = strformat("{}/{}/{}/aws4_request", day, region, service);
  const std::string to_sign =
      strformat("AWS4-HMAC-SHA256\n{}\n{}\n{}", date, scope, hex_of(sha256(as_bytes(canonical_request(request)))));
  Sha256 key = hmac_sha256(as_bytes("AWS4" + keys.secret_key), as_bytes(day));
  for (std::string_view step : {region, service, std::string_view("aws4_request")})
    key = hmac_sha256(key, as_bytes(step));
  return strformat("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", keys.access_key, scope,
                   names_of(sorted(request.headers)), hex_of(hmac_sha256(key, as_bytes(to_sign))));
}

}  // namespace ckpt::store::s3

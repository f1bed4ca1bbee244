#include "store/azure/sign.h"

#include <time.h>

#include <algorithm>

namespace ckpt::store::azure {

static tm utc(int64_t seconds) {
  const time_t when = seconds;
  tm parts{};
  gmtime_r(&when, &parts);
  return parts;
}

// strftime would write the names of the program's own language.
std::string http_date(int64_t seconds) {
  constexpr std::string_view kDays = "SunMonTueWedThuFriSat", kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const tm parts = utc(seconds);
  return strformat("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays.substr(parts.tm_wday * 3, 3), parts.tm_mday,
                   kMonths.substr(parts.tm_mon * 3, 3), parts.tm_year + 1900, parts.tm_hour, parts.tm_min,
                   parts.tm_sec);
}

static std::string_view value_of(const std::vector<Header>& headers, std::string_view name) {
  const auto found = std::ranges::find(headers, name, &Header::name);
  return found == headers.end() ? std::string_view() : found->value;
}

std::string string_to_sign(const ToSign& request) {
  std::string text = strformat("{}\n\n\n{}\n", request.method, request.size == 0 ? "" : std::to_string(request.size));
  // The date is in x-ms-date.
  for (const char* name : {"content-md5", "content-type", "date", "if-modified-since", "if-match", "if-none-match",
                           "if-unmodified-since", "range"})
    text += strformat("{}\n", value_of(request.headers, name));
  std::vector<Header> own;
  for (const Header& header : request.headers)
    if (header.name.starts_with("x-ms-")) own.push_back(header);
  std::ranges::sort(own, {}, &Header::name);
  for (const Header& header : own) text += header.name + ":" + header.value + "\n";
  text += strformat("/{}{}", request.account, request.path);
  Query query = request.query;
  std::ranges::sort(query);
  for (const auto& [name, value] : query) text += "\n" + name + ":" + value;
  return text;
}

static std::string signature_of(std::string_view text, const std::string& key) {
  return base64_of(hmac_sha256(as_bytes(key), as_bytes(text)));
}

std::string shared_key(const ToSign& request, const std::string& key) {
  return strformat("SharedKey {}:{}", request.account, signature_of(string_to_sign(request), key));
}

std::string read_signature(std::string_view account, std::string_view object, const std::string& key, int64_t until) {
  const tm end = utc(until);
  const std::string expiry = strformat("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", end.tm_year + 1900, end.tm_mon + 1,
                                       end.tm_mday, end.tm_hour, end.tm_min, end.tm_sec);
  // Permissions, start, end, resource, identifier, addresses, protocol, version, kind, and seven more that are empty.
  const std::string text =
      strformat("r\n\n{}\n/blob/{}/{}\n\n\n\n{}\nb\n\n\n\n\n\n\n", expiry, account, object, kVersion);
  return canonical_query(
      {{"sp", "r"}, {"se", expiry}, {"sv", kVersion}, {"sr", "b"}, {"sig", signature_of(text, key)}});
}

}  // namespace ckpt::store::azure

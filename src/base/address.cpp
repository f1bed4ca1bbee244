#include "base/address.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace ckpt {

static bool is_scheme_char(char c) {
  c = to_lower(c);
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '.' || c == '-' || c == '_';
}

// How many bytes of an address are scheme, colon and slashes; 0 if it is none.
static size_t scheme_size(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && is_scheme_char(text[end])) end++;
  const std::string scheme = in_lower_case(text.substr(0, end));
  if (scheme.size() < 2 || scheme == "mem") return 0;
  const size_t colon = std::min(text.find_first_not_of(" \t", end), text.size());
  if (text.substr(colon).starts_with("://")) end = colon;
  const std::string_view rest = text.substr(end);
  // A file's address has no user, so one that has is mistyped.
  if (scheme == "file" && (!rest.starts_with("://") || rest.substr(3, rest.find('/', 3) - 3).find('@') == rest.npos))
    return 0;
  bool known = false;
  for (std::string_view name : {"ht", "ftp", "s3"}) known |= scheme.starts_with(name);
  if (!rest.starts_with(":/") &&
      !(known && (rest.starts_with("//") || rest.starts_with(":") || rest.starts_with(";/"))))
    return 0;
  const std::string_view between = rest.starts_with("://") ? ":;/ \t" : ":;/";
  return end + std::min(rest.find_first_not_of(between), rest.size());
}

// "ACCOUNT.blob.core.windows.net", of another cloud, or of a zone: "ACCOUNT.z12.blob.storage.azure.net".
static bool is_azure_host(std::string_view host) {
  const size_t dot = host.find('.');
  if (dot == 0 || dot == host.npos) return false;
  const std::string_view rest = host.substr(dot);
  for (std::string_view cloud : {".windows.net", ".usgovcloudapi.net", ".chinacloudapi.cn"})
    if (rest.starts_with(".blob.core.") && rest.substr(std::string_view(".blob.core").size()) == cloud) return true;
  const size_t end = rest.find('.', 1);
  return rest.starts_with(".z") && end != rest.npos && rest.find_first_not_of("0123456789", 2) == end &&
         rest.substr(end) == ".blob.storage.azure.net";
}

BucketAddress bucket_address(std::string_view address) {
  const size_t colon = address.find("://"), begin = colon + 3;
  if (colon == address.npos) return {};
  const std::string_view scheme = address.substr(0, colon);
  for (std::string_view service : {"s3", "gs", "az"})
    if (scheme == service) return {service, begin};
  if (scheme == "abfss" || scheme == "abfs") return {"az", begin};
  const size_t slash = address.find('/', begin);
  if (scheme != "https" || slash == address.npos || address.find('?') != address.npos) return {};
  const std::string_view host = address.substr(begin, slash - begin);
  return is_azure_host(host) ? BucketAddress{"az", slash + 1} : BucketAddress{};
}

std::string_view endpoint_trouble(std::string_view one, std::string_view other) {
  const std::string_view first = bucket_address(one).service, second = bucket_address(other).service;
  if (first == second || first.empty() || second.empty()) return "";
  return "option endpoint is of one service; set AWS_ENDPOINT_URL_S3 for s3://, STORAGE_EMULATOR_HOST for gs://, or "
         "AZURE_STORAGE_CONNECTION_STRING for az://, in its place";
}

bool is_address(std::string_view text) { return scheme_size(text) != 0; }

// What may be shown of an address behind its scheme. `alone`: it has no other text behind it.
static std::string_view shown_rest(std::string_view rest, bool s3, bool abfs, bool alone, bool* cut) {
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const size_t colon = authority.find(':'), at = authority.rfind('@');
  const size_t last = authority.starts_with('[') ? authority.rfind("]:") + 1 : authority.rfind(':');
  const bool odd_port = colon != authority.npos && !authority.ends_with(']') &&
                        authority.find_first_not_of("0123456789", last + 1) != authority.npos;
  // In "s3://bucket@label:x" it begins a selector, which has no slash; in "abfss://container@account" an account.
  if (at != authority.npos && !(abfs && colon == authority.npos) &&
      (!s3 || colon < at || rest.size() > authority.size()))
    rest.remove_prefix(at + 1);
  else if (odd_port && rest.rfind('@') != rest.npos && !(s3 && colon > at))  // a password may have a slash
    rest.remove_prefix(rest.rfind('@') + 1);
  else if (odd_port && alone && !(s3 && colon > at)) {
    *cut = true;
    return rest.substr(0, colon);
  }
  const size_t end = rest.find_first_of(s3 ? "?" : "?#");
  const bool is_key = s3 && end != rest.npos && rest.find('=', end) == rest.npos;  // of an object, which may have a '?'
  return rest.substr(0, is_key ? rest.npos : end);
}

static std::string shown(std::string_view text, size_t scheme, bool alone) {
  bool cut = false;
  const bool s3 = in_lower_case(text.substr(0, 3)) == "s3:";
  const bool abfs = in_lower_case(text.substr(0, 4)) == "abfs";
  const std::string_view rest = shown_rest(text.substr(scheme), s3, abfs, alone, &cut);
  return std::string(text.substr(0, scheme)) + std::string(rest) + (cut ? ":…" : "");
}

std::string shown_url(std::string_view text) {
  const size_t scheme = scheme_size(text);
  return scheme == 0 ? std::string(text) : shown(text, scheme, true);
}

// Where an address that begins at `begin` ends: at the quotation mark that it began with, or before a blank behind its
// scheme and the marks of a sentence.
static size_t end_of_address(std::string_view text, size_t begin, size_t scheme) {
  const char before = begin == 0 ? ' ' : text[begin - 1];
  if (before == '"' || before == '\'')
    if (const size_t end = text.find(before, begin); end != text.npos) return end;
  size_t end = std::min(text.find_first_of(" \t\r\n\"", begin + scheme), text.size());
  while (end > begin && std::string_view(":;,.)]}'?").find(text[end - 1]) != std::string_view::npos) end--;
  return end;
}

std::string without_secrets(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool may_begin = i == 0 || !is_scheme_char(text[i - 1]);
    const size_t scheme = may_begin ? scheme_size(text.substr(i)) : 0;
    if (scheme == 0) {
      out += text[i++];
      continue;
    }
    const size_t end = std::max(end_of_address(text, i, scheme), i + scheme);
    out += shown(text.substr(i, end - i), scheme, false);
    i = end;
  }
  return out;
}

// A short secret may be a part of any word: only where it stands by itself it is one.
std::string blotted(std::string text, std::span<const std::string> secrets) {
  constexpr size_t kLong = 6;
  constexpr std::string_view kBlot = "***";
  auto in_word = [&](size_t at) { return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0; };
  for (const std::string& secret : secrets)
    for (size_t at = 0; !secret.empty() && (at = text.find(secret, at)) != text.npos;) {
      const bool is_part = secret.size() < kLong && (in_word(at - 1) || in_word(at + secret.size()));
      if (!is_part) text.replace(at, secret.size(), kBlot);
      at += is_part ? 1 : kBlot.size();
    }
  return text;
}

}  // namespace ckpt

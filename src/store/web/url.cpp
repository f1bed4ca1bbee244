#include "store/web/url.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/address.h"
#include "base/text.h"
#include "store/cloud/encoding.h"

namespace ckpt::store::web {

static Status invalid_url(std::string_view text, std::string_view why) {
  return Status(CKPT_INVALID,
                strformat("\"{}\": expected https://HOST[:PORT]/PATH or http://…, found {}", shown_url(text), why));
}

std::string percent_decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); i++) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(to_lower(text[i + 1])) : -1;
    const int low = high >= 0 ? hex_digit(to_lower(text[i + 2])) : -1;
    if (low >= 0) i += 2;
    decoded += low >= 0 ? static_cast<char>(high * 16 + low) : text[i];
  }
  return decoded;
}

// What people paste may have blanks and letters of any alphabet; a request line has none.
static std::string sendable(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte < 0x7f)
      out += c;
    else
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

static bool is_host(std::string_view host) {
  const size_t colon = host.ends_with(']') ? host.npos : host.rfind(':');
  const std::string_view name = host.substr(0, colon);
  const std::string_view port = colon == host.npos ? "0" : host.substr(colon + 1);
  if (name.empty() || port.empty() || port.find_first_not_of("0123456789") != port.npos) return false;
  if (name.find('[', 1) != name.npos || name.starts_with('[') != (name.find(']') + 1 == name.size())) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view(".-_[]:").find(c) != std::string_view::npos;
  });
}

Result<Url> parse_url(std::string_view text) {
  Url url;
  const size_t colon = text.find("://");
  url.scheme = in_lower_case(text.substr(0, colon));
  if (colon == text.npos || (url.scheme != "https" && url.scheme != "http")) return invalid_url(text, "another scheme");
  std::string_view rest = text.substr(colon + 3);
  rest = rest.substr(0, rest.find('#'));
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
  rest.remove_prefix(authority.size());
  const size_t at = authority.rfind('@');
  if (at != authority.npos) url.user = percent_decode(authority.substr(0, at));
  url.host = in_lower_case(at == authority.npos ? authority : authority.substr(at + 1));
  const std::string_view own_port = url.scheme == "https" ? ":443" : ":80";
  if (url.host.ends_with(own_port)) url.host.resize(url.host.size() - own_port.size());
  if (!is_host(url.host)) return invalid_url(text, url.host.empty() ? "no host" : "no name or number of a host");
  const size_t query = rest.find('?');
  url.path = sendable(rest.substr(0, query));
  if (query != rest.npos) url.query = sendable(rest.substr(query));
  return url;
}

std::string_view Url::name() const {
  const size_t colon = host.ends_with(']') ? host.npos : host.rfind(':');
  return std::string_view(host).substr(0, colon);
}

bool Url::is_loopback() const {
  const std::string host_name(name());
  in_addr address;
  return host_name == "localhost" || host_name == "[::1]" ||
         (inet_pton(AF_INET, host_name.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

Url Url::below(std::string_view key) const {
  Url url = *this;
  if (key.empty()) return url;
  while (url.path.ends_with('/')) url.path.pop_back();
  url.path += "/" + cloud::percent_encode(key, true);
  return url;
}

Result<Url> redirected(const Url& from, std::string_view location) {
  const size_t colon = location.find(':');
  const bool absolute = colon != location.npos && colon < location.find_first_of("/?#");
  if (absolute) return parse_url(location);
  if (location.starts_with("//")) return parse_url(from.scheme + ":" + std::string(location));
  if (location.starts_with('/')) return parse_url(from.origin() + std::string(location));
  if (location.starts_with('?')) return parse_url(from.shown() + std::string(location));
  return parse_url(from.origin() + from.path.substr(0, from.path.rfind('/') + 1) + std::string(location));
}

}  // namespace ckpt::store::web

#include "store/cloud/place.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/address.h"
#include "base/text.h"
#include "store/keys.h"

namespace ckpt::store::cloud {

Variables read_variables(std::initializer_list<std::string_view> prefixes) {
  Variables found;
  for (char** entry = environ; entry && *entry; entry++) {
    const std::string_view line = *entry;
    const size_t equals = line.find('=');
    const bool wanted = std::any_of(prefixes.begin(), prefixes.end(), [&](auto one) { return line.starts_with(one); });
    if (equals != line.npos && (wanted || line.starts_with("HOME=")))
      found.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return found;
}

std::string Place::variable(std::string_view name) const {
  auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

std::string Place::key(std::string_view of) const {
  if (root.empty() || of.empty()) return root + std::string(of);
  return root + "/" + std::string(of);
}

std::string Place::prefix(std::string_view directory) const {
  const std::string found = key(directory);
  return found.empty() ? "" : found + "/";
}

Result<std::string> read_small_file(const std::string& path) {
  constexpr size_t kMost = 1 << 20;
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (!file) return from_errno(errno, "open", path);
  std::string text(kMost + 1, 0);
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get())) return from_errno(EIO, "read", path);
  if (text.size() > kMost) return too_large(path, text.size(), kMost);
  return text;
}

std::string first_of(std::initializer_list<std::string> values) {
  for (const std::string& value : values)
    if (!value.empty()) return value;
  return "";
}

// ---- an address ----

Status invalid_place(std::string_view uri, std::string_view reason) {
  return Status(CKPT_INVALID, strformat("store \"{}\": {}", shown_url(uri), reason));
}

Status read_uri(std::string_view uri, Place* place) {
  const size_t colon = uri.find("://");
  const std::string scheme(uri.substr(0, colon + 3)), form = "expected " + scheme + "BUCKET/PREFIX, found ";
  std::string_view rest = uri.substr(colon + 3);
  place->bucket = rest.substr(0, rest.find('/'));
  rest.remove_prefix(place->bucket.size());
  for (char c : place->bucket) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && c != '.' && c != '-' && c != '_')
      return invalid_place(uri, form + "a bucket that no server can have");
  }
  place->address = scheme + place->bucket;
  if (place->bucket.empty()) return invalid_place(uri, form + "no bucket");
  if (shown_url(uri).size() < uri.size())  // a key may have a '?', but no settings behind it
    return invalid_place(uri, form + "a query; a signed address begins with https://");
  while (!rest.empty() && rest.front() == '/') rest.remove_prefix(1);
  while (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
  place->root = rest;
  if (Status valid = rest.empty() ? Ok() : check_key(rest); !valid.ok()) return invalid_place(uri, valid.message());
  return Ok();
}

// What is wrong with one, and no more of it: it may have a secret anywhere.
static std::string odd_endpoint(const std::string& scheme, const std::string& host) {
  const size_t end = host.find_first_of("/?#@\\ \t\r\n");
  if (scheme.empty()) return "another scheme";
  if (host.empty()) return "no host";
  if (host.find('@') != host.npos) return "a user in it";
  return "\"" + scheme + "://" + host.substr(0, end) + "\" and something behind it";
}

Status read_endpoint(std::string_view uri, const std::string& endpoint, Place* place) {
  const size_t colon = endpoint.find("://");
  place->scheme = colon == endpoint.npos ? "https" : endpoint.substr(0, colon);
  std::string host = colon == endpoint.npos ? endpoint : endpoint.substr(colon + 3);
  while (!host.empty() && host.back() == '/') host.pop_back();
  const bool known = place->scheme == "https" || place->scheme == "http";
  if (!known || host.empty() || host.find_first_of("/?#@\\ \t\r\n") != host.npos)
    return invalid_place(uri, strformat("option endpoint: expected https://HOST[:PORT] or http://HOST[:PORT], found {}",
                                        odd_endpoint(known ? place->scheme : "", host)));
  const std::string_view port = place->scheme == "https" ? ":443" : ":80";  // not in the header that is signed
  if (host.ends_with(port)) host.resize(host.size() - port.size());
  place->host = host;
  return Ok();
}

}  // namespace ckpt::store::cloud

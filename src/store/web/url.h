// Addresses on the web, as they are sent and as they may be shown: a user, a password and a query are often secrets.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/text.h"

namespace ckpt::store::web {

struct Url {
  std::string scheme;  // "https" or "http"
  std::string user;    // "name:password", decoded; "" if there is none
  std::string host;    // with the port, unless that is the scheme's own; in lower case
  std::string path;    // "/run7", encoded as it was given; "" or with a slash at its beginning
  std::string query;   // "?token=x" or ""

  // The host without its port.
  std::string_view name() const;
  // Whether nobody can read on the way what is sent there: it is encrypted, or stays on this machine.
  bool is_private() const { return scheme == "https" || is_loopback(); }
  bool is_loopback() const;
  std::string origin() const { return scheme + "://" + host; }
  std::string shown() const { return origin() + path; }
  std::string sent() const { return origin() + (path.empty() ? "/" : path) + query; }
  // Of a file below it: the path gets the key, encoded, and the query stays.
  Url below(std::string_view key) const;
};

// INVALID, without what must not be shown.
Result<Url> parse_url(std::string_view text);
// Where a redirect leads.
Result<Url> redirected(const Url& from, std::string_view location);

// "%20" is a space. What follows no rule stays as it is.
std::string percent_decode(std::string_view text);

}  // namespace ckpt::store::web

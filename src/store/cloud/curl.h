// libcurl, loaded when the first s3://, gs:// or https:// store is opened. It is not linked: a trainer that never opens
// one does not load it and the thirty libraries behind it, and runs where it is not installed. Its interface has been
// stable since 2006 (libcurl.so.4).
#pragma once

#include <curl/curl.h>

#include "base/status.h"

namespace ckpt::store::cloud {

struct Curl {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_reset) easy_reset;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
  decltype(&::curl_getdate) getdate;
  std::string certificates;  // to trust instead of libcurl's own, which are not on this machine; else ""

  // Once in a process. UNSUPPORTED if there is no libcurl.
  static Result<const Curl*> load();
};

// The certificates of this system, if `own` are not there: a libcurl that comes with a package of Python looks where
// the system of its maker has them. "" if they are, if libcurl has none (its TLS library may), or if there are none.
// `root` is put before each place, for tests.
std::string other_certificates(const char* own, const std::string& root);

}  // namespace ckpt::store::cloud

#include "store/cloud/curl.h"

#include "store/cloud/library.h"

namespace ckpt::store::cloud {

static Status cannot_load(std::string_view why) {
  return Status(
      CKPT_UNSUPPORTED,
      strformat("s3://, gs://, az:// and https:// need libcurl.so.4 (Debian: libcurl4), which cannot be loaded: {}",
                why));
}

static Result<Curl> load_once() {
  std::string why;
  const Library library({"libcurl.so.4", "libcurl-gnutls.so.4"}, &why);
  if (!library) return cannot_load(why);
  Curl curl{};
  const bool found =
      library.find("curl_global_init", &curl.global_init) && library.find("curl_easy_init", &curl.easy_init) &&
      library.find("curl_easy_cleanup", &curl.easy_cleanup) && library.find("curl_easy_reset", &curl.easy_reset) &&
      library.find("curl_easy_setopt", &curl.easy_setopt) && library.find("curl_easy_getinfo", &curl.easy_getinfo) &&
      library.find("curl_easy_perform", &curl.easy_perform) &&
      library.find("curl_easy_strerror", &curl.easy_strerror) &&
      library.find("curl_slist_append", &curl.slist_append) &&
      library.find("curl_slist_free_all", &curl.slist_free_all) && library.find("curl_getdate", &curl.getdate);
  if (!found) return cannot_load("it lacks a function");
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return cannot_load("it does not start");
  return curl;
}

Result<const Curl*> Curl::load() {
  static const auto& loaded = *new const Result<Curl>(load_once());  // never destroyed, as stores may outlive statics
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace ckpt::store::cloud

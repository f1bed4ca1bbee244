#include "store/cloud/curl.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <memory>

namespace ckpt::store::cloud {

static Status cannot_load(std::string_view why) {
  return Status(
      CKPT_UNSUPPORTED,
      strformat("s3://, gs:// and https:// need libcurl.so.4 (Debian: libcurl4), which cannot be loaded: {}", why));
}

template <typename Function>
static bool find_function(void* library, const char* name, Function** out) {
  *out = reinterpret_cast<Function*>(dlsym(library, name));
  return *out != nullptr;
}

static Result<Curl> load_once() {
  // A second C library would come with it.
  if (getauxval(AT_BASE) == 0) return cannot_load("this program is linked statically");
  void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  const char* why = library ? nullptr : dlerror();
  const std::string first = why ? why : "";
  if (!library) library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
  if (!library) return cannot_load(first);
  Curl curl{};
  const bool found = find_function(library, "curl_global_init", &curl.global_init) &&
                     find_function(library, "curl_easy_init", &curl.easy_init) &&
                     find_function(library, "curl_easy_cleanup", &curl.easy_cleanup) &&
                     find_function(library, "curl_easy_reset", &curl.easy_reset) &&
                     find_function(library, "curl_easy_setopt", &curl.easy_setopt) &&
                     find_function(library, "curl_easy_getinfo", &curl.easy_getinfo) &&
                     find_function(library, "curl_easy_perform", &curl.easy_perform) &&
                     find_function(library, "curl_easy_strerror", &curl.easy_strerror) &&
                     find_function(library, "curl_slist_append", &curl.slist_append) &&
                     find_function(library, "curl_slist_free_all", &curl.slist_free_all) &&
                     find_function(library, "curl_getdate", &curl.getdate);
  if (!found) return cannot_load("it lacks a function");
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return cannot_load("it does not start");
  return curl;  // stays loaded: its threads and handlers cannot be taken back
}

Result<const Curl*> Curl::load() {
  static const auto& loaded = *new const Result<Curl>(load_once());  // never destroyed, as stores may outlive statics
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace ckpt::store::cloud

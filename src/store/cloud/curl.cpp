#include "store/cloud/curl.h"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "store/cloud/library.h"

namespace ckpt::store::cloud {

static Status cannot_load(std::string_view why) {
  return Status(
      CKPT_UNSUPPORTED,
      strformat("s3://, gs://, az:// and https:// need libcurl.so.4 (package libcurl4 of Debian, libcurl of Alpine and "
                "Red Hat; or pip install 'libckpt[s3]'), which cannot be loaded: {}",
                why));
}

// In a wheel this library is in ckpt/prefix/lib; the extra `s3` brings PyPI's pycurl, which has a libcurl beside ckpt.
static std::string libcurl_of_wheel() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&libcurl_of_wheel), &self) == 0) return "";
  const std::string path = self.dli_fname;  // by the tool it is ckpt/prefix/bin/../lib/…
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.substr(0, path.rfind('/') + 1).c_str(), nullptr),
                                                         &std::free);
  const std::string folder = real ? real.get() : "";
  if (!folder.ends_with("/ckpt/prefix/lib")) return "";  // elsewhere anybody may own what is three folders above
  glob_t found{};
  const bool is_there = glob((folder + "/../../../pycurl.libs/libcurl-*.so.4*").c_str(), 0, nullptr, &found) == 0;
  std::string libcurl = is_there ? found.gl_pathv[0] : "";
  globfree(&found);
  return libcurl;
}

std::string other_certificates(const char* own, const std::string& root) {
  if (!own || access((root + own).c_str(), R_OK) == 0) return "";
  // Debian, Arch, Alpine; Red Hat; SUSE; Alpine and the BSDs.
  for (const char* place : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                            "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (access((root + place).c_str(), R_OK) == 0) return root + place;
  return "";
}

static std::string certificates_for(const Curl& curl) {
  constexpr auto kOwn = static_cast<CURLINFO>(CURLINFO_STRING + 61);  // CURLINFO_CAINFO, from libcurl 7.84 on
  const char* own = nullptr;
  CURL* const handle = curl.easy_init();
  const bool told = handle && curl.easy_getinfo(handle, kOwn, &own) == CURLE_OK;
  const std::string found = told ? other_certificates(own, "") : "";
  if (handle) curl.easy_cleanup(handle);
  return found;
}

static Result<Curl> load_once() {
  std::string why;
  Library library({"libcurl.so.4", "libcurl-gnutls.so.4"}, &why);
  const std::string beside = library ? "" : libcurl_of_wheel();
  if (!beside.empty()) library = Library({beside.c_str()}, &why);
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
  curl.certificates = certificates_for(curl);
  return curl;
}

Result<const Curl*> Curl::load() {
  static const auto& loaded = *new const Result<Curl>(load_once());  // never destroyed, as stores may outlive statics
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace ckpt::store::cloud

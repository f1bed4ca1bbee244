#include "store/store.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/address.h"
#include "base/text.h"
#include "store/backend.h"
#include "store/keys.h"

namespace ckpt::store {

static constexpr std::string_view kExpected =
    "expected /dir, file:///dir, mem:NAME, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, "
    "https://HOST/PATH or a scheme that is registered (ckpt_backend.h)";

static Status invalid_uri(std::string_view uri, std::string_view reason) {
  return Status(CKPT_INVALID, "store \"" + shown_url(uri) + "\": " + std::string(reason));
}

// "%20" is a space: a path in a URI is percent-encoded (RFC 8089), a plain path is not.
static Result<std::string> decode(std::string_view uri, std::string_view text) {
  std::string path;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '%') {
      path += text[i];
      continue;
    }
    int high = i + 1 < text.size() ? hex_digit(to_lower(text[i + 1])) : -1;
    int low = i + 2 < text.size() ? hex_digit(to_lower(text[i + 2])) : -1;
    if (high < 0 || low < 0) return invalid_uri(uri, "'%' must be followed by two hexadecimal digits");
    path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return path;
}

static Result<std::shared_ptr<Store>> open_file_uri(std::string_view uri, const StoreSettings& options) {
  std::string_view rest = uri.substr(7);
  size_t slash = rest.find('/');
  std::string_view host = rest.substr(0, slash);
  if (slash == rest.npos || !(host.empty() || host == "localhost"))
    return invalid_uri(uri, "expected file:///dir, a path on this machine");
  CKPT_ASSIGN(std::string path, decode(uri, rest.substr(slash)));
  return open_posix(path, options);
}

// "s3" for "s3://bucket"; "" if there is no scheme.
static std::string_view scheme_of(std::string_view uri) {
  size_t end = uri.find("://");
  if (end == uri.npos) return {};
  std::string_view scheme = uri.substr(0, end);
  return scheme.find('/') == scheme.npos ? scheme : std::string_view();
}

bool is_web_url(std::string_view text) {
  const std::string scheme = in_lower_case(text.substr(0, 8));
  return (scheme.starts_with("http://") || scheme.starts_with("https://")) && !is_bucket_address(text);
}

Result<std::shared_ptr<Store>> open_store(std::string_view uri, const StoreSettings& options) {
  if (uri.empty()) return invalid_uri(uri, kExpected);
  if (uri.starts_with("mem:")) return open_memory(uri.substr(4));
  if (uri.starts_with("file://")) return open_file_uri(uri, options);
  if (is_bucket_address(uri)) return open_bucket(uri, options.s3);
  if (is_web_url(uri)) return open_web(uri, options.web);
  if (std::string_view scheme = scheme_of(uri); !scheme.empty()) {
    if (const auto backend = find_backend(scheme)) return open_backend(uri, *backend);
    return Status(CKPT_UNSUPPORTED, strformat("store \"{}\": {}, found scheme {}", shown_url(uri), kExpected, scheme));
  }
  if (is_address(uri)) return invalid_uri(uri, kExpected);
  return open_posix(uri, options);
}

// A directory needs no cache, but the other place may.
static Status put_cache_before(OpenedPlaces* opened, StoreSettings settings) {
  settings.cache.trouble = opened->cache_trouble = std::make_shared<CacheTrouble>();
  const bool mirror_is_remote = opened->mirror && opened->mirror->traits().remote;
  if (!opened->store->traits().remote && !mirror_is_remote) return open_cache(opened->store, settings).status();
  for (auto* place : {&opened->store, &opened->mirror}) {
    if (!*place || !(*place)->traits().remote) continue;
    auto cached = open_cache(*place, settings);
    if (cached.ok())
      *place = cached.take();
    else
      opened->cache_trouble->note(std::move(cached).status());
  }
  return Ok();
}

static StoreSettings settings_of(const StoreOptions& options) {
  StoreSettings settings = server_settings(options);
  settings.direct_io = options.direct_io == "auto";
  settings.uring = options.io_engine == "auto";
  settings.recycle = options.recycle == "auto";
  settings.cache.directory = options.cache;
  settings.cache.bytes = options.cache_bytes;
  settings.s3.conditional = options.conditional_puts == "require";
  settings.s3.grace_ms = options.prune_grace_ms;
  return settings;
}

Result<OpenedPlaces> open_places(std::string_view uri, const StoreOptions& options) {
  const StoreSettings settings = settings_of(options);
  OpenedPlaces opened;
  CKPT_ASSIGN(opened.store, open_store(uri, settings));
  if (!options.mirror.empty()) {
    const std::string_view trouble = endpoint_trouble(uri, options.mirror);
    if (!options.endpoint.empty() && !trouble.empty()) return invalid_uri(options.mirror, trouble);
    CKPT_ASSIGN(opened.mirror, open_store(options.mirror, settings));
    const std::string found = opened.mirror->uri();
    if (found == opened.store->uri())
      return Status(CKPT_INVALID, "option mirror names the store itself: " + found).with("found", found);
  }
  if (!options.cache.empty()) CKPT_TRY(put_cache_before(&opened, settings));
  return opened;
}

Result<WebFile> split_web_url(std::string_view url) {
  url = url.substr(0, url.find('#'));
  const std::string_view address = url.substr(0, url.find('?')), query = url.substr(address.size());
  const size_t host = address.find("://") + 3, slash = address.rfind('/');
  if (slash < host || slash + 1 == address.size())
    return Status(CKPT_INVALID,
                  strformat("\"{}\": expected the address of a file, such as "
                            "https://host/model.safetensors: a web server does not tell what a directory holds",
                            shown_url(url)));
  CKPT_ASSIGN(std::string key, decode(url, address.substr(slash + 1)));
  return WebFile{std::string(address.substr(0, slash)) + std::string(query), std::move(key)};
}

#if !CKPT_S3
Result<std::shared_ptr<Store>> open_bucket(std::string_view uri, const S3Options& /*options*/) {
  return Status(CKPT_UNSUPPORTED, "store \"" + shown_url(uri) +
                                      "\": this libckpt was built without s3://, gs:// and az:// stores (CKPT_S3)");
}
Result<std::shared_ptr<Store>> open_web(std::string_view uri, const WebOptions& /*options*/) {
  return Status(CKPT_UNSUPPORTED, "\"" + shown_url(uri) + "\": this libckpt was built without https:// (CKPT_S3)");
}
#endif

Result<std::vector<Entry>> Store::list_at_most(std::string_view directory, size_t most) const {
  CKPT_ASSIGN(auto entries, list(directory));
  if (entries.size() <= most) return entries;
  return Status(CKPT_UNSUPPORTED, strformat("{}: more than {} names in one directory", path(directory), most))
      .with("path", path(directory));
}

Result<uint64_t> Store::bytes_in(std::string_view directory) const {
  CKPT_ASSIGN(const auto files, usage(directory));
  std::set<uint64_t> seen;
  uint64_t bytes = 0;
  for (const FileUse& file : files)
    if (file.links == 1 || file.inode == 0 || seen.insert(file.inode).second) bytes += file.size;
  return bytes;
}

Result<uint64_t> Store::bytes_shared(std::string_view directory) const {
  CKPT_ASSIGN(const auto files, usage(directory));
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> names;  // by inode: how many are here, and the size
  uint64_t bytes = 0;
  for (const FileUse& file : files) {
    if (file.links == 1 || file.inode == 0) continue;
    auto& [here, size] = names[file.inode];
    size = file.size;
    if (++here == 1) bytes += size;
    if (here == file.links) bytes -= size;
  }
  return bytes;
}

Result<std::unique_ptr<Borrowed>> Store::borrow(std::string_view from, std::string_view to) {
  CKPT_TRY(check_key(from));
  CKPT_TRY(check_new_file(to));
  return Status(CKPT_UNSUPPORTED, path(from) + ": a file of this store has one name only").with("path", path(from));
}

Status Store::put_own(std::string_view key, Bytes data) {
  Status put = put_if_absent(key, data);
  constexpr int kTries = 4;
  for (int i = 1; i < kTries && put.code() == CKPT_IO && traits().visible_is_durable; i++) {
    put = put_if_absent(key, data);
    if (put.code() != CKPT_EXISTS) continue;
    CKPT_ASSIGN(auto found, get(key, data.size()));
    return std::ranges::equal(found, data) ? Ok() : put;
  }
  return put;
}

Status Store::put_same(std::string_view key, Bytes data) {
  constexpr int kTries = 4;
  for (int i = 0; i < kTries; i++) {
    Status put = put_if_absent(key, data);
    if (put.code() != CKPT_EXISTS) return put;
    auto found = get(key, 4096);
    if (found.status().code() == CKPT_NOT_FOUND) continue;  // whoever put it was done, and removed it
    CKPT_TRY(found.status());
    if (std::ranges::equal(*found, data)) return Ok();
    return Status(CKPT_CONFLICT, path(key) + " says something else: a save, or a copy, has this name already")
        .with("path", path(key));
  }
  // Nothing goes on without its record: nobody would ever remove what a crash leaves.
  return Status(CKPT_IO, path(key) + ": the store says that it exists, and then that it does not")
      .with("path", path(key));
}

static Status tells_no_age(std::string_view path) {
  return Status(CKPT_UNSUPPORTED, std::string(path) + ": this store does not tell how old files are")
      .with("path", std::string(path));
}

Status Store::put_over(std::string_view key, Bytes /*data*/) { return tells_no_age(path(key)); }

Result<int64_t> Store::age_ms(std::string_view key) const { return tells_no_age(path(key)); }

Status Store::open_attempt(std::string_view record, Bytes text, std::string_view directory) {
  CKPT_TRY(make_directory(directory_of(record)));
  CKPT_TRY(put_same(record, text));
  return make_directory(directory);
}

Result<bool> Store::attempt_exists(std::string_view /*record*/, std::string_view directory) const {
  return exists(directory);
}

Result<std::vector<std::byte>> Store::get(std::string_view key, uint64_t limit) const {
  return read_whole([&] { return get_once(key, limit); });
}

Result<std::vector<std::byte>> Store::get_once(std::string_view key, uint64_t limit) const {
  CKPT_ASSIGN(const auto file, open(key));
  return read_all(*file, limit, path(key));
}

Result<std::vector<std::byte>> read_all(const Reader& file, uint64_t limit, std::string_view path) {
  if (file.size() > limit) return too_large(path, file.size(), limit);
  std::vector<std::byte> data(file.size());
  CKPT_TRY(file.read_at(0, data));
  return data;
}

}  // namespace ckpt::store

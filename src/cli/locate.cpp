#include "cli/locate.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "base/address.h"
#include "cli/look.h"

namespace cli {

// "s3://bucket/run7" is not a path, nor is what somebody mistyped, "htps://" or "http:/": what it is, the library says,
// and shows no secrets of it.
bool is_remote(std::string_view text) {
  for (std::string_view scheme : {"http", "https", "s3", "gs", "az", "ftp"})
    if (text.starts_with(scheme) && text.substr(scheme.size()).find_first_of(":;/") == 0 &&
        (text[scheme.size()] != '/' || text.substr(scheme.size()).starts_with("//")))
      return true;
  const size_t colon = text.find(":/");
  return colon != text.npos && colon > 1 && text.substr(0, colon).find('/') == text.npos;
}

namespace {

namespace fs = std::filesystem;

// In a bucket, and in a store from outside, nothing but the store tells what a name is: where its own name begins in an
// address. 0: it is none of these.
size_t store_begins(std::string_view text) {
  if (const size_t bucket = ckpt::bucket_address(text).bucket) return bucket;
  const size_t colon = text.find("://");
  return colon == text.npos || !is_remote(text) || is_web(text) || text.starts_with("file:") ? 0 : colon + 3;
}

std::string_view without_file_scheme(std::string_view text) {
  for (std::string_view before : {"file://", "file://localhost"})
    if (text.starts_with(before) && text.substr(before.size()).starts_with('/')) return text.substr(before.size());
  // A host is no place of a store: the library says so, and shows no secrets of it.
  if (text.starts_with("file://")) (void)ckpt::Store::open(std::string(text));
  return text;
}

// A client of a network file system remembers what was absent; the library asks the server.
fs::file_status status_of(const std::string& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (fs::exists(status)) return status;
  try {
    (void)ckpt::Store::open(path).list();
  } catch (const ckpt::Error& error) {
    if (error.status() == CKPT_NOT_FOUND) return status;
  }
  return fs::status(path, code);
}

void need_directory(const std::string& path) {
  const fs::file_status status = status_of(path);
  if (!fs::exists(status)) {
    try {
      (void)ckpt::Store::open(path).list();
    } catch (const ckpt::Error& error) {
      if (error.status() != CKPT_NOT_FOUND) throw;  // it may be there
    }
    fail(CKPT_NOT_FOUND, "no such directory: " + path);
  }
  if (!fs::is_directory(status)) invalid("a file is neither a store nor a checkpoint: " + path);
}

bool exists(const std::string& path) { return fs::exists(status_of(path)); }

// Whether a name ends in a token and an attempt: "step-100.7.1".
bool is_named_as_checkpoint(std::string_view name) {
  for (int i = 0; i < 2; i++) {
    const size_t dot = name.find_last_not_of("0123456789");
    if (dot == name.npos || name[dot] != '.' || dot + 1 == name.size()) return false;
    name = name.substr(0, dot);
  }
  return !name.empty();
}

bool is_checkpoint(const std::string& path) {
  std::error_code code;
  for (fs::directory_iterator it(path, code), end; !code && it != end; it.increment(code)) {
    std::string name = it->path().filename().string();
    if (name == "MANIFEST" || (name.starts_with("PART_") && name.find('.') == std::string::npos)) return true;
  }
  return false;
}

std::string without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

Target locate_selector(std::string_view argument, size_t at, bool has_mirror) {
  std::string_view selector = argument.substr(at + 1);
  if (selector.empty()) invalid("nothing after '@'; try @latest, @label:L, @name:N, @step:N");
  std::string store = at == 0 ? "." : without_trailing_slashes(argument.substr(0, at));
  if (!is_remote(store) && (!has_mirror || exists(store))) need_directory(store);
  return {Target::Kind::kSelector, store, std::string(selector)};
}

Target locate_directory(const std::string& path, bool has_mirror = false) {
  if (has_mirror && !exists(path)) {
    const fs::path lost(path);
    if (!is_named_as_checkpoint(lost.filename().string())) return {Target::Kind::kStore, path, "latest"};
    const std::string store = lost.parent_path().string();
    return {Target::Kind::kDirectory, store.empty() ? "." : store, lost.filename().string()};
  }
  need_directory(path);
  const fs::path given(path);
  const bool in_store =
      is_named_as_checkpoint(given.filename().string()) && exists((given.parent_path() / ".ckpt").string());
  // An attempt may be empty.
  if (!is_checkpoint(path) && (!in_store || exists((given / ".ckpt").string())))
    return {Target::Kind::kStore, path, "latest"};
  // A link in a store is that store's; "." and other links become the name that the directory has in its store.
  if (in_store)
    return {Target::Kind::kDirectory, given.has_parent_path() ? given.parent_path().string() : ".",
            given.filename().string()};
  std::error_code code;
  fs::path real = fs::canonical(path, code);
  if (code) fail(CKPT_IO, "cannot resolve " + path + ": " + code.message());
  return {Target::Kind::kDirectory, real.parent_path().string(), real.filename().string()};
}

// Whether `id` is listed, committed or not.
bool is_listed(const ckpt::Store& store, const std::string& id) {
  for (const ckpt::CheckpointInfo& info : store.list())
    if (id == info.id) return true;
  return false;
}

// A store has .ckpt, or holds checkpoints.
bool is_store(const std::string& path) {
  std::error_code code;
  if (fs::exists(path + "/.ckpt", code)) return true;
  for (fs::directory_iterator it(path, code), end; !code && it != end; it.increment(code))
    if (it->is_directory(code) && is_checkpoint(it->path().string())) return true;
  return false;
}

// "https://host/run7/step-100.7.1?query" is an id in the store "https://host/run7?query".
Target locate_web(std::string_view argument) {
  argument = argument.substr(0, argument.find('#'));
  const size_t query_at = std::min(argument.find('?'), argument.size());
  const std::string address = without_trailing_slashes(argument.substr(0, query_at)), query(argument.substr(query_at));
  const size_t host = address.find("://") + 3, slash = address.rfind('/'), at = address.rfind('@');
  const bool has_path = slash >= host;
  if (has_path && at != std::string::npos && at > slash) {
    if (at + 1 == address.size()) invalid("nothing after '@' in " + shown(argument) + "; try @step-100.7.1");
    return {Target::Kind::kSelector, without_trailing_slashes(address.substr(0, at)) + query, address.substr(at + 1)};
  }
  if (!has_path) return {Target::Kind::kStore, address + query, "latest"};
  return {Target::Kind::kDirectory, address.substr(0, slash) + query, address.substr(slash + 1)};
}

}  // namespace

bool is_web(std::string_view text) {
  std::string scheme(text.substr(0, 8));
  for (char& c : scheme) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return (scheme.starts_with("https://") || scheme.starts_with("http://")) && !ckpt::is_bucket_address(text);
}

std::string shown(std::string_view argument) { return ckpt::shown_url(argument); }

static bool is_foreign_now(const std::string& argument) {
  if (is_web(argument)) {
    const std::string address = shown(argument);
    for (std::string_view ending :
         {".safetensors", ".safetensors.index.json", ".pt", ".pth", ".bin", ".ckpt", "/.metadata"})
      if (address.ends_with(ending)) return true;
    return false;
  }
  std::error_code code;
  const fs::file_status status = fs::status(argument, code);
  if (!fs::is_directory(status)) return fs::is_regular_file(status);
  bool found = false;
  for (fs::directory_iterator it(argument, code), end; !code && it != end && !found; it.increment(code)) {
    const std::string name = it->path().filename().string();
    for (std::string_view ending : {".safetensors", ".pt", ".pth", ".bin", ".metadata", ".pkl"})
      found |= name.ends_with(ending);
    // Of OLMo, RecIS, DeepSpeed, Megatron and torchtune, where all else lies in folders.
    found |= name.starts_with("epoch_");
    for (std::string_view known : {"config.yaml", ".metadata.json", "checkpoint", "io_state_count", "latest",
                                   "latest_universal", "latest_checkpointed_iteration.txt"})
      found |= name == known;
  }
  return found && !is_checkpoint(argument) && !is_store(argument);
}

bool is_foreign(const std::string& argument) {
  return look(argument, [argument] { return is_foreign_now(argument); });
}

bool is_directory(const std::string& path) {
  return look(path, [path] {
    std::error_code code;
    return fs::is_directory(path, code);
  });
}

// A directory of something else, which the formats' own words describe.
static bool is_unknown_directory(const std::string& argument) {
  std::error_code code;
  return fs::is_directory(argument, code) && !fs::is_empty(argument, code) && !code && !is_checkpoint(argument) &&
         !is_store(argument);
}

bool is_foreign(const std::string& argument, const ckpt::Options& options) {
  if (look(argument, [argument] { return is_foreign_now(argument) || is_unknown_directory(argument); })) return true;
  const bool selects = argument.find('@', argument.rfind('/')) != std::string::npos;
  if (!ckpt::is_bucket_address(argument) || selects) return false;
  if (locate(argument, options).kind == Target::Kind::kDirectory) return false;
  const ckpt::Store store = ckpt::Store::open(argument, options);
  try {
    (void)store.find("latest", options);  // which does not open all that there are, as a list does
    return false;
  } catch (const ckpt::Error& error) {
    if (error.status() != CKPT_NOT_FOUND) throw;
    return store.list().empty();
  }
}

static Target locate_now(std::string_view argument, bool has_mirror) {
  if (argument.empty()) invalid("an empty path names no checkpoint");
  if (is_web(argument)) return locate_web(argument);
  std::string_view path = without_file_scheme(argument);
  size_t at = path.rfind('@');
  const auto is_name = [&] {
    return !is_remote(path) && at > 0 && !exists(std::string(path.substr(0, at))) && exists(std::string(path));
  };
  if (at != std::string_view::npos && path.find('/', at) == std::string_view::npos && !is_name())
    return locate_selector(path, at, has_mirror);
  std::string bare = without_trailing_slashes(path);
  return is_remote(path) ? Target{Target::Kind::kStore, bare, "latest"} : locate_directory(bare, has_mirror);
}

Target locate(std::string_view argument, bool has_mirror) {
  return look(argument, [argument = std::string(argument), has_mirror] { return locate_now(argument, has_mirror); });
}

Target locate(std::string_view argument, const ckpt::Options& options, bool has_mirror) {
  const Target target = locate(argument, has_mirror);
  const size_t slash = target.store.rfind('/');
  const size_t begin = store_begins(target.store);
  if (target.kind != Target::Kind::kStore || begin == 0 || slash < begin) return target;
  const Target inner{Target::Kind::kDirectory, without_trailing_slashes(target.store.substr(0, slash)),
                     target.store.substr(slash + 1)};
  if (!is_named_as_checkpoint(inner.selector)) return target;
  const ckpt::Store store = ckpt::Store::open(inner.store, options);
  try {
    (void)store.find(inner.selector, options);
    return inner;
  } catch (const ckpt::Error&) {
    // A store that is called so, which looks like an attempt of the one around it; or one that was not committed.
    const bool is_store = !ckpt::Store::open(target.store, options).list().empty();
    return !is_store && is_listed(store, inner.selector) ? inner : target;
  }
}

std::string locate_store(std::string_view argument, const ckpt::Options& options, bool has_mirror) {
  const std::string path = locate_store(argument, has_mirror);
  if (!ckpt::is_bucket_address(path)) return path;
  const Target target = locate(path + '/', options);
  if (target.kind == Target::Kind::kDirectory) invalid(path + " is a checkpoint; its store is " + target.store);
  return path;
}

static std::string locate_store_now(std::string_view argument, bool has_mirror) {
  if (argument.empty()) invalid("an empty path names no store");
  if (is_web(argument)) return std::string(argument);
  std::string path = without_trailing_slashes(without_file_scheme(argument));
  if (is_remote(path) || (has_mirror && !exists(path))) return path;
  need_directory(path);
  if (is_checkpoint(path)) invalid(path + " is a checkpoint; its store is " + locate_directory(path).store);
  return path;
}

std::string locate_store(std::string_view argument, bool has_mirror) {
  return look(argument,
              [argument = std::string(argument), has_mirror] { return locate_store_now(argument, has_mirror); });
}

static void need_store(const ckpt::Store& store) try { (void)store.find("latest"); } catch (const ckpt::Error& error) {
  if (error.detail("found") == "no store")
    fail(CKPT_NOT_FOUND, "no store: " + shown(error.detail("path")) +
                             " holds neither .ckpt nor a checkpoint; is its disk mounted, its name right?");
}

static void need_run(const ckpt::Store& store, const std::string& run) {
  for (const ckpt::RunInfo& known : store.runs())
    if (known.name == run) return;
  (void)store.find("latest", {{"run", run}});  // its error names the runs that there are
}

std::vector<ckpt::CheckpointInfo> list_store(const ckpt::Store& store, const std::string& run) {
  std::vector<ckpt::CheckpointInfo> all = store.list();
  if (all.empty()) need_store(store);
  const auto is_of_it = [&](const ckpt::CheckpointInfo& info) { return run == info.run; };
  if (!run.empty() && std::none_of(all.begin(), all.end(), is_of_it)) need_run(store, run);
  return all;
}

std::string resolve_id(const ckpt::Store& store, const Target& target, const ckpt::Options& options) {
  if (target.kind == Target::Kind::kStore) {
    (void)list_store(store);
    invalid(shown(target.store) + " is a store: name one checkpoint, as a directory or as " + shown(target.store) +
            "@latest");
  }
  const bool is_id = target.kind == Target::Kind::kDirectory || is_listed(store, target.selector);
  return is_id ? target.selector : store.find(target.selector, options).id;
}

}  // namespace cli

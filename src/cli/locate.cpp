#include "cli/locate.h"

#include <filesystem>
#include <system_error>

namespace cli {
namespace {

namespace fs = std::filesystem;

// "s3://bucket/run7" is not a path.
bool is_remote(std::string_view text) { return text.find("://") != std::string_view::npos; }

std::string_view without_file_scheme(std::string_view text) {
  constexpr std::string_view kScheme = "file://";
  return text.starts_with(kScheme) ? text.substr(kScheme.size()) : text;
}

void need_directory(const std::string& path) {
  std::error_code code;
  fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) fail(CKPT_NOT_FOUND, "no such directory: " + path);
  if (!fs::is_directory(status)) invalid("a file is neither a store nor a checkpoint: " + path);
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

Target locate_selector(std::string_view argument, size_t at) {
  std::string_view selector = argument.substr(at + 1);
  if (selector.empty()) invalid("nothing after '@' in " + std::string(argument) + "; try @latest, @label:L, @step:N");
  std::string store = at == 0 ? "." : without_trailing_slashes(argument.substr(0, at));
  if (!is_remote(store)) need_directory(store);
  return {Target::Kind::kSelector, store, std::string(selector)};
}

Target locate_directory(const std::string& path) {
  need_directory(path);
  if (!is_checkpoint(path)) return {Target::Kind::kStore, path, "latest"};
  // "." and links become the name that the directory has in its store.
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

}  // namespace

bool is_foreign(const std::string& argument) {
  std::error_code code;
  const fs::file_status status = fs::status(argument, code);
  if (!fs::is_directory(status)) return fs::is_regular_file(status);
  bool found = false;
  for (fs::directory_iterator it(argument, code), end; !code && it != end && !found; it.increment(code)) {
    const std::string name = it->path().filename().string();
    found = name.ends_with(".safetensors") || (name.starts_with("PART_") && name.ends_with(".pt"));
  }
  return found && !is_checkpoint(argument) && !is_store(argument);
}

Target locate(std::string_view argument) {
  if (argument.empty()) invalid("an empty path names no checkpoint");
  std::string_view path = without_file_scheme(argument);
  size_t at = path.rfind('@');
  if (at != std::string_view::npos && path.find('/', at) == std::string_view::npos) return locate_selector(path, at);
  std::string bare = without_trailing_slashes(path);
  return is_remote(path) ? Target{Target::Kind::kStore, bare, "latest"} : locate_directory(bare);
}

std::string locate_store(std::string_view argument) {
  if (argument.empty()) invalid("an empty path names no store");
  std::string path = without_trailing_slashes(without_file_scheme(argument));
  if (is_remote(path)) return path;
  need_directory(path);
  if (is_checkpoint(path)) invalid(path + " is a checkpoint; its store is " + locate_directory(path).store);
  return path;
}

std::string resolve_id(const ckpt::Store& store, const Target& target, const ckpt::Options& options) {
  if (target.kind == Target::Kind::kStore)
    invalid(target.store + " is a store: name one checkpoint, as a directory or as " + target.store + "@latest");
  bool is_id = target.kind == Target::Kind::kDirectory || is_listed(store, target.selector);
  return is_id ? target.selector : store.find(target.selector, options).id;
}

}  // namespace cli

#include "cli/locate.h"

#include <cstring>
#include <filesystem>
#include <system_error>

namespace cli {
namespace {

namespace fs = std::filesystem;

// "s3://bucket/run7": nothing that a look at the file system could decide.
bool is_remote(std::string_view text) { return text.find("://") != std::string_view::npos; }

std::string_view without_file_scheme(std::string_view text) {
  constexpr std::string_view kScheme = "file://";
  return text.starts_with(kScheme) ? text.substr(kScheme.size()) : text;
}

Error need_directory(const std::string& path) {
  std::error_code code;
  fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) return {CKPT_NOT_FOUND, "no such directory: " + path};
  if (!fs::is_directory(status)) return {CKPT_INVALID, "neither a store nor a checkpoint, but a file: " + path};
  return {};
}

bool is_checkpoint(const std::string& path) {
  std::error_code code;
  for (fs::directory_iterator it(path, code), end; !code && it != end; it.increment(code)) {
    std::string name = it->path().filename().string();
    if (name == "MANIFEST" || name.starts_with("PART_")) return true;
  }
  return false;
}

std::string without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

Error locate_selector(std::string_view argument, size_t at, Target* out) {
  std::string_view selector = argument.substr(at + 1);
  if (selector.empty())
    return invalid("nothing after '@' in " + std::string(argument) + "; try @latest, @label:L, @step:N");
  out->kind = Target::Kind::kSelector;
  out->store = at == 0 ? "." : without_trailing_slashes(argument.substr(0, at));
  out->selector = selector;
  return is_remote(out->store) ? Error() : need_directory(out->store);
}

Error locate_directory(const std::string& path, Target* out) {
  CLI_TRY(need_directory(path));
  if (!is_checkpoint(path)) {
    *out = {Target::Kind::kStore, path, "latest"};
    return {};
  }
  // "." and links have to become the name that the directory has in its store.
  std::error_code code;
  fs::path real = fs::canonical(path, code);
  if (code) return {CKPT_IO, "cannot resolve " + path + ": " + code.message()};
  *out = {Target::Kind::kDirectory, real.parent_path().string(), real.filename().string()};
  return {};
}

// True where `id` is listed, committed or not.
Error is_listed(const ckpt_store* store, const std::string& id, bool* listed) {
  List list;
  CLI_TRY(call(ckpt_store_list, store, list.out()));
  for (size_t i = 0; i < ckpt_list_count(list) && !*listed; ++i) {
    auto info = sized<ckpt_checkpoint_info>();
    CLI_TRY(call(ckpt_list_at, list, i, &info));
    *listed = id == info.id;
  }
  return {};
}

}  // namespace

Error locate(std::string_view argument, Target* out) {
  if (argument.empty()) return invalid("an empty path names no checkpoint");
  std::string_view path = without_file_scheme(argument);
  size_t at = path.rfind('@');
  if (at != std::string_view::npos && path.find('/', at) == std::string_view::npos)
    return locate_selector(path, at, out);
  if (is_remote(path)) {
    *out = {Target::Kind::kStore, without_trailing_slashes(path), "latest"};
    return {};
  }
  return locate_directory(without_trailing_slashes(path), out);
}

Error locate_store(std::string_view argument, std::string* out) {
  if (argument.empty()) return invalid("an empty path names no store");
  std::string path = without_trailing_slashes(without_file_scheme(argument));
  *out = path;
  if (is_remote(path)) return {};
  CLI_TRY(need_directory(path));
  if (!is_checkpoint(path)) return {};
  Target target;
  CLI_TRY(locate_directory(path, &target));
  return invalid(path + " is a checkpoint; its store is " + target.store);
}

Error resolve_id(const ckpt_store* store, const Target& target, const ckpt_options* options, std::string* id) {
  if (target.kind == Target::Kind::kStore) {
    return invalid(target.store + " is a store: name one checkpoint, as a directory or as " + target.store + "@latest");
  }
  if (target.kind == Target::Kind::kDirectory) {
    *id = target.selector;
    return {};
  }
  bool listed = false;
  CLI_TRY(is_listed(store, target.selector, &listed));
  if (listed) {
    *id = target.selector;
    return {};
  }
  auto info = sized<ckpt_checkpoint_info>();
  CLI_TRY(call(ckpt_store_find, store, target.selector.c_str(), options, &info));
  *id = info.id;
  return {};
}

}  // namespace cli

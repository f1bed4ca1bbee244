#include "selection.h"

#include <fnmatch.h>

#include <algorithm>

namespace ckpt_torch {

Rename::Rename(std::initializer_list<std::pair<std::string, std::string>> names) {
  const std::vector<std::pair<std::string, std::string>> all(names);
  name_ = [all](const std::string& path) {
    for (const auto& [old, now] : all) {
      const bool below = path.size() > old.size() && (path[old.size()] == '.' || path[old.size()] == '/');
      if (path.compare(0, old.size(), old) == 0 && (path.size() == old.size() || below))
        return now + path.substr(old.size());
    }
    return path;
  };
}

namespace internal {

namespace {

bool fits(const std::string& path, const std::string& pattern) {  // "*" fits "/" too
  return fnmatch(pattern.c_str(), path.c_str(), FNM_NOESCAPE) == 0;
}

bool any_fits(const std::string& path, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return fits(path, pattern) || fits(path, pattern + "/*"); });
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash);
}

}  // namespace

bool Choice::wants(const std::string& path) const {
  if (exactly_) return exactly_->paths.count(path) || exactly_->paths.count(path.substr(0, path.find('/')));
  return (only_.empty() || any_fits(path, only_)) && !any_fits(path, without_);
}

bool Choice::wants_below(const std::string& path) const {
  if (exactly_)
    return std::any_of(exactly_->paths.begin(), exactly_->paths.end(), [&](const std::string& one) {
      return one == path || one.compare(0, path.size() + 1, path + "/") == 0;
    });
  for (const std::string& pattern : without_)
    if (fits(path, pattern)) return false;
  return only_.empty() || wants(path) || std::any_of(only_.begin(), only_.end(), [&](const std::string& pattern) {
           return fits(path, pattern.substr(0, pattern.find('/')));
         });
}

std::string Choice::name(const std::string& parent, const std::string& key) const {
  const std::string path = parent.empty() ? key : parent + "/" + key, now = rename_(path);
  if (exactly_) {
    const auto found = exactly_->names.find(path);
    return found == exactly_->names.end() ? key + " (not wanted)" : found->second;
  }
  if (now == path) return key;
  if (parent_of(now) != rename_(parent) && parent_of(now) != parent)
    fail(CKPT_INVALID, "rename: " + in_quotes(path) + " becomes " + in_quotes(now) +
                           ", which is in another dict; only the last name changes");
  return now.substr(parent_of(now).empty() ? 0 : parent_of(now).size() + 1);
}

std::optional<std::string> Choice::place(const std::string& part) const {
  if (!exactly_ || exactly_->places.count(part) == 0) return std::nullopt;
  return exactly_->places.at(part);
}

std::optional<std::string> Choice::called(const std::string& path) const {
  if (!exactly_ || exactly_->called.count(path) == 0) return std::nullopt;
  return exactly_->called.at(path);
}

void Choice::check_whole(const std::string& part) const {
  for (const auto* patterns : {&only_, &without_})
    for (const std::string& pattern : *patterns)
      if (pattern.compare(0, part.size() + 1, part + "/") == 0)
        fail(CKPT_INVALID, in_quotes(pattern) + ": " + in_quotes(part) +
                               " is restored whole or not at all; only models "
                               "are restored in part");
}

}  // namespace internal
}  // namespace ckpt_torch

#include "store/posix_orphans.h"

#include <unistd.h>

#include <algorithm>

#include "store/keys.h"
#include "store/posix_directory.h"
#include "store/posix_recycle.h"

namespace ckpt::store {

static bool is_nonce(std::string_view text, size_t size) {
  return text.size() == size && text.find_first_not_of("0123456789abcdef") == text.npos;
}

static bool may_be_orphan(std::string_view name) {
  if (name.starts_with(kProbePrefix)) return is_nonce(name.substr(kProbePrefix.size()), 32);
  size_t nonce = name.size() - std::min<size_t>(name.size(), 16);
  return name.substr(0, nonce).ends_with(".tmp.") && is_nonce(name.substr(nonce), 16);
}

void remove_orphans(const Root& root) {
  for (const char* key : {".ckpt", ".ckpt/owners", ".ckpt/attempts"}) {
    Result<Fd> directory = root.open_directory(key);
    auto files = list_directory(root, key);
    if (!directory.ok() || !files.ok()) continue;
    for (const Entry& file : *files)
      if (!file.directory && file.size > 0 && may_be_orphan(file.name) && open_unused(directory->get(), file.name))
        unlinkat(directory->get(), file.name.c_str(), 0);
  }
}

}  // namespace ckpt::store

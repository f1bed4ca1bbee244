#include "store/posix_orphans.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "store/keys.h"
#include "store/posix_directory.h"
#include "store/posix_recycle.h"

namespace ckpt::store {

static bool is_nonce(std::string_view text, size_t size) {
  return text.size() == size && text.find_first_not_of("0123456789abcdef") == text.npos;
}

static bool may_be_orphan(std::string_view name) {
  size_t nonce = name.size() - std::min<size_t>(name.size(), 16);
  if (name.substr(0, nonce).ends_with(".tmp.") && is_nonce(name.substr(nonce), 16)) return true;
  return name.starts_with(kProbePrefix) && is_nonce(name.substr(kProbePrefix.size()), 32);
}

// Its creator may be between making the file and having it open, so a file that is empty and new is left alone. Only
// local file systems come here (open_unused), so the times are of one clock.
static bool may_be_new(int file) {
  constexpr time_t kHour = 3600;
  struct stat found;
  return fstat(file, &found) != 0 || (found.st_size == 0 && found.st_mtime > time(nullptr) - kHour);
}

void remove_orphans_in(const Root& root, const std::string& key) {
  Result<Fd> directory = root.open_directory(key);
  auto files = list_directory(root, key);
  if (!directory.ok() || !files.ok()) return;
  for (const Entry& file : *files)
    if (!file.directory && may_be_orphan(file.name))
      if (Fd unused = open_unused(directory->get(), file.name); unused && !may_be_new(unused.get()))
        (void)unlink_file(directory->get(), file.name, root.path(key));
}

void remove_orphans(const Root& root) {
  for (const char* key : {".ckpt", ".ckpt/owners", ".ckpt/attempts", ".ckpt/kept"}) remove_orphans_in(root, key);
  // These have a directory for each run, which stays. Directories of sessions are removed with all that is in them.
  for (const std::string parent : {".ckpt/runs", ".ckpt/rendezvous", ".ckpt/welcomes", ".ckpt/names"}) {
    auto runs = list_directory(root, parent);
    for (size_t i = 0; runs.ok() && i < runs->size(); i++)
      if ((*runs)[i].directory) remove_orphans_in(root, parent + "/" + (*runs)[i].name);
  }
}

}  // namespace ckpt::store

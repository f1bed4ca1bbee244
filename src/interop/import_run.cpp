#include "interop/import_run.h"

#include <algorithm>

#include "interop/safetensors/format.h"

namespace ckpt::interop {

// Whether the checkpoint says that an import made it.
static bool was_imported(const std::shared_ptr<store::Store>& store, const std::string& id) {
  const auto opened = checkpoint::Checkpoint::open_quietly(*store, id);
  const format::Page* page = nullptr;
  const auto attrs = opened.ok() ? (*opened)->attrs_of("", &page) : Result<std::span<const fb::Attr>>(opened.status());
  if (!attrs.ok()) return false;
  return std::any_of(attrs->begin(), attrs->end(), [&](const fb::Attr& attr) {
    const std::string_view key = page->text(attr.key());
    return key == "import.format" || key == kFilesAttr;
  });
}

// Whether a session of run "main" would be the first, or follow one of an import, which is over: it holds the turn as
// long as it lives. A session that has saved nothing yet may be a trainer's.
static Result<bool> is_main_free(const std::shared_ptr<store::Store>& store) {
  CKPT_ASSIGN(const auto runs, session::list_runs(*store));
  for (const session::RunEntry& run : runs) {
    if (run.name != "main") continue;
    return run.newest && run.token <= run.newest->summary.token && was_imported(store, run.newest->id);
  }
  return true;
}

Result<ImportTurn> take_turn(const std::shared_ptr<store::Store>& store, const std::string& run, int64_t timeout_ms,
                             const Job& job) {
  ImportTurn turn{run.empty() ? "main" : run, nullptr};
  CKPT_ASSIGN(turn.lock, session::take_import_turn(*store, turn.run, timeout_ms, job));
  if (!run.empty()) return turn;
  CKPT_ASSIGN(const bool is_free, is_main_free(store));
  if (is_free) return turn;
  turn = {"import", nullptr};
  CKPT_ASSIGN(turn.lock, session::take_import_turn(*store, turn.run, timeout_ms, job));
  return turn;
}

}  // namespace ckpt::interop

#include "interop/import_run.h"

namespace ckpt::interop {

Result<ImportTurn> take_turn(const std::shared_ptr<store::Store>& store, const std::string& run, int64_t timeout_ms,
                             const Job& job) {
  ImportTurn turn{run.empty() ? "main" : run, nullptr};
  CKPT_ASSIGN(turn.lock, session::take_import_turn(*store, turn.run, timeout_ms, job));
  if (!run.empty()) return turn;
  CKPT_ASSIGN(const bool is_free, session::is_free_for_import(*store, turn.run));
  if (is_free) return turn;
  turn = {"import", nullptr};
  CKPT_ASSIGN(turn.lock, session::take_import_turn(*store, turn.run, timeout_ms, job));
  return turn;
}

}  // namespace ckpt::interop

// When a trainer saves, and what it calls the checkpoint. No state; any thread.
#ifndef CKPT_TORCH_POLICY_H
#define CKPT_TORCH_POLICY_H

#include "errors.h"

namespace ckpt_torch {
namespace internal {

// Whether ranks could differ: by their clocks, or by a predicate.
inline bool needs_agreement(const Every& every) { return !every.seconds.empty() || !every.predicates.empty(); }
// Whether a save is due by the counters, which are the same on all ranks. `last`: the moment before. INVALID if step()
// was not told a counter.
bool due_by_count(const Every& every, const Moment& now, const std::optional<Moment>& last);
// Whether a save is due by the clock or a predicate. `seconds`: since the save before.
bool due_by_time(const Every& every, const Moment& now, double seconds);

// Names checkpoints: "ep{epoch}-ba{batch:06d}".
class LabelTemplate {
 public:
  // INVALID for a variable or a format that it does not know. `fixed`: variables that do not change.
  LabelTemplate(const std::string& text, std::map<std::string, std::string> fixed);
  // Whether each step has a label of its own.
  bool numbered() const;
  // INVALID if step() was not told a counter.
  std::string label(const Moment& now) const;

 private:
  struct Piece {
    std::string text;       // as it is, or the name of a variable
    bool variable = false;  // then, of a number:
    size_t width = 0;
    char fill = ' ';
  };
  std::string value(const Piece& piece, const Moment& now) const;

  std::string text_;
  std::map<std::string, std::string> fixed_;
  std::vector<Piece> pieces_;
};

}  // namespace internal
}  // namespace ckpt_torch
#endif

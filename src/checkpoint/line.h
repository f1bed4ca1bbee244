// What this process goes on from, for each run of each store: the checkpoints of a training that led to where it is.
// Retention of a session removes nothing else. One table for the process, since a load and a save need not share a
// handle, or come in any order. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "format/summary.h"

namespace ckpt::checkpoint {

using When = std::pair<uint64_t, uint64_t>;  // Summary::when()
struct Line {
  std::optional<When> loaded;   // the latest that was loaded and led here
  std::set<uint64_t> sessions;  // of this process, each of which goes on from the one before
};
Line line_of(const Id& store, std::string_view run);

// A load has ended well, or somebody says that it has: the process may go on from this checkpoint. A save of a step
// that is lower than `step` does not.
void note_loaded(const format::Summary& summary, int64_t step);

// Loads of this checkpoint, by its id, led nowhere: the process does not go on from it.
void note_unused(const Id& store, std::string_view run, std::string_view id);

// A session saves a step. It goes on from the save before, or, where that had a higher step or there was none, from the
// latest checkpoint that was loaded since and has no higher step: then what came after that one leads nowhere. If there
// is none either, a new session begins a line of its own.
enum class Step { kGoesOn, kGoesBack, kBeginsAnew };
struct Taken {
  Step step;
  std::optional<When> from;  // set where it goes on from this one, and not from the save before
};
Taken note_saved(const Id& store, std::string_view run, uint64_t token, int64_t step);

// The next session begins a line of its own.
void forget_line(const Id& store, std::string_view run);

// How often this process was asked to remove a checkpoint: who remembers what a store has looks again.
uint64_t removals();
void note_removal();

// Whether a label tells the step, as a whole number in it: "step-100" and "ep3-ba0100" of step 100. One that does not
// is a name that somebody gave: "best". Lines and retention concern numbered checkpoints only.
bool is_numbered(std::string_view label, int64_t step);

// The attribute, "1", of a checkpoint whose label its trainer was given, numbered or not: retention leaves it.
inline constexpr std::string_view kKeptAttr = "trainer.kept";

}  // namespace ckpt::checkpoint

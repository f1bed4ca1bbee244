// The world of a seed: its trainings, and what was said of each step.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/handles.h"
#include "sim/store.h"
#include "store/weak_store.h"
#define CKPT_HPP_NAMESPACE hpp
#include <ckpt.hpp>

namespace sim {

constexpr int64_t kElements = 3;     // of each rank's part of a tensor
constexpr int64_t kLateMs = 12'000;  // what a call may take beyond its timeout_ms

// A rank's rows of the sparse table, by id.
using TableRows = std::map<uint64_t, uint32_t>;
enum class Changes { kUnknown, kListed, kByDigest };  // what a save says of its rows

struct Training {
  int number = 0, first_process = 0;
  uint32_t world = 1;
  bool rendezvous = false, background = false, incremental = false;
  bool impatient = false;  // it cancels saves
  bool in_step = false;    // its ranks wait for each other before each save, as data parallel ones do
  std::vector<int64_t> at = std::vector<int64_t>(3, -1);  // the save that each rank has come to
  Changes changes = Changes::kUnknown;
  int64_t most_runs = 8;
  std::vector<TableRows> tables = std::vector<TableRows>(3);  // of each rank: what its session was given last
  int64_t keep_last = 0, saves = 3, timeout_ms = 10'000, first_step = 0;
  std::string session_string{};
  int64_t opened_at = -1;  // when its rank 0 had its session
  int64_t token = 0;       // of its session, once it made a save
  uint32_t ended = 0;      // ranks
  int64_t step(int64_t i) const { return first_step + i; }
};

// What was said of a step.
struct Step {
  int training = 0;
  std::map<uint32_t, std::string> told;  // by rank: "OK", or the status
  int64_t acked_at = -1, began_at = -1;
  bool acked() const { return acked_at >= 0; }
};

// Where an operator copies checkpoints to and from.
struct Copies {
  std::shared_ptr<ckpt::store::Store> inner;  // null: nobody copies
  bool pruned = false;                        // somebody removes copies
  std::map<std::string, int> begun;           // by id: calls that have not answered; some never will
  std::set<std::string> made, unknown;        // ids of which a call said OK or COMMIT_UNKNOWN
};

struct World {
  uint64_t seed = 0;
  Weather weather;
  Locks locks;
  std::shared_ptr<ckpt::store::Store> inner, mirror;  // the mirror may be null
  std::vector<std::unique_ptr<Training>> trainings;
  std::map<int64_t, Step> steps;
  std::vector<std::shared_ptr<ckpt::store::Bucket>> buckets;  // of those that are object stores
  Copies copies;
  bool over = false;
  int64_t keep_last = 0;  // the least of all trainings that retire anything; 0: none does

  std::shared_ptr<Store> door(const std::shared_ptr<ckpt::store::Store>& to) {
    return to ? std::make_shared<Store>(to, weather, locks) : nullptr;
  }
};
inline World* world = nullptr;

// What makes one checkpoint newer than another: its session's token, then its step.
using Order = std::pair<int64_t, int64_t>;
Order order_of(const hpp::CheckpointInfo& info);
Order order_of(int64_t step);
Order newest_acked();

// The value of an element that a rank saves in a step.
uint32_t value(int64_t step, uint32_t rank, int64_t element);
std::vector<uint32_t> values(int64_t step, uint32_t rank);

hpp::Store open_store(int64_t timeout_ms);
hpp::Store open_copies(int64_t timeout_ms);
hpp::Store open_mirror(int64_t timeout_ms);                               // as a store of its own
std::shared_ptr<ckpt::store::Store> make_store(const std::string& name);  // of one or the other kind

using Found = std::map<Order, std::string>;  // ids of what is committed
Found committed(const hpp::Store& store);

// Runs a call and fails if it takes longer than it may after the last call of the store that succeeded. ABI.md counts
// from the last that ended.
template <typename Call>
auto timed(const std::string& what, int64_t timeout_ms, Call&& call) {
  struct Timer {
    std::string what, said = "OK";
    int64_t most, began = now();
    ~Timer() {
      const int64_t took = (now() - std::max(began, world->weather.succeeded_at[process()])) / kMs;
      if (killed(process()) || took <= most) return;
      fail(what + " of process " + std::to_string(process()) + " took " + std::to_string(took) + " ms, and may take " +
           std::to_string(most) + ": " + said);
    }
  } timer{.what = what, .most = timeout_ms + kLateMs};
  try {
    return call();
  } catch (const hpp::Error& error) {
    timer.said = std::string(error.status_name()) + " " + error.what();
    throw;
  }
}

// ---- table.cpp: the sparse table in each checkpoint ----

TableRows rows_of(int64_t step, uint32_t rank, uint32_t world_size);

// Rows as a save is given them, and how they differ from those before.
class TableSave {
 public:
  TableSave(const TableRows& rows, const TableRows& before);
  void add(hpp::Save& save, Changes told);
  void scribble();

 private:
  std::vector<uint64_t> ids_, changed_, removed_;
  std::vector<uint32_t> values_;
};

class TableLoad {
 public:
  TableLoad(const hpp::Reader& reader, const hpp::Options& options);
  void add(hpp::Load& load);
  void check() const;  // fails if these are not the rows that were saved

 private:
  const hpp::Share share_;
  std::vector<uint64_t> ids_;
  std::vector<uint32_t> values_;
  const hpp::CheckpointInfo info_;
};

// ---- others.cpp: those who train nothing ----

struct Loaded {
  Order order;
  bool passed_over;  // something newer that could not be read
};
// Loads a checkpoint, and fails if it holds anything but what was saved.
Loaded load(const hpp::Store& store, const std::string& selector, int64_t timeout_ms);
std::string text(Order order);

void follow();   // loads the latest
void operate();  // does what is allowed at any time
void operate_on_copies();
void forget_locks();

// ---- copies.cpp ----

void copy_to_and_fro();
// Brings the store and that of copies to what a clean-up leaves.
void check_copies();

}  // namespace sim

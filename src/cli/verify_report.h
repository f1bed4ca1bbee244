// What `ckpt verify --all` found, in a file that the user names: it says when each checkpoint was last sound, and a
// pass that was interrupted goes on by it. Nothing is written to the store. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <ckpt.hpp>

#include "cli/json.h"

namespace cli {

class VerifyReport {
 public:
  // `file` "": only in memory. INVALID for a file that is no report, or one of another store or mode.
  VerifyReport(std::string file, std::string store, std::string mode);

  // What this pass, or the part of it before it was interrupted, found of a checkpoint: "sound", "damaged", "cannot
  // say"; "" if it was not looked at.
  std::string result_of(const ckpt::CheckpointInfo& info) const;
  // `outcome` has the keys of `ckpt verify --json`. Writes the file.
  void add(const ckpt::CheckpointInfo& info, const std::string& result, Json outcome);
  // The pass is over. Forgets what the store has no more. Writes the file.
  void finish(const std::set<std::string>& ids_in_store);
  Json to_json() const;

 private:
  struct Checked {
    std::string save_id, result;
    int64_t checked_ms = 0, last_sound_ms = 0;  // 0: never
    Json json = nullptr;
  };
  void load(const std::string& text);
  void write() const;

  std::string file_, store_, mode_;
  int64_t started_ms_, finished_ms_ = 0;
  std::map<std::string, Checked> checked_;  // by id
};

}  // namespace cli

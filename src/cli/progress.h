// A bar with rate and time left, on stderr, only if that is a terminal. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include <ckpt.hpp>

#include "cli/json.h"

namespace cli {

// "[#####-----]  50 %  1.5 GiB of 3.0 GiB  3.1 GB/s  2 s left"
std::string progress_line(uint64_t done, uint64_t total, double seconds);

class Progress {
 public:
  Progress();
  ~Progress();  // wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool visible() const { return visible_; }
  void update(uint64_t done, uint64_t total);
  void wipe() const;  // before a line is printed; the next update shows the bar again
  double seconds() const;

 private:
  bool visible_;
  std::chrono::steady_clock::time_point start_;
};

// Runs a call that blocks under a job, which it puts into the options of the call, and shows its progress.
struct Work {
  uint64_t bytes = 0;
  double seconds = 0;
  ckpt::JobStats stats{};
};
Work watch(ckpt::Options& options, const std::function<void()>& call);

// What a job asked of servers: for --json, and as a line of text, "" if it asked nothing.
Json requests_json(const ckpt::JobStats& stats);
std::string requests_line(const ckpt::JobStats& stats);

}  // namespace cli

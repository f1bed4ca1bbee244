// A bar with rate and time left, on stderr, only if that is a terminal. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

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
  double seconds() const;

 private:
  bool visible_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace cli

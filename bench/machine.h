// What a measurement needs of the machine: memory that is really there, clocks, and the protocol with bench/run.py.
// One process measures one thing: it gets ready, prints READY, waits for a line, works, prints RESULT lines.
// Not thread-safe; for the main thread of a measurement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace ckpt_bench {

// Stops the program with one line on stderr.
[[noreturn]] void fail(const std::string& what);
[[noreturn]] void fail_errno(const std::string& what);

// Memory on huge pages, every page of it touched: fresh pages cost more than what is measured. `shift` moves the data
// from the start of a page, as an allocator with smaller alignment would.
class Memory {
 public:
  explicit Memory(size_t size, size_t shift = 0);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return start_ + shift_; }
  size_t size() const { return size_; }

 private:
  std::byte* start_;
  size_t size_, shift_, mapped_;
};

double now();  // seconds, monotonic

// Prints READY and returns when a line has come.
void wait_for_go();

// What one piece of work takes, from the construction on.
class Meter {
 public:
  Meter();
  double seconds() const { return now() - start_; }
  // t_total (unless `seconds` says what counts), cpu_s, peak_above_base, read_bytes
  nlohmann::json result(double seconds = -1) const;

 private:
  uint64_t resident_, read_;
  double cpu_, start_;
};

// Prints one RESULT line. `row` names a part of the measurement that gets a row of its own; "" is the whole.
void report(const std::string& row, const nlohmann::json& fields);

}  // namespace ckpt_bench

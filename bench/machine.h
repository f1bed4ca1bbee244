// What a measurement needs from the machine: touched memory, clocks, and the protocol with bench/run.py.
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

// Memory on huge pages, every page touched unless it is to be `fresh`: fresh pages may cost more than what is measured.
// `shift` is the distance of the data from the start of a page, as with an allocator of smaller alignment.
class Memory {
 public:
  explicit Memory(size_t size, size_t shift = 0, bool fresh = false);
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

// Prints READY and waits for a line.
void wait_for_go();

// Measures the work since its construction.
class Meter {
 public:
  Meter();
  double seconds() const { return now() - start_; }
  // t_total (or `seconds`, if given), cpu_s, peak_above_base, read_bytes
  nlohmann::json result(double seconds = -1) const;

 private:
  uint64_t resident_, read_;
  double cpu_, start_;
};

// Prints one RESULT line. `row` names a part of the measurement with its own row; "" is the whole.
void report(const std::string& row, const nlohmann::json& fields);

}  // namespace ckpt_bench

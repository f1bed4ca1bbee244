// What the benchmarks need of the machine: memory that is really there, cold caches, clocks, and its description.
// Not thread-safe; for the main thread of a benchmark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ckpt_bench {

// Stops the program with one line on stderr.
[[noreturn]] void fail(const std::string& what);
[[noreturn]] void fail_errno(const std::string& what);

// Memory on huge pages, every page of it touched: fresh pages cost more than what is measured.
class Memory {
 public:
  enum class Fill { kZero, kRandom };
  Memory(size_t size, Fill fill);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_;
  size_t size_;
};

double now();          // seconds, monotonic
double cpu_seconds();  // user and system, of this process

// The page cache forgets what is clean. Needs root; false where that is refused, and reads are then not cold.
bool drop_caches();

// A virtual machine may have given free pages back to its host; the first touch of one is slow then (0.4 GB/s here).
// Touches and frees this much, less what would leave the machine below kReserve, so that the next section meets pages
// that are backed.
inline constexpr uint64_t kReserve = uint64_t{8} << 30;
void back_free_memory(uint64_t bytes);
uint64_t available_memory();

// Resident memory beyond what was resident at the construction, at its peak.
class PeakMemory {
 public:
  PeakMemory();
  uint64_t beyond() const;

 private:
  uint64_t before_;
};

struct MachineInfo {
  std::string cpu, kernel, memory, date, filesystem;
  unsigned cores;
  double load_average;
};
MachineInfo describe_machine(const std::string& directory);

}  // namespace ckpt_bench

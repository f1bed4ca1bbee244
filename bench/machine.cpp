#include "machine.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>

namespace ckpt_bench {

static constexpr size_t kHugePage = 2 << 20;

void fail(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::exit(1);
}

void fail_errno(const std::string& what) { fail(what + ": " + std::strerror(errno)); }

// ---- memory ----

Memory::Memory(size_t size, size_t shift, bool fresh)
    : size_(size), shift_(shift), mapped_((size + shift + kHugePage) / kHugePage * kHugePage) {
  void* start = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) fail_errno("map memory");
  madvise(start, mapped_, MADV_HUGEPAGE);
  start_ = static_cast<std::byte*>(start);
  for (size_t at = 0; !fresh && at < mapped_; at += 4096) start_[at] = std::byte{1};
}

Memory::~Memory() { munmap(start_, mapped_); }

// The number behind `key` in a file of "key: number" lines.
static uint64_t number_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return std::strtoull(line.c_str() + key.size(), nullptr, 10);
  return 0;
}

static uint64_t resident(const char* key) { return number_of("/proc/self/status", key) * 1024; }

// ---- the meter ----

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

static double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void wait_for_go() {
  std::cout << "READY" << std::endl;
  std::string line;
  if (!std::getline(std::cin, line)) fail("standard input ended before GO");
}

Meter::Meter() {
  malloc_trim(0);
  if (std::ofstream reset("/proc/self/clear_refs"); reset) reset << "5";  // VmHWM starts again from VmRSS
  resident_ = resident("VmRSS:");
  read_ = number_of("/proc/self/io", "read_bytes:");
  cpu_ = cpu_seconds();
  start_ = now();
}

nlohmann::json Meter::result(double seconds) const {
  double total = seconds < 0 ? this->seconds() : seconds;
  double cpu = cpu_seconds() - cpu_;
  uint64_t peak = resident("VmHWM:"), read = number_of("/proc/self/io", "read_bytes:") - read_;
  return {{"t_total", total},
          {"t_return", total},
          {"cpu_s", cpu},
          {"peak_above_base", peak > resident_ ? peak - resident_ : 0},
          {"read_bytes", read}};
}

void report(const std::string& row, const nlohmann::json& fields) {
  nlohmann::json line = fields;
  line["row"] = row;
  std::cout << "RESULT " << line.dump() << std::endl;
}

}  // namespace ckpt_bench

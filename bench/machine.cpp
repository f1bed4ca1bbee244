#include "machine.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

namespace ckpt_bench {

static constexpr size_t kHugePage = 2 << 20;

void fail(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::exit(1);
}

void fail_errno(const std::string& what) { fail(what + ": " + std::strerror(errno)); }

// ---- memory ----

static std::byte* map_huge(size_t size) {
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) fail_errno("map memory");
  madvise(data, size, MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

static void touch(std::byte* data, size_t size) {
  for (size_t at = 0; at < size; at += 4096) data[at] = std::byte{1};
}

Memory::Memory(size_t size, Fill fill) : data_(map_huge((size + kHugePage - 1) / kHugePage * kHugePage)), size_(size) {
  touch(data_, size_);
  if (fill == Fill::kZero) return;
  uint64_t state = 0x9e3779b97f4a7c15;
  for (size_t at = 0; at + 8 <= size_; at += 8) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    std::memcpy(data_ + at, &state, 8);
  }
}

Memory::~Memory() { munmap(data_, (size_ + kHugePage - 1) / kHugePage * kHugePage); }

// The number behind `key` in a file of "key: number kB" lines, in bytes.
static uint64_t kilobytes_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
  return 0;
}

uint64_t available_memory() { return kilobytes_of("/proc/meminfo", "MemAvailable:"); }

void back_free_memory(uint64_t bytes) {
  uint64_t available = available_memory();
  if (available <= kReserve) return;
  bytes = std::min(bytes, available - kReserve) / kHugePage * kHugePage;
  if (bytes == 0) return;
  std::byte* data = map_huge(bytes);
  touch(data, bytes);
  munmap(data, bytes);
}

PeakMemory::PeakMemory() {
  malloc_trim(0);
  if (std::ofstream reset("/proc/self/clear_refs"); reset) reset << "5";  // VmHWM starts again from VmRSS
  before_ = kilobytes_of("/proc/self/status", "VmRSS:");
}

uint64_t PeakMemory::beyond() const {
  uint64_t peak = kilobytes_of("/proc/self/status", "VmHWM:");
  return peak > before_ ? peak - before_ : 0;
}

// ---- clocks and caches ----

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

bool drop_caches() {
  sync();
  int file = open("/proc/sys/vm/drop_caches", O_WRONLY);
  if (file < 0) return false;
  bool done = write(file, "3", 1) == 1;
  close(file);
  return done;
}

// ---- description ----

static std::string first_line(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return line.substr(line.find(':') == std::string::npos ? 0 : line.find(':') + 2);
  return "unknown";
}

// "ext4 on /dev/vda" of the mount that holds the directory: the longest mount point that begins its path.
static std::string filesystem_of(const std::string& directory) {
  std::ifstream mounts("/proc/mounts");
  std::string best, result = "unknown";
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string device, point, type, options;
    fields >> device >> point >> type >> options;
    bool holds = point == "/" || directory == point || directory.starts_with(point + "/");
    if (holds && point.size() >= best.size()) best = point, result = type + " on " + device + " (" + options + ")";
  }
  return result;
}

MachineInfo describe_machine(const std::string& directory) {
  utsname names{};
  uname(&names);
  double load = 0;
  getloadavg(&load, 1);
  char date[32];
  std::time_t time = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&time));
  return {.cpu = first_line("/proc/cpuinfo", "model name"),
          .kernel = names.release,
          .memory = std::to_string(kilobytes_of("/proc/meminfo", "MemTotal:") >> 30) + " GiB",
          .date = date,
          .filesystem = filesystem_of(directory),
          .cores = std::thread::hardware_concurrency(),
          .load_average = load};
}

}  // namespace ckpt_bench

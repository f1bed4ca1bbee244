#include "demo.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

namespace demo {

static void fail(const std::string& why) {
  std::fprintf(stderr, "demo: %s\n", why.c_str());
  std::exit(2);
}

Arguments::Arguments(int argc, char** argv) {
  for (int i = 1; i < argc; i += 2) {
    if (std::strncmp(argv[i], "--", 2) != 0 || i + 1 == argc) fail(std::string("bad argument ") + argv[i]);
    values_[argv[i] + 2] = argv[i + 1];
  }
}

std::string Arguments::text(const std::string& name, const std::string& fallback) const {
  auto found = values_.find(name);
  return found == values_.end() ? fallback : found->second;
}

uint32_t Arguments::number(const std::string& name, uint32_t fallback) const {
  return has(name) ? static_cast<uint32_t>(std::stoul(text(name))) : fallback;
}

ckpt::Store open_store(const Arguments& arguments) {
  ckpt::Options options;
  for (const char* key : {"mirror", "cache"})
    if (arguments.has(key)) options.set(key, arguments.text(key));
  return ckpt::Store::open(arguments.text("store"), options);
}

int run(int argc, char** argv, int (*body)(const Arguments&)) try {
  return body(Arguments(argc, argv));
} catch (const ckpt::Error& error) {
  std::printf("%s: %s\n", error.status_name(), error.what());
  return 1;
}

// A line of the table: name, dtype, element bytes, file offset, extents; between tabs.
static Tensor parse_row(const std::string& line, const char* file) {
  std::istringstream row(line);
  Tensor tensor;
  std::string dtype;
  uint64_t offset = 0;
  std::getline(row, tensor.name, '\t');
  row >> dtype >> tensor.element_bytes >> offset;
  for (int64_t extent; row >> extent;) tensor.shape.push_back(extent);
  tensor.dtype = ckpt_dtype_find(dtype.c_str());
  tensor.elements = whole(tensor).elements();
  tensor.data = file + offset;
  return tensor;
}

Source::Source(const std::string& safetensors, const std::string& table) {
  int fd = open(safetensors.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info = {};
  if (fd < 0 || fstat(fd, &info) != 0) fail("cannot open " + safetensors);
  void* file = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (file == MAP_FAILED) fail("cannot map " + safetensors);
  std::ifstream rows(table);
  for (std::string line; std::getline(rows, line);) {
    tensors_.push_back(parse_row(line, static_cast<const char*>(file)));
  }
  if (tensors_.empty()) fail("no tensors in " + table);
}

std::string state_name(const Tensor& tensor, Kind kind) {
  if (kind == Kind::kWeight) return tensor.name;
  return (kind == Kind::kExpAvg ? "optimizer.exp_avg." : "optimizer.exp_avg_sq.") + tensor.name;
}

std::vector<char> state_values(const Tensor& tensor, Kind kind, int64_t first, int64_t count) {
  const char* from = tensor.data + static_cast<uint64_t>(first) * tensor.element_bytes;
  std::vector<char> values(from, from + static_cast<uint64_t>(count) * tensor.element_bytes);
  if (kind == Kind::kWeight) return values;
  for (int64_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, values.data() + i * 4, 4);
    value = kind == Kind::kExpAvg ? value * 0.1f : value * value * 0.001f;
    std::memcpy(values.data() + i * 4, &value, 4);
  }
  return values;
}

int64_t Box::elements() const {
  int64_t count = 1;
  for (int64_t size : extent) count *= size;
  return count;
}

Box whole(const Tensor& tensor) { return {Shape(tensor.shape.size(), 0), tensor.shape}; }

Box share(const Tensor& tensor, size_t dim, uint32_t index, uint32_t count) {
  Box box = whole(tensor);
  if (dim >= box.extent.size()) return box;
  int64_t size = tensor.shape[dim];
  box.offset[dim] = size * index / count;
  box.extent[dim] = size * (index + 1) / count - box.offset[dim];
  return box;
}

// Appends the box of dimensions from `dim` on, whose first element is `base`.
static void gather(const Tensor& tensor, const char* all, const Box& box, size_t dim, int64_t base, char*& to) {
  if (dim == box.extent.size()) {
    std::memcpy(to, all + static_cast<uint64_t>(base) * tensor.element_bytes, tensor.element_bytes);
    to += tensor.element_bytes;
    return;
  }
  int64_t stride = 1;
  for (size_t d = dim + 1; d < tensor.shape.size(); ++d) stride *= tensor.shape[d];
  base += box.offset[dim] * stride;
  if (dim + 1 == box.extent.size()) {
    size_t row = static_cast<size_t>(box.extent[dim]) * tensor.element_bytes;
    std::memcpy(to, all + static_cast<uint64_t>(base) * tensor.element_bytes, row);
    to += row;
    return;
  }
  for (int64_t i = 0; i < box.extent[dim]; ++i) gather(tensor, all, box, dim + 1, base + i * stride, to);
}

std::vector<char> box_values(const Tensor& tensor, Kind kind, const Box& box) {
  std::vector<char> all = state_values(tensor, kind, 0, tensor.elements);
  std::vector<char> values(static_cast<uint64_t>(box.elements()) * tensor.element_bytes);
  char* to = values.data();
  if (!values.empty()) gather(tensor, all.data(), box, 0, 0, to);
  return values;
}

std::string rng_state(uint32_t rank) {
  std::ostringstream state;
  state << std::mt19937_64(rank);
  return state.str();
}

std::string loader_state(uint32_t rank) {
  return "{\"epoch\": 3, \"shard\": " + std::to_string(rank) + ", \"sample\": " + std::to_string(4096 * rank) + "}";
}

std::string trainer_state(int64_t step) {
  return "{\"step\": " + std::to_string(step) + ", \"lr\": 2e-5, \"betas\": [0.9, 0.999]}";
}

std::string size_text(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

std::string rate_text(uint64_t bytes, double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, " in %.2f s, %.2f GB/s", seconds, static_cast<double>(bytes) / 1e9 / seconds);
  return size_text(bytes) + text;
}

}  // namespace demo

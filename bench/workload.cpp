#include "workload.h"

#include <ckpt.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "content.h"

namespace ckpt_bench {

static constexpr uint64_t kLarge = 64 << 10, kPage = 4096, kLine = 64;

static uint64_t aligned(uint64_t at, uint64_t bytes) {
  uint64_t to = bytes >= kLarge ? kPage : kLine;
  return (at + to - 1) / to * to;
}

// ---- shapes ----

namespace {
class Builder {
 public:
  explicit Builder(Workload& workload, int32_t dtype) : workload_(workload), dtype_(dtype) {}
  void add(const std::string& name, std::vector<int64_t> shape) { add(name, std::move(shape), dtype_); }
  void add(const std::string& name, std::vector<int64_t> shape, int32_t dtype) {
    uint64_t bytes = static_cast<uint64_t>(ckpt_dtype_bits(dtype)) / 8;
    for (int64_t n : shape) bytes *= static_cast<uint64_t>(n);
    uint64_t offset = aligned(workload_.blob_bytes, bytes);
    workload_.tensors.push_back({name, dtype, std::move(shape), offset, bytes});
    workload_.tensor_bytes += bytes;
    workload_.blob_bytes = offset + bytes;
  }

 private:
  Workload& workload_;
  int32_t dtype_;
};
}  // namespace

static int64_t scaled(int64_t full, double scale, int64_t step) {
  return std::max<int64_t>(step, std::llround(static_cast<double>(full) * scale / static_cast<double>(step)) * step);
}

static void add_llama(Builder& to, double scale) {
  const int64_t h = 2048, kv = 512, ff = 8192;
  to.add("model.embed_tokens.weight", {scaled(128256, scale, 64), h});
  for (int64_t i = 0; i < scaled(16, scale, 1); i++) {
    std::string p = "model.layers." + std::to_string(i) + ".";
    to.add(p + "input_layernorm.weight", {h});
    for (std::string name : {"q", "k", "v", "o"})
      to.add(p + "self_attn." + name + "_proj.weight", {name == "k" || name == "v" ? kv : h, h});
    to.add(p + "post_attention_layernorm.weight", {h});
    to.add(p + "mlp.gate_proj.weight", {ff, h});
    to.add(p + "mlp.up_proj.weight", {ff, h});
    to.add(p + "mlp.down_proj.weight", {h, ff});
  }
  to.add("model.norm.weight", {h});
}

static void add_adam(Builder& to, double scale) {
  const int64_t h = 1024, ff = 4096;
  for (std::string prefix : {"model.", "optim.exp_avg.", "optim.exp_avg_sq."}) {
    to.add(prefix + "wte.weight", {scaled(50304, scale, 64), h});
    for (int64_t i = 0; i < scaled(16, scale, 1); i++) {
      std::string p = prefix + "h." + std::to_string(i) + ".";
      to.add(p + "ln_1.weight", {h});
      to.add(p + "ln_2.weight", {h});
      for (auto name : {"q", "k", "v", "o"}) to.add(p + "attn." + name + ".weight", {h, h});
      to.add(p + "mlp.fc_in.weight", {ff, h});
      to.add(p + "mlp.fc_out.weight", {h, ff});
    }
  }
}

// Matrices, so that ranks share their rows.
static void add_table(Builder& to, double scale) {
  const int64_t rows = scaled(10'000'000, scale, 1000);
  to.add("ids", {rows, 1}, CKPT_DTYPE_I64);
  for (std::string name : {"embedding", "exp_avg.embedding", "exp_avg_sq.embedding"}) to.add(name, {rows, 16});
}

Workload make_workload(const WorkloadOptions& options) {
  Workload workload{.kind = options.kind, .tensors = {}};
  bool bf16 = options.kind == "llama" && options.content != "upcast";
  Builder builder(workload, bf16 ? CKPT_DTYPE_BF16 : CKPT_DTYPE_F32);
  if (options.kind == "llama") add_llama(builder, options.scale);
  if (options.kind == "adam") add_adam(builder, options.scale);
  if (options.kind == "table") add_table(builder, options.scale);
  if (options.kind == "small")
    for (size_t i = 0; i < options.count; i++)
      builder.add("layer." + std::to_string(i / 100) + ".tensor." + std::to_string(i % 100), {options.element_count});
  if (workload.tensors.empty()) fail("no workload is named " + options.kind);
  workload.blob_bytes = (workload.blob_bytes + kPage - 1) / kPage * kPage;
  size_t middle = workload.tensors.size() / 2;
  workload.pick = middle;
  for (size_t i = 0; i < workload.tensors.size() && options.kind != "small"; i++)  // a large one near the middle
    if (workload.tensors[i].bytes >= (8 << 20) && i <= middle) workload.pick = i;
  return workload;
}

// ---- bytes ----

static const char* dtype_name(int32_t dtype) {
  return dtype == CKPT_DTYPE_BF16 ? "bfloat16" : dtype == CKPT_DTYPE_I64 ? "int64" : "float32";
}

static void fill_ids(std::byte* data, uint64_t bytes) {
  for (uint64_t row = 0; row < bytes / sizeof(uint64_t); row++) {
    const uint64_t id = table_id(row);
    std::memcpy(data + row * sizeof id, &id, sizeof id);
  }
}

static nlohmann::json manifest_of(const Workload& workload) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const auto& tensor : workload.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"dtype", dtype_name(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"offset", tensor.offset},
                       {"nbytes", tensor.bytes}});
  return {{"workload", workload.kind},
          {"blob_bytes", workload.blob_bytes},
          {"tensor_bytes", workload.tensor_bytes},
          {"pick", workload.tensors[workload.pick].name},
          {"tensors", tensors}};
}

void write_blob(const Workload& workload, const WorkloadOptions& options, const std::string& path) {
  int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0 || ftruncate(file, static_cast<off_t>(workload.blob_bytes)) != 0) fail_errno("make " + path);
  void* data = mmap(nullptr, workload.blob_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) fail_errno("map " + path);
  ContentMaker maker(options.content);
  for (const auto& tensor : workload.tensors) {
    float deviation = tensor.name.find("exp_avg.") != std::string::npos ? 1e-3f : 0.02f;
    bool squared = tensor.name.find("exp_avg_sq") != std::string::npos;
    if (tensor.dtype == CKPT_DTYPE_I64)
      fill_ids(static_cast<std::byte*>(data) + tensor.offset, tensor.bytes);
    else
      maker.fill(static_cast<std::byte*>(data) + tensor.offset, tensor.bytes, tensor.dtype, deviation, squared);
  }
  munmap(data, workload.blob_bytes);
  close(file);
  if (!(std::ofstream(path + ".json") << manifest_of(workload).dump() << "\n")) fail_errno("write " + path + ".json");
}

// ---- shares ----

static void append(Share& share, const Tensor& tensor, int64_t first, int64_t rows) {
  uint64_t row = tensor.bytes / static_cast<uint64_t>(tensor.shape[0]), bytes = row * static_cast<uint64_t>(rows);
  uint64_t offset = aligned(share.bytes, bytes);
  share.ranges.push_back({&tensor, first, rows, tensor.offset + row * static_cast<uint64_t>(first), offset, bytes});
  share.bytes = offset + bytes;
}

Share share_of(const Workload& workload, uint32_t rank, uint32_t world) {
  Share share{.ranges = {}, .rank = rank, .world = world};
  for (const auto& tensor : workload.tensors) {
    int64_t rows = tensor.shape[0], each = tensor.shape.size() > 1 ? (rows + world - 1) / world : rows;
    int64_t first = tensor.shape.size() > 1 ? std::min(rows, each * rank) : 0;
    append(share, tensor, first, std::min(each, rows - first));
  }
  share.bytes = (share.bytes + kPage - 1) / kPage * kPage;
  return share;
}

Share only_pick(const Workload& workload) {
  Share share;
  const Tensor& tensor = workload.tensors[workload.pick];
  append(share, tensor, 0, tensor.shape[0]);
  return share;
}

static void for_each_range(const Share& share, const std::string& blob, auto&& body) {
  int file = open(blob.c_str(), O_RDONLY | O_CLOEXEC);
  off_t size = file < 0 ? -1 : lseek(file, 0, SEEK_END);
  if (size <= 0) fail_errno("open " + blob);
  void* data = mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) fail_errno("map " + blob);
  for (const auto& range : share.ranges) body(range, static_cast<const std::byte*>(data) + range.blob_offset);
  munmap(data, static_cast<size_t>(size));
  close(file);
}

std::unique_ptr<Memory> source_of(const Share& share, const std::string& blob, size_t shift) {
  auto memory = std::make_unique<Memory>(share.bytes, shift);
  for_each_range(share, blob, [&](const Range& range, const std::byte* bytes) {
    std::memcpy(memory->data() + range.offset, bytes, range.bytes);
  });
  return memory;
}

void compare_with_blob(const Share& share, const std::string& blob, const std::byte* data) {
  for_each_range(share, blob, [&](const Range& range, const std::byte* bytes) {
    if (std::memcmp(data + range.offset, bytes, range.bytes) != 0) fail("wrong bytes loaded: " + range.tensor->name);
  });
}

}  // namespace ckpt_bench

#include "save/codec_choice.h"

#include <algorithm>
#include <map>

namespace ckpt::save {

// The size of a sample: of one tensor that is not contiguous, or of all small tensors of a dtype.
static constexpr uint64_t kSampleBytes = 64 << 10;

// The small tensors of one dtype.
struct SmallTensors {
  uint64_t total = 0, passed = 0;  // bytes
  std::vector<std::byte> sample;
  format::CodecSpec verdict{};
};

static bool is_small(const Item& item) { return item.size < kLargeSegment; }

// Appends `size` bytes from the middle of an item.
static void append_middle(const Item& item, uint64_t size, std::vector<std::byte>* sample) {
  uint64_t width = item.tensor->width, count = size / width, skipped = (item.size / width - count) / 2;
  if (item.data) {
    const std::byte* from = item.data + skipped * width;
    sample->insert(sample->end(), from, from + count * width);
    return;
  }
  SaveMemory from = item.tensor->memory();
  size_t at = sample->size();
  sample->resize(at + count * width);
  device::gather(from.memory, from.extent, item.first + skipped, count, MutableBytes(*sample).subspan(at));
}

// Samples the items evenly, by bytes.
static void sample_small(const Item& item, SmallTensors* small) {
  if (small->passed >= small->sample.size() * (small->total / kSampleBytes))
    append_middle(item, item.size, &small->sample);
  small->passed += item.size;
}

static format::CodecSpec try_alone(const Item& item, std::string_view compression, std::vector<std::byte>* scratch) {
  uint16_t dtype = item.tensor->dtype;
  if (item.data) return format::choose_codec(compression, dtype, {item.data, item.size});
  scratch->clear();
  append_middle(item, std::min(item.size, kSampleBytes), scratch);
  return format::choose_codec(compression, dtype, *scratch, item.size);
}

void choose_codecs(std::string_view compression, std::span<Item> items) {
  if (compression == "none") return;
  if (compression != "auto") {
    for (Item& item : items) item.codec = format::choose_codec(compression, item.tensor->dtype, {});
    return;
  }
  std::map<uint16_t, SmallTensors> by_dtype;
  for (const Item& item : items)
    if (is_small(item)) by_dtype[item.tensor->dtype].total += item.size;
  for (const Item& item : items)
    if (is_small(item)) sample_small(item, &by_dtype[item.tensor->dtype]);
  for (auto& [dtype, small] : by_dtype)
    small.verdict = format::choose_codec(compression, dtype, small.sample, small.total);
  std::vector<std::byte> scratch;
  for (Item& item : items)
    item.codec = is_small(item) ? by_dtype[item.tensor->dtype].verdict : try_alone(item, compression, &scratch);
}

}  // namespace ckpt::save

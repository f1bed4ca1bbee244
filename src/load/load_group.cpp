// Decides which chunks are read together, and how much of them may be in memory at a time.
#include <algorithm>

#include "base/mapping.h"
#include "checkpoint/chunk_io.h"
#include "load/load_plan.h"

namespace ckpt::load {

static constexpr uint64_t kMinStraight = 65536;  // smaller chunks are cheaper to read with their neighbours and to copy
static constexpr uint64_t kMaxGap = kAlign;      // reads go over gaps from alignment, not over larger ones

static uint64_t rounded_out(uint64_t begin, uint64_t end) { return round_up(end, kAlign) - begin / kAlign * kAlign; }

LoadLimits limits_of(const LoadPlan& plan, unsigned threads, uint64_t staging_bytes) {
  LoadLimits limits;
  uint64_t largest = 0, scratch = 0;
  for (const ChunkRead& read : plan.reads) {
    const fb::Chunk& chunk = plan.chunk_of(read);
    largest = std::max(largest, rounded_out(chunk.offset(), chunk.offset() + chunk.stored_size()));
    bool raw = checkpoint::stored_raw(chunk), whole = plan.whole_target(read);
    if (!raw || !whole) limits.stored_bytes = std::max<uint64_t>(limits.stored_bytes, chunk.stored_size());
    if (!raw && !whole) limits.raw_bytes = std::max<uint64_t>(limits.raw_bytes, chunk.raw_size());
    if (!raw && plan.piece_of(read).segment->filter() != 0) scratch = std::max<uint64_t>(scratch, chunk.raw_size());
  }
  limits.stored_bytes = std::max(limits.stored_bytes, checkpoint::kCachePiece);
  auto mapped = Mapping::size_for;
  uint64_t worker = mapped(limits.stored_bytes) + mapped(limits.raw_bytes) + scratch;
  checkpoint::PipelineLimits& pipeline = limits.pipeline;
  pipeline.threads = threads;
  while (pipeline.threads > 1 && pipeline.threads * worker > staging_bytes / 2) pipeline.threads--;
  uint64_t left = staging_bytes - std::min(staging_bytes, pipeline.threads * worker);
  const store::Traits traits = plan.source->store().traits();
  pipeline.buffer_bytes = mapped(std::max(traits.read_bytes, largest));
  const uint64_t least = traits.remote ? traits.read_depth / 2 : 2;  // reads in flight
  for (uint64_t half; left / pipeline.buffer_bytes < least; pipeline.buffer_bytes = half)
    if (half = mapped(pipeline.buffer_bytes / 2); half == pipeline.buffer_bytes) break;
  pipeline.slots = static_cast<unsigned>(std::min<uint64_t>(traits.read_depth, left / pipeline.buffer_bytes));
  return limits;
}

namespace {

class Grouper {
 public:
  Grouper(const LoadPlan& plan, uint64_t most) : plan_(plan), most_(most) {}
  std::vector<GroupedRead> run();

 private:
  size_t straight_end(size_t first) const;
  void add_buffered(size_t number);
  uint64_t offset(size_t number) const { return plan_.chunk_of(plan_.reads[number]).offset(); }
  uint64_t end(size_t number) const { return offset(number) + plan_.chunk_of(plan_.reads[number]).stored_size(); }
  uint32_t file(size_t number) const { return plan_.reads[number].file; }
  std::byte* straight_target(size_t number) const {
    const ChunkRead& read = plan_.reads[number];
    return checkpoint::stored_raw(plan_.chunk_of(read)) ? plan_.whole_target(read) : nullptr;
  }

  const LoadPlan& plan_;
  const uint64_t most_;
  std::vector<GroupedRead> groups_;
};

// Chunks [first, result) are neighbours in the file and in memory.
size_t Grouper::straight_end(size_t first) const {
  std::byte* target = straight_target(first);
  if (!target) return first;
  size_t next = first + 1;
  for (; next < plan_.reads.size(); next++)
    if (file(next) != file(first) || offset(next) != end(next - 1) || end(next) - offset(first) > most_ ||
        straight_target(next) != target + (offset(next) - offset(first)))
      break;
  return next;
}

void Grouper::add_buffered(size_t number) {
  if (!groups_.empty() && !groups_.back().target) {
    GroupedRead& group = groups_.back();
    size_t last = group.first + group.count - 1;
    if (file(last) == file(number) && offset(number) >= end(last) && offset(number) - end(last) < kMaxGap &&
        rounded_out(offset(group.first), end(number)) <= most_) {
      group.count++;
      return;
    }
  }
  groups_.push_back({static_cast<uint32_t>(number), 1, nullptr});
}

std::vector<GroupedRead> Grouper::run() {
  for (size_t i = 0; i < plan_.reads.size();) {
    size_t stop = straight_end(i);
    if (stop > i && end(stop - 1) - offset(i) >= kMinStraight) {
      groups_.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(stop - i), straight_target(i)});
      i = stop;
    } else {
      for (stop = std::max(stop, i + 1); i < stop; i++) add_buffered(i);
    }
  }
  return std::move(groups_);
}

}  // namespace

std::vector<GroupedRead> group_reads(const LoadPlan& plan, uint64_t most_bytes) {
  return Grouper(plan, std::min(most_bytes, plan.source->store().traits().read_bytes)).run();
}

}  // namespace ckpt::load

// Reads each part from front to back: header, chunks, the zero bytes between them, index, trailer. Every byte belongs
// to one of these.
#include "maintain/verify.h"

#include <algorithm>
#include <deque>

#include "base/parallel.h"
#include "checkpoint/read_pipeline.h"
#include "format/checksum.h"
#include "maintain/verify_part.h"

namespace ckpt::maintain {

static constexpr unsigned kDepth = 8;  // reads in flight

static std::vector<std::vector<OwnedChunk>> chunks_by_part(const format::Index& index) {
  std::vector<std::vector<OwnedChunk>> lists(index.parts.size());
  for (const fb::Tensor& tensor : index.tensors)
    for (const fb::Segment& segment : index.segments_of(tensor))
      for (const fb::Chunk& chunk : index.chunks_of(segment))
        lists[segment.part()].push_back({&chunk, &tensor, nullptr, &segment});
  for (const fb::Object& object : index.objects)
    for (const fb::Chunk& chunk : index.chunks_of(object))
      lists[object.part()].push_back({&chunk, nullptr, &object, nullptr});
  for (auto& list : lists) sort_by_offset(list);
  return lists;
}

// The digest of the manifest covers the objects inside it, but they also have digests of their own.
static void verify_inline(const checkpoint::Checkpoint& checkpoint, Job& job) {
  const format::Index& index = checkpoint.index();
  for (const fb::Object& object : index.objects) {
    if (object.placement() != 0) continue;
    if (format::xxh3_128(index.inline_data.subspan(object.inline_offset(), object.size())) ==
        format::id_of(object.digest()))
      continue;
    Finding finding;
    finding.kind = CKPT_FINDING_DAMAGED;
    finding.status = CKPT_CORRUPT;
    finding.name = index.text(object.name());
    finding.text = "MANIFEST: object \"" + finding.name + "\" does not match its checksum";
    job.report.findings.push_back(std::move(finding));
  }
}

// The data of all parts.
class VerifyReader final : public checkpoint::PipelineWork {
 public:
  explicit VerifyReader(unsigned threads) : buffers_(threads) {}
  void add(const PartVerifier& part) { batches_.insert(batches_.end(), part.batches().begin(), part.batches().end()); }
  size_t count() const { return batches_.size(); }

  Result<checkpoint::PipelineRead> describe(size_t number) override {
    const PartVerifier::Batch& batch = batches_[number];
    CKPT_ASSIGN(checkpoint::PartReader file, batch.part->file());
    return checkpoint::PipelineRead{std::move(file), batch.begin, batch.end - batch.begin, nullptr};
  }
  Status arrived(size_t number, Bytes bytes, unsigned) override {
    batches_[number].part->check(batches_[number], bytes);
    return Ok();
  }
  Status read(size_t number, unsigned worker) override {
    device::Mapping& buffer = buffers_[worker];
    if (buffer.bytes().empty()) {
      CKPT_ASSIGN(buffer, device::Mapping::make(checkpoint::kCachePiece));
    }
    return batches_[number].part->read(batches_[number], buffer.bytes().first(checkpoint::kCachePiece));
  }
  bool may_pad(uint64_t) override { return true; }

 private:
  std::vector<PartVerifier::Batch> batches_;
  std::vector<device::Mapping> buffers_;
};

static uint64_t bytes_to_check(const std::vector<std::vector<OwnedChunk>>& lists, const VerifyOptions& options) {
  uint64_t total = 0;
  for (const auto& list : lists)
    for (size_t i = 0; i < list.size(); i++)
      if (options.mode == VerifyMode::kFull || (options.mode == VerifyMode::kSample && sampled(options, i)))
        total += list[i].chunk->stored_size();
  return total;
}

static Status verify_parts(const checkpoint::Checkpoint& checkpoint, const VerifyOptions& options, Job& job) {
  auto lists = chunks_by_part(checkpoint.index());
  job.counters.bytes_total = bytes_to_check(lists, options);
  Findings findings(&job.report.findings);
  std::deque<PartVerifier> parts;
  for (uint32_t i = 0; i < lists.size(); i++)
    parts.emplace_back(checkpoint, options, job, findings, i, std::move(lists[i]));
  CKPT_TRY(for_each_parallel(options.threads, parts.size(), [&](size_t i) {
    Status cancelled = job.check();
    return cancelled.ok() ? parts[i].open() : cancelled;
  }));
  VerifyReader reader(options.threads);
  for (const PartVerifier& part : parts) reader.add(part);
  checkpoint::PipelineLimits limits{.threads = options.threads, .slots = kDepth, .buffer_bytes = kVerifyRead};
  limits.threads = static_cast<unsigned>(std::min<size_t>(limits.threads, std::max<size_t>(reader.count(), 1)));
  return checkpoint::run_pipeline(checkpoint.store(), reader, reader.count(), limits, job);
}

Status verify_checkpoint(const checkpoint::Checkpoint& checkpoint, const VerifyOptions& options, Job& job) {
  if (options.mode == VerifyMode::kSample && options.sample_k > options.sample_n)
    return Status(CKPT_INVALID, strformat("sample {} of {}", options.sample_k, options.sample_n));
  job.has_report = true;
  verify_inline(checkpoint, job);
  Status status = verify_parts(checkpoint, options, job);
  std::stable_sort(job.report.findings.begin(), job.report.findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.part, a.offset) < std::tie(b.part, b.offset);
  });
  return status;
}

}  // namespace ckpt::maintain

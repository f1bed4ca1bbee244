// Reads each part from front to back: header, chunks, the zero bytes between them, index, trailer. Every byte belongs
// to one of these.
#include "maintain/verify.h"

#include <algorithm>
#include <deque>

#include "base/parallel.h"
#include "checkpoint/read_pipeline.h"
#include "codec/checksum.h"
#include "format/part_record.h"
#include "load/load.h"
#include "maintain/verify_part.h"

namespace ckpt::maintain {

// Whether the sums that the manifest has of a tensor are those of its pieces.
static Status check_holding(const format::Page& page, const fb::Tensor& tensor,
                            std::span<const checkpoint::Piece> pieces) {
  const fb::Holding& holding = page.holding_of(tensor);
  uint64_t stored = 0;
  for (const checkpoint::Piece& piece : pieces)
    for (const fb::Chunk& chunk : piece.chunks()) stored += chunk.stored_size();
  if (stored == holding.stored_bytes() && pieces.size() == holding.segment_count()) return Ok();
  return tensor_error(CKPT_FORMAT, page.text(tensor.name()),
                      strformat("{} bytes in {} segments expected, the parts have {} in {}", holding.stored_bytes(),
                                holding.segment_count(), stored, pieces.size()))
      .with("expected", uint64_t{holding.stored_bytes()})
      .with("found", stored);
}

// All pages of the manifest, and whether the parts hold together what it says of each tensor.
static Status verify_manifest(const checkpoint::Checkpoint& checkpoint, const VerifyOptions& options, Job& job) {
  auto note = [&](Status status) -> Status {
    if (status.ok() || is_unanswered(status.code())) return status;
    if (status.detail("part")) return Ok();  // one that is missing or damaged is told where it is looked at
    Finding finding;
    finding.kind = CKPT_FINDING_DAMAGED;
    finding.status = status.code();
    if (const std::string* name = status.detail("tensor")) finding.name = *name;
    finding.text = "MANIFEST: " + status.message();
    job.report.findings.push_back(std::move(finding));
    return Ok();
  };
  auto tensor_holds = [&](const format::Page& page, const fb::Tensor& tensor) -> Status {
    CKPT_ASSIGN(const std::vector<checkpoint::Piece> pieces, checkpoint.pieces({&page, &tensor}));
    return check_holding(page, tensor, pieces);
  };
  bool pages_read = true;
  for (size_t i = 0; i < checkpoint.manifest().page_count(); i++) {
    auto page = checkpoint.manifest().page(i);
    if (!page.ok()) {
      CKPT_TRY(note(std::move(page).status()));
      pages_read = false;
      continue;
    }
    if (options.verify_mode == "quick") continue;
    for (const fb::Tensor& tensor : (*page)->tensors) CKPT_TRY(note(tensor_holds(**page, tensor)));
  }
  if (pages_read) CKPT_TRY(note(checkpoint.check_manifest(resolve_threads(options.threads))));
  for (uint64_t i = 0; options.verify_mode != "quick" && pages_read && i < checkpoint.object_count(); i++)
    CKPT_TRY(note(checkpoint.object_at(i).status()));
  return Ok();
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
    Mapping& buffer = buffers_[worker];
    if (buffer.bytes().empty()) {
      CKPT_ASSIGN(buffer, Mapping::make(checkpoint::kCachePiece));
    }
    return batches_[number].part->read(batches_[number], buffer.bytes().first(checkpoint::kCachePiece));
  }
  bool may_pad(uint64_t) override { return true; }

 private:
  std::vector<PartVerifier::Batch> batches_;
  std::vector<Mapping> buffers_;
};

// The chunks of this checkpoint that lie in a base, and whether each part counts its own.
static PartVerifier::References referring_to(const checkpoint::Checkpoint& checkpoint,
                                             const std::deque<PartVerifier>& parts, uint32_t number,
                                             Findings& findings) {
  PartVerifier::References found;
  const std::string name = checkpoint.name_of(number);
  for (uint32_t part = 0; part < checkpoint.summary().part_count; part++) {
    const checkpoint::IndexFile* index = parts[part].index();
    found.all &= index != nullptr;
    const auto bases = index ? index->root().bases : std::span<const fb::Base>();
    const auto at =
        std::ranges::find_if(bases, [&](const auto& base) { return format::file_name(base.part()) == name; });
    if (at == bases.end()) continue;
    const auto chunks = parts[part].in_base(static_cast<uint16_t>(at - bases.begin() + 1));
    uint64_t used = 0;
    for (const OwnedChunk& owned : chunks) used += owned.chunk->stored_size();
    if (used != at->used()) {
      Finding finding;
      finding.kind = CKPT_FINDING_DAMAGED;
      finding.status = CKPT_FORMAT;
      finding.part = checkpoint.name_of(part);
      finding.text = strformat("{}: {} bytes of {} are used, its index says {}", finding.part, used, name, at->used());
      findings.add(std::move(finding));
    }
    found.chunks.insert(found.chunks.end(), chunks.begin(), chunks.end());
  }
  return found;
}

static Status verify_parts(const checkpoint::Checkpoint& checkpoint, const VerifyOptions& options, Job& job) {
  const unsigned threads = resolve_threads(options.threads);
  Findings findings(&job.report.findings);
  std::deque<PartVerifier> parts;
  for (uint32_t i = 0; i < checkpoint.file_count(); i++) parts.emplace_back(checkpoint, options, job, findings, i);
  const uint32_t first_base = checkpoint.summary().part_count;
  CKPT_TRY(for_each_parallel(threads, first_base, [&](size_t i) {
    Status cancelled = job.check();
    return cancelled.ok() ? parts[i].open() : cancelled;
  }));
  for (uint32_t i = first_base; i < parts.size(); i++) {
    CKPT_TRY(job.check());
    auto refer = referring_to(checkpoint, parts, i, findings);
    CKPT_TRY(parts[i].open(&refer));
  }
  for (const PartVerifier& part : parts) job.counters.bytes_total += part.bytes_to_check();
  VerifyReader reader(threads);
  for (const PartVerifier& part : parts) reader.add(part);
  checkpoint::PipelineLimits limits{
      .threads = threads, .slots = checkpoint.store().traits().read_depth, .buffer_bytes = kVerifyRead};
  limits.threads = static_cast<unsigned>(std::min<size_t>(limits.threads, std::max<size_t>(reader.count(), 1)));
  return checkpoint::run_pipeline(checkpoint.store(), reader, reader.count(), limits, job);
}

static constexpr uint64_t kTableRows = 4 << 20;  // of which the ids are in memory at once

// Whether the rows of a table are sorted and lie where its buckets say, and no id is in two parts.
static Status verify_table(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint, std::string_view name, Job& job) {
  CKPT_ASSIGN(const auto share, load::Share::open(checkpoint, name, {.window_rows = kTableRows, .verify = true}, job));
  LargeVector<uint64_t> ids;
  for (size_t window = 0; window < share->windows().size(); window++) {
    CKPT_TRY(job.check());
    ids.resize(share->windows()[window].rows);
    CKPT_ASSIGN(auto load, load::Load::make(checkpoint, {}));
    CKPT_TRY(load->add_table({share, window, reinterpret_cast<std::byte*>(ids.data()), {}}));
    CKPT_TRY(load->begin());
    Job reading;
    CKPT_TRY(reading.run(CKPT_JOB_DONE, [&](Job& running) { return load->work(running); }));
  }
  return Ok();
}

// What no part can tell alone. What is wrong with the bytes of a part was found there.
static Status verify_tables(const checkpoint::Checkpoint& checkpoint, Job& job) {
  const std::shared_ptr<checkpoint::Checkpoint> borrowed(std::shared_ptr<void>(),
                                                         const_cast<checkpoint::Checkpoint*>(&checkpoint));
  auto verify = [&](std::string_view name) -> Status {
    Status status = verify_table(borrowed, name, job);
    if (is_unanswered(status.code())) return status;
    if (status.code() != CKPT_FORMAT && status.code() != CKPT_MISMATCH && status.code() != CKPT_UNSUPPORTED)
      return job.check();
    Finding finding;
    finding.kind = CKPT_FINDING_DAMAGED;
    finding.status = status.code();
    finding.name = name;
    finding.text = status.message();
    job.report.findings.push_back(std::move(finding));
    return Ok();
  };
  Status status = load::for_each_table(checkpoint, verify);
  return is_unanswered(status.code()) ? status : Ok();
}

Status verify_checkpoint(const checkpoint::Checkpoint& checkpoint, const VerifyOptions& options, Job& job) {
  if (options.verify_mode == "sample" && options.sample_k > options.sample_n)
    return Status(CKPT_INVALID, strformat("sample {} of {}", options.sample_k, options.sample_n));
  CKPT_ASSIGN(const auto past_cache, checkpoint.past_cache());
  if (past_cache) return verify_checkpoint(*past_cache, options, job);
  job.has_report = true;
  Status status = verify_manifest(checkpoint, options, job);
  if (status.ok()) status = verify_parts(checkpoint, options, job);
  if (status.ok() && options.verify_mode == "full") status = verify_tables(checkpoint, job);
  std::stable_sort(job.report.findings.begin(), job.report.findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.part, a.offset) < std::tie(b.part, b.offset);
  });
  return status;
}

}  // namespace ckpt::maintain

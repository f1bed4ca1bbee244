// Verifying reads each part from front to back: header, chunks, the zero bytes between them, index, trailer. Every byte
// is one of these.
#include "session/verify.h"

#include <algorithm>
#include <mutex>

#include "base/parallel.h"
#include "format/checksum.h"
#include "format/names.h"
#include "session/load.h"
#include "session/part_file.h"

namespace ckpt::session {

static constexpr uint64_t kPiece = 8 << 20;

// A chunk and whom it belongs to: a tensor, an object, or (neither) a replica group's declaration list, of which only
// the part's own index knows.
struct OwnedChunk {
  const fb::Chunk* chunk;
  const fb::Tensor* tensor;  // or
  const fb::Object* object;
  const fb::Segment* segment;  // of the tensor
  bool listed() const { return tensor || object; }
};

static void sort_by_offset(std::vector<OwnedChunk>& chunks) {
  std::sort(chunks.begin(), chunks.end(),
            [](const auto& a, const auto& b) { return a.chunk->offset() < b.chunk->offset(); });
}

// Whether the share holds chunk `i` of a part, in the order of offsets.
static bool sampled(const VerifyOptions& options, size_t i) { return i % options.sample_n == options.sample_k - 1; }

class PartVerifier {
 public:
  PartVerifier(const Checkpoint& checkpoint, const VerifyOptions& options, Job& job, std::mutex& mutex,
               std::vector<Finding>& findings)
      : checkpoint_(checkpoint), options_(options), job_(job), mutex_(mutex), findings_(findings) {}

  Status verify(uint32_t number, std::vector<OwnedChunk> chunks);

 private:
  Status verify_sample(const store::Reader& file);
  Status verify_data(const store::Reader& file, uint64_t index_offset);
  Status verify_gap(const store::Reader& file, uint64_t begin, uint64_t end);
  Status verify_batch(const store::Reader& file, size_t first, size_t count, uint64_t begin, uint64_t end);
  void check_overlaps(uint64_t index_offset);
  void check_gap(Bytes bytes, uint64_t offset);
  void report(Finding finding);
  Finding damage(const OwnedChunk& owned, ckpt_status status, std::string what) const;

  const Checkpoint& checkpoint_;
  const VerifyOptions& options_;
  Job& job_;
  std::mutex& mutex_;
  std::vector<Finding>& findings_;
  uint32_t number_ = 0;
  std::vector<OwnedChunk> chunks_;  // by offset
  std::vector<std::byte> buffer_;
};

void PartVerifier::report(Finding finding) {
  if (finding.part.empty()) finding.part = format::part_name(number_);
  std::lock_guard lock(mutex_);
  findings_.push_back(std::move(finding));
}

// A damage named as people need it: part, offset, tensor, element range.
Finding PartVerifier::damage(const OwnedChunk& owned, ckpt_status status, std::string what) const {
  const format::Index& index = checkpoint_.index();
  Finding finding;
  finding.kind = CKPT_FINDING_DAMAGED;
  finding.status = status;
  finding.part = format::part_name(number_);
  finding.offset = owned.chunk->offset();
  finding.size = owned.chunk->stored_size();
  if (owned.listed()) finding.name = index.text(owned.tensor ? owned.tensor->name() : owned.object->name());
  std::string where = (owned.tensor ? "tensor \"" : "object \"") + finding.name + "\"";
  if (!owned.listed()) where = "declaration list of a replica group";
  if (owned.tensor) {
    Shape shape = index.shape_of(*owned.tensor);
    Geometry geometry = *geometry_of(owned.tensor->dtype(), shape);
    Order order = order_of(geometry, *to_units(geometry, owned.tensor->dtype(), shape,
                                               index.region_of(*owned.segment, owned.tensor->ndim())));
    uint64_t before = 0;
    for (const fb::Chunk& chunk : index.chunks_of(*owned.segment)) {
      if (&chunk == owned.chunk) break;
      before += chunk.raw_size();
    }
    // First and last element in the flattened tensor: of a box, those of its corner elements.
    auto flat = [&](uint64_t position) {
      uint64_t result = 0, stride = 1, rest = position;
      for (int i = geometry.shape.ndim - 1; i >= 0; i--) {
        result += (order.box.offset[i] + rest % order.box.extent[i]) * stride;
        rest /= order.box.extent[i];
        stride *= geometry.shape[i];
      }
      return geometry.packed ? result * 8 / static_cast<uint64_t>(dtype_bits(owned.tensor->dtype())) : result;
    };
    uint64_t first = order.first + before / geometry.width;
    finding.first_element = static_cast<int64_t>(flat(first));
    finding.last_element = static_cast<int64_t>(flat(first + owned.chunk->raw_size() / geometry.width - 1));
  }
  finding.text =
      strprintf("%s at %llu, %llu bytes: %s", finding.part.c_str(), static_cast<unsigned long long>(finding.offset),
                static_cast<unsigned long long>(finding.size), where.c_str()) +
      (owned.tensor ? strprintf(", elements %lld to %lld", static_cast<long long>(finding.first_element),
                                static_cast<long long>(finding.last_element))
                    : "") +
      ": " + what;
  return finding;
}

static Finding part_finding(Status status, uint32_t number, int32_t kind) {
  Finding finding;
  finding.kind = kind;
  finding.status = status.code();
  finding.part = format::part_name(number);
  finding.text = status.message();
  if (const std::string* offset = status.detail("offset")) finding.offset = std::strtoull(offset->c_str(), nullptr, 10);
  return finding;
}

void PartVerifier::check_gap(Bytes bytes, uint64_t offset) {
  auto wrong = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
  if (wrong == bytes.end()) return;
  Finding finding;
  finding.kind = CKPT_FINDING_DAMAGED;
  finding.status = CKPT_CORRUPT;
  finding.offset = offset + static_cast<uint64_t>(wrong - bytes.begin());
  finding.size = 1;
  finding.text = strprintf("%s at %llu: expected zero padding", format::part_name(number_).c_str(),
                           static_cast<unsigned long long>(finding.offset));
  report(std::move(finding));
}

void PartVerifier::check_overlaps(uint64_t index_offset) {
  uint64_t end = kAlign;
  for (const OwnedChunk& owned : chunks_) {
    if (owned.chunk->offset() < end) report(damage(owned, CKPT_FORMAT, "overlaps what lies before it"));
    end = std::max(end, owned.chunk->offset() + owned.chunk->stored_size());
    if (end > index_offset) report(damage(owned, CKPT_FORMAT, "overlaps the index"));
  }
}

// Reads [begin, end) and checks the chunks in it and the gaps around them.
Status PartVerifier::verify_batch(const store::Reader& file, size_t first, size_t count, uint64_t begin, uint64_t end) {
  if (begin == end) return Ok();
  buffer_.resize(std::max<size_t>(buffer_.size(), end - begin));
  MutableBytes bytes(buffer_.data(), end - begin);
  CKPT_TRY(file.read_at(begin, bytes));
  job_.counters.bytes_read += bytes.size();
  job_.counters.io_count++;
  uint64_t at = begin;
  for (size_t i = first; i < first + count; i++) {
    const fb::Chunk& chunk = *chunks_[i].chunk;
    if (chunk.offset() > at && options_.mode == VerifyMode::kFull)
      check_gap(bytes.subspan(at - begin, chunk.offset() - at), at);
    if (chunk.offset() < begin || chunk.offset() + chunk.stored_size() > end) continue;  // an overlap, reported already
    Status status = check_chunk(chunk, bytes.subspan(chunk.offset() - begin, chunk.stored_size()));
    if (!status.ok()) report(damage(chunks_[i], status.code(), status.message()));
    at = std::max(at, chunk.offset() + chunk.stored_size());
    if (!chunks_[i].listed()) continue;
    job_.counters.bytes_done += chunk.stored_size();
    job_.counters.chunk_count++;
  }
  if (at < end && options_.mode == VerifyMode::kFull) check_gap(bytes.subspan(at - begin), at);
  return Ok();
}

// Gaps can be as long as a hostile manifest likes: read in pieces.
Status PartVerifier::verify_gap(const store::Reader& file, uint64_t begin, uint64_t end) {
  for (uint64_t stop; begin < end; begin = stop) {
    CKPT_TRY(job_.check());
    stop = begin + std::min(kPiece, end - begin);
    CKPT_TRY(verify_batch(file, 0, 0, begin, stop));
  }
  return Ok();
}

Status PartVerifier::verify_sample(const store::Reader& file) {
  size_t number = 0;
  for (size_t i = 0; i < chunks_.size(); i++) {
    if (chunks_[i].listed() && !sampled(options_, number++)) continue;
    const fb::Chunk& chunk = *chunks_[i].chunk;
    CKPT_TRY(job_.check());
    CKPT_TRY(verify_batch(file, i, 1, chunk.offset(), chunk.offset() + chunk.stored_size()));
  }
  return Ok();
}

Status PartVerifier::verify_data(const store::Reader& file, uint64_t index_offset) {
  uint64_t begin = kAlign;
  for (size_t i = 0; i < chunks_.size();) {
    CKPT_TRY(job_.check());
    if (uint64_t next = chunks_[i].chunk->offset(); next > begin + kPiece) {
      CKPT_TRY(verify_gap(file, begin, next));
      begin = next;
    }
    size_t first = i;
    uint64_t end = begin;
    while (i < chunks_.size() &&
           (i == first || chunks_[i].chunk->offset() + chunks_[i].chunk->stored_size() <= begin + kPiece)) {
      end = std::max(end, chunks_[i].chunk->offset() + chunks_[i].chunk->stored_size());
      i++;
    }
    CKPT_TRY(verify_batch(file, first, i - first, begin, end));
    begin = end;
  }
  return verify_gap(file, begin, index_offset);
}

Status PartVerifier::verify(uint32_t number, std::vector<OwnedChunk> chunks) {
  number_ = number;
  chunks_ = std::move(chunks);
  const fb::Part& expected = checkpoint_.index().parts[number];
  // A digest that fails is a finding; so is all else that is wrong with the file. Only a disk that does not answer ends
  // the job.
  auto file = checkpoint_.part(number);
  if (!file.ok()) {
    Status status = std::move(file).status();
    if (status.code() == CKPT_IO || status.code() == CKPT_GONE || status.code() == CKPT_NOMEM) return status;
    report(part_finding(status, number,
                        status.detail("found")             ? CKPT_FINDING_DAMAGED
                        : status.code() == CKPT_INCOMPLETE ? CKPT_FINDING_MISSING
                                                           : CKPT_FINDING_DAMAGED));
    return Ok();
  }
  auto part = open_part(checkpoint_.store(), checkpoint_.entry().id, number);
  uint64_t index_offset = (*file)->size() - 64;
  if (!part.ok()) {
    Status status = std::move(part).status();
    // Still open here, but no longer there.
    if (status.code() == CKPT_NOT_FOUND) status = checkpoint_.at_part(std::move(status), number);
    if (status.code() == CKPT_IO || status.code() == CKPT_GONE) return status;
    report(
        part_finding(status, number, status.code() == CKPT_INCOMPLETE ? CKPT_FINDING_MISSING : CKPT_FINDING_DAMAGED));
    // The manifest still tells where the chunks are; what follows them may be lists and an index.
    index_offset = chunks_.empty() ? kAlign : chunks_.back().chunk->offset() + chunks_.back().chunk->stored_size();
  } else {
    index_offset = part->trailer.index_offset;
    if (part->trailer.index_digest != format::id_of(expected.index_digest()))
      report(part_finding(
          Status(CKPT_CORRUPT, format::part_name(number) + ": its index is not the one that the manifest names"),
          number, CKPT_FINDING_DAMAGED));
    CKPT_TRY(verify_gap(**file, index_offset + part->trailer.index_size, (*file)->size() - 64));
    for (const fb::Group& group : part->index.groups)
      chunks_.push_back({&part->index.chunks[group.chunk()], nullptr, nullptr, nullptr});
    sort_by_offset(chunks_);
  }
  check_overlaps(index_offset);
  if (options_.mode == VerifyMode::kQuick) return Ok();
  return options_.mode == VerifyMode::kSample ? verify_sample(**file) : verify_data(**file, index_offset);
}

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

// Objects inside the manifest are under its digest, but have one of their own too.
static void verify_inline(const Checkpoint& checkpoint, Job& job) {
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

Status verify_checkpoint(const Checkpoint& checkpoint, const VerifyOptions& options, Job& job) {
  if (options.mode == VerifyMode::kSample && options.sample_k > options.sample_n)
    return Status(CKPT_INVALID, strprintf("sample %llu of %llu", static_cast<unsigned long long>(options.sample_k),
                                          static_cast<unsigned long long>(options.sample_n)));
  job.has_report = true;
  auto lists = chunks_by_part(checkpoint.index());
  uint64_t total = 0;
  for (const auto& list : lists)
    for (size_t i = 0; i < list.size(); i++)
      if (options.mode == VerifyMode::kFull || (options.mode == VerifyMode::kSample && sampled(options, i)))
        total += list[i].chunk->stored_size();
  job.counters.bytes_total = total;
  verify_inline(checkpoint, job);
  std::mutex mutex;
  Status status = for_each_parallel(options.threads, lists.size(), [&](size_t i) -> Status {
    return PartVerifier(checkpoint, options, job, mutex, job.report.findings)
        .verify(static_cast<uint32_t>(i), std::move(lists[i]));
  });
  std::stable_sort(job.report.findings.begin(), job.report.findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.part, a.offset) < std::tie(b.part, b.offset);
  });
  return status;
}

}  // namespace ckpt::session

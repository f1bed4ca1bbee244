// Verifies one part or base: what lies where in it, in which pieces it is read, and what is wrong with its bytes.
#pragma once

#include <mutex>
#include <vector>

#include "checkpoint/chunk_io.h"
#include "checkpoint/part_file.h"
#include "maintain/verify.h"

namespace ckpt::maintain {

inline constexpr uint64_t kVerifyRead = 4 << 20;  // the most that is read at once

// A chunk and its owner: a tensor, an object, or (neither) a replica group's declaration list.
struct OwnedChunk {
  const fb::Chunk* chunk;
  checkpoint::Piece piece;       // of a tensor
  checkpoint::ObjectRef object;  // either this or `piece` or neither
  bool unused = false;           // of a base: nothing of this checkpoint
  bool listed() const { return piece.tensor || object.object; }
  uint64_t end() const { return chunk->offset() + chunk->stored_size(); }
};

void sort_by_offset(std::vector<OwnedChunk>& chunks);

// The findings of all threads.
class Findings {
 public:
  explicit Findings(std::vector<Finding>* out) : out_(out) {}
  void add(Finding finding);

 private:
  std::mutex mutex_;
  std::vector<Finding>* out_;
};

// Whether the sample includes chunk `i` of a part, in the order of offsets.
inline bool sampled(const VerifyOptions& options, size_t i) {
  return static_cast<int64_t>(i) % options.sample_n == options.sample_k - 1;
}

class PartVerifier {
 public:
  // A range of the part that is read at once: chunks, and the zero bytes between and after them.
  struct Batch {
    PartVerifier* part;
    size_t first, count;  // chunks
    uint64_t begin, end;
  };

  PartVerifier(const checkpoint::Checkpoint& checkpoint, const VerifyOptions& options, Job& job, Findings& findings,
               uint32_t number)
      : checkpoint_(checkpoint),
        options_(options),
        job_(job),
        findings_(findings),
        number_(number),
        name_(checkpoint.name_of(number)) {}

  // The chunks of a checkpoint that lie in a base; all, unless the index of a part cannot be read.
  struct References {
    std::vector<OwnedChunk> chunks;
    bool all = true;
  };
  // Checks everything but the data. The batches refer to this object. Of a base, also what lies there.
  Status open(References* refer = nullptr);
  // The chunks of a part that lie in base `home` of its root, once it is open.
  std::vector<OwnedChunk> in_base(uint16_t home) const;
  const std::vector<Batch>& batches() const { return batches_; }
  // Once it is open, and nothing was found: the part, and its chunks by offset.
  const checkpoint::PartFile& part() const { return part_; }
  const std::vector<OwnedChunk>& chunks() const { return chunks_; }
  const checkpoint::IndexFile* index() const { return index_; }  // null: it cannot be read
  // Describes damage as people need it: part, offset, tensor, element range.
  Finding damage(const OwnedChunk& owned, ckpt_status status, std::string what) const;
  uint64_t bytes_to_check() const;  // of chunks

  Result<checkpoint::PartReader> file() const { return checkpoint_.part(number_); }
  // Checks a batch whose bytes are in memory.
  void check(const Batch& batch, Bytes bytes) const { check_bytes(batch.first, batch.count, batch.begin, bytes); }
  // Reads a batch piece by piece into `buffer`, which must have kCachePiece bytes, and checks it.
  Status read(const Batch& batch, MutableBytes buffer) const;

 private:
  Status report_unless_fatal(Status status, bool missing);
  Status check_framing();
  bool is_base() const { return number_ >= checkpoint_.summary().part_count; }
  template <typename Visit>
  Status for_each_chunk(Visit&& visit) const;
  Status collect_chunks();
  Status refer(References refer);
  Status compare_copy() const;
  void check_inline() const;
  void check_overlaps(uint64_t index_offset);
  void add_samples();
  void add_data(uint64_t index_offset);
  void add_gap(uint64_t begin, uint64_t end);
  // Reads [begin, end) piece by piece and calls use(offset, bytes) for each.
  template <typename Use>
  Status in_pieces(uint64_t begin, uint64_t end, MutableBytes buffer, Use&& use) const;
  Status read_gap(uint64_t begin, uint64_t end, MutableBytes buffer) const;
  Status read_long(size_t number, MutableBytes buffer) const;
  void check_bytes(size_t first, size_t count, uint64_t begin, Bytes bytes) const;
  Status check_again(const fb::Chunk& chunk, Status found) const;
  void check_gap(Bytes bytes, uint64_t offset) const;
  void checked(size_t number, Status status) const;

  const checkpoint::Checkpoint& checkpoint_;
  const VerifyOptions& options_;
  Job& job_;
  Findings& findings_;
  const uint32_t number_;
  const std::string name_;
  checkpoint::PartFile part_;
  const checkpoint::IndexFile* index_ = nullptr;  // the part's own, or its copy in the manifest
  std::vector<OwnedChunk> chunks_;                // by offset
  std::vector<Batch> batches_;
};

}  // namespace ckpt::maintain

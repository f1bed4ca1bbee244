// An open, committed checkpoint: the root of its manifest, and pages, parts and their indexes, read when they are
// needed; a limited number of parts stays open. Immutable but for what it keeps, which has locks; concurrent use is
// fine. As long as it exists, pruning leaves the checkpoint alone.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/job.h"
#include "base/mapping.h"
#include "checkpoint/index_file.h"
#include "checkpoint/select.h"
#include "plan/geometry.h"

namespace ckpt::checkpoint {

// A part that is open as long as somebody has this.
using PartReader = std::shared_ptr<const store::Reader>;

// A tensor of a page of the manifest, or of a part's own index; null if there is none.
struct TensorRef {
  const format::Page* page = nullptr;
  const fb::Tensor* tensor = nullptr;
  uint32_t part = kNoPart;
  static constexpr uint32_t kNoPart = UINT32_MAX;
  explicit operator bool() const { return tensor != nullptr; }
  bool operator==(const TensorRef&) const = default;

  std::string_view name() const { return page->text(tensor->name()); }
  Shape shape() const { return page->shape_of(*tensor); }
  std::span<const uint64_t> extents() const { return page->extents_of(*tensor); }
  uint16_t dtype() const { return tensor->dtype(); }
};

// What a part holds of a tensor: a range of a region's elements.
struct Piece {
  uint32_t part = 0;
  const format::Page* page = nullptr;  // of the part's index, with all that follows
  const fb::Tensor* tensor = nullptr;
  const fb::Region* region = nullptr;
  const fb::Segment* segment = nullptr;
  // Of rows: where the part's begin, and how many all parts have. A part alone does not tell: then its own are all.
  uint64_t row_first = 0, row_total = 0;

  // Whether it is rows whose place among those of all parts is not known.
  bool unplaced() const;
  // The tensor's shape and what is held of it, for rows too.
  Shape shape() const;
  Region held() const;
  std::span<const fb::Chunk> chunks() const { return page->chunks_of(*segment); }
};

// An object of one part's index.
struct ObjectRef {
  uint32_t part = 0;
  const format::Page* page = nullptr;
  const fb::Object* object = nullptr;
  uint32_t rank() const { return object->scope() ? part : 0; }
};

// What a selector picks, for callers that only ask; judges as Checkpoint::open does.
Result<Selection> find_checkpoint(const Places& places, const Question& question);

class Checkpoint : public std::enable_shared_from_this<Checkpoint> {
 public:
  // Reads a small manifest whole and checks it; of a large one, what says what the checkpoint is.
  static Result<std::shared_ptr<Checkpoint>> open(std::shared_ptr<const store::Store> store, const Question& question,
                                                  unsigned threads = 1,
                                                  const std::shared_ptr<const store::Store>& mirror = nullptr);

  // What the directory `id` of `store` holds, read and checked as above, without a lock. The store must outlive it.
  // ABORTED for a tombstone.
  static Result<std::unique_ptr<Checkpoint>> open_quietly(const store::Store& store, std::string_view id);
  // The same of what was looked at a moment ago, whose manifest may be open.
  static Result<std::unique_ptr<Checkpoint>> open_quietly(const store::Store& store, const CheckpointEntry& entry);

  // For whoever tells what the store holds: the same checkpoint, read quietly and past the cache of its parts. Null if
  // there is no cache between. GONE if another one is there by now. Must not outlive this one.
  Result<std::unique_ptr<Checkpoint>> past_cache() const;

  const CheckpointEntry& entry() const { return selection_.entry; }
  const Selection& selection() const { return selection_; }
  const format::Root& root() const { return manifest_->root(); }
  const format::Summary& summary() const { return root().summary; }
  const IndexFile& manifest() const { return *manifest_; }
  const format::ManifestTrailer& trailer() const { return trailer_; }
  const store::Reader& manifest_file() const { return *file_; }
  const store::Store& store() const { return *store_; }
  // Nobody can remove its files while this one is open: no other machine reaches them, or its lock keeps them there.
  bool is_kept() const { return !store_->traits().shared || (lock_ && lock_->protects()); }

  // Checks all that the manifest holds: its pages, counts, targets of aliases, and the copies of parts' indexes.
  // Opening a small manifest does that. CORRUPT, FORMAT, or an error of the store.
  Status check_manifest(unsigned threads = 1) const;

  // ---- names: those of tensors and aliases together, in one order ----
  struct Named {
    TensorRef tensor;                          // the tensor itself, or the target of the alias
    const format::Page* alias_page = nullptr;  // null for a tensor, as `alias`
    const fb::Alias* alias = nullptr;
    std::string_view name() const { return alias ? alias_page->text(alias->name()) : tensor.name(); }
    bool is_view() const { return alias && alias->is_view(); }
    std::span<const uint64_t> view() const { return alias_page->view_of(*alias); }
    // Of the view, or of the tensor.
    std::span<const uint64_t> extents() const {
      return is_view() ? view().subspan(1, alias->ndim()) : tensor.extents();
    }
  };
  uint64_t name_count() const { return root().name_count; }
  // `position` must be less than name_count().
  Result<Named> named_at(uint64_t position) const;
  // The tensor is null if there is no such name. `position`, if not null: its place in the order of names.
  Result<Named> find(std::string_view name, uint64_t* position = nullptr) const;
  Result<std::span<const fb::Attr>> attrs_of(std::string_view owner, const format::Page** page) const;

  // ---- what parts hold: pieces.cpp ----
  // What holds the elements of `wanted` (null: of the whole tensor), in order of parts, and maybe more. Checks that the
  // pieces make up what they should (FORMAT §4, "Together"). FORMAT, INCOMPLETE, CORRUPT, …
  Result<std::vector<Piece>> pieces(const TensorRef& tensor, const Box* wanted = nullptr) const;
  // The tensor as the own index of a part tells it, if that part alone holds all of a region of it; else null. Reads no
  // page of names of the manifest. pieces() of it are those of that part.
  Result<TensorRef> find_in_part(uint32_t number, std::string_view name, const Shape& shape,
                                 const Region& wanted) const;
  // A piece that was made from one part, as pieces() would make it: rows get their place among those of all parts,
  // unless a part's index cannot be read.
  Piece placed(Piece piece) const;
  // The usual case without a search: `piece` is all of one tensor, `tensor` is the next one in the same part, and
  // stored as simply. Then `piece` becomes all of it. False in any other case.
  bool next_piece(const TensorRef& tensor, Piece* piece) const;
  // The object of a rank, or a shared one; null if there is none.
  Result<ObjectRef> find_object(std::string_view name, uint32_t rank) const;
  // The same, if the own index of the rank's part tells it; else null.
  Result<ObjectRef> find_object_in_part(std::string_view name, uint32_t rank) const;
  // The parts that hold an object of this name, in order; none, and scope -1, if there is none.
  struct Held {
    int scope = -1;
    std::vector<uint32_t> parts;
  };
  Result<Held> holders_of(std::string_view name) const;
  // By name, then rank. `position` must be less than object_count().
  uint64_t object_count() const { return summary().object_count; }
  Result<ObjectRef> object_at(uint64_t position) const;

  // ---- parts ----
  // What the manifest says of a part.
  Result<fb::Part> part_record(uint32_t number) const { return manifest_->part(number); }
  // A part's own index, from the copy in the manifest or from the part.
  Result<const IndexFile*> part_index(uint32_t number) const;
  // Opens a part and checks that it is the one that the manifest names (size, header; on a server size and trailer).
  // INCOMPLETE, GONE, MISMATCH, CORRUPT, FORMAT.
  Result<PartReader> part(uint32_t number) const;
  // All bytes of a part, mapped for as long as the checkpoint is open. UNSUPPORTED, and as part().
  Result<Bytes> map_part(uint32_t number) const;
  // The same for callers that only ask whether `name` (a tensor or object) can be read from there: errors name it.
  Status check_part(uint32_t number, std::string_view name) const;
  // Adds part name and path to an error; a part that vanished with its checkpoint is GONE.
  Status at_part(Status status, uint32_t number) const;
  // The same for the manifest.
  Status at_manifest(Status status) const;

 private:
  Checkpoint() = default;
  Status load(const CheckpointEntry& entry, unsigned threads);
  Result<std::unique_ptr<store::Lock>> lock_slot() const;  // null: another program holds it
  Status read_manifest(unsigned threads);
  Status read_manifest_once(unsigned threads);
  Status check_all(unsigned threads) const;
  Status check_copy(uint32_t number, const fb::Part& part, uint64_t* next) const;
  Result<const format::Page*> page_of(std::string_view name) const;
  Result<Named> target_of(const format::Page* page, const fb::Alias& alias) const;
  Result<std::unique_ptr<store::Reader>> open_part_file(uint32_t number) const;
  Result<PartReader> ask_for_part(uint32_t number) const;
  Status read_index(const PartReader& file, uint64_t offset, const IndexMemory& out, bool again) const;
  Result<std::unique_ptr<store::Reader>> open_part_file_once(uint32_t number, bool again) const;
  Status check_header(const store::Reader& file, const fb::Part& expected, bool again) const;
  Status check_end(const store::Reader& file, const fb::Part& expected, bool again) const;
  Result<std::unique_ptr<IndexFile>> open_part_index(uint32_t number) const;
  Result<ObjectRef> object_in(uint32_t number, std::string_view name, int scope) const;
  PartReader find_open(uint32_t number) const;

  std::shared_ptr<const store::Store> store_;
  bool cached_ = false;                 // parts may come from the store's cache
  int64_t patience_ms_ = Call::kNever;  // of the call that opened it
  Selection selection_;
  std::unique_ptr<store::Lock> lock_;
  std::shared_ptr<const store::Reader> file_;  // MANIFEST
  format::ManifestTrailer trailer_;
  Mapping bytes_;  // MANIFEST, if it is small
  std::unique_ptr<IndexFile> manifest_;
  mutable std::mutex mutex_;                                 // guards what follows
  mutable std::list<std::pair<uint32_t, PartReader>> open_;  // the part that was used last comes first
  mutable std::map<uint32_t, std::unique_ptr<store::Reader>> mapped_;
  mutable std::map<uint32_t, std::unique_ptr<IndexFile>> indexes_;
};

}  // namespace ckpt::checkpoint

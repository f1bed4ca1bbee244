// What a save need not write: chunks whose bytes an earlier checkpoint of this store has at the same place. The part
// that holds them gets a second name in the directory of the save, so that neither checkpoint needs the other one.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/report.h"
#include "checkpoint/checkpoint.h"
#include "save/layout.h"
#include "save/table_runs.h"

namespace ckpt::save {

struct ReuseInput {
  session::Session& session;
  const SaveIdentity& identity;
  const SaveContent& content;
  const PartLayout& layout;
  const SaveSettings& settings;
  const Carried& carried;
};

// What ends the call is no matter of the base.
bool ends_save(ckpt_status code);
// Files cannot have a second name here; or, as for EMLINK, only one of them cannot.
bool has_no_names(const Status& status);
// Gives the directory of the attempt a file of the base, and returns its record there. Where that copies the file,
// looks only whether it can be had.
Result<fb::Part> lend_file(session::Session& session, const session::Attempt& attempt,
                           const checkpoint::Checkpoint& base, uint32_t file);

class Reuse {
 public:
  // Finds a base, and what may be the same there: no more than the places of chunks, their digests and sizes are known
  // of it. Gives the directory of the attempt, which must be open, the files that hold them; where that copies them,
  // finish() does it. What is wrong with a base only makes the save write more; `report` says what. UNSUPPORTED with
  // incremental=strict where a file can have one name only; what ends the call. What `input` refers to must stay.
  static Result<Reuse> find(const ReuseInput& input, Report* report);

  // Whether the base has this chunk of the layout, as it will be stored. Any thread; of one chunk, one at a time.
  bool has(size_t number, const fb::Chunk& chunk) const {
    return !matches_.empty() && matches_[number].home != 0 && matches_[number].stored_size == chunk.stored_size() &&
           matches_[number].digest == format::id_of(chunk.digest());
  }
  // It is not written: the record says now where it lies.
  void take(size_t number, fb::Chunk* chunk);
  bool taken(size_t number) const { return !homes_.empty() && homes_[number] != 0; }

  // What lies in one file of the base and is written again, since too little of that file is used after all.
  struct Batch {
    struct Chunk {
      fb::Chunk from;
      size_t number;  // of the layout; kCarried: of a tensor that is carried over
    };
    static constexpr size_t kCarried = SIZE_MAX;
    size_t base;
    uint64_t offset = 0, size = 0;  // in the new part, in whole pages; the chunks come one after the other
    std::vector<Chunk> chunks{};
  };
  // Once every chunk has been settled: gives such files up. The batches of at most `most_bytes`, or of one chunk, begin
  // at `*end` of the new part, which becomes their end. `chunks` get their places there.
  Result<std::vector<Batch>> give_up_dead(std::span<fb::Chunk> chunks, uint64_t most_bytes, uint64_t* end);
  // Reads and checks a batch, which `out` has room for. Any thread.
  Status read(const Batch& batch, MutableBytes out, Job& job) const;
  // After that: drops the files of which nothing is used, and copies the others where that is how they get a second
  // name. Then the save cannot do without them: an error names the base.
  Status finish(std::span<const fb::Chunk> chunks);
  // Of chunks [first, first + count), as an index wants them; empty if nothing is taken from a base.
  std::span<const uint16_t> homes(size_t first, size_t count) const {
    return bases_.empty() ? std::span<const uint16_t>() : std::span(homes_).subspan(first, count);
  }
  std::span<const fb::Base> bases() const { return bases_; }
  // Of chunks of a tensor that is carried over: their records in the new part, and where they are at home.
  std::pair<std::vector<fb::Chunk>, std::vector<uint16_t>> carry(const format::Page& page,
                                                                 std::span<const fb::Chunk> chunks) const;
  // What was taken, for the report of the save; its stored bytes.
  void tell(Report* report) const;
  uint64_t bytes() const { return bytes_; }

 private:
  struct Match {
    Digest digest;
    uint64_t offset = 0;
    uint32_t stored_size = 0;
    uint32_t home = 0;  // 0: none; k: base k - 1. While bases are chosen, one more than the number of a file.
  };
  friend class Matcher;
  Status borrow(const ReuseInput& input, Report* report);
  // Calls visit(base - 1, chunk, number) of each chunk that is taken, numbered as those of a batch.
  template <typename Visit>
  void for_each_taken(std::span<const fb::Chunk> chunks, Visit&& visit) const;
  void place(const Batch& batch, std::span<fb::Chunk> chunks);
  void drop_unused(std::span<const fb::Chunk> chunks);
  std::string key_of(size_t base) const;
  Status at_base(Status status) const { return std::move(status).in("base " + from_).with("base", from_); }

  std::shared_ptr<const ReuseInput> in_;                     // null: there is no base
  std::string from_;                                         // the id of the base
  std::shared_ptr<checkpoint::Checkpoint> base_;             // until finish()
  std::map<uint32_t, uint16_t> carried_homes_;               // by the number of a file of the base
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> moved_;  // carried chunks, by file and offset: where they are now
  std::vector<Match> matches_;
  std::vector<uint16_t> homes_;
  std::vector<fb::Base> bases_;
  std::vector<uint32_t> files_;      // their numbers in the base
  uint64_t bytes_ = 0, chunks_ = 0;  // taken
};

}  // namespace ckpt::save

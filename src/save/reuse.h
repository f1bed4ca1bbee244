// What a save need not write: chunks whose bytes an earlier checkpoint of this store has at the same place. The part
// that holds them gets a second name in the directory of the save, so that neither checkpoint needs the other one.
#pragma once

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
bool ends_call(ckpt_status code);
// Files cannot have a second name here; or, as for EMLINK, only one of them cannot.
bool has_no_names(const Status& status);
// Gives the directory of the attempt a file of the base, and returns its record there. Where that copies the file, looks
// only whether it can be had.
Result<fb::Part> lend_file(session::Session& session, const session::Attempt& attempt,
                           const checkpoint::Checkpoint& base, uint32_t file);

class Reuse {
 public:
  // Finds a base, and what may be the same there: no more than the places of chunks, their digests and sizes are known
  // of it. Gives the directory of the attempt, which must be open, the files that hold them; where that copies them,
  // finish() does it. What is wrong with a base only makes the save write more; `report` says what. UNSUPPORTED with
  // incremental=strict where a file can have one name only; what ends the call.
  static Result<Reuse> find(const ReuseInput& input, Report* report);

  // Whether the base has this chunk of the layout, as it will be stored. Any thread; of one chunk, one at a time.
  bool has(size_t number, const fb::Chunk& chunk) const {
    return !matches_.empty() && matches_[number].home != 0 && matches_[number].stored_size == chunk.stored_size() &&
           matches_[number].digest == format::id_of(chunk.digest());
  }
  // It is not written: the record says now where it lies.
  void take(size_t number, fb::Chunk* chunk);
  bool taken(size_t number) const { return !homes_.empty() && homes_[number] != 0; }

  // Once every chunk has been settled: drops the files of which nothing is used, and copies the others where that is
  // how they get a second name. Then the save cannot do without them: an error names the base.
  Status finish(session::Session& session, const std::string& directory, std::span<const fb::Chunk> chunks);
  // Of chunks [first, first + count), as an index wants them; empty if nothing is taken from a base.
  std::span<const uint16_t> homes(size_t first, size_t count) const {
    return bases_.empty() ? std::span<const uint16_t>() : std::span(homes_).subspan(first, count);
  }
  std::span<const fb::Base> bases() const { return bases_; }
  // Of chunks of a tensor that is carried over.
  std::vector<uint16_t> homes_of(const format::Page& page, std::span<const fb::Chunk> chunks) const;
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
  std::vector<uint32_t> drop_unused(std::span<const fb::Chunk> chunks);

  std::string from_;  // the id of the base
  // Until its files are borrowed, which keeps them there.
  std::shared_ptr<checkpoint::Checkpoint> base_;
  const Carried* carried_ = nullptr;
  uint32_t own_ = 0;                            // this rank
  std::map<uint32_t, uint16_t> carried_homes_;  // by the number of a file of the base
  std::vector<Match> matches_;
  std::vector<uint16_t> homes_;
  std::vector<fb::Base> bases_;
  std::vector<uint32_t> files_;      // their numbers in the base, if they are borrowed by finish()
  uint64_t bytes_ = 0, chunks_ = 0;  // taken
};

}  // namespace ckpt::save

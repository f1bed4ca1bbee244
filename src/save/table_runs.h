// A sparse table of which the caller says what changed: only those rows are written, as a run of their own
// (TABLE_RUNS.md). The runs before are carried over: their chunks stay in the files where they lie, which get second
// names as those of any chunk that is not written again (reuse.h).
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/report.h"
#include "checkpoint/checkpoint.h"
#include "save/save.h"

namespace ckpt::save {

// Tensors of this rank's part of the base, which the new part has as they are.
struct Carried {
  struct Tensor {
    std::string_view name;
    const format::Page* page;
    const fb::Tensor* tensor;
  };
  std::shared_ptr<checkpoint::Checkpoint> base;  // null: nothing is carried over
  std::vector<Tensor> tensors;                   // by name
  std::map<uint32_t, fb::Part> files;            // of the base, by number, in which their chunks lie

  // Calls visit(file, chunk).
  template <typename Visit>
  void for_each_chunk(uint32_t rank, Visit&& visit) const {
    for (const auto& [name, page, tensor] : tensors)
      for (const fb::Region& region : page->regions_of(*tensor))
        for (const fb::Segment& segment : page->segments_of(region))
          for (const fb::Chunk& chunk : page->chunks_of(segment)) visit(base->file_of(rank, *page, chunk), chunk);
  }
};

struct CarryInput {
  session::Session& session;
  const SaveIdentity& identity;
  const SaveSettings& settings;
  Job& job;
};

// Of each table of which changes are known, makes the content hold a run of what changed, instead of all rows. The base
// is the save that the changes are counted from: the last one of this session that had the table. Where that cannot be
// (it was not committed, or its files can have one name only), all rows are written, and the report says why. The
// directory of the attempt must be open.
Result<Carried> carry_tables(const CarryInput& input, SaveContent* content);

}  // namespace ckpt::save

// One rank's share of one checkpoint: what the caller added, and the way from there to a committed checkpoint.
// collect (this file) -> layout (who writes what, where) -> part_writer (bytes) -> commit (all ranks).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "device/scatter.h"
#include "session/geometry.h"
#include "session/job.h"
#include "session/session.h"

namespace ckpt::session {

// A region of a tensor in the caller's memory.
struct SaveTensor {
  std::string name;
  uint16_t dtype = 0;
  Shape shape;
  Region region;  // in elements
  Geometry geometry;
  Region units;           // the region in moving units
  device::Memory memory;  // in moving units
  Shape memory_extent;    // of the memory, in moving units
  uint64_t replica_group = 0;
  uint32_t replica_index = 0, replica_count = 1;
  uint64_t bytes = 0;  // of the region
};

struct SaveObject {
  std::string name, media_type;
  uint8_t scope = 0;
  std::vector<std::byte> data;
};

struct SaveAlias {
  std::string name, target;
  bool is_view = false;
  int ndim = 0;
  std::vector<uint64_t> view;  // as in FORMAT: offset, extents, strides
};

struct SaveSettings {
  std::string compression, on_existing, protect;
  unsigned threads = 2;
  uint64_t staging_bytes = 0;
  int64_t timeout_ms = 0, keep_last = 0, keep_every = 0;
  bool wait = true;
};

// Everything that was added, in the order of names.
struct SaveContent {
  std::vector<SaveTensor> tensors;
  std::map<std::string, SaveObject> objects;
  std::map<std::string, SaveAlias> aliases;
  std::map<std::string, std::map<std::string, std::string>> attrs;  // by owner, "" = the checkpoint
};

class Save {
 public:
  static Result<std::shared_ptr<Save>> make(std::shared_ptr<Session> session, std::string_view label, int64_t step,
                                            const Options& options);

  Status add_tensor(std::string_view name, const ckpt_tensor_desc& desc, const void* data, uint64_t data_bytes);
  Status add_object(std::string_view name, std::string_view media_type, int32_t scope, Bytes data);
  Status add_alias(std::string_view name, std::string_view target, const ckpt_tensor_desc* view);
  Status set_attr(std::string_view tensor, std::string_view key, std::string_view value);
  const std::string& id() const { return attempt_.directory; }

  // Once: INVALID the second time. `async`: the caller's memory is to be staged before it is written.
  Status begin();
  Status work(Job& job, bool async);

 private:
  Save() = default;
  Status check_attr_owners() const;

  std::shared_ptr<Session> session_;
  SaveContent content_;
  std::set<std::string, std::less<>> names_;
  SaveSettings settings_;
  Attempt attempt_;
  int64_t step_ = -1;
  bool begun_ = false;
};

// A tensor region as a caller describes it, for saves and loads alike.
struct RegionRequest {
  uint16_t dtype = 0;
  Shape shape;
  Region region;
  Geometry geometry;
  Region units;
  device::Memory memory;  // data set, strides in moving units
  Shape memory_extent;    // in moving units
  uint64_t bytes = 0;     // that the region's elements take
};
// Checks a descriptor and the memory behind it. INVALID.
Result<RegionRequest> read_desc(const ckpt_tensor_desc& desc, const void* data, uint64_t data_bytes);

// ---- the steps, for Save::work ----

// The identity that goes into part headers and indexes.
struct SaveIdentity {
  format::Summary summary;
  uint32_t rank = 0;
  Attempt attempt;
};

// Opens the attempt (rank 0 makes its directory and decides about the label; others wait for it).
Status open_attempt(Session& session, const Attempt& attempt, const SaveSettings& settings, Job& job);
// Encodes and writes this rank's part and makes it durable under its final name.
Status write_part(Session& session, const SaveIdentity& identity, SaveContent& content, const SaveSettings& settings,
                  bool async, Job& job);
// Waits for all parts and commits (rank 0), or waits for the outcome.
Status settle(Session& session, const SaveIdentity& identity, const SaveSettings& settings, Job& job);
// Makes the failure of one rank that of all: returns `cause`, or what the slot already says.
Status give_up(Session& session, const Attempt& attempt, Status cause);

}  // namespace ckpt::session

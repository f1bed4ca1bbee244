// The table of other people's formats: how each is told, read and written. A new format is one folder, which has a
// reader (reader.h) and perhaps a writer (writer.h), and one row of the table.
#pragma once

#include <string>

#include "interop/src/read_back.h"
#include "interop/src/reader.h"
#include "interop/src/writer.h"

namespace ckpt::interop {

// What a path holds, as far as it takes to tell a format.
struct Candidate {
  std::string path;
  bool is_directory = false;  // else a regular file
  std::string head;           // of a file: its first bytes, at most kHeadBytes
  Folder folder = nullptr;    // where it is
  static constexpr size_t kHeadBytes = 512;
};

// What a format has a place for: options of an export, and sparse tables.
enum Takes : unsigned { kTakesShards = 1, kTakesShardBytes = 2, kTakesAt = 4, kTakesTables = 8 };

struct Format {
  const char* name;  // what option format says
  const char* what;  // for messages
  bool (*detect)(const Candidate& candidate);
  Result<ForeignCheckpoint> (*read)(const std::string& path, const ReadOptions& options);
  Result<ExportPlan> (*plan)(const ExportRequest& request);  // null: it is not written
  // Of an export, in the first row of a name.
  unsigned takes = 0;
  const char* no_values[2] = {};  // as in Wanted
  Wanted::Places places = nullptr;
};

// By its content. FORMAT for a file, NOT_FOUND for a directory that no format is told by, with what is accepted; the
// errors of reading it.
Result<ForeignCheckpoint> read_foreign(const std::string& path, const ReadOptions& options);

// In what option format says; "auto": by the ending of the path. INVALID for an option that the format does not have.
Status export_checkpoint(const ExportRequest& request);

}  // namespace ckpt::interop

// Several foreign checkpoints as one state: files of one model, and what a trainer wrote beside it.
#pragma once

#include <string>
#include <vector>

#include "interop/src/reader.h"

namespace ckpt::interop {

// What stands under one key of the state: one checkpoint as it is, or the entries of several dicts together. Without a
// key, the entries stand in the state itself.
struct StatePart {
  std::string key;
  std::vector<ForeignCheckpoint> content;
  bool per_rank = false;    // checkpoint r is what rank r has
  std::string around = {};  // a key around what is meant: {around: x} is x, where nothing is beside it
};

// A dict of the parts. Names of tensors begin with their part's key. FORMAT where a name comes twice, or where what is
// to be put together is no dict.
Result<ForeignCheckpoint> combine(const char* format, std::vector<StatePart> parts);

inline constexpr const char* kImportFilesAttr = "import.files";
// That attribute: which entries of the directory were taken, so that somebody can say which were not; `more`
// are those that no tensor lies in.
void keep_file_names(ForeignCheckpoint& content, const std::string& directory, std::vector<std::string> more = {});

// Fills ForeignCheckpoint::left_out, and attribute import.left_out: a trainer's directory holds more than a format
// takes, and nobody should find that out when the original is gone.
void note_left_out(ForeignCheckpoint& content, const std::string& directory, const Folder& folder);

}  // namespace ckpt::interop

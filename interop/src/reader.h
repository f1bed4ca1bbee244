// What a reader of another people's format makes of a checkpoint: what its tensors are and where their bytes lie. No
// element is read, moved or put together; whoever wants elements gets them from the files, piece by piece. An import
// (import.h) and a file in place (ckpt_file.h) are made of this alone.
//
// A format's reader is one function, named in the table of formats.cpp:
//   Result<ForeignCheckpoint> read_NAME(const std::string& path, const ReadOptions& options);
// It takes untrusted files. What it returns is checked: names are text without NUL, each once; pieces lie inside their
// tensors and hold each element once; a piece has as many bytes as its elements and strides need.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/job.h"
#include "base/status.h"
#include "base/types.h"
#include "interop/src/file_table.h"
#include "interop/src/strides.h"
#include "tree/json_text.h"
#include "tree/tree.h"

namespace ckpt::interop {

// How names of memory begin that only aliases show: no user names it.
inline constexpr std::string_view kAliasMemory = "~storage/";

// The class of records that say where a value stands which holds their place.
inline constexpr std::string_view kPlaceClass = "ckpt.Place";

// A value that a reader could not make is a record of this class, so that options can leave it out before it is an
// error: no checkpoint has one.
inline constexpr std::string_view kCannotClass = "ckpt.~cannot";
// Where `tree` takes a value. `message` is that of `why` with the file's name.
Status put_cannot(tree::Tree& tree, const Status& why, std::string_view message);
// Whether options may leave out what this error is about: it tells of the files, not of asking for them.
inline bool may_be_left_out(ckpt_status code) {
  return code == CKPT_NOT_FOUND || code == CKPT_INCOMPLETE || code == CKPT_FORMAT || code == CKPT_UNSUPPORTED ||
         code == CKPT_CORRUPT;
}
// The error of the first such record, with its path.
Status check_values(const tree::Tree& tree);

struct ReadOptions {
  bool verify = true;  // compare the checksums that the format has; without it only those of what is read anyway
  unsigned threads = 1;
  const Job* job = nullptr;  // can cancel the checks; null for none
  Folder folder = nullptr;   // where the paths are
  // Of a tensor, whether its elements will be asked for; of all where it is empty.
  std::function<bool(std::string_view name)> wants = {};

  Status check() const { return job ? job->check() : Ok(); }
};

using Attributes = tree::StringMap;

// The elements of one region, as one file has them.
struct ForeignPiece {
  Region region;                   // of the tensor: all of it, a box or a flat range
  FileRange bytes;                 // from the first element to the last, gaps between strides included
  std::optional<Strides> strides;  // in elements, where the region's do not lie in a row
  uint32_t rank = 0;               // whose part of the import gets it

  // Whether its elements have other places than those of a row; `shape` is the tensor's.
  bool lies_apart(const Shape& shape) const {
    return strides && bytes.size != 0 &&
           !is_row_major(region.kind == RegionKind::kBox ? region.box.extent : shape, *strides);
  }
};

struct ForeignTensor {
  static constexpr size_t kNoTarget = SIZE_MAX;

  std::string name;
  uint16_t dtype = 0;  // CKPT_DTYPE_*
  Shape shape;
  std::vector<ForeignPiece> pieces;  // of an alias: where its elements lie, one piece or those of its target
  Attributes attributes;
  // Of a sparse table T, how many buckets it has; else 0. Its tensors are T/ids, each T/COLUMN, and T, an alias of the
  // ids. They have a piece for each rank, with the same rows. Then the tables' order of rows is theirs to choose.
  uint64_t buckets = 0;
  // Of an alias:
  size_t target = kNoTarget;   // an earlier tensor, no alias, whose memory it shares
  uint64_t target_offset = 0;  // its first element in the flattened target
  Strides target_strides{};

  bool is_alias() const { return target != kNoTarget; }
  // The piece that is the whole tensor, where one is.
  const ForeignPiece* whole() const;
  uint64_t elements() const;
  uint64_t bytes() const;
};

// What is no tensor: shared, or one rank's own.
struct ForeignObject {
  std::string name, media_type;
  std::optional<uint32_t> rank;
  FileRange bytes;
};

// The tensors of a sparse table, by their positions.
struct ForeignTable {
  std::string name;
  size_t ids = 0;
  std::vector<size_t> columns;
  std::string column_name(const ForeignTensor& tensor) const { return tensor.name.substr(name.size() + 1); }
};

struct ForeignCheckpoint {
  const char* format = "";  // "pt", "pt-legacy": static text
  std::string archive;      // of a .pt: PtSource::archive()
  uint32_t ranks = 1;       // of the import, which has as many parts
  FileTable files;
  std::vector<ForeignTensor> tensors;
  std::optional<tree::Tree> tree;  // none: a dict of all tensors by their names
  std::vector<ForeignObject> objects;
  Attributes attributes;
  // Of a directory: what is in it and was not read, some of it by name. A directory's name ends in '/'.
  std::vector<std::string> left_out;
  std::vector<std::shared_ptr<const void>> keep;  // whose memory `files` points into
  // Of a format that says where elements lie beside each of them only: until it was called, pieces have no bytes.
  // `first`: what else was put before its tensors and files.
  struct First {
    size_t tensor = 0, file = 0;
  };
  std::function<Status(ForeignCheckpoint& self, First first, const ReadOptions& options)> locate;

  // Before the bytes of pieces are wanted. What failed once fails again: some pieces may have no bytes then.
  Status find_elements(const ReadOptions& options) {
    if (locate) located = std::exchange(locate, nullptr)(*this, {}, options);
    return located;
  }
  Status located;

  // Adds to attribute import.unchecked, how many of the things that have a checksum in other files have none here.
  void add_unchecked(uint64_t count);

  // Tensors that cannot be had, as entries of the tree, which is made of all names.
  Status put_cannots(const std::vector<std::pair<std::string, Status>>& cannot);
  // The tree, made where there is none. FORMAT for names that cannot be keys.
  Result<tree::Tree> take_tree();
  // UNSUPPORTED where a change took or renamed some tensors of a table only, or made others of them.
  Result<std::vector<ForeignTable>> tables() const;
};

// What torch makes of a tensor's stored elements when it uses them: records of the tree say it, and nothing else does.
struct TorchMarks {
  bool conj = false, neg = false, quantized = false;

  bool any() const { return conj || neg || quantized; }
  bool operator==(const TorchMarks&) const = default;
  std::string verb() const;  // "conjugates", "negates", "conjugates and negates", "scales"
};
// Of the tensors that have any, by their names.
std::map<std::string, TorchMarks> torch_marks(const tree::Tree& tree);

}  // namespace ckpt::interop

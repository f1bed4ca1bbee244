// Tensors that several files hold in pieces, put together by name: the files say what they have, one after another, and
// at the end every element must be there once. No element is moved. One thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/reader.h"

namespace ckpt::interop {

class PieceJoiner {
 public:
  // `where` begins messages: the directory. With `verify` replicas must be equal.
  PieceJoiner(std::string where, const ReadOptions& options)
      : where_(std::move(where)), compare_(options.verify), folder_(options.folder) {}

  // A tensor of which `file` has something, or says that others have it; its number. MISMATCH where another file said
  // otherwise, FORMAT for what no tensor is.
  Result<size_t> tensor(const std::string& name, uint16_t dtype, const Shape& shape, const std::string& file);
  // Elements of it that `file` has: in a row, or from the first to the last with strides. `bytes` must stay, and lie in
  // a file of the table that finish() gets or in memory. A region that another file has too is a replica, of which the
  // first counts; one that differs is a MISMATCH. FORMAT for a region outside and for other bytes than it takes.
  Status add(size_t tensor, const Region& region, Bytes bytes, const std::optional<Strides>& strides,
             const std::string& file);
  // Elements [first, first + bytes) of a box of it, in the box's row-major order: at most 2n - 1 boxes.
  Status add_range(size_t tensor, const Box& within, uint64_t first, Bytes bytes, const std::string& file);

  size_t count() const { return tensors_.size(); }
  // All of them, of rank 0, in the order in which they came. INCOMPLETE where elements are missing, MISMATCH where two
  // pieces hold the same ones; with the tensor and the files.
  Result<std::vector<ForeignTensor>> finish(FileTable& files) &&;

 private:
  struct Piece {
    Region region;
    Bytes bytes;
    std::optional<Strides> strides;
    size_t file;  // in files_
  };
  struct Joined {
    std::string name;
    uint16_t dtype = 0;
    Shape shape;
    size_t file = 0;  // that said so first
    std::vector<Piece> pieces;
    std::map<std::vector<uint64_t>, size_t> by_region;
  };
  size_t number_of(const std::string& file);
  Status refuse(const Joined& joined, const std::string& file, ckpt_status code, const std::string& what) const;
  Status check(const Joined& joined) const;
  Status compare(const Joined& joined, const Piece& first, const Piece& other) const;

  std::string where_;
  bool compare_;
  Folder folder_;
  std::vector<Joined> tensors_;
  std::map<std::string, size_t> by_name_;
  std::vector<std::string> files_;
  std::map<std::string, size_t> by_file_;
};

// Elements of a tensor, as one file has them.
struct Held {
  Bytes bytes;
  std::optional<Strides> strides;  // in elements, where they do not lie in a row
};
// Whether these have the same elements, of one dtype and shape, which must be whole bytes where there are strides. Of a
// folder the bytes are fetched: of elements in a row window by window, each once.
Result<bool> same_elements(uint16_t dtype, const Shape& shape, const std::vector<Held>& all, const Folder& folder);

}  // namespace ckpt::interop

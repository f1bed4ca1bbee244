// A file that nobody wrote: tensors whose bytes are computed from others' when they are asked for, as a web server's
// are fetched (remote_file.h). So a save, an export or a view of mapped tensors needs no tensor whole.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/file_table.h"
#include "interop/src/map/view.h"
#include "interop/src/reader.h"
#include "store/store.h"

namespace ckpt::interop {

// One source of a computed tensor, and the place of its elements.
struct ComputedPart {
  const ForeignTensor* source = nullptr;
  View view;
  int axis = 0;     // along which it has its place
  uint64_t at = 0;  // there
};

// Computed tensors, one after another. Thread-safe once all are added.
class ComputedFile final : public store::Reader {
 public:
  // Elements of `from`, which become elements of `dtype`; the parts make up all of `shape`. The tensor's place in the
  // file. Opens the files of the sources, which must outlive this one. UNSUPPORTED for packed elements.
  Result<FileRange> add(uint16_t from, uint16_t dtype, const Shape& shape, const std::vector<ComputedPart>& parts,
                        FileTable& files);

  uint64_t size() const override { return size_; }
  Status read_at(uint64_t offset, MutableBytes out) const override;
  Result<Bytes> map() const override { return Status(CKPT_UNSUPPORTED, "computed tensors are not mapped"); }

 private:
  struct Piece {
    Region region;
    Bytes bytes;
    Strides strides{};  // in elements
    std::shared_ptr<RemoteFile> remote;
    uint64_t offset = 0;  // in the file
    ByteRange wanted;     // there, by the part
  };
  // Nested: `extent` steps, each `to` elements of the target and `step` of the source along `dim`.
  struct Loop {
    uint64_t extent, to, step;
    int dim;
  };
  struct Part {
    Shape shape, start;  // of the source
    Strides flat{};      // of the source's elements in a row
    std::vector<Piece> pieces;
    std::vector<Loop> loops;
    std::vector<uint64_t> spans;  // of the loops from each on: the last element of the target less the first
    uint64_t to = 0;
  };
  struct Computed {
    uint64_t offset = 0, elements = 0;
    uint16_t from = 0, dtype = 0;
    std::vector<Part> parts;
  };
  struct Run;
  // Bytes of a piece from `begin` on.
  struct Window {
    uint64_t begin = 0;
    std::vector<std::byte> bytes;
  };
  using Windows = std::map<const Piece*, Window>;

  static Result<Part> part_of(const ComputedPart& given, const Shape& shape, FileTable& files);
  static void set_wanted(Part& part, size_t width);
  static void flatten(Part& part);
  static void join_loops(Part& part);
  template <typename F>
  static Status walk(const Part& part, uint64_t begin, uint64_t end, F&& each);
  static Status resolve(const Part& part, const Shape& index, const Loop& loop, uint64_t count, Run* run);
  static Result<Windows> read(const Part& part, uint64_t begin, uint64_t end, size_t width);
  static Status gather(const Computed& tensor, uint64_t begin, uint64_t end, std::byte* out);
  static Status compute(const Computed& tensor, uint64_t begin, uint64_t end, std::byte* out);

  std::vector<Computed> tensors_;  // by their offsets
  uint64_t size_ = 0;
};

}  // namespace ckpt::interop

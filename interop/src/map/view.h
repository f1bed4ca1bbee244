// Which elements of a source become which of a target: a tensor as loops over the elements of another. Each operation
// of a mapping only changes the loops, so nothing is moved before somebody asks for bytes. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::interop {

// "(H 2 d) in -> (H d 2) in": dimensions on the left are taken apart, and put together on the right in another order.
// A number and a variable of the mapping have their size; of the other words of a group one has what remains. So it is
// a view, a permutation, a transposition, or all of them; and exchanging the sides undoes it.
struct Rearrange {
  using Groups = std::vector<std::vector<std::string>>;
  Groups from, to;

  static Result<Rearrange> parse(std::string_view text);  // INVALID
  Rearrange backwards() const { return {to, from}; }
};

class View {
 public:
  // What a size is called by: 0 for what is no variable.
  using SizeOf = std::function<Result<uint64_t>(const std::string& word)>;

  // `extent` steps of `step` along dimension `dim` of the source.
  struct Loop {
    uint64_t extent = 1;
    int dim = 0;
    uint64_t step = 1;
  };
  using Axis = std::vector<Loop>;  // outermost first; none: an extent of 1

  static View of(const Shape& source);
  // MISMATCH where sizes do not fit.
  Status rearrange(const Rearrange& how, const SizeOf& size_of);
  // Elements [begin, begin + size) of a dimension.
  Status narrow(int axis, uint64_t begin, uint64_t size);

  int ndim() const { return static_cast<int>(axes_.size()); }
  uint64_t extent(int axis) const;
  Shape shape() const;
  const std::vector<Axis>& axes() const { return axes_; }
  // The source's element that is the first here.
  const Shape& start() const { return start_; }
  bool is_identity() const;

 private:
  std::vector<Axis> axes_;
  Shape source_, start_;
};

}  // namespace ckpt::interop

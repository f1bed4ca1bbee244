// Tensors that share memory. What lies inside another tensor is an alias of it and is not saved again; where tensors
// overlap only in part, the memory of all of them is saved as one tensor more, NAME~memory, and each is an alias of
// that. No path has "~m" in it (schemas/STATE_TREE.md section 4), so that name is free.
//
// Tensors with gaps between their elements (columns of a matrix) become aliases of a tensor without gaps that they lie
// in. If there is none, each is saved by itself, but for those that have elements in common with others, or one twice
// (strides (1, 1)): these are parts of the memory that is saved as NAME~memory, gaps included. So what is saved can be
// loaded into the same memory again. Tensors of different dtypes are saved by themselves.
#pragma once

#include "memory.h"

namespace ckpt_py {

struct Named {
  std::string name;
  const Memory* memory;
};

// A view of `target`, in elements; without a layout, the whole target.
struct Alias {
  std::string name, target;
  const Memory* layout;
  int64_t offset;
};

// The memory of tensors without gaps that overlap, from the first to the end of the last.
struct Span {
  uintptr_t start, end;
  std::string name;
  std::vector<const Named*> members;
};

struct Sharing {
  std::vector<Alias> aliases;
  std::vector<Span> spans;  // those that no tensor fills
};

Sharing find_sharing(const std::vector<Named>& tensors);

void bind_sharing(nanobind::module_& m);

}  // namespace ckpt_py

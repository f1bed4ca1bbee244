// Memory of a save's caller that is filled only as the save comes to it (ckpt_late_memory of ckpt_layer.h): an import
// from a web server, which would not fit into memory whole. Called by the threads of the save.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::save {

class LateMemory {
 public:
  virtual ~LateMemory() = default;
  // Fills samples of what is to come, and returns once they are there.
  virtual Status fill(const std::vector<Bytes>& samples) = 0;
  // What the save will read: the memory of block after block, in this order. Ranges of other memory may be among them.
  virtual Status begin(std::vector<std::vector<Bytes>> blocks) = 0;
  // Returns once a block is there. Asks `go_on` now and then, and ends with its error.
  virtual Status wait(size_t block, const std::function<Status()>& go_on) = 0;
  // Nobody reads that block any more.
  virtual void done(size_t block) = 0;
};

}  // namespace ckpt::save

// How ranks come to one outcome. One thread.
#ifndef CKPT_TORCH_GROUP_H
#define CKPT_TORCH_GROUP_H

#include "errors.h"

namespace ckpt_torch {
namespace internal {

// COLLECTIVE with a group. Every rank says how it fared; where one failed, all throw the same error, which names the
// rank. Returns each rank's `word`; without a group this rank's alone.
std::vector<std::string> agree(Group* group, const std::optional<Error>& own, const std::string& word = {});

// What `body` threw, if it did.
template <class Body>
std::optional<Error> caught(Body&& body) {
  try {
    body();
  } catch (...) {
    return current_error();
  }
  return std::nullopt;
}

}  // namespace internal
}  // namespace ckpt_torch
#endif

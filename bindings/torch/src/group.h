// How ranks agree on one outcome. One thread.
#ifndef CKPT_TORCH_GROUP_H
#define CKPT_TORCH_GROUP_H

#include "errors.h"

namespace ckpt_torch {
namespace internal {

// COLLECTIVE with a group. Every rank passes its error, if any; if one failed, all throw the same error, which names
// the rank. Returns each rank's `word`; without a group only this rank's.
std::vector<std::string> agree(Group* group, const std::optional<Error>& own, const std::string& word = {});

// COLLECTIVE with a group. MISMATCH on all ranks, with both values, unless all give the same by each name.
void same_on_all(Group* group, const std::vector<std::pair<std::string, std::string>>& named);

// Texts as one text, to be sent as a word, and back.
std::string packed(const std::vector<std::string>& words);
std::vector<std::string> unpacked(const std::string& text);

// The error that `body` threw, if any.
template <class Body>
std::optional<Error> caught(Body&& body) {
  try {
    body();
  } catch (...) {
    return current_error();
  }
  return std::nullopt;
}

// An error that `body` throws begins with `told`.
template <class Body>
void named(const std::string& told, Body&& body) {
  if (const auto error = caught(body))
    throw told.empty() ? *error : Error(error->status(), told + ": " + error->what(), error->details());
}

}  // namespace internal
}  // namespace ckpt_torch
#endif

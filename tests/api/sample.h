// A small three-rank checkpoint with one of everything, and what the damage tests do with it. Uses only ckpt.h.
#pragma once

#include <functional>
#include <optional>

#include "api/ranks.h"
#include "golden/contents.h"

namespace ckpt_test {

ckpt_golden::Contents sample_contents(const std::string& compression = "auto");

// The sample, saved into a scratch directory.
class Sample {
 public:
  explicit Sample(ckpt_golden::Contents contents = sample_contents());

  const std::string& id() const { return id_; }
  std::string file(const std::string& name) const { return directory_ / (id_ + "/" + name); }
  const Scratch& scratch() const { return directory_; }
  const ckpt_golden::Contents& contents() const { return contents_; }
  const ckpt_store* store() const { return store_.get(); }
  Reader open() const;  // expects success
  ckpt_status try_open(std::string* problem = nullptr) const;
  // Saves `contents` into the same store. Returns its id.
  std::string save(const ckpt_golden::Contents& contents) const;

 private:
  Scratch directory_;
  Store store_;
  ckpt_golden::Contents contents_;
  std::string id_;
};

// Loads all tensors, aliases and objects. OK: every byte came. `right` tells whether they are those of `contents`.
ckpt_status load_all(const ckpt_reader* reader, const ckpt_golden::Contents& contents, bool* right,
                     std::string* problem = nullptr);

// One byte of a file, changed in place as long as this object exists.
class Patch {
 public:
  Patch(const std::string& path, uint64_t offset, unsigned char byte);
  ~Patch();

 private:
  int fd_;
  uint64_t offset_;
  unsigned char before_;
};

}  // namespace ckpt_test

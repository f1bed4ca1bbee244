// A small three-rank checkpoint with one of everything, and what the damage tests do with it. Uses only ckpt.h.
#pragma once

#include <functional>
#include <optional>

#include "api/support.h"
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

struct Found {
  int32_t kind;
  ckpt_status status;
  std::string text, name, part;
  uint64_t offset, size, count;
  int64_t first, last;
  double max_abs, max_rel;
};
std::vector<Found> findings_of(const ckpt_report* report);
// The findings of a verify job that must end OK.
std::vector<Found> verify(const ckpt_reader* reader, const std::vector<Setting>& settings = {{"threads", 1}});
std::string to_text(const std::vector<Found>& found);

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

// Which files a tag's directory has, and one of them, opened: its state and its tensors.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "interop/src/reader.h"
#include "interop/src/seeded_hash.h"
#include "tree/tree.h"

namespace ckpt::interop {

struct DeepSpeedFiles {
  std::string directory;            // with its slash
  std::vector<std::string> model;   // of ZeRO-3 by rank; else mp_rank_00's alone
  std::vector<std::string> optim;   // by rank; none without ZeRO
  std::vector<std::string> others;  // of more tensor-parallel ranks, layers and experts
  bool universal = false;           // it has zero/
};

// The tag's directory: `path`, or what `latest` there names. NOT_FOUND, FORMAT.
Result<std::string> deepspeed_directory(const std::string& path, const Folder& folder);
// INCOMPLETE where the file of a rank is missing before another.
Result<DeepSpeedFiles> deepspeed_files(const std::string& directory, const Folder& folder);
bool holds_deepspeed(const std::string& directory, const Folder& folder);

// A .pt of DeepSpeed. Its files go to the checkpoint that is being made.
class DeepSpeedFile {
 public:
  // MISMATCH for one that was written as the file of another rank, or as another of those `beside` it (sorted).
  static Result<DeepSpeedFile> open(const std::string& path, const ReadOptions& options, ForeignCheckpoint& to,
                                    const std::vector<std::string>& beside = {});

  const std::string& path() const { return path_; }
  const tree::Tree& tree() const { return tree_; }
  const std::vector<ForeignTensor>& tensors() const { return tensors_; }

  // The node under a key of a dict (of an OrderedDict as well); kNoNode for none, and where `node` is no dict.
  uint32_t find(uint32_t node, std::string_view key) const;
  uint32_t find(uint32_t node, int64_t key) const;
  // The first entry of a dict, list or tuple; kNoNode.
  uint32_t first(uint32_t node) const;
  uint32_t next(uint32_t node) const { return tree_[node].next; }
  bool is_dict(uint32_t node) const;
  bool is_null(uint32_t node) const;
  // The tensor that a node is, by itself or as torch's record of it; SIZE_MAX for another value.
  size_t tensor(uint32_t node) const;
  // FORMAT with the path of the node.
  Result<uint64_t> number(uint32_t node) const;
  Result<Shape> shape(uint32_t node) const;
  Status wrong(uint32_t node, const std::string& what) const;

 private:
  uint32_t entries(uint32_t node) const;

  std::string path_;
  tree::Tree tree_;
  std::vector<ForeignTensor> tensors_;
  std::unordered_map<std::string, size_t, SeededHash> by_name_;
};

}  // namespace ckpt::interop

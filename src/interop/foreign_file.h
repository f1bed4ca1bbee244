// Other people's checkpoint files, opened in place (ckpt_file.h): what each holds as a state tree and tensors in its
// mapping. Takes untrusted bytes. Const calls are thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/tree.h"
#include "interop/files.h"
#include "interop/foreign_tensor.h"
#include "interop/pt/source.h"

namespace ckpt::interop {

enum class ForeignFormat : uint8_t { kPt, kPtLegacy, kSafetensors };
const char* format_name(ForeignFormat format);  // "pt", "pt-legacy", "safetensors"

// By its first bytes; what is no .pt of any form is taken for safetensors.
Result<bool> is_pt_file(const std::string& path);

class ForeignFile {
 public:
  // `verify`: the CRC-32 of every entry of a zip, on `threads` threads. NOT_FOUND, FORMAT, UNSUPPORTED, CORRUPT, IO.
  static Result<ForeignFile> open(const std::string& path, bool verify, unsigned threads);
  // The same of bytes in memory, which must outlive it.
  static Result<ForeignFile> parse(const std::string& name, Bytes bytes, bool verify, unsigned threads);

  ForeignFormat format() const { return format_; }
  // A tensor that shares memory comes after its target.
  const std::vector<ForeignTensor>& tensors() const { return tensors_; }
  const format::Tree& tree() const { return tree_; }
  // The tree, for somebody else to keep; at most once.
  format::Tree take_tree() { return std::move(tree_); }
  // Zip entries whose CRC-32 the file lacks.
  size_t unchecked() const { return pt_ ? pt_->unchecked() : 0; }

 private:
  ForeignFile() = default;
  Status read_pt(PtSource source);
  Status read_safetensors(const std::string& name, Bytes bytes);

  ForeignFormat format_ = ForeignFormat::kPt;
  std::optional<PtSource> pt_;
  std::optional<MappedFile> file_;
  std::vector<ForeignTensor> tensors_;
  format::Tree tree_;
};

}  // namespace ckpt::interop

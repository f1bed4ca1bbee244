// The .pt files of PyTorch: the row of formats.cpp, and what other formats that are made of such files share.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interop/src/formats.h"
#include "interop/src/pt/storage_plan.h"
#include "interop/src/zip/writer.h"

namespace ckpt::interop {

// ---- reader.cpp ----
bool is_pt(const Candidate& candidate);
bool is_pickle(const Candidate& candidate);  // what pickle.dump wrote
// Its tensors from the mapping, what shares memory as aliases, all else as the state tree.
Result<ForeignCheckpoint> read_pt(const std::string& path, const ReadOptions& options);
// The same of what lies in a part of a file of this machine; `path` is for messages.
Result<ForeignCheckpoint> read_pt_in(const std::string& path, InputFile file, Bytes part, const ReadOptions& options);
// MISMATCH for a file whose ForeignCheckpoint::archive says that torch wrote it as `written` beside it.
Status written_as_another(const std::string& path, const std::string& written);
// Attributes of an import: the format's name, and how much of it has no CRC-32.
Attributes import_attributes(const char* format, size_t unchecked);

// ---- writer.cpp ----
// What torch.load(weights_only=True) makes the checkpoint's main tree of. UNSUPPORTED (a dtype that torch lacks; a
// record that weights_only refuses, unless option opaque is "dict"), FORMAT (a tree that does not fit its checkpoint).
Result<ExportPlan> plan_pt(const ExportRequest& request);
// The value of a node as a file; its archive begins at byte `at`. With `trusting` objects of a few harmless classes
// (encoder.h) are written as such, for programs that load without weights_only.
struct PtFileOptions {
  bool trusting = false;
  uint64_t at = 0;
  std::function<bool(uint32_t node)> keep = {};  // which children of the node; all where it is empty
};
Result<ExportFile> pt_file_of(const ExportRequest& request, const tree::Tree& tree, uint32_t node, std::string name,
                              const PtFileOptions& options);

// An archive of torch's zip form, from front to back: the pickle, its storages, the end.
class PtArchive {
 public:
  // At `at`, where the file ends.
  Status begin(OutputFile& file, uint64_t at, std::string_view pickle);
  // The next bytes of storage `key`.
  Status write(size_t key, const TensorStream::Piece& piece, Bytes data);
  Status end();
  uint64_t size() const { return zip_->size(); }

 private:
  std::optional<ZipWriter> zip_;
};

// One file in torch's zip form. Storage i has the key i.
ExportFile pt_file(std::string name, std::string pickle, const std::vector<PtStorage>& storages, uint64_t at = 0);

}  // namespace ckpt::interop

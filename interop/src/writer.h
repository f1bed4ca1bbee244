// What a writer of another people's format makes of a checkpoint: the files it will write, each with the ranges of
// tensors that it holds. The plan is made and checked first, from the reader's names alone; write_export carries it
// out, through one buffer of bounded size.
//
// A format's writer is one function, named in the table of formats.cpp:
//   Result<ExportPlan> plan_NAME(const ExportRequest& request);
// It says what the format cannot express (UNSUPPORTED, MISMATCH, FORMAT) before anything is written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/job.h"
#include "base/status.h"
#include "interop/src/client.h"
#include "interop/src/files.h"
#include "interop/src/state.h"
#include "interop/src/tensor_stream.h"

namespace ckpt::interop {

struct ExportRequest {
  State reader;      // what is written
  std::string path;  // must not exist; appears complete or not at all
  ExportOptions options;
  Job& job;  // tells how far it is, and can cancel it
};

// The bytes of one file, from front to back.
class FileBody {
 public:
  virtual ~FileBody() = default;
  virtual Status begin(OutputFile& file) = 0;
  // The elements of the file's ranges, in their order.
  virtual Status write(OutputFile& file, std::span<const TensorStream::Piece> pieces, Bytes bytes) = 0;
  virtual Status end(OutputFile&) { return Ok(); }
};

// Text, then elements as they are.
class PlainBody final : public FileBody {
 public:
  explicit PlainBody(std::string head) : head_(std::move(head)) {}
  Status begin(OutputFile& file) override { return file.write(as_bytes(head_)); }
  Status write(OutputFile& file, std::span<const TensorStream::Piece>, Bytes bytes) override {
    return file.write(bytes);
  }

 private:
  std::string head_;
};

struct ExportFile {
  std::string name;  // in the directory, or in one of its directories: "epoch_0/model.safetensors"
  std::unique_ptr<FileBody> body;
  std::vector<TensorRange> ranges;
  uint64_t bytes = 0;      // at least; room for them is taken at once
  bool is_packed = false;  // the file will be smaller
};
inline ExportFile text_file(std::string name, std::string text) {
  const uint64_t bytes = text.size();
  return {std::move(name), std::make_unique<PlainBody>(std::move(text)), {}, bytes};
}

struct ExportPlan {
  bool is_directory = false;  // else `files` is one
  std::vector<ExportFile> files;
};

// EXISTS, CORRUPT, IO, NO_SPACE.
Status write_export(const ExportRequest& request, const ExportPlan& plan);

}  // namespace ckpt::interop

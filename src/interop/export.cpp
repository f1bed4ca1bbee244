// Export: the plan is made and checked first; then each file is filled from front to back through one buffer of bounded
// size, under a temporary name beside the target, and appears in one step.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "interop/calls.h"
#include "interop/export_plan.h"
#include "interop/file_set.h"
#include "interop/files.h"
#include "interop/interop.h"

namespace ckpt::interop {

namespace {

constexpr uint64_t kBufferBytes = 64 << 20;

// Elements [begin, begin + size) of a tensor.
struct Piece {
  const Tensor* tensor;
  uint64_t begin, size, bytes;
};

// Gathers neighbouring pieces of a file into one load and one write.
class Copier {
 public:
  Copier(const ckpt_reader* reader, const ckpt_options* options, OutputFile& file, MutableBytes buffer)
      : reader_(reader), options_(options), file_(file), buffer_(buffer) {}

  Status add(const Tensor& tensor) {
    const uint64_t bytes = tensor.end - tensor.begin;
    if (bytes == 0) return Ok();
    CKPT_ASSIGN(const uint64_t elements, element_count(tensor.shape));
    // A multiple of 8 elements ends at a whole byte, whatever the dtype.
    const auto bits = static_cast<uint64_t>(dtype_bits(tensor.dtype));
    const uint64_t step = bytes <= buffer_.size() ? elements : buffer_.size() / bits * 8;
    for (uint64_t begin = 0; begin < elements; begin += step) {
      const uint64_t size = std::min(step, elements - begin);
      CKPT_ASSIGN(const uint64_t piece_bytes, element_bytes(size, tensor.dtype));
      CKPT_TRY(add({&tensor, begin, size, piece_bytes}));
    }
    return Ok();
  }

  Status flush() {
    if (used_ == 0) return Ok();
    const LoadHandle load = std::move(load_);
    CKPT_TRY(call([&](ckpt_error** err) { return ckpt_load_run(load.get(), err); }));
    return file_.write(buffer_.first(std::exchange(used_, 0)));
  }

 private:
  Status add(const Piece& piece) {
    if (piece.bytes > buffer_.size() - used_) CKPT_TRY(flush());
    if (!load_) {
      ckpt_load* made = nullptr;
      CKPT_TRY(call([&](ckpt_error** err) { return ckpt_load_new(&made, reader_, options_, err); }));
      load_.reset(made);
    }
    const ckpt_tensor_desc desc = describe(piece);
    CKPT_TRY(call([&](ckpt_error** err) {
      return ckpt_load_add_tensor(load_.get(), piece.tensor->name.c_str(), &desc, buffer_.data() + used_, piece.bytes,
                                  CKPT_DEVICE_CPU, 0, err);
    }));
    used_ += piece.bytes;
    return Ok();
  }

  static ckpt_tensor_desc describe(const Piece& piece) {
    const Tensor& tensor = *piece.tensor;
    const bool whole = piece.bytes == tensor.end - tensor.begin;
    ckpt_tensor_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = tensor.dtype;
    desc.ndim = tensor.shape.ndim;
    desc.region_kind = whole ? CKPT_REGION_WHOLE : CKPT_REGION_FLAT;
    for (int i = 0; i < tensor.shape.ndim; i++) desc.shape[i] = static_cast<int64_t>(tensor.shape[i]);
    if (whole) return desc;
    desc.flat_offset = static_cast<int64_t>(piece.begin);
    desc.flat_size = static_cast<int64_t>(piece.size);
    return desc;
  }

  const ckpt_reader* reader_;
  const ckpt_options* options_;
  OutputFile& file_;
  MutableBytes buffer_;
  uint64_t used_ = 0;
  LoadHandle load_;
};

struct Job {
  const ckpt_reader* reader;
  const ckpt_options* options;
  MutableBytes buffer;
};

Status write_file(const Job& job, const PlannedFile& planned, const std::string& header, const std::string& path) {
  CKPT_ASSIGN(OutputFile file, OutputFile::create(path));
  CKPT_TRY(file.reserve(header.size() + planned.data_bytes));
  CKPT_TRY(file.write(as_bytes(header)));
  Copier copier(job.reader, job.options, file, job.buffer);
  for (const Tensor& tensor : planned.tensors) CKPT_TRY(copier.add(tensor));
  CKPT_TRY(copier.flush());
  return file.sync();
}

Status write_text(const std::string& text, const std::string& path) {
  CKPT_ASSIGN(OutputFile file, OutputFile::create(path));
  CKPT_TRY(file.write(as_bytes(text)));
  return file.sync();
}

Result<std::vector<std::string>> make_headers(const ExportPlan& plan) {
  std::vector<std::string> headers;
  for (const PlannedFile& file : plan.files) {
    CKPT_ASSIGN(std::string header, make_header(file.tensors, file.metadata));
    headers.push_back(std::move(header));
  }
  return headers;
}

Status write_files(const Job& job, const ExportPlan& plan, const std::vector<std::string>& headers, bool split,
                   const std::string& place) {
  for (size_t i = 0; i < plan.files.size(); i++)
    CKPT_TRY(write_file(job, plan.files[i], headers[i], split ? place + '/' + plan.files[i].name : place));
  return plan.index ? write_text(*plan.index, place + '/' + kIndexFile) : Ok();
}

uint64_t largest(const ExportPlan& plan) {
  uint64_t bytes = 1;
  for (const PlannedFile& file : plan.files) bytes = std::max(bytes, file.data_bytes);
  return bytes;
}

}  // namespace

Status export_checkpoint(const ckpt_reader* reader, const char* path, const ckpt_options* given) {
  if (!reader || !path || !*path) return Status(CKPT_INVALID, "export: reader and path must not be NULL or empty");
  const std::string target = path;
  const bool split = !target.ends_with(kSuffix);
  CKPT_ASSIGN(const ExportPlan plan, plan_export(reader, split));
  CKPT_ASSIGN(const std::vector<std::string> headers, make_headers(plan));
  CKPT_ASSIGN(Output output, split ? Output::begin_directory(target) : Output::begin_file(target));

  const ckpt_options options{options_for(given, "export")};
  const uint64_t size = std::min(kBufferBytes, largest(plan));
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(size);
  const Job job{reader, &options, {buffer.get(), size}};
  CKPT_TRY(write_files(job, plan, headers, split, output.temporary()));
  return output.publish();
}

}  // namespace ckpt::interop

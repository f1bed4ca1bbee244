// The plan is made and checked first; then each file is filled from front to back through one buffer of bounded size,
// under a temporary name beside the target, and appears in one step.
#include "interop/safetensors/export.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "interop/calls.h"
#include "interop/files.h"
#include "interop/safetensors/export_plan.h"
#include "interop/safetensors/file_set.h"
#include "interop/tensor_stream.h"

namespace ckpt::interop {

namespace {

struct Job {
  const ckpt_reader* reader;
  const ckpt_options* options;
  MutableBytes buffer;
};

Status write_file(const Job& job, const PlannedFile& planned, const std::string& header, const std::string& path) {
  CKPT_ASSIGN(OutputFile file, OutputFile::create(path));
  CKPT_TRY(file.reserve(header.size() + planned.data_bytes));
  CKPT_TRY(file.write(as_bytes(header)));
  TensorStream stream(job.reader, job.options, job.buffer,
                      [&](std::span<const TensorStream::Piece>, Bytes bytes) { return file.write(bytes); });
  for (const Tensor& tensor : planned.tensors) {
    CKPT_ASSIGN(const uint64_t elements, element_count(tensor.shape));
    CKPT_TRY(stream.add(0, {tensor.name, tensor.dtype, tensor.shape, 0, elements}));
  }
  CKPT_TRY(stream.flush());
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

Status export_safetensors(const ckpt_reader* reader, const std::string& target, const ckpt_options* options) {
  const bool split = !target.ends_with(kSuffix);
  CKPT_ASSIGN(const ExportPlan plan, plan_export(reader, split));
  CKPT_ASSIGN(const std::vector<std::string> headers, make_headers(plan));
  CKPT_ASSIGN(Output output, split ? Output::begin_directory(target) : Output::begin_file(target));

  const uint64_t size = std::min(TensorStream::kBufferBytes, largest(plan));
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(size);
  const Job job{reader, options, {buffer.get(), size}};
  CKPT_TRY(write_files(job, plan, headers, split, output.temporary()));
  return output.publish();
}

}  // namespace ckpt::interop

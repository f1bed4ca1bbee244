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
#include "interop/hfai_export.h"
#include "interop/interop.h"
#include "interop/pt_export.h"
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

std::string format_of(const Options& bag, const std::string& target) {
  const std::string format = bag.str("format");
  if (format != "auto") return format;
  return target.ends_with(".pt") || target.ends_with(".pth") ? "pt" : "safetensors";
}

}  // namespace

Status export_checkpoint(const ckpt_reader* reader, const char* path, const ckpt_options* given) {
  if (!reader || !path || !*path) return Status(CKPT_INVALID, "export: reader and path must not be NULL or empty");
  const ckpt_options options{options_for(given, "export")};
  const Options& bag = options.bag;
  const std::string format = format_of(bag, path);
  const bool opaque_as_dict = bag.str("opaque") == "dict";
  if (bag.is_set("shards") && format != "hfai")
    return Status(CKPT_INVALID, "export: option shards is for format hfai, found format " + format)
        .with("found", format);
  if (format == "pt") return export_pt(reader, path, opaque_as_dict, &options);
  if (format == "safetensors") return export_safetensors(reader, path, &options);
  return export_hfai(reader, path, {static_cast<uint32_t>(bag.integer("shards")), opaque_as_dict}, &options);
}

}  // namespace ckpt::interop

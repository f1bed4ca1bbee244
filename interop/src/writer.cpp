#include "interop/src/writer.h"

#include "base/text.h"
#include "interop/src/outer_call.h"
#include "interop/src/unpacked.h"
#include "tree/json_text.h"

namespace ckpt::interop {

static Status write_file(const ExportRequest& request, const ExportFile& planned, OutputFile file,
                         MutableBytes buffer) {
  if (!planned.is_packed) CKPT_TRY(file.reserve(planned.bytes));
  CKPT_TRY(planned.body->begin(file));
  TensorStream stream(request.reader, reading_options(request.options), buffer,
                      [&](std::span<const TensorStream::Piece> pieces, Bytes bytes) -> Status {
                        CKPT_TRY(request.job.check());
                        request.job.counters.bytes_done += bytes.size();
                        return planned.body->write(file, pieces, bytes);
                      });
  for (size_t i = 0; i < planned.ranges.size(); i++) CKPT_TRY(stream.add(i, planned.ranges[i]));
  CKPT_TRY(stream.flush());
  CKPT_TRY(planned.body->end(file));
  return file.sync();
}

// Views may repeat elements (a stride of 0), so that a checkpoint of a few KiB has tensors of terabytes. A format
// without views would write them all.
static Status check_bytes(const ExportRequest& request, const ExportPlan& plan) {
  uint64_t stored = 0, planned = 0, largest = 0;
  std::string name;
  for (uint64_t i = 0; i < request.reader.tensor_count(); i++) {
    CKPT_ASSIGN(const ckpt_tensor_info info, request.reader.tensor(i));
    uint64_t bytes = 0;
    if (!info.alias_of && !add_overflows(stored, info.bytes, &bytes)) stored = bytes;
    if (info.alias_of && info.bytes > largest) {
      largest = info.bytes;
      name = info.name;
    }
  }
  for (const ExportFile& file : plan.files)
    if (add_overflows(planned, file.bytes, &planned)) planned = UINT64_MAX;
  if (planned <= most_unpacked(stored) || name.empty()) return Ok();
  return Status(
             CKPT_UNSUPPORTED,
             strformat("export: tensor {} has {} bytes, though the whole checkpoint keeps {}: a view repeats elements, "
                       "and the format would write each; expected format pt, or option exclude={}",
                       shown(name), largest, stored, name))
      .with("tensor", name);
}

Status write_export(const ExportRequest& request, const ExportPlan& plan) {
  CKPT_TRY(check_bytes(request, plan));
  CKPT_ASSIGN(Output output,
              plan.is_directory ? Output::begin_directory(request.path) : Output::begin_file(request.path));
  for (const ExportFile& file : plan.files) request.job.counters.bytes_total += file.bytes;
  // Not touched before it is needed, so a small export costs no memory.
  const Lent buffer(std::make_unique_for_overwrite<std::byte[]>(TensorStream::kBufferBytes));
  auto write = [&]() -> Status {
    for (const ExportFile& file : plan.files) {
      CKPT_ASSIGN(OutputFile made, plan.is_directory ? output.file(file.name) : output.file());
      CKPT_TRY(write_file(request, file, std::move(made), {buffer->get(), TensorStream::kBufferBytes}));
    }
    CKPT_TRY(request.job.check());
    return output.publish();
  };
  Status written = write();
  // What is left of it is removed now, however long that takes.
  Call* const call = CallContext::current().call();
  return written.ok() || !call ? written : call->settle(std::move(written));
}

}  // namespace ckpt::interop

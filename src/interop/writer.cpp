#include "interop/writer.h"

namespace ckpt::interop {

static Status write_file(const ExportRequest& request, const ExportFile& planned, const std::string& path,
                         MutableBytes buffer) {
  CKPT_ASSIGN(OutputFile file, OutputFile::create(path));
  if (!planned.is_packed) CKPT_TRY(file.reserve(planned.bytes));
  CKPT_TRY(planned.body->begin(file));
  TensorStream stream(request.reader, client_options(request.options), buffer,
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

Status write_export(const ExportRequest& request, const ExportPlan& plan) {
  CKPT_ASSIGN(Output output,
              plan.is_directory ? Output::begin_directory(request.path) : Output::begin_file(request.path));
  for (const ExportFile& file : plan.files) request.job.counters.bytes_total += file.bytes;
  // Not touched before it is needed, so a small export costs no memory.
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(TensorStream::kBufferBytes);
  for (const ExportFile& file : plan.files) {
    if (const size_t slash = file.name.rfind('/'); slash != std::string::npos)
      CKPT_TRY(output.add_directory(file.name.substr(0, slash)));
    const std::string path = output.temporary() + (plan.is_directory ? '/' + file.name : "");
    CKPT_TRY(write_file(request, file, path, {buffer.get(), TensorStream::kBufferBytes}));
  }
  CKPT_TRY(request.job.check());
  return output.publish();
}

}  // namespace ckpt::interop

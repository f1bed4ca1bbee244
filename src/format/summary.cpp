#include "format/summary.h"

#include "format/fault.h"
#include "format/names.h"

namespace ckpt::format {

flatbuffers::Offset<fb::Summary> put_summary(flatbuffers::FlatBufferBuilder& builder, const Summary& summary) {
  auto run = builder.CreateString(summary.run), label = builder.CreateString(summary.label);
  auto writer = builder.CreateString(summary.writer);
  fb::Digest store_id = digest_of(summary.store_id), session_id = digest_of(summary.session_id);
  fb::Digest save_id = digest_of(summary.save_id);
  return fb::CreateSummary(builder, summary.revision, summary.required_features, &store_id, &session_id, &save_id, run,
                           label, summary.token, summary.attempt, summary.sequence, summary.step, summary.world_size,
                           writer, summary.created_unix_ms, summary.part_count, summary.tensor_count,
                           summary.object_count, summary.part_bytes, summary.rebuilt, summary.base_count,
                           summary.base_bytes, summary.used_bytes);
}

std::vector<std::byte> encode_summary(const Summary& summary) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(put_summary(builder, summary), "CKPS");
  auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {data, data + builder.GetSize()};
}

static Summary summary_of(const fb::Summary* in) {
  Summary out;
  auto id = [](const fb::Digest* digest) { return digest ? id_of(*digest) : Id{}; };
  auto text = [](const flatbuffers::String* from) { return from ? from->str() : std::string(); };
  out.revision = in->revision();
  out.required_features = in->required_features();
  out.store_id = id(in->store_id());
  out.session_id = id(in->session_id());
  out.save_id = id(in->save_id());
  out.run = text(in->run());
  out.label = text(in->label());
  out.writer = text(in->writer());
  out.token = in->token();
  out.attempt = in->attempt();
  out.sequence = in->sequence();
  out.step = in->step();
  out.world_size = in->world_size();
  out.created_unix_ms = in->created_unix_ms();
  out.part_count = in->part_count();
  out.tensor_count = in->tensor_count();
  out.object_count = in->object_count();
  out.part_bytes = in->part_bytes();
  out.rebuilt = in->rebuilt();
  out.base_count = in->base_count();
  out.base_bytes = in->base_bytes();
  out.used_bytes = in->used_bytes();
  return out;
}

static Status check_summary(const Summary& summary) {
  if (summary.revision != CKPT_FORMAT_REVISION)
    return Status(CKPT_REVISION, strformat("written in format revision {}, this library reads revision {}",
                                           summary.revision, CKPT_FORMAT_REVISION))
        .with("expected", uint64_t{CKPT_FORMAT_REVISION})
        .with("found", uint64_t{summary.revision});
  if (const uint64_t unknown = summary.required_features & ~(kHasBases | kHasRuns); unknown != 0)
    return Status(CKPT_REVISION, strformat("needs features that this library does not know: bits 0x{:x}", unknown))
        .with("found", unknown);
  CKPT_TRY(check_label(summary.label));
  return check_run(summary.run);
}

Result<Summary> read_summary(const fb::Summary* in) {
  if (!in) return bad("there is no summary");
  Summary summary = summary_of(in);
  Status status = check_summary(summary);
  // A bad name inside a file is the fault of the file, not of the caller.
  if (status.code() == CKPT_INVALID) return bad(status.message());
  CKPT_TRY(std::move(status));
  return summary;
}

Result<Summary> decode_summary(Bytes bytes) {
  CKPT_ASSIGN(const fb::Summary* root, open_flatbuffer<fb::Summary>(bytes, "CKPS", "the summary"));
  return read_summary(root);
}

}  // namespace ckpt::format

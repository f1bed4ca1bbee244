#include "interop/hfai/import.h"

#include "base/parallel.h"
#include "interop/hfai/merge.h"
#include "interop/hfai/parts.h"

namespace ckpt::interop {

namespace {

using JobHandle = std::unique_ptr<ckpt_job, Freer<ckpt_job_free>>;

constexpr int64_t kLongest = 604'800'000;  // the largest value of option timeout_ms: rank 0 waits while we write

Status add_piece(ckpt_save* save, const HfaiPiece& piece) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = piece.dtype;
  desc.ndim = piece.shape.ndim;
  desc.region_kind = CKPT_REGION_FLAT;
  desc.flat_offset = static_cast<int64_t>(piece.begin);
  desc.flat_size = static_cast<int64_t>(piece.size);
  for (int i = 0; i < piece.shape.ndim; i++) desc.shape[i] = static_cast<int64_t>(piece.shape[i]);
  return call([&](ckpt_error** err) {
    return ckpt_save_add_tensor(save, piece.name.c_str(), &desc, piece.data.empty() ? nullptr : piece.data.data(),
                                piece.data.size(), CKPT_DEVICE_CPU, 0, err);
  });
}

Status add_share(ImportSave& save, const HfaiState& state, size_t part) {
  CKPT_TRY(save.add_tensors(state.tensors[part]));
  for (const HfaiPiece& piece : state.pieces[part]) CKPT_TRY(add_piece(save.get(), piece));
  return Ok();
}

// The other ranks' shares, while rank 0 waits for them in the background.
Status save_others(const ImportRequest& request, const HfaiState& state, const ImportSave& first) {
  ImportRequest others = request;
  CKPT_TRY(others.options.bag.set_int("wait", 0));
  const auto count = static_cast<uint32_t>(state.tensors.size());
  for (uint32_t rank = 1; rank < count; rank++) {
    CKPT_ASSIGN(ImportSave save, ImportSave::open(others, {rank, count, first.session_string()}));
    CKPT_TRY(add_share(save, state, rank));
    CKPT_TRY(call([&](ckpt_error** err) { return ckpt_save_run(save.get(), err); }));
  }
  return Ok();
}

Status save_all(const ImportRequest& request, const HfaiState& state, ImportSave& first) {
  ckpt_job* started = nullptr;
  CKPT_TRY(call([&](ckpt_error** err) { return ckpt_save_start(first.get(), &started, err); }));
  const JobHandle job(started);  // given up where another rank fails
  const auto wait = [&](int32_t until) {
    return call([&](ckpt_error** err) { return ckpt_job_wait(job.get(), until, -1, err); });
  };
  // Rank 0 decides about the label before the others begin.
  CKPT_TRY(wait(CKPT_JOB_WRITTEN));
  CKPT_TRY(save_others(request, state, first));
  return wait(CKPT_JOB_COMMITTED);
}

}  // namespace

Status import_hfai(const ImportRequest& given, ckpt_checkpoint_info* info) {
  ImportRequest request = given;
  Options& options = request.options.bag;
  CKPT_TRY(options.set_int("timeout_ms", kLongest));
  CKPT_ASSIGN(std::vector<HfaiPart> parts,
              open_hfai_parts(request.path, options.integer("verify") != 0, thread_count(options.integer("threads"))));
  CKPT_ASSIGN(const HfaiState state, merge_hfai(parts));
  size_t unchecked = 0;
  for (const HfaiPart& part : parts) unchecked += part.source.unchecked();

  CKPT_ASSIGN(ImportSave first, ImportSave::open(request, {0, static_cast<uint32_t>(parts.size()), nullptr}));
  CKPT_TRY(add_share(first, state, 0));
  CKPT_TRY(first.add_tree(state.tree));
  CKPT_TRY(first.set_attr(kFormatAttr, "hfai"));
  if (unchecked != 0) CKPT_TRY(first.set_attr(kUncheckedAttr, std::to_string(unchecked)));
  if (parts.size() == 1) return first.commit(request, info);
  CKPT_TRY(save_all(request, state, first));
  return first.describe_result(request, info);
}

}  // namespace ckpt::interop

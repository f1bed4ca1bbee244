// ckpt_save: one rank's share of one checkpoint.
#include "api/handles.h"

using namespace ckpt;
using namespace ckpt::api;

static Status check(const ckpt_save* save) {
  if (!save) return null_status("save");
  return save->forked() ? forked_status() : Ok();
}

ckpt_status ckpt_save_new(ckpt_save** out, const ckpt_session* session, const char* label, int64_t step,
                          const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out || !session || !label) return null_status("out, session or label");
    if (session->forked()) return forked_status();
    CKPT_ASSIGN(auto save, session::Save::make(session->session, label, step, options_of(options)));
    *out = new ckpt_save{{}, std::move(save)};
    return Ok();
  });
}

// Only host memory is read by this build; CUDA's pinned host memory is host memory too.
static Status check_device(int32_t device_type) {
  if (device_type == CKPT_DEVICE_CPU || device_type == CKPT_DEVICE_CUDA_HOST) return Ok();
  return Status(CKPT_UNSUPPORTED,
                strprintf("device type %d: this build takes CPU memory (1) and pinned host memory (3)", device_type));
}

ckpt_status ckpt_save_add_tensor(ckpt_save* save, const char* name, const ckpt_tensor_desc* desc, const void* data,
                                 uint64_t data_bytes, int32_t device_type, int32_t, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check(save));
    if (!name) return null_status("name");
    CKPT_TRY(check_device(device_type));
    CKPT_ASSIGN(auto full, get_desc(desc));
    return save->save->add_tensor(name, full, data, data_bytes);
  });
}

ckpt_status ckpt_save_add_object(ckpt_save* save, const char* name, const char* media_type, int32_t scope,
                                 const void* data, uint64_t size, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check(save));
    if (!name || (!data && size)) return null_status("name or data");
    return save->save->add_object(name, media_type ? media_type : "application/octet-stream", scope,
                                  {static_cast<const std::byte*>(data), size});
  });
}

ckpt_status ckpt_save_add_alias(ckpt_save* save, const char* name, const char* target, const ckpt_tensor_desc* view,
                                ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check(save));
    if (!name || !target) return null_status("name or target");
    if (!view) return save->save->add_alias(name, target, nullptr);
    CKPT_ASSIGN(auto full, get_desc(view));
    return save->save->add_alias(name, target, &full);
  });
}

ckpt_status ckpt_save_set_attr(ckpt_save* save, const char* tensor, const char* key, const char* value,
                               ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check(save));
    if (!key || !value) return null_status("key or value");
    return save->save->set_attr(tensor ? tensor : "", key, value);
  });
}

const char* ckpt_save_id(const ckpt_save* save) { return save ? save->save->id().c_str() : ""; }

ckpt_status ckpt_save_run(ckpt_save* save, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check(save));
    CKPT_TRY(save->save->begin());
    session::Job job;
    return job.run(CKPT_JOB_COMMITTED, [&](session::Job& running) { return save->save->work(running, false); });
  });
}

static ckpt_status start(ckpt_save* save, bool in_place, ckpt_job** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check(save));
    if (!out) return null_status("out");
    auto handle = std::make_unique<ckpt_job>();
    handle->job = std::make_shared<session::Job>();
    CKPT_TRY(save->save->begin());
    CKPT_TRY(handle->job->start(CKPT_JOB_COMMITTED, [kept = save->save, in_place](session::Job& running) {
      return kept->work(running, !in_place);
    }));
    *out = handle.release();
    return Ok();
  });
}

ckpt_status ckpt_save_start(ckpt_save* save, ckpt_job** out, ckpt_error** err) { return start(save, false, out, err); }
ckpt_status ckpt_save_start_in_place(ckpt_save* save, ckpt_job** out, ckpt_error** err) {
  return start(save, true, out, err);
}

void ckpt_save_free(ckpt_save* save) { release(save); }

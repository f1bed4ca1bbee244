// ckpt_save: one rank's share of one checkpoint.
#include "api/handles.h"
#include "format/table.h"

using namespace ckpt;
using namespace ckpt::api;

Result<std::unique_ptr<ckpt_save>> api::make_save(const ckpt_session* session, std::string_view label, int64_t step,
                                                  const Options& bag, Status job_refused) {
  CKPT_ASSIGN(auto save, save::Save::make(session->session, label, step, save_options(bag), session_options(bag)));
  CKPT_TRY(save->noted(std::move(job_refused)));  // the attempt counts, so the other ranks are told
  return std::make_unique<ckpt_save>(ckpt_save{{}, std::move(save), session->mirror});
}

ckpt_status ckpt_save_new(ckpt_save** out, const ckpt_session* session, const char* label, int64_t step,
                          const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out || !session || !label) return null_status("out, session or label");
    if (session->forked()) return forked_status();
    CKPT_ASSIGN(auto made, make_save(session, label, step, options_of(options), refuse_job(options)));
    *out = made.release();
    return Ok();
  });
}

ckpt_status ckpt_save_add_tensor(ckpt_save* save, const char* name, const ckpt_tensor_desc* desc, const void* data,
                                 uint64_t data_bytes, int32_t device_type, int32_t device_id, ckpt_error** err) {
  return add_to(save, err, [&](save::Save& to) -> Status {
    if (!name) return null_status("name");
    ckpt_tensor_desc full;
    if (Status got = get_desc(desc, &full); !got.ok()) return of_tensor(std::move(got), name);
    Status added = to.add_tensor(name, full, data, data_bytes, {device_type, device_id});
    return added.ok() ? Ok() : std::move(added).with("tensor", name);
  });
}

ckpt_status ckpt_save_add_tensors(ckpt_save* save, uint64_t count, const char* const* names,
                                  const ckpt_tensor_desc* descs, const void* const* data, const uint64_t* data_bytes,
                                  int32_t device_type, int32_t device_id, ckpt_error** err) {
  const auto add = [&](uint64_t i, const ckpt_tensor_desc* desc) {
    return ckpt_save_add_tensor(save, names[i], desc, data[i], data_bytes[i], device_type, device_id, err);
  };
  return for_each_desc(usable(save, "save"), count, descs, names && data && data_bytes, err, add);
}

ckpt_status ckpt_save_give_up(ckpt_save* save, const char* reason, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(save, "save"));
    if (!reason) return null_status("reason");
    return run_apart(std::make_shared<Job>(), kFreeMs,
                     [kept = save->save, why = std::string(reason)](Job&) { return kept->give_up(why); });
  });
}

ckpt_status ckpt_save_add_object(ckpt_save* save, const char* name, const char* media_type, int32_t scope,
                                 const void* data, uint64_t size, ckpt_error** err) {
  return add_to(save, err, [&](save::Save& to) -> Status {
    if (!name || (!data && size)) return null_status("name or data");
    return to.add_object(name, media_type ? media_type : "application/octet-stream", scope,
                         {static_cast<const std::byte*>(data), size});
  });
}

ckpt_status ckpt_save_add_alias(ckpt_save* save, const char* name, const char* target, const ckpt_tensor_desc* view,
                                ckpt_error** err) {
  return add_to(save, err, [&](save::Save& to) -> Status {
    if (!name || !target) return null_status("name or target");
    if (!view) return to.add_alias(name, target, nullptr).with("tensor", name);
    ckpt_tensor_desc full;
    if (Status got = get_desc(view, &full); !got.ok()) return of_tensor(std::move(got), name);
    return to.add_alias(name, target, &full).with("tensor", name);
  });
}

ckpt_status ckpt_save_set_attr(ckpt_save* save, const char* tensor, const char* key, const char* value,
                               ckpt_error** err) {
  return add_to(save, err, [&](save::Save& to) -> Status {
    if (!key || !value) return null_status("key or value");
    if (tensor && key == format::kTableAttr)
      return Status(CKPT_INVALID,
                    strformat("attribute {} says what a table is: only ckpt_save_add_table sets it", key));
    return to.set_attr(tensor ? tensor : "", key, value);
  });
}

const char* ckpt_save_id(const ckpt_save* save) { return save ? save->save->id().c_str() : ""; }

// All of the save; what it committed goes to the mirror then. Made before the save begins: from there on nothing may
// fail that the other ranks do not learn of.
static std::function<Status(Job&)> work_of(const ckpt_save& save, bool copies) {
  return [kept = save.save, mirror = save.mirror, copies](Job& job) -> Status {
    CKPT_TRY(kept->work(job, copies));
    if (mirror) mirror->add(kept->id());
    return Ok();
  };
}

ckpt_status ckpt_save_run(ckpt_save* save, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(save, "save"));
    const auto job = std::make_shared<Job>();
    auto work = work_of(*save, false);
    CKPT_TRY(save->save->begin());
    return job->run_apart(save->save->goal(), std::move(work));
  });
}

static ckpt_status start(ckpt_save* save, bool in_place, ckpt_job** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(save, "save"));
    if (!out) return null_status("out");
    auto handle = new_job(true);
    auto work = work_of(*save, !in_place);
    CKPT_TRY(save->save->begin());
    Status started = handle->job->start(save->save->goal(), std::move(work));
    if (!started.ok()) return save->save->refuse(std::move(started));
    *out = handle.release();
    return Ok();
  });
}

ckpt_status ckpt_save_start(ckpt_save* save, ckpt_job** out, ckpt_error** err) { return start(save, false, out, err); }
ckpt_status ckpt_save_start_in_place(ckpt_save* save, ckpt_job** out, ckpt_error** err) {
  return start(save, true, out, err);
}

ckpt_status ckpt_save_report(const ckpt_save* save, ckpt_report** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(save, "save"));
    if (!out) return null_status("out");
    CKPT_ASSIGN(Report report, save->save->report());
    *out = new_report(std::move(report));
    return Ok();
  });
}

void ckpt_save_free(ckpt_save* save) { release_apart(save); }

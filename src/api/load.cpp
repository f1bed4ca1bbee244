// ckpt_load: requests that are read together.
#include "api/handles.h"
#include "base/mapping.h"
#include "base/parallel.h"

using namespace ckpt;
using namespace ckpt::api;

ckpt_status ckpt_load_new(ckpt_load** out, const ckpt_reader* reader, const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out || !reader) return null_status("out or reader");
    if (reader->forked()) return forked_status();
    CKPT_TRY(refuse_job(options));
    CKPT_ASSIGN(auto load, load::Load::make(reader->checkpoint, load_options(options_of(options))));
    *out = new ckpt_load{{}, std::move(load)};
    return Ok();
  });
}

ckpt_status ckpt_load_add_tensor(ckpt_load* load, const char* name, const ckpt_tensor_desc* desc, void* data,
                                 uint64_t data_bytes, int32_t device_type, int32_t device_id, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(load, "load"));
    if (!name) return null_status("name");
    ckpt_tensor_desc full;
    if (Status got = get_desc(desc, &full); !got.ok()) return of_tensor(std::move(got), name);
    return load->load->add_tensor(name, full, data, data_bytes, {device_type, device_id});
  });
}

ckpt_status ckpt_load_add_tensors(ckpt_load* load, uint64_t count, const char* const* names,
                                  const ckpt_tensor_desc* descs, void* const* data, const uint64_t* data_bytes,
                                  int32_t device_type, int32_t device_id, ckpt_error** err) {
  const auto add = [&](uint64_t i, const ckpt_tensor_desc* desc) {
    return ckpt_load_add_tensor(load, names[i], desc, data[i], data_bytes[i], device_type, device_id, err);
  };
  return for_each_desc(usable(load, "load"), count, descs, names && data && data_bytes, err, add);
}

ckpt_status ckpt_load_add_object(ckpt_load* load, const char* name, uint32_t rank, void* data, uint64_t data_bytes,
                                 ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(load, "load"));
    if (!name || (!data && data_bytes)) return null_status("name or data");
    return load->load->add_object(name, rank, {static_cast<std::byte*>(data), data_bytes});
  });
}

ckpt_status ckpt_load_run(ckpt_load* load, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(load, "load"));
    CKPT_TRY(load->load->begin());
    const auto job = std::make_shared<Job>();
    return job->run_apart(CKPT_JOB_DONE, [kept = load->load](Job& running) { return kept->work(running); });
  });
}

ckpt_status ckpt_load_start(ckpt_load* load, ckpt_job** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(load, "load"));
    if (!out) return null_status("out");
    auto handle = new_job();
    CKPT_TRY(load->load->begin());
    CKPT_TRY(handle->job->start(CKPT_JOB_DONE, [kept = load->load](Job& running) { return kept->work(running); }));
    *out = handle.release();
    return Ok();
  });
}

ckpt_status ckpt_load_report(const ckpt_load* load, ckpt_report** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(load, "load"));
    if (!out) return null_status("out");
    *out = new_report(load->load->report());
    return Ok();
  });
}

ckpt_status ckpt_buffer_alloc(void** out, uint64_t size, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out) return null_status("out");
    CKPT_ASSIGN(Mapping mapping, Mapping::make(std::max<uint64_t>(size, 1), true));
    // Huge pages are best made by the threads that fill them, when they do. A fault for each small page costs more.
    if (size < Mapping::kHugeFrom) CKPT_TRY(mapping.populate(size, 1));
    *out = mapping.take();
    return Ok();
  });
}

void ckpt_buffer_free(void* data, uint64_t size) { Mapping::give_back(data, std::max<uint64_t>(size, 1)); }

void ckpt_load_free(ckpt_load* load) { release(load); }

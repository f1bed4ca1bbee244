// Linked into the tests of tests/api, this puts their tensors into the memory of devices: what they add to a save is
// copied there when the save begins, and what a load brings is copied back when it ends. So saves and loads are tested
// once more, over devices (fake ones, or those of the machine).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "ckpt.h"
#include "cuda/runtime.h"

namespace {

// Memory of a test, and that of a device in its place.
struct Twin {
  Twin(void* of, uint64_t size, int on) : host(static_cast<char*>(of)), bytes(size), before(host, host + size), id(on) {
    int current = 0;
    (void)cudaGetDevice(&current);
    (void)cudaSetDevice(id);
    if (cudaMalloc(&device, bytes) != 0) std::abort();
    (void)cudaSetDevice(current);
    put();
  }
  Twin(const Twin&) = delete;
  ~Twin() { (void)cudaFree(device); }
  void put() const { check(cudaMemcpy(device, host, bytes, cuda_test::kDefault)); }
  // Only what changed: other requests may have memory in between.
  void take_back() {
    std::vector<char> now(bytes);
    check(cudaMemcpy(now.data(), device, bytes, cuda_test::kDefault));
    for (uint64_t i = 0; i < bytes; i++)
      if (now[i] != before[i]) host[i] = now[i];
    before = now;
  }
  static void check(int error) {
    if (error != 0) ADD_FAILURE() << "cudaMemcpy: " << error;
  }

  char* host;
  uint64_t bytes;
  std::vector<char> before;
  void* device = nullptr;
  int id = 0;
};
// The devices take turns.
int next_device() {
  int count = 1;
  (void)cudaGetDeviceCount(&count);
  static std::atomic<int> next{0};
  return next++ % count;
}
using Twins = std::vector<std::unique_ptr<Twin>>;

// The twins of a save, a load or a job.
struct Owners {
  std::mutex mutex;
  std::map<const void*, Twins> saves, loads, save_jobs, load_jobs;
};
Owners& owners() {
  static Owners& all = *new Owners;
  return all;
}

void move_to(std::map<const void*, Twins>& from, const void* handle, std::map<const void*, Twins>& to,
             const void* job) {
  std::lock_guard lock(owners().mutex);
  if (auto found = from.find(handle); found != from.end()) {
    to[job] = std::move(found->second);
    from.erase(found);
  }
}

void put_all(const void* save) {
  std::lock_guard lock(owners().mutex);
  for (const auto& twin : owners().saves[save]) twin->put();
}

void take_back(std::map<const void*, Twins>& from, const void* handle) {
  std::lock_guard lock(owners().mutex);
  if (auto found = from.find(handle); found != from.end())
    for (const auto& twin : found->second) twin->take_back();
}

void forget(std::map<const void*, Twins>& from, const void* handle) {
  std::lock_guard lock(owners().mutex);
  from.erase(handle);
}

bool can_move(const void* data, uint64_t bytes, int32_t type) {
  return data && bytes != 0 && bytes < uint64_t{1} << 40 && type == CKPT_DEVICE_CPU;
}

// Calls add with the memory of a device in place of the host's.
template <typename Add>
ckpt_status add_twin(std::map<const void*, Twins>& to, const void* handle, const void* data, uint64_t bytes,
                     Add&& add) {
  auto twin = std::make_unique<Twin>(const_cast<void*>(data), bytes, next_device());
  const ckpt_status added = add(twin->device, twin->id);
  if (added != CKPT_OK) return added;
  std::lock_guard lock(owners().mutex);
  to[handle].push_back(std::move(twin));
  return added;
}

// Calls add with the memory of a device in place of the blocks of a table's columns.
template <typename Block, typename Add>
ckpt_status add_twins(std::map<const void*, Twins>& to, const void* handle, std::span<Block const> data,
                      const uint64_t* bytes, Add&& add) {
  Twins twins;
  std::vector<Block> there(data.begin(), data.end());
  const int id = next_device();
  for (size_t i = 0; i < data.size(); i++)
    if (can_move(data[i], bytes[i], CKPT_DEVICE_CPU)) {
      twins.push_back(std::make_unique<Twin>(const_cast<void*>(data[i]), bytes[i], id));
      there[i] = twins.back()->device;
    }
  const ckpt_status added = add(there.data(), id);
  if (added != CKPT_OK) return added;
  std::lock_guard lock(owners().mutex);
  std::ranges::move(twins, std::back_inserter(to[handle]));
  return added;
}

}  // namespace

extern "C" {

#define REAL(name) decltype(name) __real_##name
REAL(ckpt_save_add_tensor);
REAL(ckpt_save_add_tensors);
REAL(ckpt_save_add_table);
REAL(ckpt_save_run);
REAL(ckpt_save_start);
REAL(ckpt_save_start_in_place);
REAL(ckpt_save_free);
REAL(ckpt_load_add_tensor);
REAL(ckpt_load_add_tensors);
REAL(ckpt_load_add_table);
REAL(ckpt_load_run);
REAL(ckpt_load_start);
REAL(ckpt_load_free);
REAL(ckpt_job_wait);
REAL(ckpt_job_state);
REAL(ckpt_job_free);

ckpt_status __wrap_ckpt_save_add_tensor(ckpt_save* save, const char* name, const ckpt_tensor_desc* desc,
                                        const void* data, uint64_t bytes, int32_t type, int32_t id, ckpt_error** err) {
  if (!can_move(data, bytes, type)) return __real_ckpt_save_add_tensor(save, name, desc, data, bytes, type, id, err);
  return add_twin(owners().saves, save, data, bytes, [&](void* device, int number) {
    return __real_ckpt_save_add_tensor(save, name, desc, device, bytes, CKPT_DEVICE_CUDA, number, err);
  });
}

ckpt_status __wrap_ckpt_load_add_tensor(ckpt_load* load, const char* name, const ckpt_tensor_desc* desc, void* data,
                                        uint64_t bytes, int32_t type, int32_t id, ckpt_error** err) {
  if (!can_move(data, bytes, type)) return __real_ckpt_load_add_tensor(load, name, desc, data, bytes, type, id, err);
  return add_twin(owners().loads, load, data, bytes, [&](void* device, int number) {
    return __real_ckpt_load_add_tensor(load, name, desc, device, bytes, CKPT_DEVICE_CUDA, number, err);
  });
}

static const ckpt_tensor_desc* at(const ckpt_tensor_desc* descs, uint64_t i) {
  return reinterpret_cast<const ckpt_tensor_desc*>(reinterpret_cast<const char*>(descs) + i * descs->struct_size);
}

ckpt_status __wrap_ckpt_save_add_tensors(ckpt_save* save, uint64_t count, const char* const* names,
                                         const ckpt_tensor_desc* descs, const void* const* data, const uint64_t* bytes,
                                         int32_t type, int32_t id, ckpt_error** err) {
  if (!names || !descs || !data || !bytes || count == 0)
    return __real_ckpt_save_add_tensors(save, count, names, descs, data, bytes, type, id, err);
  for (uint64_t i = 0; i < count; i++)
    if (const ckpt_status added =
            __wrap_ckpt_save_add_tensor(save, names[i], at(descs, i), data[i], bytes[i], type, id, err);
        added != CKPT_OK)
      return added;
  return CKPT_OK;
}

ckpt_status __wrap_ckpt_load_add_tensors(ckpt_load* load, uint64_t count, const char* const* names,
                                         const ckpt_tensor_desc* descs, void* const* data, const uint64_t* bytes,
                                         int32_t type, int32_t id, ckpt_error** err) {
  if (!names || !descs || !data || !bytes || count == 0)
    return __real_ckpt_load_add_tensors(load, count, names, descs, data, bytes, type, id, err);
  for (uint64_t i = 0; i < count; i++)
    if (const ckpt_status added =
            __wrap_ckpt_load_add_tensor(load, names[i], at(descs, i), data[i], bytes[i], type, id, err);
        added != CKPT_OK)
      return added;
  return CKPT_OK;
}

ckpt_status __wrap_ckpt_save_add_table(ckpt_save* save, const char* name, const ckpt_table_desc* desc, const void* ids,
                                       uint64_t ids_bytes, const char* const* names, const ckpt_column_desc* columns,
                                       const void* const* data, const uint64_t* bytes, const uint64_t* positions,
                                       int32_t type, int32_t id, int64_t stream, ckpt_error** err) {
  if (!desc || !data || !bytes || type != CKPT_DEVICE_CPU)
    return __real_ckpt_save_add_table(save, name, desc, ids, ids_bytes, names, columns, data, bytes, positions, type,
                                      id, stream, err);
  const std::span blocks(data, desc->column_count * std::max(desc->block_count, 1u));
  return add_twins(owners().saves, save, blocks, bytes, [&](const void* const* there, int number) {
    return __real_ckpt_save_add_table(save, name, desc, ids, ids_bytes, names, columns, there, bytes, positions,
                                      CKPT_DEVICE_CUDA, number, stream, err);
  });
}

ckpt_status __wrap_ckpt_load_add_table(ckpt_load* load, const ckpt_share* share, uint64_t window, void* ids,
                                       uint64_t ids_bytes, uint64_t count, const char* const* columns,
                                       void* const* data, const uint64_t* bytes, int32_t type, int32_t id,
                                       int64_t stream, ckpt_error** err) {
  if (!data || !bytes || type != CKPT_DEVICE_CPU)
    return __real_ckpt_load_add_table(load, share, window, ids, ids_bytes, count, columns, data, bytes, type, id,
                                      stream, err);
  return add_twins(owners().loads, load, std::span(data, count), bytes, [&](void* const* there, int number) {
    return __real_ckpt_load_add_table(load, share, window, ids, ids_bytes, count, columns, there, bytes,
                                      CKPT_DEVICE_CUDA, number, stream, err);
  });
}

ckpt_status __wrap_ckpt_save_run(ckpt_save* save, ckpt_error** err) {
  put_all(save);
  return __real_ckpt_save_run(save, err);
}
ckpt_status __wrap_ckpt_save_start(ckpt_save* save, ckpt_job** out, ckpt_error** err) {
  put_all(save);
  const ckpt_status started = __real_ckpt_save_start(save, out, err);
  if (started == CKPT_OK) move_to(owners().saves, save, owners().save_jobs, *out);
  return started;
}
ckpt_status __wrap_ckpt_save_start_in_place(ckpt_save* save, ckpt_job** out, ckpt_error** err) {
  put_all(save);
  const ckpt_status started = __real_ckpt_save_start_in_place(save, out, err);
  if (started == CKPT_OK) move_to(owners().saves, save, owners().save_jobs, *out);
  return started;
}
void __wrap_ckpt_save_free(ckpt_save* save) {
  __real_ckpt_save_free(save);
  forget(owners().saves, save);
}

ckpt_status __wrap_ckpt_load_run(ckpt_load* load, ckpt_error** err) {
  const ckpt_status status = __real_ckpt_load_run(load, err);
  take_back(owners().loads, load);
  return status;
}
ckpt_status __wrap_ckpt_load_start(ckpt_load* load, ckpt_job** out, ckpt_error** err) {
  const ckpt_status started = __real_ckpt_load_start(load, out, err);
  if (started == CKPT_OK) move_to(owners().loads, load, owners().load_jobs, *out);
  return started;
}
void __wrap_ckpt_load_free(ckpt_load* load) {
  __real_ckpt_load_free(load);
  forget(owners().loads, load);
}

static void when_ended(const ckpt_job* job) {
  if (job && __real_ckpt_job_state(job) >= CKPT_JOB_DONE) {
    take_back(owners().load_jobs, job);
    forget(owners().load_jobs, job);
  }
}
ckpt_status __wrap_ckpt_job_wait(const ckpt_job* job, int32_t state, int64_t timeout_ms, ckpt_error** err) {
  const ckpt_status status = __real_ckpt_job_wait(job, state, timeout_ms, err);
  when_ended(job);
  return status;
}
int32_t __wrap_ckpt_job_state(const ckpt_job* job) {
  when_ended(job);
  return __real_ckpt_job_state(job);
}
void __wrap_ckpt_job_free(ckpt_job* job) {
  when_ended(job);
  __real_ckpt_job_free(job);
  forget(owners().load_jobs, job);
  forget(owners().save_jobs, job);
}

}  // extern "C"

// The C handles: thin owners of engine objects, and the one place where C++ ends. No exception gets past guard().
#pragma once

#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>

#include "base/call_options.h"
#include "base/caller.h"
#include "base/job.h"
#include "base/report.h"
#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "ckpt.h"
#include "ckpt_tree.h"
#include "commit/retention.h"
#include "load/load.h"
#include "load/map.h"
#include "load/share.h"
#include "maintain/mirror.h"
#include "maintain/verify.h"
#include "save/save.h"
#include "session/runs.h"
#include "session/session.h"
#include "store/store.h"
#include "tree/tree.h"

struct ckpt_error {
  ckpt::Status status;
};

namespace ckpt::api {

// Explains a failure to the caller. OK clears *err.
ckpt_status give(Status status, ckpt_error** err);

// What says no more than a status, for lack of memory. Freeing it does nothing.
ckpt_error* unexplained(ckpt_status code) noexcept;
ckpt_status give_nomem(ckpt_error** err) noexcept;
ckpt_status give_internal(const char* what, ckpt_error** err) noexcept;

// Runs a call. Lets no exception out; bad_alloc becomes NOMEM.
template <typename Body>
ckpt_status guard(ckpt_error** err, Body&& body) noexcept {
  try {
    Status status = body();
    if (!status.ok()) return give(std::move(status), err);
    if (err) *err = nullptr;
    return CKPT_OK;
  } catch (const std::bad_alloc&) {
    return give_nomem(err);
  } catch (const std::exception& error) {
    return give_internal(error.what(), err);
  } catch (...) {
    return give_internal("an unknown exception", err);
  }
}

// How long an operation of a call may take that frees a handle.
inline constexpr int64_t kFreeMs = 2000;

// Frees a handle whose end touches a store. Does nothing in a forked child.
template <typename Handle>
void release_apart(Handle* handle) noexcept {
  if (!handle || handle->forked()) return;
  std::unique_ptr<Handle> owned(handle);
  (void)guard(nullptr, [&]() -> Status {
    auto job = std::make_shared<Job>();
    std::shared_ptr<Handle> last(std::move(owned));
    return run_apart(job, kFreeMs, [last = std::move(last)](Job&) mutable -> Status {
      last.reset();
      return Ok();
    });
  });
}

// Frees a handle. Does nothing in a forked child, which must not touch its parent's threads, locks or files.
template <typename Handle>
void release(Handle* handle) noexcept {
  if (handle && !handle->forked()) delete handle;
}

// The job under which a call works: that of its options, for this one call, or one of its own. INVALID.
Result<std::shared_ptr<Job>> job_for(const ckpt_options* options);
// For a call that does not work under a job. INVALID if its options have one.
Status refuse_job(const ckpt_options* options);

// Calls add(i, &descs[i]) for each of `count`, until one fails, if the handle may be used. `given`: whether the other
// arrays are not null. A newer program has larger descriptors.
template <typename Add>
ckpt_status for_each_desc(const Status& handle, uint64_t count, const ckpt_tensor_desc* descs, bool given,
                          ckpt_error** err, Add&& add) {
  const ckpt_status usable = guard(err, [&]() -> Status {
    CKPT_TRY(handle);
    return count == 0 || (descs && given) ? Ok() : null_status("names, descs, data or data_bytes");
  });
  if (usable != CKPT_OK) return usable;
  for (uint64_t i = 0; i < count; i++) {
    const auto* desc = reinterpret_cast<const char*>(descs) + i * descs->struct_size;
    if (const ckpt_status added = add(i, reinterpret_cast<const ckpt_tensor_desc*>(desc)); added != CKPT_OK)
      return added;
  }
  return CKPT_OK;
}

// The handle of a job that runs in the background once its `start` is called.
std::unique_ptr<ckpt_job> new_job(bool has_report = false);

// A report whose texts are lines of UTF-8, whatever names and paths hold.
ckpt_report* new_report(Report report);

}  // namespace ckpt::api

struct ckpt_store : ckpt::Owned {
  std::shared_ptr<ckpt::store::Store> store, mirror;           // the mirror may be null
  std::shared_ptr<ckpt::store::CacheTrouble> cache_trouble{};  // why option cache has no effect; null without it
  int64_t patience_ms = 0;                                     // of calls without options
  ckpt::checkpoint::Places places() const { return {*store, mirror.get()}; }
};
struct ckpt_list : ckpt::Owned {
  std::vector<ckpt::checkpoint::CheckpointEntry> entries;
};
struct ckpt_runs : ckpt::Owned {
  std::vector<ckpt::session::RunEntry> entries;
};
struct ckpt_report : ckpt::Owned {
  ckpt::Report report;
};
struct ckpt_session : ckpt::Owned {
  std::shared_ptr<ckpt::session::Session> session;
  std::shared_ptr<ckpt::maintain::Mirror> mirror;  // on rank 0 of a store that has one
  std::shared_ptr<ckpt::store::Lock> turn{};       // of an import
};
struct ckpt_save : ckpt::Owned {
  std::shared_ptr<ckpt::save::Save> save;
  std::shared_ptr<ckpt::maintain::Mirror> mirror;
};
struct ckpt_reader : ckpt::Owned {
  std::shared_ptr<ckpt::checkpoint::Checkpoint> checkpoint;
  std::shared_ptr<ckpt::store::CacheTrouble> cache_trouble{};  // of its store
};
struct ckpt_share : ckpt::Owned {
  std::shared_ptr<const ckpt::load::Share> share;
};
struct ckpt_load : ckpt::Owned {
  std::shared_ptr<ckpt::load::Load> load;
};
struct ckpt_job : ckpt::Owned {
  std::shared_ptr<ckpt::Job> job;
};
struct ckpt_tree : ckpt::Owned {
  ckpt::tree::Tree tree;
  mutable std::mutex mutex;  // guards `json`, which const calls make
  mutable std::optional<std::string> json;
};

namespace ckpt::api {

// The handle of a new save. `job_refused`: what refuse_job says of the caller's options.
Result<std::unique_ptr<ckpt_save>> make_save(const ckpt_session* session, std::string_view label, int64_t step,
                                             const Options& bag, Status job_refused);

// Adds something to a save. What fails here ends the save on all ranks if it is freed without being run.
template <typename Body>
ckpt_status add_to(ckpt_save* save, ckpt_error** err, Body&& body) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(save, "save"));
    return save->save->noted(body(*save->save));
  });
}

}  // namespace ckpt::api

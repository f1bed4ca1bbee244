#include "interop/src/outer_call.h"

#include <vector>

#include "base/parallel.h"
#include "base/strformat.h"
#include "interop/src/client.h"

namespace ckpt::interop {

ckpt_error* error_of(const Status& status) {
  std::vector<const char*> keys, values;
  try {
    for (const auto& [key, value] : status.details()) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
  } catch (const std::bad_alloc&) {  // it goes on without some of its facts
  }
  return ckpt_error_new(status.code(), status.message().c_str(), keys.data(), values.data(), values.size());
}

Status check_version() {
  const std::string_view found = ckpt_version_string();
  if (found == CKPT_VERSION) return Ok();
  return Status(CKPT_UNSUPPORTED, strformat("libckpt_files {} needs libckpt {}, found {}: install both of one version",
                                            CKPT_VERSION, CKPT_VERSION, found))
      .with("expected", CKPT_VERSION)
      .with("found", std::string(found));
}

Result<std::shared_ptr<OuterCall>> OuterCall::begin(const ckpt_options* options) {
  CKPT_TRY(check_version());
  ckpt_call* handle = nullptr;
  ckpt_error* error = nullptr;
  if (const ckpt_status status = ckpt_call_new(&handle, options, &error); status != CKPT_OK)
    return status_of(client::Error(status, error));
  return std::shared_ptr<OuterCall>(new OuterCall(handle));
}

std::shared_ptr<OuterCall> OuterCall::current() {
  for (const Call* call = CallContext::current().call(); call; call = call->outer.get())
    if (call->above) return std::static_pointer_cast<OuterCall>(call->above);
  return nullptr;
}

void OuterCall::count(const Job& own) const {
  ckpt_job_stats stats{};
  stats.struct_size = sizeof stats;
  stats.bytes_total = own.counters.bytes_total;
  stats.bytes_done = own.counters.bytes_done;
  if (const RequestCounters& requests = own.call->requests; !own.call->outer) {  // else ckpt has counted them
    stats.get_count = requests.gets;
    stats.put_count = requests.puts;
    stats.list_count = requests.lists;
    stats.delete_count = requests.deletes;
    stats.retry_count = requests.retries;
    stats.bytes_sent = requests.bytes_sent;
    stats.bytes_received = requests.bytes_received;
  }
  (void)ckpt_call_count(handle_, &stats, nullptr);
}

// Where one half is over, so is the other. Whether our thread is to be left behind, since ckpt's half of it hangs.
bool OuterCall::look(Job& own, Status* answer) const {
  count(own);
  ckpt_call_state state{};
  state.struct_size = sizeof state;
  ckpt_error* error = nullptr;
  const ckpt_status looked = ckpt_call_look(handle_, &state, &error);
  Status cause = looked == CKPT_OK ? Ok() : status_of(client::Error(looked, error));
  if (state.cancelled != 0 || cause.code() == CKPT_CANCELLED) own.cancel();
  if (state.over_ms >= 0) own.call->end_at(cause, steady_ms() - state.over_ms);
  if (Status ended = own.call->check(); !ended.ok() && state.over_ms < 0) {
    ckpt_error* const made = error_of(ended);
    ckpt_call_close(handle_, made);
    ckpt_error_free(made);
  }
  if (state.left != 0) *answer = std::move(cause);
  return state.left != 0;
}

Status OuterCall::run(const std::shared_ptr<OuterCall>& self, int64_t patience_ms,
                      std::function<Status(Job& running)> body) {
  const auto job = std::make_shared<Job>();
  job->call->above = self;
  job->look_too([self, own = job.get()](Status* answer) { return self->look(*own, answer); });
  Status status;
  (void)self->look(*job, &status);  // it may be cancelled already
  auto apart = [&] {
    status = call_guarded([&] {
      return run_apart(job, patience_ms,
                       [body = std::move(body)](Job& running) { return with_parts([&] { return body(running); }); });
    });
  };
  // Where both libraries are one archive, our half is a part of ckpt's.
  ckpt_call_run(self->handle_, CKPT_CALL_WORK, [](void* user) { (*static_cast<decltype(apart)*>(user))(); }, &apart);
  self->count(*job);
  ckpt_error* const problem = error_of(status);
  ckpt_call_finish(self->handle_, problem);
  ckpt_error_free(problem);
  return status;
}

}  // namespace ckpt::interop

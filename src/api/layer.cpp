// ckpt_layer.h: what libraries above ckpt need of it.
#include "ckpt_layer.h"

#include "api/handles.h"

using namespace ckpt;
using namespace ckpt::api;

// ---- arguments and errors ----

ckpt_error* ckpt_error_new(ckpt_status status, const char* message, const char* const* keys, const char* const* values,
                           size_t count) {
  ckpt_error* error = nullptr;
  (void)guard(&error, [&]() -> Status {
    if (status == CKPT_OK) return Ok();
    Status made(status, message ? message : "");
    for (size_t i = 0; keys && values && i < count; i++)
      if (keys[i] && values[i]) made = std::move(made).with(keys[i], std::string(values[i]));
    return made;
  });
  return ckpt_error_status(error) == status ? error : unexplained(status);
}

int32_t ckpt_options_get_int(const ckpt_options* options, const char* key, int64_t* value) {
  const int64_t* set = options && key ? options->bag.set_integer(key) : nullptr;
  if (set && value) *value = *set;
  return set ? 1 : 0;
}

const char* ckpt_options_get_str(const ckpt_options* options, const char* key) {
  const std::string* set = options && key ? options->bag.set_text(key) : nullptr;
  return set ? set->c_str() : nullptr;
}

int32_t ckpt_options_has_job(const ckpt_options* options) { return options && options->job ? 1 : 0; }

ckpt_status ckpt_store_clone(ckpt_store** out, const ckpt_store* store, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(store, "store"));
    if (!out) return null_status("out");
    *out = new ckpt_store(*store);
    return Ok();
  });
}

ckpt_status ckpt_reader_clone(ckpt_reader** out, const ckpt_reader* reader, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!out) return null_status("out");
    *out = new ckpt_reader(*reader);
    return Ok();
  });
}

// ---- a call ----

struct ckpt_call : Owned {
  std::shared_ptr<Job> job;
  mutable std::mutex mutex;         // guards what follows
  mutable RequestCounters counted;  // of the layer itself, so far
};

ckpt_status ckpt_call_new(ckpt_call** out, const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out) return null_status("out");
    auto call = std::make_unique<ckpt_call>();
    CKPT_ASSIGN(call->job, job_for(options));
    call->job->call->bound(options_of(options).timeout_ms());
    call->job->begin_outside();
    *out = call.release();
    return Ok();
  });
}

void ckpt_call_free(ckpt_call* call) {
  if (call && !call->forked())
    (void)guard(nullptr, [&]() -> Status {
      call->job->end_outside(Status(CKPT_INTERNAL, "the call was freed before it was finished"));
      return Ok();
    });
  release(call);
}

void ckpt_call_run(const ckpt_call* call, int32_t how, ckpt_call_work work, void* user) {
  if (!call || !work || call->forked()) return;
  const std::shared_ptr<Job> job = call->job;
  const CallContext context(job->call.get());
  const ContextScope on(how == CKPT_CALL_TIDY ? context.shielded() : context);
  work(user);
}

ckpt_status ckpt_call_look(const ckpt_call* call, ckpt_call_state* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(call, "call"));
    Call& looked = *call->job->call;
    Status answer;
    ckpt_call_state state{};
    state.left = looked.is_stuck(&answer) ? 1 : 0;
    state.cancelled = looked.cancelled() ? 1 : 0;
    const int64_t over = looked.over_ms();
    state.over_ms = over == Call::kNever ? -1 : steady_ms() - over;
    CKPT_TRY(put_info(state, out));
    return state.left ? answer : looked.check();
  });
}

void ckpt_call_close(const ckpt_call* call, const ckpt_error* cause) {
  if (call && cause && !call->forked()) (void)guard(nullptr, [&] { return call->job->call->end(cause->status); });
}

// Adds what has come since the last time.
static void add_new(std::atomic<uint64_t>* total, std::atomic<uint64_t>* counted, uint64_t now) {
  *total += now - counted->exchange(now);
}

ckpt_status ckpt_call_count(const ckpt_call* call, const ckpt_job_stats* done, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(call, "call"));
    ckpt_job_stats now{};
    CKPT_TRY(get_struct(done, &now, offsetof(ckpt_job_stats, bytes_total), sizeof now));
    JobCounters& counters = call->job->counters;
    counters.bytes_total = now.bytes_total;
    counters.bytes_done = now.bytes_done;
    RequestCounters &total = call->job->call->requests, &counted = call->counted;
    const std::lock_guard lock(call->mutex);
    add_new(&total.gets, &counted.gets, now.get_count);
    add_new(&total.puts, &counted.puts, now.put_count);
    add_new(&total.lists, &counted.lists, now.list_count);
    add_new(&total.deletes, &counted.deletes, now.delete_count);
    add_new(&total.retries, &counted.retries, now.retry_count);
    add_new(&total.bytes_sent, &counted.bytes_sent, now.bytes_sent);
    add_new(&total.bytes_received, &counted.bytes_received, now.bytes_received);
    return Ok();
  });
}

void ckpt_call_keep(const ckpt_call* call, void* memory, void (*release)(void* memory)) {
  if (!release) return;
  (void)guard(nullptr, [&]() -> Status {
    const std::shared_ptr<void> kept(memory, release);
    if (call && !call->forked()) call->job->call->keep_if_left(kept);
    return Ok();
  });
}

void ckpt_call_finish(const ckpt_call* call, const ckpt_error* problem) {
  if (!call || call->forked()) return;
  (void)guard(nullptr, [&]() -> Status {
    call->job->end_outside(problem ? problem->status : Ok());
    return Ok();
  });
}

// ---- memory that is filled when it is wanted ----

namespace {

// `err` is looked at once the call has set it.
Status status_of(ckpt_status code, ckpt_error* const& err) {
  if (code == CKPT_OK) return Ok();
  Status status = err ? err->status : Status(code, "memory that was to be filled is not there");
  ckpt_error_free(err);
  return status;
}

std::vector<ckpt_late_range> ranges_of(const std::vector<Bytes>& memory) {
  std::vector<ckpt_late_range> ranges;
  ranges.reserve(memory.size());
  for (const Bytes bytes : memory) ranges.push_back({bytes.data(), bytes.size()});
  return ranges;
}

// The memory of a caller, by his functions.
class CallersMemory final : public save::LateMemory {
 public:
  explicit CallersMemory(const ckpt_late_memory& memory) : memory_(memory) {}
  ~CallersMemory() override {
    if (memory_.release) memory_.release(memory_.user);
  }

  Status fill(const std::vector<Bytes>& samples) override {
    const std::vector<ckpt_late_range> ranges = ranges_of(samples);
    ckpt_error* err = nullptr;
    return status_of(memory_.fill(memory_.user, ranges.data(), ranges.size(), &err), err);
  }

  Status begin(std::vector<std::vector<Bytes>> blocks) override {
    std::vector<ckpt_late_range> all;
    std::vector<uint64_t> ends;
    for (const std::vector<Bytes>& block : blocks) {
      const std::vector<ckpt_late_range> ranges = ranges_of(block);
      all.insert(all.end(), ranges.begin(), ranges.end());
      ends.push_back(all.size());
    }
    ckpt_error* err = nullptr;
    return status_of(memory_.begin(memory_.user, all.data(), ends.data(), ends.size(), &err), err);
  }

  Status wait(size_t block, const std::function<Status()>& go_on) override {
    constexpr int64_t kAskMs = 50;
    for (int32_t is_there = 0; is_there == 0;) {
      CKPT_TRY(go_on());
      ckpt_error* err = nullptr;
      CKPT_TRY(status_of(memory_.wait(memory_.user, block, kAskMs, &is_there, &err), err));
    }
    return Ok();
  }

  void done(size_t block) override { memory_.done(memory_.user, block); }

 private:
  const ckpt_late_memory memory_;
};

}  // namespace

ckpt_status ckpt_save_set_late_memory(ckpt_save* save, const ckpt_late_memory* memory, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(save, "save"));
    ckpt_late_memory given{};
    CKPT_TRY(get_struct(memory, &given, offsetof(ckpt_late_memory, release), sizeof given));
    if (!given.fill || !given.begin || !given.wait || !given.done) return null_status("fill, begin, wait or done");
    CKPT_TRY(check_reserved(given.reserved));
    if (save->save->begun()) return Status(CKPT_INVALID, "the save has begun; its memory cannot be filled late");
    save->save->fill_from(std::make_shared<CallersMemory>(given));
    return Ok();
  });
}

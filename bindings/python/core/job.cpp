#include "bind.h"

#include <nanobind/stl/optional.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace ckpt_py {

static constexpr int64_t kSliceMs = 100;

Work::~Work() {
  unlocked([&] { ckpt::Job ended(std::move(job)); });
}

int32_t Work::state() {
  const int32_t now = job.state();
  if (now >= quiet_at) Kept().swap(kept);
  return now;
}

void Work::wait(int32_t wanted, int64_t timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const bool forever = timeout_ms < 0;
  const auto deadline =
      Clock::now() + std::chrono::milliseconds(forever ? 0 : std::min<int64_t>(timeout_ms, 1LL << 40));
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count() + 1;
    const bool last_slice = !forever && left <= kSliceMs;
    const int64_t slice = forever ? kSliceMs : timeout_ms == 0 ? 0 : std::clamp<int64_t>(left, 0, kSliceMs);
    try {
      unlocked([&] { job.wait(wanted, slice); });
      state();
      return;
    } catch (const ckpt::Error& error) {
      // A job that missed its own deadline also gives TIMEOUT, but has ended.
      if (error.status() != CKPT_TIMEOUT || last_slice || state() >= CKPT_JOB_FAILED) {
        if (state() >= CKPT_JOB_FAILED) unlocked([&] { job.wait(wanted, 0); });
        if (error.status() != CKPT_TIMEOUT || !last_slice) throw;
        raise(CKPT_TIMEOUT,
              "the job did not reach state " + std::to_string(wanted) + " within " + std::to_string(timeout_ms) +
                  " ms; it goes on",
              error.details());
      }
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

JobObject::~JobObject() {
  if (held_.closed() || made_in_ != getpid()) return;
  if (const int32_t now = held_.get()->state(); now >= CKPT_JOB_COMMITTED || now == CKPT_JOB_NEW) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (PyErr_WarnEx(PyExc_ResourceWarning, "a Job that was still running is cancelled, since nothing refers to it", 1))
    PyErr_WriteUnraisable(Py_None);
  PyErr_Restore(type, value, trace);
}

JobObject::JobObject(std::shared_ptr<Work> work) : held_(std::move(work), "Job"), made_in_(getpid()) {}

void JobObject::close() {
  if (held_.closed()) return;
  const std::shared_ptr<Work> ending = held_.get();
  held_.close();
  ending->job.cancel();
  if (ending->state() == CKPT_JOB_NEW) return;  // its call has not begun, and ends at once if it does
  // A thread in wait() may keep the job alive longer, but its work must have ended when close() returns.
  try {
    unlocked([&] { ending->job.wait(ending->last, -1); });
  } catch (const ckpt::Error&) {
  }
}

JobOptions::JobOptions(nb::handle mapping, const nb::kwargs& keywords, const JobObject* job)
    : work_(job ? job->work() : nullptr), options_(options(mapping, keywords)) {
  if (work_) options_.set_job(work_->job);
}

void bind_job(nb::module_& m) {
  nb::class_<JobObject> job(
      m, "Job",
      "Work in the background, from Save.start, Load.start or Reader.verify. Several threads may use "
      "it at once.\n\nJob() is for one call that blocks: given to Session(), Store.prune, repair or "
      "import_file, Reader.diff, copy or export as job=, it lets another thread watch and cancel that "
      "call.\n\nThe end of a `with` block waits for the end of the work; an exception in the block "
      "cancels the work instead.");
  bind_repr(job);
  job.def(
         "__init__", [](JobObject* self) { new (self) JobObject(other_job(ckpt::Job::create(), {})); },
         nb::sig("def __init__(self) -> None"))
      .def_prop_ro(
          "state", [](const JobObject& self) { return job_state_of(self.work()->state()); },
          nb::sig("def state(self) -> ckpt.enums.JobState"), "How far the job is; its number only grows.")
      .def(
          "wait",
          [](const JobObject& self, std::optional<int32_t> state, int64_t timeout_ms) {
            const auto work = self.work();
            work->wait(state.value_or(work->last), timeout_ms);
          },
          nb::arg("state") = nb::none(), nb::arg("timeout_ms") = -1,
          "Waits until the job reaches `state` (None: its end). A negative timeout waits without limit.\n\nRaises "
          "TimeoutError when the time is up (the job goes on), or the error of a job that failed. Ctrl-C ends the "
          "wait, not the job; close(), or the `with` block that the KeyboardInterrupt leaves, cancels it.")
      .def(
          "cancel", [](const JobObject& self) { self.work()->job.cancel(); },
          "Asks the job to stop and returns at once. A save that is not yet committed will not be.")
      .def_prop_ro(
          "stats", [](const JobObject& self) { return record(self.work()->job.stats()); },
          nb::sig("def stats(self) -> ckpt.records.JobStats"), "Counters of the work so far.")
      .def(
          "report", [](const JobObject& self) { return record(self.work()->job.report()); },
          nb::sig("def report(self) -> ckpt.records.Report"),
          "What a verify job found, once it has ended; UnsupportedError for other jobs.")
      .def("close", &JobObject::close,
           "Cancels the job if it still runs, and waits until the engine no longer uses the memory.")
      .def_prop_ro("closed", &JobObject::closed, "Whether close() was called.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Job"))
      .def(
          "__exit__",
          [](JobObject& self, nb::handle type, nb::handle, nb::handle) {
            if (self.closed()) return;
            const auto work = self.work();
            try {
              if (type.is_none() && work->state() != CKPT_JOB_NEW) work->wait(work->last, -1);
            } catch (...) {
              self.close();
              throw;
            }
            self.close();
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none(), nb::sig(CKPT_PY_EXIT));
}

}  // namespace ckpt_py

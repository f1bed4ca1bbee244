// Jobs, and the Python memory that their work uses.
#pragma once

#include <vector>

#include "arguments.h"
#include "held.h"
#include "records.h"

namespace ckpt_py {

using Kept = std::vector<nb::object>;

// Running work and the Python memory that it uses. The memory is released at state `quiet_at`, or with the work.
struct Work {
  Work(ckpt::Job&& running, Kept&& memory, int32_t when, int32_t end)
      : job(std::move(running)), kept(std::move(memory)), quiet_at(when), last(end) {}
  ~Work();  // called with the GIL held; gives it up until the engine has ended
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  int32_t state();
  // Waits in slices of 100 ms and looks for signals in between, so that Ctrl-C is heard. Raises.
  void wait(int32_t state, int64_t timeout_ms);

  ckpt::Job job;
  Kept kept;
  int32_t quiet_at, last;
};

class JobObject {
 public:
  explicit JobObject(std::shared_ptr<Work> work);
  ~JobObject();
  JobObject(JobObject&&) = default;
  std::shared_ptr<Work> work() const { return held_.get(); }
  void close();
  bool closed() const { return held_.closed(); }

 private:
  Held<Work> held_;
  int made_in_;  // the process; a forked child has no running job
};

inline JobObject save_job(ckpt::Job&& job, Kept&& kept) {
  return JobObject(std::make_shared<Work>(std::move(job), std::move(kept), CKPT_JOB_STAGED, CKPT_JOB_COMMITTED));
}
inline JobObject other_job(ckpt::Job&& job, Kept&& kept) {
  return JobObject(std::make_shared<Work>(std::move(job), std::move(kept), CKPT_JOB_DONE, CKPT_JOB_DONE));
}

// The options of a call that works under a job (null: under none), which lives until the end of the call.
class JobOptions {
 public:
  JobOptions(nb::handle mapping, const nb::kwargs& keywords, const JobObject* job);
  operator const ckpt::Options&() const { return options_; }

 private:
  std::shared_ptr<Work> work_;
  ckpt::Options options_;
};

void bind_job(nb::module_& m);

}  // namespace ckpt_py

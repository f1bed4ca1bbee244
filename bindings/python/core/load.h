// Load.
#pragma once

#include "batch.h"
#include "bind.h"
#include "region.h"
#include "table.h"

namespace ckpt_py {

// A load and the Python memory that it writes to, which is kept until the load has run or its job has ended.
class LoadObject {
 public:
  LoadObject(ckpt::Load&& load) : held_(std::move(load), "Load") {}

  void add_tensor(nb::handle name, nb::handle data, const Region& region, bool convert) {
    const auto load = held_.get();
    const Alone alone(&busy_, "Load");
    const std::string called = text(name, "name");
    Placed placed = place(called, data, region, true);
    if (convert) placed.tensor.convert();
    load->add_tensor(called, placed.tensor, ckpt::MutableMemory(placed.data, placed.bytes), placed.device);
    if (!placed.kept.is_none()) kept_.push_back(std::move(placed.kept));
  }

  // The rows of a window of a share.
  void add_table(const ShareObject& share, nb::handle ids, nb::dict columns, uint64_t window);

  // Whole tensors, and what keeps their memory.
  void add_tensors(Batch<void*>& batch, nb::object kept);

  void add_object(nb::handle name, nb::handle data, uint32_t rank) {
    const auto load = held_.get();
    const Alone alone(&busy_, "Load");
    nb::object kept = Memory::of(data, true);
    const Memory& memory = nb::cast<const Memory&>(kept);
    if (!memory.contiguous()) raise(CKPT_UNSUPPORTED, "an object's memory must be contiguous");
    load->add_object(text(name, "name"), rank, ckpt::MutableMemory(memory.data, memory.bytes));
    kept_.push_back(std::move(kept));
  }

  void run(bool interruptible) {
    if (interruptible) {
      JobObject job = start();
      try {
        job.work()->wait(CKPT_JOB_DONE, -1);
      } catch (...) {
        job.close();
        throw;
      }
      job.close();
      return;
    }
    const auto load = held_.get();
    const Alone alone(&busy_, "Load");
    unlocked([&] { load->run(); });
    Kept().swap(kept_);
  }

  JobObject start() {
    const auto load = held_.get();
    const Alone alone(&busy_, "Load");
    ckpt::Job job = unlocked([&] { return load->start(); });
    return other_job(std::move(job), std::move(kept_));
  }

  nb::object report() const { return record(held_.get()->report()); }

  void close() {
    const Alone alone(&busy_, "Load");
    held_.close();
    Kept().swap(kept_);
  }
  bool closed() const { return held_.closed(); }

 private:
  Held<ckpt::Load> held_;
  Kept kept_;
  bool busy_ = false;
};

}  // namespace ckpt_py

// Saves through the engine's own classes, for tests that stand between it and its store.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/checkpoint.h"
#include "load/load.h"
#include "save/save.h"
#include "session/session.h"
#include "store/shell_store.h"

namespace ckpt {

// An empty store in memory. Its name is new, since stores of one name share what they hold.
inline std::shared_ptr<store::Store> fresh_memory_store() {
  static int number = 0;
  return *store::open_memory("fresh" + std::to_string(number++));
}

inline std::shared_ptr<session::Session> open_session(std::shared_ptr<store::Store> store, uint32_t rank = 0,
                                                      uint32_t world_size = 1, const char* string = nullptr) {
  auto session = session::Session::open(std::move(store), rank, world_size, string, {});
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? *session : nullptr;
}

// Begins a save or a load, and runs it on this thread.
inline Status run_whole(save::Save& save) {
  CKPT_TRY(save.begin());
  Job job;
  return job.run(CKPT_JOB_COMMITTED, [&](Job& running) { return save.work(running, false); });
}
inline Status run_whole(load::Load& load) {
  CKPT_TRY(load.begin());
  Job job;
  return job.run(CKPT_JOB_DONE, [&](Job& running) { return load.work(running); });
}

// `count` rows, from `first` on, of a matrix of f32.
inline ckpt_tensor_desc f32_rows(uint64_t rows, uint64_t columns, uint64_t first, uint64_t count) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = CKPT_DTYPE_F32;
  desc.ndim = 2;
  desc.region_kind = CKPT_REGION_BOX;
  desc.shape[0] = static_cast<int64_t>(rows);
  desc.shape[1] = desc.extent[1] = static_cast<int64_t>(columns);
  desc.offset[0] = static_cast<int64_t>(first);
  desc.extent[0] = static_cast<int64_t>(count);
  return desc;
}

// One small tensor of every rank's own.
inline Status save_step(const std::shared_ptr<session::Session>& session, int64_t step,
                        const SaveOptions& options = {}) {
  CKPT_ASSIGN(auto save, save::Save::make(session, "s" + std::to_string(step), step, options));
  const std::string text = "object of step " + std::to_string(step);
  CKPT_TRY(save->add_object("o", "text/plain", CKPT_OBJECT_PER_RANK, as_bytes(text)));
  return run_whole(*save);
}

inline std::string slot_of(int64_t step, int token = 1) {
  return "s" + std::to_string(step) + "." + std::to_string(token) + ".1/MANIFEST";
}

}  // namespace ckpt

// ckpt_layer.h: what a library above ckpt is promised. libckpt_files is one; interop/tests and stall_test.cpp show it
// at work, also where a disk hangs.
#include "ckpt_layer.h"

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "api/ranks.h"

namespace ckpt_test {
namespace {

using Layer = testing::Test;
using Call = std::unique_ptr<ckpt_call, Freer<ckpt_call_free>>;

Call new_call(const Options& options) {
  ckpt_call* call = nullptr;
  Error error;
  EXPECT_EQ(ckpt_call_new(&call, options.get(), error), CKPT_OK) << error.text();
  return Call(call);
}

Job new_job(const Options& options) {
  ckpt_job* job = nullptr;
  Error error;
  EXPECT_EQ(ckpt_job_new(&job, error), CKPT_OK) << error.text();
  EXPECT_EQ(ckpt_options_set_job(options.get(), job, error), CKPT_OK) << error.text();
  return Job(job);
}

void run(const Call& call, int32_t how, std::function<void()> work) {
  ckpt_call_run(call.get(), how, [](void* user) { (*static_cast<std::function<void()>*>(user))(); }, &work);
}

ckpt_status list(const Store& store) {
  ckpt_list* list = nullptr;
  const ckpt_status status = ckpt_store_list(store.get(), &list, nullptr);
  ckpt_list_free(list);
  return status;
}

ckpt_call_state look(const Call& call, ckpt_status expected) {
  auto state = sized<ckpt_call_state>();
  Error error;
  EXPECT_EQ(ckpt_call_look(call.get(), &state, error), expected) << error.text();
  return state;
}

TEST(Layer, AnErrorOfItsOwnIsLikeAnyOther) {
  const char* const keys[] = {"tensor", "found"};
  const char* const values[] = {"w", "3"};
  ckpt_error* error = ckpt_error_new(CKPT_MISMATCH, "it is another", keys, values, 2);
  EXPECT_EQ(ckpt_error_status(error), CKPT_MISMATCH);
  EXPECT_STREQ(ckpt_error_message(error), "it is another");
  EXPECT_STREQ(ckpt_error_detail(error, "tensor"), "w");
  EXPECT_STREQ(ckpt_error_detail(error, "found"), "3");
  ckpt_error_free(error);
  EXPECT_EQ(ckpt_error_new(CKPT_OK, "nothing", nullptr, nullptr, 0), nullptr);
}

TEST(Layer, ReadsOfOptionsWhatACallerSetAndNothingElse) {
  const Options given = options({{"threads", 3}, {"run", "a"}});
  int64_t number = 0;
  EXPECT_EQ(ckpt_options_get_int(given.get(), "threads", &number), 1);
  EXPECT_EQ(number, 3);
  EXPECT_STREQ(ckpt_options_get_str(given.get(), "run"), "a");
  EXPECT_EQ(ckpt_options_get_int(given.get(), "run", &number), 0);
  EXPECT_EQ(ckpt_options_get_str(given.get(), "threads"), nullptr);
  EXPECT_EQ(ckpt_options_get_int(given.get(), "timeout_ms", &number), 0) << "its default was not set";
  EXPECT_EQ(ckpt_options_get_str(nullptr, "run"), nullptr);
  EXPECT_EQ(ckpt_options_has_job(given.get()), 0);
  const Job job = new_job(given);
  EXPECT_EQ(ckpt_options_has_job(given.get()), 1);
}

TEST(Layer, HandlesOfItsOwnOutliveTheCallers) {
  Store store;
  Reader reader;
  {
    const World world("mem:layer-clones", 1);
    const Session& session = world.sessions[0];
    const Bytes data = pattern(100, 1);
    Save save = new_save(session, "a");
    add(save.get(), "w", whole(CKPT_DTYPE_U8, {100}), data);
    Error error;
    run(save);
    const Reader opened = open_reader(world.store, "a");
    ckpt_store* same_store = nullptr;
    ckpt_reader* same_reader = nullptr;
    ASSERT_EQ(ckpt_store_clone(&same_store, world.store.get(), error), CKPT_OK) << error.text();
    ASSERT_EQ(ckpt_reader_clone(&same_reader, opened.get(), error), CKPT_OK) << error.text();
    store.reset(same_store);
    reader.reset(same_reader);
  }
  EXPECT_EQ(committed_count(store), 1u);
  EXPECT_EQ(load_one(reader, "w", whole(CKPT_DTYPE_U8, {100}), 100), pattern(100, 1));
}

TEST(Layer, ACallServesTheJobOfItsOptionsOnceAndEndsIt) {
  const Options given = options({});
  const Job job = new_job(given);
  const Call call = new_call(given);
  EXPECT_EQ(ckpt_job_state(job.get()), CKPT_JOB_RUNNING);
  ckpt_call* second = nullptr;
  Error error;
  EXPECT_EQ(ckpt_call_new(&second, given.get(), error), CKPT_INVALID);
  auto done = sized<ckpt_job_stats>();
  done.bytes_total = 10;
  done.bytes_done = 4;
  done.get_count = 2;
  for (int i = 0; i < 2; i++) EXPECT_EQ(ckpt_call_count(call.get(), &done, error), CKPT_OK) << error.text();
  EXPECT_EQ(stats_of(job).bytes_total, 10u);
  EXPECT_EQ(stats_of(job).bytes_done, 4u);
  EXPECT_EQ(stats_of(job).get_count, 2u) << "what was counted is in all";
  ckpt_error* problem = ckpt_error_new(CKPT_IO, "broken", nullptr, nullptr, 0);
  ckpt_call_finish(call.get(), problem);
  ckpt_error_free(problem);
  EXPECT_EQ(ckpt_job_state(job.get()), CKPT_JOB_FAILED);
  EXPECT_EQ(ckpt_job_wait(job.get(), CKPT_JOB_DONE, 0, error), CKPT_IO);
  const Options other = options({});
  const Job well = new_job(other);
  ckpt_call_finish(new_call(other).get(), nullptr);
  EXPECT_EQ(ckpt_job_state(well.get()), CKPT_JOB_DONE);
  const Options forgotten = options({});
  const Job unfinished = new_job(forgotten);
  new_call(forgotten).reset();
  EXPECT_EQ(ckpt_job_state(unfinished.get()), CKPT_JOB_FAILED) << "nobody would end it any more";
}

// An import that waits for its turn, which another one has.
ckpt_status wait_for_turn(const Store& store) {
  const Options import = options({{"purpose", "import"}, {"timeout_ms", 60'000}});
  ckpt_session* session = nullptr;
  const ckpt_status status = ckpt_session_open(&session, store.get(), 0, 1, nullptr, import.get(), nullptr);
  ckpt_session_free(session);
  return status;
}

TEST(Layer, PartsOfACallEndWithItButForWhatTidiesUp) {
  const Scratch scratch;
  const Store store = open_store(scratch / "store");
  const Session holder = open_session(store, 0, 1, nullptr, {{"purpose", "import"}});
  for (const bool cancels : {true, false}) {
    const Options given = options({});
    const Job job = new_job(given);
    const Call call = new_call(given);
    run(call, CKPT_CALL_WORK, [&] { EXPECT_EQ(list(store), CKPT_OK); });
    EXPECT_EQ(look(call, CKPT_OK).over_ms, -1);
    std::thread ends([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (cancels) return ckpt_job_cancel(job.get());
      ckpt_error* cause = ckpt_error_new(CKPT_CORRUPT, "it is broken", nullptr, nullptr, 0);
      ckpt_call_close(call.get(), cause);
      ckpt_error_free(cause);
    });
    const ckpt_status over = cancels ? CKPT_CANCELLED : CKPT_TIMEOUT;
    const auto before = std::chrono::steady_clock::now();
    run(call, CKPT_CALL_WORK, [&] { EXPECT_EQ(wait_for_turn(store), over); });
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20));
    ends.join();
    const ckpt_call_state state = look(call, over);
    EXPECT_EQ(state.cancelled, cancels ? 1 : 0);
    EXPECT_EQ(state.left, 0);
    EXPECT_GE(state.over_ms, 0);
    run(call, CKPT_CALL_TIDY, [&] { EXPECT_EQ(list(store), CKPT_OK); });
  }
}

TEST(Layer, MemoryThatNoPartUsesIsReleasedAtOnce) {
  const Call call = new_call(options({}));
  int released = 0;
  ckpt_call_keep(call.get(), &released, [](void* memory) { ++*static_cast<int*>(memory); });
  EXPECT_EQ(released, 1);
}

// Fills memory as it is wanted, and takes it back.
struct Filler {
  std::mutex mutex;
  Bytes memory, source;
  std::vector<std::vector<ckpt_late_range>> blocks;
  size_t waited = 0, done = 0;
  bool filled = false, fails = false;
  int* released = nullptr;

  void bring(const ckpt_late_range& range) {
    const auto* const at = static_cast<const unsigned char*>(range.data);
    if (at < memory.data() || at >= memory.data() + memory.size()) return;
    std::copy_n(source.begin() + (at - memory.data()), range.size, memory.begin() + (at - memory.data()));
  }
};

Filler& filler_of(void* user) { return *static_cast<Filler*>(user); }

ckpt_status fill(void* user, const ckpt_late_range* samples, uint64_t count, ckpt_error**) {
  const std::lock_guard lock(filler_of(user).mutex);
  for (uint64_t i = 0; i < count; i++) filler_of(user).bring(samples[i]);
  filler_of(user).filled = true;
  return CKPT_OK;
}

ckpt_status begin(void* user, const ckpt_late_range* ranges, const uint64_t* ends, uint64_t count, ckpt_error**) {
  for (uint64_t block = 0, at = 0; block < count; at = ends[block++])
    filler_of(user).blocks.emplace_back(ranges + at, ranges + ends[block]);
  return CKPT_OK;
}

ckpt_status wait(void* user, uint64_t block, int64_t, int32_t* is_there, ckpt_error** err) {
  Filler& filler = filler_of(user);
  const std::lock_guard lock(filler.mutex);
  if (filler.fails) {
    *err = ckpt_error_new(CKPT_GONE, "the server has it no more", nullptr, nullptr, 0);
    return CKPT_GONE;
  }
  *is_there = ++filler.waited % 2 == 0 ? 1 : 0;  // asked again
  if (*is_there != 0)
    for (const ckpt_late_range& range : filler.blocks[block]) filler.bring(range);
  return CKPT_OK;
}

void done(void* user, uint64_t) {
  const std::lock_guard lock(filler_of(user).mutex);
  filler_of(user).done++;
}

void release(void* user) { ++*filler_of(user).released; }

ckpt_status set_late(ckpt_save* save, Filler* filler) {
  auto memory = sized<ckpt_late_memory>();
  memory.user = filler;
  memory.fill = fill;
  memory.begin = begin;
  memory.wait = wait;
  memory.done = done;
  memory.release = release;
  return ckpt_save_set_late_memory(save, &memory, nullptr);
}

TEST(Layer, LateMemoryIsFilledBeforeItIsSaved) {
  for (const char* compression : {"none", "auto"}) {
    const World world(std::string("mem:layer-late-") + compression, 1);
    Filler filler;
    int released = 0;
    filler.released = &released;
    filler.source = pattern(20 << 20, 1);
    filler.memory.resize(filler.source.size());
    Save save = new_save(world.sessions[0], "a", {{"compression", compression}});
    const auto size = static_cast<int64_t>(filler.memory.size());
    add(save.get(), "w", whole(CKPT_DTYPE_U8, {size}), filler.memory.data(), filler.memory.size());
    EXPECT_EQ(set_late(save.get(), &filler), CKPT_OK);
    run(save);
    save.reset();
    EXPECT_EQ(released, 1);
    EXPECT_GT(filler.blocks.size(), 0u);
    EXPECT_EQ(filler.done, filler.blocks.size());
    EXPECT_EQ(filler.filled, std::string(compression) == "auto");
    const Reader reader = open_reader(world.store, "a");
    EXPECT_EQ(load_one(reader, "w", whole(CKPT_DTYPE_U8, {size}), filler.source.size()), filler.source);
  }
}

TEST(Layer, AnErrorOfLateMemoryEndsTheSave) {
  const World world("mem:layer-late-gone", 1);
  Filler filler;
  int released = 0;
  filler.released = &released;
  filler.fails = true;
  filler.memory.resize(4096);
  Save save = new_save(world.sessions[0], "a", {{"compression", "none"}});
  add(save.get(), "w", whole(CKPT_DTYPE_U8, {4096}), filler.memory.data(), filler.memory.size());
  EXPECT_EQ(set_late(save.get(), &filler), CKPT_OK);
  Error error;
  EXPECT_EQ(ckpt_save_run(save.get(), error), CKPT_GONE);
  EXPECT_EQ(set_late(save.get(), &filler), CKPT_INVALID) << "it is read already";
  EXPECT_NE(error.text().find("the server has it no more"), std::string::npos) << error.text();
  save.reset();
  EXPECT_EQ(released, 1);
  EXPECT_EQ(committed_count(world.store), 0u);
}

TEST(Layer, LateMemoryNeedsItsFunctions) {
  const World world("mem:layer-late-null", 1);
  Save save = new_save(world.sessions[0], "a");
  auto memory = sized<ckpt_late_memory>();
  Error error;
  EXPECT_EQ(ckpt_save_set_late_memory(save.get(), &memory, error), CKPT_INVALID);
}

TEST(Layer, SessionsOfImportsTakeTurnsInTheRunThatTheyChoose) {
  const Scratch scratch;
  const Store store = open_store(scratch / "store");
  const Options import = options({{"purpose", "import"}, {"timeout_ms", 50}});
  ckpt_session* opened = nullptr;
  Error error;
  ASSERT_EQ(ckpt_session_open(&opened, store.get(), 0, 1, nullptr, import.get(), error), CKPT_OK) << error.text();
  Session first(opened);
  EXPECT_EQ(ckpt_session_open(&opened, store.get(), 0, 1, nullptr, import.get(), error), CKPT_TIMEOUT);
  EXPECT_NE(error.text().find("another import into run \"main\""), std::string::npos) << error.text();
  const Save left = new_save(first, "a");  // as a thread that was left behind would have it
  first.reset();
  ASSERT_EQ(ckpt_session_open(&opened, store.get(), 0, 1, nullptr, import.get(), error), CKPT_OK) << error.text();
  first.reset(opened);
  first = open_session(store);  // a trainer takes "main"
  ASSERT_EQ(ckpt_session_open(&opened, store.get(), 0, 1, nullptr, import.get(), error), CKPT_OK) << error.text();
  const Session third(opened);
  EXPECT_NE(std::string(ckpt_session_string(third.get())).find("import"), std::string::npos)
      << ckpt_session_string(third.get());
  const Options meet = options({{"purpose", "import"}, {"rendezvous", 1}});
  EXPECT_EQ(ckpt_session_open(&opened, store.get(), 0, 2, nullptr, meet.get(), error), CKPT_INVALID);
  EXPECT_NE(error.text().find("option run"), std::string::npos) << error.text();
}

}  // namespace
}  // namespace ckpt_test

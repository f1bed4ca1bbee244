// Saves and loads of memory on devices.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "cuda/device_memory.h"

namespace {

using namespace cuda_test;
using ckpt_test::box;
using ckpt_test::Error;
using ckpt_test::load_one;
using ckpt_test::new_load;
using ckpt_test::new_save;
using ckpt_test::open_reader;
using ckpt_test::Options;
using ckpt_test::pattern;
using ckpt_test::whole;
using ckpt_test::World;

enum class How { kRun, kStart, kInPlace };
struct Case {
  const char* name;
  How how;
  const char* compression;
};
class EveryWay : public Devices, public ::testing::WithParamInterface<Case> {
 protected:
  void work(ckpt_save* save) {
    if (GetParam().how == How::kRun) return run(save);
    ckpt_job* job = nullptr;
    Error error;
    const auto start = GetParam().how == How::kStart ? ckpt_save_start : ckpt_save_start_in_place;
    ASSERT_EQ(start(save, &job, error), CKPT_OK) << error.text();
    EXPECT_EQ(ckpt_job_wait(job, CKPT_JOB_COMMITTED, -1, error), CKPT_OK) << error.text();
    ckpt_job_free(job);
  }
};
INSTANTIATE_TEST_SUITE_P(Save, EveryWay,
                         ::testing::Values(Case{"run", How::kRun, "none"}, Case{"start", How::kStart, "none"},
                                           Case{"in_place", How::kInPlace, "none"}, Case{"run_auto", How::kRun, "auto"},
                                           Case{"start_lz4", How::kStart, "lz4"},
                                           Case{"in_place_bitplane", How::kInPlace, "bitplane-lz4"}),
                         [](const auto& test) { return std::string(test.param.name); });

// A matrix of `rows` x `columns` f32 in memory with these strides.
Bytes strided(const Bytes& packed, int64_t rows, int64_t columns, int64_t row_step, int64_t column_step) {
  Bytes memory(static_cast<size_t>((rows - 1) * row_step + (columns - 1) * column_step + 1) * 4, 0xee);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++)
      std::memcpy(&memory[static_cast<size_t>(r * row_step + c * column_step) * 4],
                  &packed[static_cast<size_t>(r * columns + c) * 4], 4);
  return memory;
}

TEST_P(EveryWay, HostAndDeviceMemoryComeBackWhereverTheyWere) {
  const Bytes large = pattern(5 * kMiB + 12, 1), small = pattern(64, 2), host = pattern(3 * kMiB, 3);
  const Bytes matrix = pattern(300 * 200 * 4, 4), packed = pattern(50, 5);
  World world(place.uri(), 1);
  DeviceMemory on_large(large), on_small(small), on_packed(packed), on_gaps(strided(matrix, 300, 200, 256, 1)),
      on_columns(strided(matrix, 300, 200, 1, 300)), on_steps(strided(matrix, 300, 200, 600, 2)),
      on_scalar(pattern(8, 6));
  auto made =
      new_save(world.sessions[0], "s1", {{"compression", GetParam().compression}, {"staging_bytes", 16 * kMiB}});
  add(made.get(), "large", whole(CKPT_DTYPE_U8, {5 * kMiB + 12}), on_large);
  add(made.get(), "small", whole(CKPT_DTYPE_U16, {32}), on_small);
  add(made.get(), "scalar", whole(CKPT_DTYPE_F64, {}), on_scalar);
  add(made.get(), "packed", whole(CKPT_DTYPE_I4, {10, 10}), on_packed);
  add(made.get(), "gaps", with_strides(whole(CKPT_DTYPE_F32, {300, 200}), {256, 1}), on_gaps);
  add(made.get(), "columns", with_strides(whole(CKPT_DTYPE_F32, {300, 200}), {1, 300}), on_columns);
  add(made.get(), "steps", with_strides(whole(CKPT_DTYPE_F32, {300, 200}), {600, 2}), on_steps);
  ckpt_test::add(made.get(), "host", whole(CKPT_DTYPE_U8, {3 * kMiB}), host);
  work(made.get());
  if (HasFailure()) return;

  const auto reader = open_reader(world.store);
  const auto f32 = whole(CKPT_DTYPE_F32, {300, 200});
  EXPECT_EQ(load_one(reader, "large", whole(CKPT_DTYPE_U8, {5 * kMiB + 12}), large.size()), large);
  EXPECT_EQ(load_one(reader, "small", whole(CKPT_DTYPE_U16, {32}), 64), small);
  EXPECT_EQ(load_one(reader, "scalar", whole(CKPT_DTYPE_F64, {}), 8), pattern(8, 6));
  EXPECT_EQ(load_one(reader, "packed", whole(CKPT_DTYPE_I4, {10, 10}), 50), packed);
  for (const char* name : {"gaps", "columns", "steps"}) EXPECT_EQ(load_one(reader, name, f32, matrix.size()), matrix);

  DeviceMemory to_large(Bytes(large.size())), to_small(Bytes(64)), to_host(Bytes(host.size())), to_packed(Bytes(50));
  DeviceMemory to_gaps(Bytes(on_gaps.size(), 0xee)), to_columns(Bytes(on_columns.size(), 0xee)),
      to_steps(Bytes(on_steps.size(), 0xee));
  const auto load = new_load(reader, {{"staging_bytes", 16 * kMiB}});
  ask(load, "large", whole(CKPT_DTYPE_U8, {5 * kMiB + 12}), to_large);
  ask(load, "small", whole(CKPT_DTYPE_U16, {32}), to_small);
  ask(load, "packed", whole(CKPT_DTYPE_I4, {10, 10}), to_packed);
  ask(load, "host", whole(CKPT_DTYPE_U8, {3 * kMiB}), to_host);
  ask(load, "gaps", with_strides(f32, {256, 1}), to_gaps);
  ask(load, "columns", with_strides(f32, {1, 300}), to_columns);
  ask(load, "steps", with_strides(f32, {600, 2}), to_steps);
  run(load);
  EXPECT_EQ(to_large.get(), large);
  EXPECT_EQ(to_small.get(), small);
  EXPECT_EQ(to_packed.get(), packed);
  EXPECT_EQ(to_host.get(), host);
  EXPECT_EQ(to_gaps.get(), on_gaps.get());  // what lies between the elements stays
  EXPECT_EQ(to_columns.get(), on_columns.get());
  EXPECT_EQ(to_steps.get(), on_steps.get());
}

TEST_F(Devices, BoxesConversionsAndViewsGoToADevice) {
  const Bytes matrix = pattern(64 * 48 * 4, 1);
  World world(place.uri(), 1);
  DeviceMemory memory(matrix);
  auto made = new_save(world.sessions[0], "s1");
  add(made.get(), "m", whole(CKPT_DTYPE_F32, {64, 48}), memory);
  ckpt_tensor_desc view = with_strides(whole(CKPT_DTYPE_F32, {48, 64}), {1, 48});
  Error error;
  ASSERT_EQ(ckpt_save_add_alias(made.get(), "transposed", "m", &view, error), CKPT_OK) << error.text();
  run(made.get());
  const auto reader = open_reader(world.store);

  auto converted = whole(CKPT_DTYPE_BF16, {64, 48});
  converted.flags |= CKPT_TENSOR_CONVERT;
  const auto part = box(CKPT_DTYPE_F32, {64, 48}, {3, 5}, {40, 7});
  DeviceMemory to_half(Bytes(64 * 48 * 2)), to_part(Bytes(40 * 7 * 4)), to_view(Bytes(matrix.size()));
  const auto load = new_load(reader);
  ask(load, "m", converted, to_half);
  ask(load, "m", part, to_part);
  ask(load, "transposed", whole(CKPT_DTYPE_F32, {48, 64}), to_view);
  run(load);
  EXPECT_EQ(to_half.get(), load_one(reader, "m", converted, to_half.size()));
  EXPECT_EQ(to_part.get(), load_one(reader, "m", part, to_part.size()));
  EXPECT_EQ(to_view.get(), load_one(reader, "transposed", whole(CKPT_DTYPE_F32, {48, 64}), to_view.size()));
}

TEST_F(Devices, SeveralDevicesTakePartInOneSaveAndOneLoad) {
  const int count = device_count();
  if (count < 2) GTEST_SKIP() << "one device only";
  World world(place.uri(), 1);
  std::vector<DeviceMemory> from, to;
  auto made = new_save(world.sessions[0], "s1");
  for (int id = 0; id < count; id++)
    add(made.get(), "t" + std::to_string(id), whole(CKPT_DTYPE_U8, {2 * kMiB + id}),
        from.emplace_back(pattern(2 * kMiB + id, id), id), id);
  run(made.get());
  const auto reader = open_reader(world.store);
  const auto load = new_load(reader);
  for (int id = 0; id < count; id++)
    ask(load, "t" + std::to_string(id), whole(CKPT_DTYPE_U8, {2 * kMiB + id}),
        to.emplace_back(Bytes(2 * kMiB + id), id), id);
  run(load);
  for (int id = 0; id < count; id++) EXPECT_EQ(to[id].get(), pattern(2 * kMiB + id, id)) << id;
}

// ---- what the caller's streams still do ----

class OnEveryStream : public Devices, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Stream, OnEveryStream,
                         ::testing::Values("own", "legacy", "unsaid", "per_thread", "blocking_unsaid"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(OnEveryStream, ASaveReadsWhatTheWorkBeforeItMakes) {
  const std::string which = GetParam();
  const Bytes last = pattern(kMiB, 9);
  DeviceMemory memory{Bytes(kMiB)}, source(last), other(pattern(kMiB, 8));
  CallerStream own(which == "blocking_unsaid" ? 0 : 1);
  const Stream works_in = which == "legacy" || which == "unsaid" ? nullptr
                          : which == "per_thread"                ? reinterpret_cast<Stream>(2)
                                                                 : own.stream;
  World world(place.uri(), 1);
  auto made = new_save(world.sessions[0], "s1");
  auto desc = whole(CKPT_DTYPE_U8, {kMiB});
  desc.stream = which == "own" ? own.number() : which == "legacy" ? 1 : which == "per_thread" ? 2 : 0;
  add(made.get(), "t", desc, memory);
  if (fake()) fake()->delay_us(2000, 4000);
  for (int i = 0; i < 40; i++)
    must(cudaMemcpyAsync(memory.data(), i == 39 ? source.data() : other.data(), kMiB, kDefault, works_in));
  run(made.get());
  must(cudaStreamSynchronize(works_in));
  EXPECT_EQ(load_one(open_reader(world.store), "t", desc, kMiB), last);
}

TEST_F(Devices, ALoadWritesOnlyAfterTheWorkBeforeIt) {
  const Bytes saved = pattern(kMiB, 1);
  World world(place.uri(), 1);
  world.commit("s1", {}, [&](uint32_t, ckpt_save* save) {
    ckpt_test::add(save, "t", whole(CKPT_DTYPE_U8, {kMiB}), world.keep(saved));
  });
  const auto reader = open_reader(world.store);
  DeviceMemory memory{Bytes(kMiB)}, other(pattern(kMiB, 8));
  CallerStream own;
  auto desc = whole(CKPT_DTYPE_U8, {kMiB});
  desc.stream = own.number();
  const auto load = new_load(reader);
  ask(load, "t", desc, memory);
  if (fake()) fake()->delay_us(2000, 4000);
  for (int i = 0; i < 40; i++) must(cudaMemcpyAsync(memory.data(), other.data(), kMiB, kDefault, own.stream));
  run(load);
  must(cudaStreamSynchronize(own.stream));
  EXPECT_EQ(memory.get(), saved);
}

TEST_F(Devices, OnceStagedTheMemoryMayChange) {
  const Bytes first = pattern(12 * kMiB, 1), second = pattern(12 * kMiB, 2);
  World world(place.uri(), 1);
  DeviceMemory memory(first);
  auto made = new_save(world.sessions[0], "s1");
  add(made.get(), "t", whole(CKPT_DTYPE_U8, {12 * kMiB}), memory);
  if (fake()) fake()->delay_us(2000, 6000);
  ckpt_job* job = nullptr;
  Error error;
  ASSERT_EQ(ckpt_save_start(made.get(), &job, error), CKPT_OK) << error.text();
  ASSERT_EQ(ckpt_job_wait(job, CKPT_JOB_STAGED, -1, error), CKPT_OK) << error.text();
  memory.put(second);
  EXPECT_EQ(ckpt_job_wait(job, CKPT_JOB_COMMITTED, -1, error), CKPT_OK) << error.text();
  ckpt_job_free(job);
  EXPECT_EQ(load_one(open_reader(world.store), "t", whole(CKPT_DTYPE_U8, {12 * kMiB}), 12 * kMiB), first);
}

// ---- what memory is ----

TEST_F(Devices, ManagedMemoryIsTakenAndPinnedMemoryIsTheHosts) {
  World world(place.uri(), 1);
  DeviceMemory managed(pattern(kMiB, 1), 0, true);
  void* pinned = nullptr;
  must(cudaMallocHost(&pinned, kMiB));
  std::memcpy(pinned, pattern(kMiB, 2).data(), kMiB);
  const auto desc = whole(CKPT_DTYPE_U8, {kMiB});
  auto made = new_save(world.sessions[0], "s1");
  Error error;
  EXPECT_EQ(ckpt_save_add_tensor(made.get(), "a", &desc, managed.data(), kMiB, CKPT_DEVICE_CUDA_MANAGED, 0, error),
            CKPT_OK)
      << error.text();
  EXPECT_EQ(ckpt_save_add_tensor(made.get(), "b", &desc, managed.data(), kMiB, CKPT_DEVICE_CUDA, 0, error), CKPT_OK)
      << error.text();
  EXPECT_EQ(ckpt_save_add_tensor(made.get(), "c", &desc, pinned, kMiB, CKPT_DEVICE_CUDA_HOST, 0, error), CKPT_OK)
      << error.text();
  EXPECT_EQ(ckpt_save_add_tensor(made.get(), "d", &desc, pinned, kMiB, CKPT_DEVICE_CUDA, 0, error), CKPT_INVALID);
  EXPECT_NE(error.text().find("pinned memory of the host"), std::string::npos) << error.text();
  run(made.get());
  const auto reader = open_reader(world.store);
  EXPECT_EQ(load_one(reader, "a", desc, kMiB), pattern(kMiB, 1));
  EXPECT_EQ(load_one(reader, "b", desc, kMiB), pattern(kMiB, 1));
  EXPECT_EQ(load_one(reader, "c", desc, kMiB), pattern(kMiB, 2));
  must(cudaFreeHost(pinned));
}

TEST_F(Devices, MemoryThatIsElsewhereIsInvalid) {
  World world(place.uri(), 1);
  DeviceMemory memory{Bytes(4096)};
  Bytes host(4096);
  const auto desc = whole(CKPT_DTYPE_U8, {4096}), longer = whole(CKPT_DTYPE_U8, {1 << 20});
  auto made = new_save(world.sessions[0], "s1");
  Error error;
  auto try_add = [&](const ckpt_tensor_desc& described, const void* data, int32_t type, int32_t id) {
    return ckpt_save_add_tensor(made.get(), "t", &described, data, 1 << 20, type, id, error);
  };
  EXPECT_EQ(try_add(desc, host.data(), CKPT_DEVICE_CUDA, 0), CKPT_INVALID);
  EXPECT_EQ(error.detail("expected"), "cuda:0");
  EXPECT_EQ(error.detail("tensor"), "t");
  EXPECT_EQ(try_add(desc, memory.data(), CKPT_DEVICE_CUDA, device_count()), CKPT_INVALID) << error.text();
  EXPECT_EQ(try_add(desc, memory.data(), CKPT_DEVICE_CUDA, -1), CKPT_INVALID) << error.text();
  EXPECT_EQ(try_add(desc, memory.data(), 10, 0), CKPT_UNSUPPORTED) << error.text();
  if (fake()) {
    EXPECT_EQ(try_add(longer, memory.data(), CKPT_DEVICE_CUDA, 0), CKPT_INVALID) << "reaches past the memory";
  }
  if (device_count() > 1) {
    EXPECT_EQ(try_add(desc, memory.data(), CKPT_DEVICE_CUDA, 1), CKPT_INVALID);
    EXPECT_NE(error.text().find("said to be on cuda:1, but it is cuda:0"), std::string::npos) << error.text();
  }
  EXPECT_EQ(try_add(desc, memory.data(), CKPT_DEVICE_CUDA, 0), CKPT_OK) << error.text();
  run(made.get());
}

TEST_F(Devices, TheCallersThreadKeepsItsDeviceAndFindsNoError) {
  const int last = device_count() - 1;
  must(cudaSetDevice(last));
  World world(place.uri(), 1);
  DeviceMemory memory(pattern(4096, 1), 0);
  auto made = new_save(world.sessions[0], "s1", {{"threads", 1}});
  add(made.get(), "t", whole(CKPT_DTYPE_U8, {4096}), memory);
  if (fake()) fake()->delay_us(3000, 3000);  // a copy that is asked for is not there yet, which is an error to CUDA
  run(made.get());
  int current = -1;
  must(cudaGetDevice(&current));
  EXPECT_EQ(current, last);
  EXPECT_EQ(cudaGetLastError(), 0);
  must(cudaSetDevice(0));
}

// ---- several ranks ----

TEST_F(Devices, ReplicasOnDevicesAreComparedAndShared) {
  World world(place.uri(), 2);
  const Bytes content = pattern(3 * kMiB, 1);
  Bytes differing = content;
  differing.back() ^= 1;
  DeviceMemory first(content), second(content), wrong(differing);
  const auto desc = whole(CKPT_DTYPE_U8, {3 * kMiB});
  world.commit("s1", {}, [&](uint32_t rank, ckpt_save* save) { add(save, "t", desc, rank == 0 ? first : second); });
  EXPECT_EQ(load_one(open_reader(world.store), "t", desc, content.size()), content);
  const auto outcomes =
      world.save("s2", {}, [&](uint32_t rank, ckpt_save* save) { add(save, "t", desc, rank == 0 ? first : wrong); });
  EXPECT_EQ(outcomes[0].status, CKPT_MISMATCH) << outcomes[0].text;
  EXPECT_EQ(outcomes[0].tensor, "t");
}

TEST_F(Devices, AnErrorOfADeviceEndsTheSaveOfAllRanksByName) {
  NEEDS_THE_FAKE();
  World world(place.uri(), 3);
  DeviceMemory memory(pattern(kMiB, 1));
  const Bytes host = pattern(kMiB, 2);
  fake()->fail_copy(1, 700);
  const auto outcomes = world.save("s1", {}, [&](uint32_t rank, ckpt_save* save) {
    auto desc = box(CKPT_DTYPE_U8, {3 * kMiB}, {rank * kMiB}, {kMiB});
    rank == 1 ? add(save, "t", desc, memory) : ckpt_test::add(save, "t", desc, host);
  });
  EXPECT_EQ(outcomes[1].status, CKPT_IO) << outcomes[1].text;
  EXPECT_NE(outcomes[1].text.find("cuda:0"), std::string::npos) << outcomes[1].text;
  for (const int rank : {0, 2}) {
    EXPECT_EQ(outcomes[rank].status, CKPT_ABORTED) << outcomes[rank].text;
    EXPECT_NE(outcomes[rank].text.find("aborted by rank 1"), std::string::npos) << outcomes[rank].text;
    EXPECT_NE(outcomes[rank].text.find("cudaErrorIllegalAddress"), std::string::npos) << outcomes[rank].text;
  }
  EXPECT_EQ(ckpt_test::committed_count(world.store), 0u);
}

// A background save copies before it knows whether rank 0 has come.
TEST_F(Devices, AnErrorOfADeviceIsToldBeforeRank0HasCome) {
  NEEDS_THE_FAKE();
  World world(place.uri(), 2);
  DeviceMemory memory(pattern(kMiB, 1));
  const Bytes host = pattern(kMiB, 2);
  auto early = new_save(world.sessions[1], "s1");
  add(early.get(), "t", box(CKPT_DTYPE_U8, {2 * kMiB}, {kMiB}, {kMiB}), memory);
  fake()->fail_copy(1, 700);
  ckpt_job* started = nullptr;
  Error error;
  ASSERT_EQ(ckpt_save_start(early.get(), &started, error), CKPT_OK) << error.text();
  const ckpt_test::Job job(started);
  EXPECT_EQ(ckpt_job_wait(started, CKPT_JOB_COMMITTED, -1, error), CKPT_IO) << "at once, not at the deadline";
  EXPECT_NE(error.text().find("cudaErrorIllegalAddress"), std::string::npos) << error.text();
  auto late = new_save(world.sessions[0], "s1");
  ckpt_test::add(late.get(), "t", box(CKPT_DTYPE_U8, {2 * kMiB}, {0}, {kMiB}), host);
  EXPECT_EQ(ckpt_save_run(late.get(), error), CKPT_ABORTED) << error.text();
  EXPECT_NE(error.text().find("cudaErrorIllegalAddress"), std::string::npos) << error.text();
}

// ---- budgets ----

TEST_F(Devices, PinnedMemoryStaysWithinTheBudgetAndIsMadeOnce) {
  NEEDS_THE_FAKE();
  World world(place.uri(), 1);
  DeviceMemory memory(pattern(40 * kMiB, 1));
  const int64_t before = counts().pinned;
  auto save_once = [&](const char* label) {
    auto made = new_save(world.sessions[0], label, {{"staging_bytes", 16 * kMiB}, {"threads", 2}});
    add(made.get(), "t", whole(CKPT_DTYPE_U8, {40 * kMiB}), memory);
    ckpt_job* job = nullptr;
    Error error;
    ASSERT_EQ(ckpt_save_start(made.get(), &job, error), CKPT_OK) << error.text();
    EXPECT_EQ(ckpt_job_wait(job, CKPT_JOB_COMMITTED, -1, error), CKPT_OK) << error.text();
    ckpt_job_free(job);
  };
  fake()->reset_peaks();
  save_once("s1");
  const int64_t kept = counts().pinned, pins = counts().pins;
  EXPECT_GT(kept, before);
  EXPECT_LE(counts().pinned_peak - before, 16 * kMiB);
  fake()->reset_peaks();
  save_once("s2");
  EXPECT_EQ(counts().pinned, kept) << "the session keeps its arena pinned";
  EXPECT_EQ(counts().pins, pins) << "and pins none of it again";
  EXPECT_EQ(counts().pinned_peak, kept);
  EXPECT_EQ(load_one(open_reader(world.store), "t", whole(CKPT_DTYPE_U8, {40 * kMiB}), 40 * kMiB),
            pattern(40 * kMiB, 1));
  world.sessions.clear();
  EXPECT_EQ(counts().pinned, before) << "and gives it back at its end";

  DeviceMemory to{Bytes(40 * kMiB)};
  const auto reader = open_reader(world.store);
  const auto load = new_load(reader, {{"staging_bytes", 8 * kMiB}});
  fake()->reset_peaks();
  ask(load, "t", whole(CKPT_DTYPE_U8, {40 * kMiB}), to);
  run(load);
  EXPECT_LE(counts().pinned_peak - before, 2 * kMiB);
  EXPECT_EQ(counts().pinned, before);
  EXPECT_EQ(to.get(), pattern(40 * kMiB, 1));
}

// ---- errors at every call ----

struct Failing {
  const char* name;
  int error;
  ckpt_status status;
};
class AtEveryCall : public Devices, public ::testing::WithParamInterface<Failing> {
 protected:
  // Calls `work` with one more call of the library going well each time, until all do. Returns how often it failed.
  template <typename Work>
  int fail_in_turn(Work&& work) {
    EXPECT_EQ(work().status, CKPT_OK);  // the library is loaded once in a process; what it answers then is its own test
    int failed = 0;
    for (int64_t number = 1; number < 10000; number++) {
      const Counts before = counts();
      fake()->fail_call(number, GetParam().error);
      const ckpt_test::Outcome outcome = work();
      const bool all_went_well = counts().calls - before.calls < number;
      fake()->fail_call(0, 0);
      EXPECT_EQ(cudaGetLastError(), 0) << number;
      EXPECT_EQ(counts().streams, before.streams) << number;
      EXPECT_EQ(counts().events, before.events) << number;
      if (outcome.status == CKPT_OK && all_went_well) return failed;
      if (outcome.status == CKPT_OK) continue;  // only asked whether a copy was there; the wait tells
      failed++;
      EXPECT_EQ(outcome.status, GetParam().status) << number << ": " << outcome.text;
      EXPECT_NE(outcome.text.find("cuda:0"), std::string::npos) << number << ": " << outcome.text;
      if (::testing::Test::HasFailure()) return failed;
    }
    ADD_FAILURE() << "it never ends";
    return failed;
  }
};
INSTANTIATE_TEST_SUITE_P(Error, AtEveryCall,
                         ::testing::Values(Failing{"illegal_address", 700, CKPT_IO},
                                           Failing{"out_of_memory", 2, CKPT_NOMEM}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(AtEveryCall, ASaveFailsByNameAndTheNextOneSucceeds) {
  NEEDS_THE_FAKE();
  fake()->delay_us(0, 0);
  World world(place.uri(), 1, {{"chunk_bytes", 65536}});
  DeviceMemory memory(pattern(kMiB, 1)), small(pattern(100, 2));
  int label = 0;
  const int failed = fail_in_turn([&] {
    auto made = new_save(world.sessions[0], "s" + std::to_string(label++),
                         {{"staging_bytes", 8 * kMiB}, {"threads", 2}, {"compression", label % 2 ? "none" : "auto"}});
    Error error;
    const auto desc = whole(CKPT_DTYPE_U8, {kMiB}), tiny = whole(CKPT_DTYPE_U8, {100});
    ckpt_status status = ckpt_save_add_tensor(made.get(), "t", &desc, memory.data(), kMiB, CKPT_DEVICE_CUDA, 0, error);
    if (status == CKPT_OK)
      status = ckpt_save_add_tensor(made.get(), "u", &tiny, small.data(), 100, CKPT_DEVICE_CUDA, 0, error);
    if (status == CKPT_OK) status = ckpt_save_run(made.get(), error);
    return ckpt_test::outcome_of(status, error);
  });
  EXPECT_GT(failed, 10);
  EXPECT_EQ(load_one(open_reader(world.store), "t", whole(CKPT_DTYPE_U8, {kMiB}), kMiB), pattern(kMiB, 1));
}

TEST_P(AtEveryCall, ALoadFailsByNameAndTheNextOneSucceeds) {
  NEEDS_THE_FAKE();
  fake()->delay_us(0, 0);
  World world(place.uri(), 1);
  world.commit("s1", {}, [&](uint32_t, ckpt_save* save) {
    ckpt_test::add(save, "t", whole(CKPT_DTYPE_U8, {3 * kMiB}), world.keep(pattern(3 * kMiB, 1)));
  });
  const auto reader = open_reader(world.store);
  DeviceMemory memory{Bytes(3 * kMiB)};
  const int failed = fail_in_turn([&] {
    const auto load = new_load(reader, {{"staging_bytes", 8 * kMiB}});
    Error error;
    const auto desc = whole(CKPT_DTYPE_U8, {3 * kMiB});
    ckpt_status status =
        ckpt_load_add_tensor(load.get(), "t", &desc, memory.data(), 3 * kMiB, CKPT_DEVICE_CUDA, 0, error);
    if (status == CKPT_OK) status = ckpt_load_run(load.get(), error);
    return ckpt_test::outcome_of(status, error);
  });
  EXPECT_GT(failed, 10);
  EXPECT_EQ(memory.get(), pattern(3 * kMiB, 1));
}

TEST_F(Devices, ACopyThatFailsWhileItRunsFailsTheLoad) {
  NEEDS_THE_FAKE();
  World world(place.uri(), 1);
  world.commit("s1", {}, [&](uint32_t, ckpt_save* save) {
    ckpt_test::add(save, "t", whole(CKPT_DTYPE_U8, {3 * kMiB}), world.keep(pattern(3 * kMiB, 1)));
  });
  const auto reader = open_reader(world.store);
  DeviceMemory memory{Bytes(3 * kMiB)};
  for (int64_t number = 1; number <= 3; number++) {
    const auto load = new_load(reader);
    ask(load, "t", whole(CKPT_DTYPE_U8, {3 * kMiB}), memory);
    fake()->fail_copy(number, 700);
    Error error;
    EXPECT_EQ(ckpt_load_run(load.get(), error), CKPT_IO) << number << error.text();
    EXPECT_EQ(error.detail("device"), "cuda:0");
  }
}

// ---- cancellation ----

TEST_F(Devices, ACancelledSaveTouchesNothingAfterItsEnd) {
  World world(place.uri(), 1);
  auto memory = std::make_unique<DeviceMemory>(pattern(24 * kMiB, 1));
  if (fake()) fake()->delay_us(1000, 3000);
  for (int i = 0; i < 6; i++) {
    auto made = new_save(world.sessions[0], "c" + std::to_string(i), {{"staging_bytes", 8 * kMiB}});
    add(made.get(), "t", whole(CKPT_DTYPE_U8, {24 * kMiB}), *memory);
    ckpt_job* job = nullptr;
    Error error;
    ASSERT_EQ(ckpt_save_start(made.get(), &job, error), CKPT_OK) << error.text();
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * i));
    ckpt_job_cancel(job);
    EXPECT_EQ(ckpt_job_wait(job, CKPT_JOB_COMMITTED, -1, error), CKPT_CANCELLED) << error.text();
    made.reset();
    ckpt_job_free(job);
    if (fake()) {
      EXPECT_EQ(counts().streams, 0);
    }
  }
  memory.reset();
  world.sessions.clear();
}

// ---- kills ----

TEST_F(Devices, AProcessThatIsKilledLeavesWholeCheckpointsOnly) {
  // Not CKPT_TEST_PROGRAMS: tools/gpu-check carries both to other machines.
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string program = here / "programs/saver_program";
  const auto store = ckpt_test::open_store(place.uri());
  int64_t newest = -1;
  for (int turn = 0; turn < 8; turn++) {
    int out[2];
    ASSERT_EQ(pipe(out), 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(out[1], 1);
      close(out[0]);
      const std::string first = std::to_string(turn * 1000);
      execl(program.c_str(), program.c_str(), place.uri().c_str(), first.c_str(), nullptr);
      _exit(127);
    }
    close(out[1]);
    FILE* lines = fdopen(out[0], "r");
    long long committed = -1;  // the first, so that there is something to be kept
    ASSERT_EQ(std::fscanf(lines, "%lld", &committed), 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(3 + 17 * turn));
    kill(child, SIGKILL);
    while (std::fscanf(lines, "%lld", &committed) == 1) {
    }
    std::fclose(lines);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const auto reader = open_reader(store);
    ckpt_checkpoint_info info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(ckpt_reader_info(reader.get(), &info, nullptr), CKPT_OK);
    EXPECT_GE(info.step, committed);
    EXPECT_GT(info.step, newest);
    newest = info.step;
    const Bytes content = load_one(reader, "t", whole(CKPT_DTYPE_U8, {6 * kMiB}), 6 * kMiB);
    bool right = true;
    for (int64_t i = 0; i < 6 * kMiB; i++) right &= content[i] == static_cast<unsigned char>(i * 7 + newest);
    EXPECT_TRUE(right) << newest;
  }
}

}  // namespace

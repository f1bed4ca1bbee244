// Which copies a save and a load make of memory on devices: how many, of what, and beside what else.
#include <algorithm>
#include <atomic>
#include <filesystem>

#include "cuda/device_memory.h"

namespace {

using namespace cuda_test;
using ckpt_test::Error;
using ckpt_test::Ints;
using ckpt_test::load_one;
using ckpt_test::new_load;
using ckpt_test::new_save;
using ckpt_test::open_reader;
using ckpt_test::pattern;
using ckpt_test::whole;
using ckpt_test::World;

int64_t elements_reached(const Ints& extent, const Ints& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < extent.size(); d++) last += (extent[d] - 1) * strides[d];
  return last + 1;
}

ckpt_tensor_desc strided(ckpt_tensor_desc desc, const Ints& strides) {
  desc.flags |= CKPT_TENSOR_STRIDED;
  std::copy(strides.begin(), strides.end(), desc.strides);
  return desc;
}

// Contiguous, permuted, with gaps, or all of it.
Ints random_strides(std::mt19937_64& random, const Ints& extent) {
  std::vector<size_t> order(extent.size());
  for (size_t d = 0; d < order.size(); d++) order[d] = order.size() - 1 - d;
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  Ints strides(extent.size());
  int64_t next = random() % 3 == 0 ? 2 : 1;
  for (const size_t d : order) {
    strides[d] = next;
    next = next * extent[d] + (random() % 3 == 0 ? static_cast<int64_t>(random() % 5) : 0);
  }
  return strides;
}

TEST_F(Devices, AnyBoxAndAnyStridesGoToAndFromADeviceAsToAndFromTheHost) {
  if (fake()) fake()->delay_us(0, 0);
  std::mt19937_64 random(11);
  World world(place.uri(), 1, {{"chunk_bytes", 4096}});
  std::vector<DeviceMemory> kept;
  std::vector<Bytes> kept_on_host;
  std::vector<Ints> shapes;
  auto made = new_save(world.sessions[0], "s1", {{"threads", 2}});
  for (int i = 0; i < 60; i++) {
    shapes.push_back(ckpt_test::random_shape(random, 4, 9000));
    for (int64_t& extent : shapes[i]) extent = std::max<int64_t>(extent, 1);
    const Ints strides = random_strides(random, shapes[i]);
    kept_on_host.push_back(pattern(elements_reached(shapes[i], strides) * 4, i));
    const auto desc = strided(whole(CKPT_DTYPE_F32, shapes[i]), strides);
    add(made.get(), "device" + std::to_string(i), desc, kept.emplace_back(kept_on_host[i]));
    ckpt_test::add(made.get(), "host" + std::to_string(i), desc, kept_on_host[i]);
  }
  run(made.get());
  const auto reader = open_reader(world.store);
  for (int i = 0; i < 60 && !HasFailure(); i++) {
    const std::string name = std::to_string(i);
    const auto part = ckpt_test::random_box(random, shapes[i]);
    if (std::ranges::count(part.extent, 0) != 0) continue;
    auto desc = ckpt_test::box(i % 4 == 0 ? CKPT_DTYPE_BF16 : CKPT_DTYPE_F32, shapes[i], part.offset, part.extent);
    if (i % 4 == 0) desc.flags |= CKPT_TENSOR_CONVERT;
    const Ints strides = random_strides(random, part.extent);
    desc = strided(desc, strides);
    const Bytes before(elements_reached(part.extent, strides) * (i % 4 == 0 ? 2 : 4), 0xee);
    DeviceMemory to(before);
    Bytes expected = before;
    const auto load = new_load(reader);
    ask(load, "device" + name, desc, to);
    ckpt_test::ask(load, "host" + name, desc, expected.data(), expected.size());
    run(load);
    EXPECT_EQ(to.get(), expected) << i;
    const auto all = whole(CKPT_DTYPE_F32, shapes[i]);
    const size_t bytes = ckpt_test::volume(shapes[i]) * 4;
    EXPECT_EQ(load_one(reader, "device" + name, all, bytes), load_one(reader, "host" + name, all, bytes)) << i;
  }
}

struct Layout {
  const char* name;
  Ints shape, strides;
  int64_t bytes, most_saved, most_loaded;  // copies
};
class FewCopies : public Devices, public ::testing::WithParamInterface<Layout> {};
// A chunk of a save, or a piece of pinned memory of a load, holds a mebibyte: a part of a row, rows and a part of a
// row. Chunks that lie as they are wanted come as one.
INSTANTIATE_TEST_SUITE_P(
    Of, FewCopies,
    ::testing::Values(Layout{"as_it_is_wanted", {3000, 2100}, {2100, 1}, 3000 * 2100, 1, 7},
                      Layout{"rows_with_gaps", {1000, 40}, {64, 1}, 1000 * 64, 1, 1},
                      Layout{"a_small_transposed_matrix", {300, 200}, {1, 300}, 300 * 200, 1, 1},
                      Layout{"a_large_transposed_matrix", {1900, 2100}, {1, 1900}, 1900 * 2100, 4 * 3, 4 * 3},
                      Layout{"channels_last", {64, 32, 7, 7}, {1568, 1, 224, 32}, 64 * 1568, 1, 1},
                      Layout{"large_channels_last", {640, 320, 3, 3}, {2880, 1, 960, 320}, 640 * 2880, 2 * 7, 2 * 7},
                      Layout{"a_row_of_a_transposed_matrix", {1, 3000000}, {1, 2}, 6000000, 3, 3},
                      Layout{"every_second_element", {300, 200}, {600, 2}, 300 * 600, 200, 200}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(FewCopies, MoveATensorToAndFromADevice) {
  NEEDS_THE_FAKE();
  fake()->delay_us(0, 0);
  const Layout& the = GetParam();
  World world(place.uri(), 1);
  const Bytes content = pattern(the.bytes, 1);
  DeviceMemory memory(content);
  const auto packed = whole(CKPT_DTYPE_U8, the.shape), desc = strided(packed, the.strides);
  auto made = new_save(world.sessions[0], "s1");
  add(made.get(), "t", desc, memory);
  Counts before = counts();
  run(made.get());
  EXPECT_LE(counts().copies + counts().rows - before.copies - before.rows, the.most_saved);

  const auto reader = open_reader(world.store);
  DeviceMemory to{Bytes(the.bytes, 0xee)};
  Bytes expected(the.bytes, 0xee);
  auto load = new_load(reader);
  ask(load, "t", desc, to);
  before = counts();
  run(load);
  EXPECT_LE(counts().copies + counts().rows - before.copies - before.rows, the.most_loaded);
  load = new_load(reader);
  ckpt_test::ask(load, "t", desc, expected.data(), expected.size());
  run(load);
  EXPECT_EQ(to.get(), expected);
}

// A copy of rows takes no distance of 2 GiB (cudaDevAttrMaxPitch), and none into which its rows do not fit.
TEST_F(Devices, RowsThatAreTooFarApartOrOverlapAreCopiedOneByOne) {
  constexpr int64_t kApart = int64_t{1} << 31;
  World world(place.uri(), 1);
  const Bytes first = pattern(100, 1), second = pattern(100, 2), window = pattern(149, 3);
  char* far = nullptr;
  must(cudaMalloc(reinterpret_cast<void**>(&far), kApart + 100));
  must(cudaMemcpy(far, first.data(), 100, kDefault));
  must(cudaMemcpy(far + kApart, second.data(), 100, kDefault));
  DeviceMemory overlapping(window);
  const auto rows = with_strides(whole(CKPT_DTYPE_U8, {2, 100}), {kApart, 1});
  auto made = new_save(world.sessions[0], "s1");
  Error error;
  EXPECT_EQ(ckpt_save_add_tensor(made.get(), "far", &rows, far, kApart + 100, CKPT_DEVICE_CUDA, 0, error), CKPT_OK)
      << error.text();
  add(made.get(), "window", with_strides(whole(CKPT_DTYPE_U8, {50, 100}), {1, 1}), overlapping);
  run(made.get());
  const auto reader = open_reader(world.store);
  Bytes both = first, windows;
  both.insert(both.end(), second.begin(), second.end());
  for (int i = 0; i < 50; i++) windows.insert(windows.end(), window.begin() + i, window.begin() + i + 100);
  EXPECT_EQ(load_one(reader, "far", whole(CKPT_DTYPE_U8, {2, 100}), 200), both);
  EXPECT_EQ(load_one(reader, "window", whole(CKPT_DTYPE_U8, {50, 100}), 5000), windows);

  must(cudaMemcpy(far, windows.data(), 100, kDefault));
  must(cudaMemcpy(far + kApart, windows.data(), 100, kDefault));
  const auto load = new_load(reader);
  EXPECT_EQ(ckpt_load_add_tensor(load.get(), "far", &rows, far, kApart + 100, CKPT_DEVICE_CUDA, 0, error), CKPT_OK)
      << error.text();
  run(load);
  Bytes back(200);
  must(cudaMemcpy(back.data(), far, 100, kDefault));
  must(cudaMemcpy(back.data() + 100, far + kApart, 100, kDefault));
  EXPECT_EQ(back, both);
  must(cudaFree(far));
}

// ---- beside what else ----

TEST_F(Devices, CopiesRunBesideReadingHashingAndWriting) {
  NEEDS_THE_FAKE();
  World world(place.uri(), 1);
  DeviceMemory memory(pattern(16 * kMiB, 1)), to{Bytes(16 * kMiB)};
  fake()->await_peak(2);
  const auto desc = whole(CKPT_DTYPE_U8, {16 * kMiB});
  auto made = new_save(world.sessions[0], "s1", {{"staging_bytes", 16 * kMiB}, {"threads", 1}});
  add(made.get(), "t", desc, memory);
  fake()->reset_peaks();
  run(made.get());
  EXPECT_GE(counts().under_way_peak, 2)
      << "one thread began a block, which is one copy, only when the one before was there";
  const auto reader = open_reader(world.store);
  const auto load = new_load(reader, {{"staging_bytes", 16 * kMiB}, {"threads", 1}});
  ask(load, "t", desc, to);
  fake()->reset_peaks();
  run(load);
  EXPECT_GE(counts().under_way_peak, 2) << "one thread read a chunk only when the one before was copied";
  fake()->await_peak(0);
  EXPECT_EQ(to.get(), pattern(16 * kMiB, 1));
}

// Holds a stream up until it is let go.
class Gate {
 public:
  explicit Gate(Stream stream) {
    must(cudaLaunchHostFunc(stream, [](void* open) { static_cast<std::atomic<bool>*>(open)->wait(false); }, &open_));
  }
  ~Gate() { open(); }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_{false};
};

TEST_F(Devices, OnlyTheStreamsThatWereNamedAreWaitedFor) {
  NEEDS_THE_FAKE();
  World world(place.uri(), 1);
  DeviceMemory memory(pattern(kMiB, 1)), to{Bytes(kMiB)};
  CallerStream busy, own;
  Gate gate(busy.stream);
  auto desc = whole(CKPT_DTYPE_U8, {kMiB});
  for (const int64_t stream : {own.number(), int64_t{-1}, int64_t{1}}) {
    desc.stream = stream;
    const std::string label = "s" + std::to_string(stream);
    auto made = new_save(world.sessions[0], label);
    add(made.get(), "t", desc, memory);
    run(made.get());
    const auto load = new_load(open_reader(world.store));
    ask(load, "t", desc, to);
    run(load);
    EXPECT_EQ(to.get(), pattern(kMiB, 1));
  }
  // A save that is started waits for the named one, and its caller does not.
  desc.stream = busy.number();
  auto made = new_save(world.sessions[0], "behind");
  add(made.get(), "t", desc, memory);
  ckpt_job* job = nullptr;
  Error error;
  ASSERT_EQ(ckpt_save_start(made.get(), &job, error), CKPT_OK) << error.text();
  EXPECT_EQ(ckpt_job_wait(job, CKPT_JOB_STAGED, 50, error), CKPT_TIMEOUT);
  gate.open();
  EXPECT_EQ(ckpt_job_wait(job, CKPT_JOB_COMMITTED, -1, error), CKPT_OK) << error.text();
  ckpt_job_free(job);
  must(cudaStreamSynchronize(busy.stream));
}

// As torch.cuda.graph() does, and torch.compile with mode="reduce-overhead".
TEST_F(Devices, WhatIsCapturedIntoAGraphMeanwhileIsNotDisturbed) {
  World world(place.uri(), 1);
  DeviceMemory memory(pattern(kMiB, 1)), to{Bytes(kMiB)};
  CallerStream captured;
  auto desc = whole(CKPT_DTYPE_U8, {kMiB});
  desc.stream = captured.number();
  auto behind = new_save(world.sessions[0], "behind");
  add(behind.get(), "t", desc, memory);
  void* graph = nullptr;
  must(cudaStreamBeginCapture(captured.stream, kCaptureGlobal));
  Error error;
  const ckpt_status status = ckpt_save_run(behind.get(), error);
  desc.stream = -1;
  auto made = new_save(world.sessions[0], "s1");
  add(made.get(), "t", desc, memory);
  run(made.get());
  const auto load = new_load(open_reader(world.store));
  ask(load, "t", desc, to);
  run(load);
  world.sessions.clear();
  must(cudaStreamEndCapture(captured.stream, &graph));
  EXPECT_EQ(status, CKPT_INVALID);
  EXPECT_NE(error.text().find("cuda:0: the stream is being captured"), std::string::npos) << error.text();
  EXPECT_EQ(to.get(), pattern(kMiB, 1));
}

TEST_F(Devices, DamagedBytesAreFoundBeforeTheyReachADevice) {
  World world(place.uri(), 1);
  world.commit("s1", {}, [&](uint32_t, ckpt_save* save) {
    ckpt_test::add(save, "t", whole(CKPT_DTYPE_U8, {kMiB / 2}), world.keep(pattern(kMiB / 2, 1)));
  });
  for (const auto& entry : std::filesystem::recursive_directory_iterator(place.uri()))
    if (entry.path().filename().string().starts_with("PART_")) {
      std::string bytes = ckpt_test::read_file(entry.path());
      bytes[bytes.size() / 2] ^= 1;
      ckpt_test::write_file(entry.path(), bytes);
    }
  const auto reader = open_reader(world.store);
  const Bytes before(kMiB / 2, 0xee);
  DeviceMemory to(before);
  const auto load = new_load(reader);
  ask(load, "t", whole(CKPT_DTYPE_U8, {kMiB / 2}), to);
  Error error;
  EXPECT_EQ(ckpt_load_run(load.get(), error), CKPT_CORRUPT) << error.text();
  EXPECT_EQ(to.get(), before);
}

}  // namespace

// Aliases: a second name for a tensor, or for a view of it.
#include "api/ranks.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(Alias);

ckpt_tensor_desc view_of(const Ints& shape, int64_t offset, const Ints& strides = {}) {
  ckpt_tensor_desc view = whole(CKPT_DTYPE_F32, shape);
  view.flat_offset = offset;
  if (!strides.empty()) view.flags = CKPT_TENSOR_STRIDED;
  for (size_t i = 0; i < strides.size(); i++) view.strides[i] = strides[i];
  return view;
}

// The most memory that this process had at once since the last call of forget_peak.
uint64_t peak_bytes() {
  const std::string status = read_file("/proc/self/status");
  return std::stoull(status.substr(status.find("VmHWM:") + 6)) << 10;
}
void forget_peak() { write_file("/proc/self/clear_refs", "5"); }

constexpr int64_t kMiB = 1 << 20;

struct LargeView {
  const char* name;
  Ints shape;
  int64_t offset;
  Ints strides;
};

// Of a target of 24 MiB; `n` is the number of its elements.
std::vector<LargeView> large_views(int64_t n) {
  const int64_t side = n / 1024;
  return {{"transposed", {1024, side}, 0, {1, 1024}},    {"one row", {n / 40}, 3, {40}},
          {"two rows", {2, n / 64}, 1, {n / 2, 17}},     {"overlapping", {n / 2048, 3000}, 7, {2040, 1}},
          {"repeated", {3, n / 200, 2}, 5, {0, 190, 0}}, {"far", {5, 100}, 11, {n / 5 - 20, 1}},
          {"dense", {side, 1024}, 0, {1024, 1}},         {"nothing", {4, 0}, 2, {1, 1}}};
}

// What a view of `data` holds, in elements of `width` bytes.
Bytes take_view(const Bytes& data, size_t width, const LargeView& view) {
  const auto count = static_cast<size_t>(volume(view.shape));
  Bytes out(count * width);
  Ints at(view.shape.size(), 0);
  for (size_t n = 0; n < count; n++) {
    int64_t element = view.offset;
    for (size_t d = 0; d < at.size(); d++) element += at[d] * view.strides[d];
    std::memcpy(out.data() + n * width, data.data() + static_cast<size_t>(element) * width, width);
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < view.shape[d]) break;
      at[d] = 0;
    }
  }
  return out;
}

// Loads one region within the smallest budget.
Bytes load_within_budget(const Reader& reader, const char* name, const ckpt_tensor_desc& desc, size_t bytes) {
  Bytes out(bytes, 0xee);
  Load load = new_load(reader, {{"staging_bytes", 8 * kMiB}});
  ask(load, name, desc, out.data(), out.size());
  const Job job = start(load);
  finish(job);
  EXPECT_LE(stats_of(job).staging_peak_bytes, 8u * kMiB) << name;
  return out;
}

TEST_P(Alias, LargeViewsLoadPiecewiseWithinTheBudget) {
  World world(place.uri(), 3, {{"large_tensor_bytes", kMiB}});  // the target is cut over all parts
  for (const int32_t dtype : {CKPT_DTYPE_U8, CKPT_DTYPE_BF16, CKPT_DTYPE_F32, CKPT_DTYPE_C128}) {
    const auto width = static_cast<size_t>(ckpt_dtype_bits(dtype)) / 8;
    const int64_t n = 24 * kMiB / static_cast<int64_t>(width);
    const Bytes data = pattern(static_cast<size_t>(24 * kMiB), 5);
    const char* codec = dtype == CKPT_DTYPE_F32 ? "lz4" : "none";
    world.commit(ckpt_dtype_name(dtype), {{"compression", codec}}, [&](uint32_t, ckpt_save* save) {
      add(save, "w", whole(dtype, {n}), data);
      for (const LargeView& view : large_views(n)) {
        const ckpt_tensor_desc desc = view_of(view.shape, view.offset, view.strides);
        add_alias(save, view.name, "w", &desc);
      }
    });
    const Reader reader = open_reader(world.store, ckpt_dtype_name(dtype));
    for (const LargeView& view : large_views(n)) {
      if (dtype == CKPT_DTYPE_U8 && volume(view.shape) > 4 * kMiB) continue;  // slow to compute here, and like bf16
      const Bytes expected = take_view(data, width, view);
      const std::string what = std::string(view.name) + " " + ckpt_dtype_name(dtype);
      EXPECT_TRUE(load_within_budget(reader, view.name, whole(dtype, view.shape), expected.size()) == expected) << what;
      const int64_t count = volume(view.shape), first = count / 3, some = count / 2;
      const Bytes part(expected.begin() + first * static_cast<int64_t>(width),
                       expected.begin() + (first + some) * static_cast<int64_t>(width));
      EXPECT_TRUE(load_within_budget(reader, view.name, flat(dtype, view.shape, first, some), part.size()) == part)
          << what << ", a flat range";
    }
  }
}

TEST_P(Alias, LargeViewsLoadIntoStridedMemory) {
  World world(place.uri(), 1);
  const Bytes data = pattern(static_cast<size_t>(24 * kMiB), 6);
  const int64_t n = 6 * kMiB, rows = 1024, columns = n / rows;
  const ckpt_tensor_desc view = view_of({rows, columns}, 0, {1, rows});
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) {
    add(save, "w", whole(CKPT_DTYPE_F32, {n}), data);
    add_alias(save, "t", "w", &view);
  });
  const Reader reader = open_reader(world.store);
  ckpt_tensor_desc back = whole(CKPT_DTYPE_F32, {rows, columns});
  back.flags = CKPT_TENSOR_STRIDED;
  back.strides[0] = 1;
  back.strides[1] = rows;
  EXPECT_TRUE(load_within_budget(reader, "t", back, data.size()) == data) << "a transposed view, transposed back";
  ckpt_tensor_desc spaced = box(CKPT_DTYPE_F32, {rows, columns}, {7, 0}, {1000, columns});
  spaced.flags = CKPT_TENSOR_STRIDED;
  spaced.strides[0] = 2 * columns;
  spaced.strides[1] = 2;
  const auto size = static_cast<size_t>((999 * spaced.strides[0] + (columns - 1) * 2 + 1) * 4);
  const Bytes loaded = load_within_budget(reader, "t", spaced, size);
  Bytes expected(size, 0xee);
  for (int64_t r = 0; r < 1000; r++)
    for (int64_t c = 0; c < columns; c++)
      std::memcpy(expected.data() + (r * spaced.strides[0] + c * 2) * 4, data.data() + (c * rows + r + 7) * 4, 4);
  EXPECT_TRUE(loaded == expected);
}

TEST(AliasOnDisk, AViewOfAFewElementsOfALargeTensorTakesNoMoreMemoryThanTheBudget) {
  const StorePlace place("dir");
  World world(place.uri(), 1);
  const int64_t n = 24 * kMiB;
  const ckpt_tensor_desc view = view_of({8, 100}, 0, {n / 8, 1});
  Bytes expected;
  {
    const Bytes data = pattern(static_cast<size_t>(n * 4), 7);
    world.commit("a", {}, [&](uint32_t, ckpt_save* save) {
      add(save, "w", whole(CKPT_DTYPE_F32, {n}), data);
      add_alias(save, "v", "w", &view);
    });
    expected = take_view(data, 4, {"v", {8, 100}, 0, {n / 8, 1}});
  }
  const Reader reader = open_reader(world.store);
  forget_peak();
  const uint64_t before = peak_bytes();
  EXPECT_TRUE(load_within_budget(reader, "v", whole(CKPT_DTYPE_F32, {8, 100}), expected.size()) == expected);
  EXPECT_LT(peak_bytes() - before, uint64_t{48 * kMiB}) << "of 84 MiB that the view spans";
}

TEST_P(Alias, OfNothingOrBeyondItsTargetIsRefusedByItsName) {
  World world(place.uri(), 1);
  Bytes data = pattern(400, 3), nibbles(50);
  auto refused = [&](const std::string& label, const char* target, const ckpt_tensor_desc* view) {
    Save save = new_save(world.sessions[0], label);
    add(save.get(), "w", whole(CKPT_DTYPE_F32, {100}), data);
    add(save.get(), "nibbles", whole(CKPT_DTYPE_U4, {100}), nibbles);
    Error error;
    ckpt_status status = ckpt_save_add_alias(save.get(), "alias", target, view, error);
    if (status == CKPT_OK) status = ckpt_save_run(save.get(), error);
    EXPECT_NE(error.text().find("alias"), std::string::npos) << error.text();
    EXPECT_EQ(error.detail("tensor"), "alias") << error.text();
    return status;
  };
  auto beyond = view_of({10, 10}, 1), strided = view_of({50}, 0, {3}), far = view_of({1}, INT64_MAX);
  auto wide = view_of({2, INT64_MAX, 3}, 0), huge = view_of({INT64_MAX}, 0, {0});
  EXPECT_EQ(refused("a", "absent", nullptr), CKPT_MISMATCH);
  EXPECT_EQ(refused("b", "w", &beyond), CKPT_MISMATCH);
  EXPECT_EQ(refused("c", "w", &strided), CKPT_MISMATCH);
  EXPECT_EQ(refused("d", "w", &far), CKPT_MISMATCH);
  EXPECT_EQ(refused("e", "w", &wide), CKPT_MISMATCH);
  EXPECT_EQ(refused("f", "w", &huge), CKPT_MISMATCH) << "more bytes than there can be";
  auto half = view_of({50}, 50);
  EXPECT_EQ(refused("g", "nibbles", &half), CKPT_UNSUPPORTED) << "no load would give it";
  EXPECT_EQ(committed_count(world.store), 0u);
}

}  // namespace
}  // namespace ckpt_test

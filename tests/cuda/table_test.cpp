// Sparse tables whose columns are on devices: behind which stream their rows are copied.
#include "api/tables.h"
#include "cuda/device_memory.h"

namespace {

using namespace cuda_test;
using ckpt_test::Error;
using ckpt_test::Ids;
using ckpt_test::new_load;
using ckpt_test::new_save;
using ckpt_test::open_reader;
using ckpt_test::open_share;
using ckpt_test::pattern;
using ckpt_test::World;

constexpr size_t kRows = 64, kRowBytes = 16 << 10;
static_assert(kRows * kRowBytes == kMiB);
constexpr const char* kColumn = "x";

// Descending, so that a save sorts the rows.
Ids descending_ids() {
  Ids ids(kRows);
  for (size_t i = 0; i < kRows; i++) ids[i] = kRows - i;
  return ids;
}
// The rows of these ids, of bytes that tell the id and `version`.
Bytes rows_of(const Ids& ids, uint64_t version) {
  Bytes rows;
  for (const uint64_t id : ids) {
    const Bytes row = pattern(kRowBytes, 1000 * version + id);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

void add_rows(ckpt_save* save, const Ids& ids, const void* data, int32_t device_type, int64_t stream) {
  ckpt_table_desc desc{};
  desc.struct_size = sizeof desc;
  desc.id_dtype = CKPT_DTYPE_I64;
  desc.row_count = kRows;
  desc.bucket_count = CKPT_TABLE_BUCKETS;
  desc.column_count = 1;
  ckpt_column_desc column{};
  column.struct_size = sizeof column;
  column.dtype = CKPT_DTYPE_U8;
  column.ndim = 1;
  column.shape[0] = kRowBytes;
  const uint64_t bytes = kMiB;
  Error error;
  ASSERT_EQ(ckpt_save_add_table(save, "t", &desc, ids.data(), 8 * kRows, &kColumn, &column, &data, &bytes, nullptr,
                                device_type, 0, stream, error),
            CKPT_OK)
      << error.text();
}

// Asks for all rows.
void ask_rows(const ckpt_test::Load& load, const ckpt_test::Share& share, Ids* ids, void* data, int32_t device_type,
              int64_t stream) {
  ids->resize(kRows);
  const uint64_t bytes = kMiB;
  Error error;
  ASSERT_EQ(ckpt_load_add_table(load.get(), share.get(), 0, ids->data(), 8 * kRows, 1, &kColumn, &data, &bytes,
                                device_type, 0, stream, error),
            CKPT_OK)
      << error.text();
}

class TablesOnStreams : public Devices, public ::testing::WithParamInterface<const char*> {
 protected:
  // Which stream the caller's work is in, and the number that he gives.
  Stream work() const { return is("own") ? own.stream : nullptr; }
  int64_t number() const { return is("own") ? own.number() : is("legacy") ? 1 : 0; }

  CallerStream own;

 private:
  static bool is(const std::string& name) { return GetParam() == name; }
};
INSTANTIATE_TEST_SUITE_P(Stream, TablesOnStreams, ::testing::Values("own", "legacy", "unsaid"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(TablesOnStreams, ASaveReadsTheRowsThatTheWorkBeforeItMakes) {
  const Ids ids = descending_ids();
  DeviceMemory memory{Bytes(kMiB)}, source(rows_of(ids, 9)), other(rows_of(ids, 8));
  World world(place.uri(), 1);
  auto made = new_save(world.sessions[0], "s1");
  add_rows(made.get(), ids, memory.data(), CKPT_DEVICE_CUDA, number());
  if (fake()) fake()->delay_us(2000, 4000);
  for (int i = 0; i < 40; i++)
    must(cudaMemcpyAsync(memory.data(), i == 39 ? source.data() : other.data(), kMiB, kDefault, work()));
  run(made.get());
  must(cudaDeviceSynchronize());
  const auto reader = open_reader(world.store);
  const auto share = open_share(reader, ckpt_test::share_desc(CKPT_SHARE_ALL));
  Ids loaded;
  Bytes rows(kMiB);
  const auto load = new_load(reader);
  ask_rows(load, share, &loaded, rows.data(), CKPT_DEVICE_CPU, 0);
  run(load);
  EXPECT_EQ(rows, rows_of(loaded, 9));
}

TEST_P(TablesOnStreams, ALoadWritesRowsOnlyAfterTheWorkBeforeIt) {
  const Ids ids = descending_ids();
  const Bytes saved = rows_of(ids, 9);
  World world(place.uri(), 1);
  world.commit("s1", {}, [&](uint32_t, ckpt_save* save) { add_rows(save, ids, saved.data(), CKPT_DEVICE_CPU, 0); });
  const auto reader = open_reader(world.store);
  const auto share = open_share(reader, ckpt_test::share_desc(CKPT_SHARE_ALL));
  DeviceMemory memory{Bytes(kMiB)}, other(pattern(kMiB, 8));
  Ids loaded;
  const auto load = new_load(reader);
  ask_rows(load, share, &loaded, memory.data(), CKPT_DEVICE_CUDA, number());
  if (fake()) fake()->delay_us(2000, 4000);
  for (int i = 0; i < 40; i++) must(cudaMemcpyAsync(memory.data(), other.data(), kMiB, kDefault, work()));
  run(load);
  must(cudaDeviceSynchronize());
  EXPECT_EQ(memory.get(), rows_of(loaded, 9));
}

}  // namespace

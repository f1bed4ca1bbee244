// Copies through the C API: what its job counts, what it refuses.
#include "api/ranks.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(Copy);

Reader saved(World& world, const std::string& label) {
  const Bytes& data = world.keep(pattern(3 << 20, 1));
  world.commit(label, {}, [&](uint32_t rank, ckpt_save* save) {
    if (rank == 0) add(save, "w", whole(CKPT_DTYPE_U8, {static_cast<int64_t>(data.size())}), data);
  });
  return open_reader(world.store, label);
}

uint64_t part_bytes(const Reader& reader) {
  auto part = sized<ckpt_part_info>();
  EXPECT_EQ(ckpt_reader_part_at(reader.get(), 0, &part, nullptr), CKPT_OK);
  return part.bytes;
}

TEST_P(Copy, CountsItsBytes) {
  World world(place.uri(), 1);
  const Reader reader = saved(world, "a");
  const Store to = open_store(std::string("mem:copy-") + GetParam());
  const Options bag = options({});
  ckpt_job* made = nullptr;
  ASSERT_EQ(ckpt_job_new(&made, nullptr), CKPT_OK);
  const Job job(made);
  ASSERT_EQ(ckpt_options_set_job(bag.get(), job.get(), nullptr), CKPT_OK);
  Error error;
  ASSERT_EQ(ckpt_reader_copy(reader.get(), to.get(), bag.get(), nullptr, error), CKPT_OK) << error.text();
  EXPECT_EQ(stats_of(job).bytes_total, part_bytes(reader));
  EXPECT_EQ(stats_of(job).bytes_done, part_bytes(reader));
  EXPECT_EQ(stats_of(job).bytes_written, part_bytes(reader));
}

TEST_P(Copy, IsRefusedWithoutAReaderOrAStore) {
  World world(place.uri(), 1);
  const Reader reader = saved(world, "a");
  Error error;
  EXPECT_EQ(ckpt_reader_copy(nullptr, world.store.get(), nullptr, nullptr, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_reader_copy(reader.get(), nullptr, nullptr, nullptr, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_reader_copy(reader.get(), world.store.get(), nullptr, nullptr, error), CKPT_OK)
      << "into its own store, where it is already: " << error.text();
}

}  // namespace
}  // namespace ckpt_test

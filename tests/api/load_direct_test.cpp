// Loads that bypass the page cache and loads through it: the same bytes, the same errors, the same bounds.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "api/ranks.h"

namespace ckpt_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Where files are and how they are read.
struct Way {
  const char* name;
  const char* base;  // directory; null: $TMPDIR
  const char* option;
  const char* value;
};
const Way kWays[] = {{"disk", nullptr, "direct_io", "auto"},
                     {"tmpfs", "/dev/shm", "direct_io", "auto"},
                     {"threads", nullptr, "io_engine", "threads"},
                     {"pagecache", nullptr, "direct_io", "off"}};

class DirectLoad : public ::testing::TestWithParam<Way> {
 protected:
  std::string part() const {
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
      if (std::filesystem::exists(entry.path() / "PART_000")) return entry.path() / "PART_000";
    return "";
  }
  Reader reader() const { return open_reader(store_); }

  // Makes the next reads of the part cold, if the kernel drops its pages.
  void forget() const {
    int file = open(part().c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(file, 0);
    fdatasync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
  }
  // Whether this way can bypass the page cache at all.
  bool direct_works() const {
    if (std::string(GetParam().value) == "off" || GetParam().base) return false;
    int file = open(part().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (file < 0) return false;
    alignas(4096) static char page[4096];
    bool works = pread(file, page, sizeof page, 0) == sizeof page;
    close(file);
    return works;
  }
  void change(uint64_t offset) const {
    int file = open(part().c_str(), O_RDWR | O_CLOEXEC);
    char byte = 0;
    ASSERT_EQ(pread(file, &byte, 1, static_cast<off_t>(offset)), 1);
    byte = static_cast<char>(byte ^ 1);
    ASSERT_EQ(pwrite(file, &byte, 1, static_cast<off_t>(offset)), 1);
    close(file);
    forget();
  }
  void save(const std::vector<std::pair<std::string, const Bytes*>>& tensors, const char* compression = "none",
            int64_t chunk_bytes = kMiB) const {
    World world(scratch_.path(), 1, {{"chunk_bytes", chunk_bytes}});
    world.commit("a", {{"compression", compression}}, [&](uint32_t, ckpt_save* save) {
      for (const auto& [name, data] : tensors)
        add(save, name, whole(CKPT_DTYPE_U8, {static_cast<int64_t>(data->size())}), *data);
    });
    forget();
  }

  Scratch scratch_{GetParam().base};
  Store store_ = open_store(scratch_.path(), {{GetParam().option, GetParam().value}});
};
INSTANTIATE_TEST_SUITE_P(Way, DirectLoad, ::testing::ValuesIn(kWays),
                         [](const auto& test) { return std::string(test.param.name); });

// Memory whose address is `shift` bytes beyond a multiple of 4096.
struct Shifted {
  Shifted(size_t n, size_t shift) : memory(n + 8192, 0xa5), size(n) {
    data = memory.data() + (4096 - reinterpret_cast<uintptr_t>(memory.data()) % 4096) + shift;
  }
  Bytes bytes() const { return Bytes(data, data + size); }
  Bytes memory;
  size_t size;
  unsigned char* data;
};

struct Result {
  ckpt_status status = CKPT_OK;
  ckpt_job_stats stats{};
  std::string text, tensor, part, offset;
};
Result result_of(const Load& load) {
  const Job job = start(load);
  Error error;
  Result result;
  result.status = ckpt_job_wait(job.get(), CKPT_JOB_DONE, -1, error);
  result.stats = stats_of(job);
  result.text = error.text();
  result.tensor = error.detail("tensor");
  result.part = error.detail("part");
  result.offset = error.detail("offset");
  return result;
}

TEST_P(DirectLoad, BringsTheSameBytesColdAndWarmToAnyAddress) {
  const Bytes even = pattern(9 * kMiB, 1), odd = pattern(5 * kMiB + 12345, 2), small = pattern(777, 3);
  for (const char* compression : {"none", "lz4"}) {
    Bytes soft(3 * kMiB + 100, 7);  // compressible
    std::filesystem::remove_all(scratch_.path());
    std::filesystem::create_directory(scratch_.path());
    save({{"even", &even}, {"odd", &odd}, {"small", &small}, {"soft", &soft}}, compression);
    const std::pair<const char*, const Bytes*> all[] = {
        {"even", &even}, {"odd", &odd}, {"small", &small}, {"soft", &soft}};
    for (size_t shift : {0, 1, 64, 512})
      for (bool cold : {true, false}) {
        if (cold) forget();
        Reader reader = this->reader();
        Load load = new_load(reader, {{"staging_bytes", 8 * kMiB}, {"threads", 3}});
        std::vector<Shifted> targets;
        for (const auto& [name, data] : all) {
          targets.emplace_back(data->size(), shift);
          ask(load, name, whole(CKPT_DTYPE_U8, {static_cast<int64_t>(data->size())}), targets.back().data,
              data->size());
        }
        Result result = result_of(load);
        ASSERT_EQ(result.status, CKPT_OK) << result.text;
        for (size_t i = 0; i < std::size(all); i++)
          ASSERT_TRUE(targets[i].bytes() == *all[i].second) << all[i].first << shift << cold << compression;
        EXPECT_LE(result.stats.staging_peak_bytes, 8u * kMiB);
        if (!direct_works()) {
          EXPECT_EQ(result.stats.direct_io, 0u);
          EXPECT_EQ(result.stats.io_engine, static_cast<uint32_t>(CKPT_IO_BLOCKING));
        } else if (cold) {
          EXPECT_EQ(result.stats.direct_io, 1u);
          EXPECT_NE(result.stats.io_engine, static_cast<uint32_t>(CKPT_IO_BLOCKING));
        }
        if (std::string(GetParam().value) == "threads") {
          EXPECT_NE(result.stats.io_engine, static_cast<uint32_t>(CKPT_IO_URING));
        }
      }
  }
}

TEST_P(DirectLoad, ReadsAtMostTwoChunksMoreThanAskedForEachRun) {
  const int64_t kChunk = 65536;
  const Bytes data = pattern(8 * kMiB + 5000, 1);
  for (const char* compression : {"none", "lz4"}) {
    std::filesystem::remove_all(scratch_.path());
    std::filesystem::create_directory(scratch_.path());
    save({{"w", &data}}, compression, kChunk);
    Reader reader = this->reader();
    std::mt19937_64 random(5);
    for (int i = 0; i < 40; i++) {
      forget();
      int64_t total = static_cast<int64_t>(data.size());
      int64_t begin = static_cast<int64_t>(random() % data.size());
      int64_t size = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(total - begin));
      if (i % 2) size = std::min(size, 2 * kChunk);
      Shifted target(static_cast<size_t>(size), i % 3 * 8u);
      Load load = new_load(reader);
      ask(load, "w", flat(CKPT_DTYPE_U8, {total}, begin, size), target.data, target.size);
      Result result = result_of(load);
      ASSERT_EQ(result.status, CKPT_OK) << result.text;
      ASSERT_TRUE(target.bytes() == Bytes(data.begin() + begin, data.begin() + begin + size));
      EXPECT_LE(result.stats.bytes_read,
                result.stats.bytes_requested + 2 * static_cast<uint64_t>(kChunk) * result.stats.run_count);
    }
  }
}

TEST_P(DirectLoad, AFlippedBitIsFoundWithItsTensorOffsetAndElements) {
  const Bytes first = pattern(6 * kMiB, 1), second = pattern(20 * kMiB, 2);
  save({{"first", &first}, {"second", &second}});
  Reader reader = this->reader();
  uint64_t chunk = segments_of(reader, "second")[0].part_offset + 13 * kMiB;
  change(chunk + 4711);
  for (size_t shift : {0, 64}) {
    forget();
    Shifted a(first.size(), shift), b(second.size(), shift);
    Load load = new_load(reader);
    ask(load, "first", whole(CKPT_DTYPE_U8, {6 * kMiB}), a.data, a.size);
    ask(load, "second", whole(CKPT_DTYPE_U8, {20 * kMiB}), b.data, b.size);
    Result result = result_of(load);
    EXPECT_EQ(result.status, CKPT_CORRUPT);
    EXPECT_EQ(result.tensor, "second");
    EXPECT_EQ(result.part, "PART_000");
    EXPECT_EQ(result.offset, std::to_string(chunk));
    EXPECT_NE(result.text.find("elements 13631488 to 14680063"), std::string::npos) << result.text;
  }
  forget();
  const std::vector<Found> found = verify(reader.get(), {});
  ASSERT_EQ(found.size(), 1u) << to_text(found);
  EXPECT_EQ(found[0].offset, chunk);
  EXPECT_EQ(found[0].first, 13 * kMiB);
  EXPECT_EQ(found[0].last, 14 * kMiB - 1);
  Error error;
  const void* mapped = nullptr;
  uint64_t size = 0;
  EXPECT_EQ(ckpt_reader_map(reader.get(), "second", nullptr, &mapped, &size, error), CKPT_CORRUPT);
  EXPECT_EQ(ckpt_reader_map(reader.get(), "first", nullptr, &mapped, &size, error), CKPT_OK) << error.text();
  EXPECT_EQ(std::memcmp(mapped, first.data(), first.size()), 0);
}

TEST_P(DirectLoad, APartCutOffBehindTheReadersBackIsNamed) {
  const Bytes data = pattern(20 * kMiB, 2);
  save({{"w", &data}});
  Reader reader = this->reader();
  EXPECT_EQ(load_one(reader, "w", flat(CKPT_DTYPE_U8, {20 * kMiB}, 0, 10), 10), Bytes(data.begin(), data.begin() + 10));
  std::filesystem::resize_file(part(), 10 * kMiB);
  forget();
  Shifted target(data.size(), 0);
  Load load = new_load(reader);
  ask(load, "w", whole(CKPT_DTYPE_U8, {20 * kMiB}), target.data, target.size);
  Result result = result_of(load);
  EXPECT_EQ(result.status, CKPT_INCOMPLETE) << result.text;
  EXPECT_EQ(result.tensor, "w");
  EXPECT_EQ(result.part, "PART_000");
}

TEST_P(DirectLoad, TouchesNothingOnceItWasCancelled) {
  const Bytes data = pattern(32 * kMiB, 2);
  save({{"w", &data}});
  for (size_t shift : {0, 8}) {
    forget();
    Reader reader = this->reader();
    Shifted target(data.size(), shift);
    Load load = new_load(reader);
    ask(load, "w", whole(CKPT_DTYPE_U8, {32 * kMiB}), target.data, target.size);
    ckpt_job* started = nullptr;
    Error error;
    ASSERT_EQ(ckpt_load_start(load.get(), &started, error), CKPT_OK) << error.text();
    Job job(started);
    ckpt_job_cancel(started);
    ckpt_status status = ckpt_job_wait(started, CKPT_JOB_DONE, -1, error);
    EXPECT_TRUE(status == CKPT_CANCELLED || status == CKPT_OK) << error.text();
    std::memset(target.data, 0x5a, target.size);
    job.reset();
    load.reset();
    EXPECT_TRUE(target.bytes() == Bytes(target.size, 0x5a));
  }
}

}  // namespace
}  // namespace ckpt_test

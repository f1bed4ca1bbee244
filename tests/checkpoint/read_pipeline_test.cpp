// The order in which a pipeline begins its reads.
#include "checkpoint/read_pipeline.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine.h"
#include "store/shell_store.h"

namespace ckpt::checkpoint {
namespace {

struct Streaming : store::ShellStore {
  using ShellStore::ShellStore;
  store::Traits traits() const override {
    store::Traits traits = ShellStore::traits();
    traits.stream_bytes = stream_bytes;
    return traits;
  }
  uint64_t stream_bytes = 0;
};

// Pages of a file, read by one thread.
struct Pages final : PipelineWork {
  explicit Pages(std::shared_ptr<const store::Reader> of) : file(std::move(of)) {}
  Result<PipelineRead> describe(size_t number) override {
    order.push_back(number);
    return PipelineRead{file, number * kAlign, kAlign, nullptr};
  }
  Status arrived(size_t number, Bytes, unsigned) override { return read(number, 0); }
  Status read(size_t number, unsigned) override {
    done.push_back(number);
    return Ok();
  }
  bool may_pad(uint64_t) override { return true; }

  std::shared_ptr<const store::Reader> file;
  std::vector<size_t> order, done;
};

TEST(ReadPipeline, BeginsReadsInOrderOrAsStreamsThatTakeTurns) {
  constexpr size_t kCount = 22;
  const auto store = std::make_shared<Streaming>(fresh_memory_store());
  ASSERT_TRUE(store->put_if_absent("a", std::vector<std::byte>(kCount * kAlign)).ok());
  const auto order_for = [&](uint64_t stream_bytes) {
    store->stream_bytes = stream_bytes;
    Pages pages{std::shared_ptr<const store::Reader>(store->open("a").take())};
    Job job;
    EXPECT_TRUE(run_pipeline(*store, pages, kCount, {.threads = 1, .slots = 2, .buffer_bytes = kAlign}, job).ok());
    std::ranges::sort(pages.done);
    std::vector<size_t> all(kCount);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(pages.done, all) << "each once";
    return pages.order;
  };
  std::vector<size_t> in_order(kCount);
  std::iota(in_order.begin(), in_order.end(), 0);
  EXPECT_EQ(order_for(0), in_order);
  EXPECT_EQ(order_for(kAlign), in_order);
  EXPECT_EQ(order_for(4 * kAlign),
            (std::vector<size_t>{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15, 16, 19, 17, 20, 18, 21}));
}

}  // namespace
}  // namespace ckpt::checkpoint

// What is special about the store in memory; StoreSuite covers the rest.
#include "store/store_suite.h"
#include "store/weak_store.h"

#include <atomic>
#include <thread>

namespace ckpt::store {
namespace {

class MemoryHome final : public Home {
 public:
  MemoryHome() : name_("suite-" + to_hex(random_id())), keep_(open()) {}
  std::shared_ptr<Store> open() override {
    auto store = open_memory(name_);
    return store.ok() ? store.take() : nullptr;
  }

 private:
  const std::string name_;
  const std::shared_ptr<Store> keep_;
};

const auto kMemory = testing::Values(Backend{"Memory", [] { return std::make_unique<MemoryHome>(); }});
INSTANTIATE_TEST_SUITE_P(Memory, StoreSuite, kMemory, testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Memory, DirectorySuite, kMemory, testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Memory, NamesSuite, kMemory, testing::PrintToStringParamName());

class WeakHome final : public Home {
 public:
  std::shared_ptr<Store> open() override { return std::make_shared<WeakStore>(bucket_); }

 private:
  const std::shared_ptr<Bucket> bucket_ = std::make_shared<Bucket>(Weakness{.list_delay_ms = 0});
};

const auto kWeak = testing::Values(Backend{"Weak", [] { return std::make_unique<WeakHome>(); }});
INSTANTIATE_TEST_SUITE_P(Weak, StoreSuite, kWeak, testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Weak, NamesSuite, kWeak, testing::PrintToStringParamName());

std::shared_ptr<Store> memory(const char* uri) {
  auto store = open_store(uri, {});
  EXPECT_TRUE(store.ok()) << store.status().message();
  return store.take();
}

TEST(Memory, HandlesOfANameShareOneStore) {
  auto a = memory("mem:share"), b = memory("mem:share"), other = memory("mem:other");
  ASSERT_TRUE(a->put_if_absent("x", as_bytes("1")).ok());
  EXPECT_EQ(read_text(*b, "x"), "1");
  EXPECT_EQ(read_text(*other, "x"), "<NOT_FOUND>");
  EXPECT_EQ(a->uri(), "mem:share");
  EXPECT_EQ(a->path("d/x"), "mem:share/d/x");
}

TEST(Memory, AStoreEndsWithItsLastHandle) {
  auto a = memory("mem:ends"), b = memory("mem:ends");
  ASSERT_TRUE(a->put_if_absent("x", {}).ok());
  a.reset();
  EXPECT_EQ(read_text(*b, "x"), "");
  b.reset();
  EXPECT_EQ(read_text(*memory("mem:ends"), "x"), "<NOT_FOUND>");
}

TEST(Memory, AReaderOutlivesItsStore) {
  auto store = memory("mem:reader");
  ASSERT_TRUE(store->put_if_absent("x", as_bytes("still")).ok());
  auto reader = store->open("x");
  ASSERT_TRUE(reader.ok());
  store.reset();
  auto map = (*reader)->map();
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(as_text(*map), "still");
}

TEST(Memory, SizesThatNoMemoryHoldsAreNomem) {
  auto store = memory("mem:huge");
  std::byte one{};
  EXPECT_EQ(code(store->create("x", UINT64_MAX).status()), "NOMEM");
  auto writer = store->create("x", 0);
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(code((*writer)->write_at(UINT64_MAX, {&one, 1})), "NOMEM");
  EXPECT_EQ(code((*writer)->write_at(INT64_MAX, {&one, 1})), "NOMEM");
  EXPECT_EQ(code((*writer)->write_at(3, {&one, 1})), "OK");
  EXPECT_EQ(code((*writer)->publish(UINT64_MAX)), "NOMEM");
  EXPECT_EQ(names(*store, ""), "");
}

TEST(Memory, OpeningAndClosingANameFromManyThreadsIsSafe) {
  std::atomic<int> failures{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; t++)
      threads.emplace_back([&] {
        for (int i = 0; i < 200; i++) {
          auto store = open_memory("contended");
          if (!store.ok()) failures++;
          Status status = (*store)->put_if_absent("x", as_bytes("1"));
          if (!status.ok() && status.code() != CKPT_EXISTS) failures++;
          if (read_text(**store, "x") != "1") failures++;
        }
      });
  }
  EXPECT_EQ(failures, 0);
}

TEST(Memory, WritersKnowNoAlignment) {
  auto store = memory("mem:direct");
  auto writer = store->create("x", 8 << 20);
  ASSERT_TRUE(writer.ok());
  EXPECT_FALSE((*writer)->direct());
  EXPECT_EQ(code((*writer)->write_at(3, as_bytes("odd"))), "OK");
}

}  // namespace

TEST(OpenStore, RefusesWhatIsNoStore) {
  for (const char* uri :
       {"", "mem:", "s3://", "s3://b/../x", "file://host/dir", "file://", "file:///a%2", "file:///a%zz"})
    EXPECT_EQ(code(open_store(uri, {}).status()), "INVALID") << uri;
  EXPECT_EQ(code(open_store(std::string_view("/a\0b", 4), {}).status()), "INVALID");
  EXPECT_EQ(code(open_store("file:///a%00b", {}).status()), "INVALID");
  for (const char* uri : {"hdfs://b", "ftp://x/y"}) EXPECT_EQ(code(open_store(uri, {}).status()), "UNSUPPORTED") << uri;
}

TEST(OpenStore, UnderstandsPathsAndFileUris) {
  EXPECT_EQ((*open_store("/data/run7", {}))->path("d/x"), "/data/run7/d/x");
  EXPECT_EQ((*open_store("/data/run7//", {}))->uri(), "/data/run7");
  EXPECT_EQ((*open_store("file:///data/run%207", {}))->uri(), "/data/run 7");
  EXPECT_EQ((*open_store("file://localhost/data", {}))->uri(), "/data");
  EXPECT_EQ((*open_store("/", {}))->path("x"), "/x");
  EXPECT_EQ((*open_store("run7", {}))->uri()[0], '/');
}

}  // namespace ckpt::store

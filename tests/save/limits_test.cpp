// What a part cannot hold is refused before its data is written.
#include "save/limits.h"

#include "checkpoint/engine.h"
#include "save/layout.h"

namespace ckpt::save {
namespace {

ckpt_tensor_desc bytes_desc(int64_t count) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = CKPT_DTYPE_U8;
  desc.ndim = 1;
  desc.shape[0] = count;
  return desc;
}

// Two tensors, one of three chunks; an alias; an object; attributes.
class LoweredLimits : public ::testing::Test {
 protected:
  LoweredLimits() {
    add("first", 10);
    add("second", 10000);
    content.aliases["tied"] = {"tied", "first", false, 0, {}};
    content.objects["object"] = {"object", "text/plain", CKPT_OBJECT_PER_RANK, std::vector<std::byte>(100)};
    content.attrs["first"]["key"] = std::string(500, 'x');
  }
  void add(std::string_view name, int64_t count) {
    device::RegionRequest request;
    ASSERT_TRUE(device::read_desc(bytes_desc(count), memory.data(), memory.size(), &request).ok());
    content.tensors.push_back(keep_tensor(name, request, {}, &content.memory));
  }
  Status lay_out_within(const PartLimits& limits) const {
    return lay_out(content, {.chunk_bytes = kAlign,
                             .large_tensor_bytes = 1 << 18,
                             .block_bytes = 8 << 20,
                             .compression = "none",
                             .rank = 3,
                             .in_place = false,
                             .limits = limits})
        .status();
  }
  void expect_refused(const PartLimits& limits, std::string_view why) const {
    const Status status = lay_out_within(limits);
    EXPECT_EQ(status.code(), CKPT_UNSUPPORTED) << status.message();
    EXPECT_NE(status.message().find(why), std::string::npos) << status.message() << "\n  expected: " << why;
    EXPECT_EQ(*status.detail("rank"), "3");
  }

  std::vector<std::byte> memory = std::vector<std::byte>(10000);
  SaveContent content;
};

TEST_F(LoweredLimits, LetThroughWhatFits) { EXPECT_TRUE(lay_out_within({}).ok()); }

TEST_F(LoweredLimits, RefuseMoreTensorsAndAliases) {
  expect_refused({.names = 2}, "3 tensors and aliases, at most 2: divide them among more ranks");
  EXPECT_TRUE(lay_out_within({.names = 3}).ok());
}

TEST_F(LoweredLimits, RefuseMoreChunksTextOrInlineData) {
  expect_refused({.positions = 3}, "4 chunks, at most 3: larger chunk_bytes");
  expect_refused({.positions = 99}, "bytes of names and attributes, at most 99: shorter names");
  content.attrs.clear();
  expect_refused({.positions = 99}, "100 bytes of small objects, at most 99");
  EXPECT_TRUE(lay_out_within({.positions = 100}).ok());
}

TEST_F(LoweredLimits, RefuseANameWhoseRecordsFillMoreThanAPage) {
  expect_refused({.page_bytes = 500}, "tensor \"first\": the part of rank 3 would have 653 bytes");
  content.attrs.clear();
  expect_refused({.page_bytes = 150}, "bytes of records for one name, at most 150: shorter attributes, or larger");
}

TEST_F(LoweredLimits, RefuseALongRoot) {
  content.attrs.clear();
  for (int i = 0; i < 900; i++) content.objects["o" + std::to_string(i)] = {"", "", 1, std::vector<std::byte>(4096)};
  expect_refused({.page_bytes = 2000}, "bytes of records for one name");
  expect_refused({.page_bytes = 5000}, "bytes in the root of its index, at most 5000");
}

TEST(PartLimits, AreCheckedBeforeTheFirstByteIsWritten) {
  // Addresses without memory: 2^32 chunks of 4 KiB.
  const size_t size = size_t{1} << 44;
  void* const memory = reinterpret_cast<void*>(size);
  auto shell = std::make_shared<store::ShellStore>(fresh_memory_store());
  auto session = *session::Session::open(shell, 0, 1, nullptr, {.chunk_bytes = 4096});
  auto save = *Save::make(session, "s1", 1, {});
  ASSERT_TRUE(save->add_tensor("t", bytes_desc(int64_t{1} << 44), memory, size).ok());
  ASSERT_TRUE(save->begin().ok());
  int created = 0;
  shell->before([&](std::string_view operation, std::string_view) {
    created += operation == "create";
    return Ok();
  });
  Job job;
  const Status status = job.run(CKPT_JOB_COMMITTED, [&](Job& running) { return save->work(running, false); });
  EXPECT_EQ(status.code(), CKPT_UNSUPPORTED) << status.message();
  EXPECT_NE(status.message().find("4294967296 chunks, at most 4294967295"), std::string::npos) << status.message();
  EXPECT_EQ(*status.detail("found"), "4294967296");
  EXPECT_EQ(created, 0);
}

TEST(PartLimits, AWorldOfMoreRanksThanTheFormatCanNumberIsRefused) {
  const auto session = session::Session::open(fresh_memory_store(), 0, uint32_t{1} << 31, nullptr, {});
  EXPECT_EQ(session.status().code(), CKPT_UNSUPPORTED) << session.status().message();
}

}  // namespace
}  // namespace ckpt::save

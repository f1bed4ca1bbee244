// What a rank reads that restarts with the sharding it saved: of a large manifest only what leads to its own part.
#include <atomic>
#include <future>
#include <thread>

#include "checkpoint/engine.h"
#include "load/load.h"

namespace ckpt::checkpoint {
namespace {

constexpr int64_t kTensors = 30000, kColumns = 4;

std::string tensor_name(int64_t i) {
  std::string digits = std::to_string(i);
  return std::string(160, 'n') + std::string(5 - digits.size(), '0') + digits;
}

ckpt_tensor_desc row_desc(int64_t first, int64_t rows) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = CKPT_DTYPE_U8;
  desc.ndim = 2;
  desc.shape[0] = 2;
  desc.shape[1] = kColumns;
  desc.region_kind = CKPT_REGION_BOX;
  desc.offset[0] = first;
  desc.extent[0] = rows;
  desc.extent[1] = kColumns;
  return desc;
}

// Each of two ranks saves one row of each tensor, full of its own number, an object of its own and a shared one.
Status save_rows(const std::shared_ptr<session::Session>& session) {
  const uint32_t rank = session->rank();
  std::vector<std::byte> row(kColumns, std::byte(rank));
  CKPT_ASSIGN(auto save, save::Save::make(session, "s1", 1, {}));
  for (int64_t i = 0; i < kTensors; i++)
    CKPT_TRY(save->add_tensor(tensor_name(i), row_desc(rank, 1), row.data(), row.size()));
  CKPT_TRY(save->add_object("own", "", CKPT_OBJECT_PER_RANK, as_bytes("rank " + std::to_string(rank))));
  CKPT_TRY(save->add_object("shared", "", CKPT_OBJECT_SHARED, as_bytes("shared")));
  return run_whole(*save);
}

class OwnPart : public ::testing::Test {
 protected:
  OwnPart() {
    static const std::shared_ptr<store::Store> saved = [] {
      auto store = fresh_memory_store();
      auto leader = open_session(store, 0, 2);
      auto other = open_session(store, 1, 2, leader->string().c_str());
      Status told;
      std::thread thread([&] { told = save_rows(other); });
      Status led = save_rows(leader);
      thread.join();
      EXPECT_TRUE(led.ok() && told.ok()) << led.message() << told.message();
      return store;
    }();
    shell = std::make_shared<store::ShellStore>(saved);
    shell->on_read([this](std::string_view key, uint64_t bytes) {
      std::lock_guard lock(mutex);
      read[std::string(key.substr(key.rfind('/') + 1))] += bytes;
    });
  }
  std::shared_ptr<load::Load> make_load(int64_t own_part, const char* strict = "missing") {
    checkpoint = *Checkpoint::open(shell, {"latest", "main", false});
    return *load::Load::make(checkpoint, {.strict = strict, .own_part = own_part});
  }
  static Status run(load::Load& load) { return run_whole(load); }
  // Loads `rows` rows of each tensor from row `first` on, and the two objects of rank 1.
  Status load_rows(load::Load& load, int64_t first, int64_t rows) {
    memory.assign(static_cast<size_t>(kTensors * rows * kColumns), std::byte{9});
    for (int64_t i = 0; i < kTensors; i++)
      CKPT_TRY(load.add_tensor(tensor_name(i), row_desc(first, rows), memory.data() + i * rows * kColumns,
                               static_cast<uint64_t>(rows * kColumns)));
    CKPT_TRY(load.add_object("own", 1, own));
    CKPT_TRY(load.add_object("shared", 1, shared));
    return run(load);
  }
  void expect_rows(int64_t first, int64_t rows) {
    for (size_t i = 0; i < memory.size(); i++)
      ASSERT_EQ(std::to_integer<int64_t>(memory[i]), first + static_cast<int64_t>(i) / kColumns % rows) << i;
    EXPECT_EQ(as_text(own), "rank 1");
    EXPECT_EQ(as_text(shared), "shared");
  }

  std::shared_ptr<store::ShellStore> shell;
  std::shared_ptr<Checkpoint> checkpoint;
  std::vector<std::byte> memory, own = std::vector<std::byte>(6), shared = std::vector<std::byte>(6);
  std::mutex mutex;
  std::map<std::string, uint64_t> read;
};

TEST_F(OwnPart, IsAllThatARankReadsBesidesTheHeadOfTheManifest) {
  auto load = make_load(1);
  ASSERT_EQ(checkpoint->root().pages.size() > 80, true);
  const Status loaded = load_rows(*load, 1, 1);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  expect_rows(1, 1);
  EXPECT_LE(read["MANIFEST"], 64u << 10);
  // The shared object is in part 0: its header, its root and a page.
  EXPECT_LE(read["PART_000"], 256u << 10);
}

TEST_F(OwnPart, IsNotLookedIntoUnlessAsked) {
  auto load = make_load(-1);
  ASSERT_TRUE(load_rows(*load, 1, 1).ok());
  expect_rows(1, 1);
  EXPECT_GE(read["MANIFEST"], 4u << 20);
}

TEST_F(OwnPart, ThatHasNotAllThatIsWantedLeavesTheRestToTheManifest) {
  for (int64_t part : {0, 1, 77}) {
    auto load = make_load(part);
    const Status loaded = load_rows(*load, 0, 2);
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    expect_rows(0, 2);
  }
}

TEST_F(OwnPart, OfAnotherRankDoesNoHarm) {
  auto load = make_load(0);
  const Status loaded = load_rows(*load, 1, 1);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  expect_rows(1, 1);
}

TEST_F(OwnPart, CountsAsAskedForWhatIsStrict) {
  auto all = make_load(1, "exact");
  const Status loaded = load_rows(*all, 1, 1);
  EXPECT_TRUE(loaded.ok()) << loaded.message();
  EXPECT_TRUE(all->report().findings.empty());
  auto one = make_load(1, "exact");
  ASSERT_TRUE(one->add_tensor(tensor_name(1), row_desc(1, 1), own.data(), kColumns).ok());
  EXPECT_EQ(one->report().findings.size(), kTensors - 1u);
  EXPECT_EQ(run(*one).code(), CKPT_MISMATCH);
}

TEST_F(OwnPart, RefusesAnotherShapeOrDtypeAsEver) {
  auto load = make_load(1);
  ckpt_tensor_desc desc = row_desc(1, 1);
  desc.dtype = CKPT_DTYPE_I8;
  EXPECT_EQ(load->add_tensor(tensor_name(0), desc, memory.data(), kColumns).code(), CKPT_INVALID);
  memory.resize(64);
  EXPECT_EQ(load->add_tensor(tensor_name(0), desc, memory.data(), kColumns).code(), CKPT_MISMATCH);
  desc = row_desc(1, 1);
  desc.shape[0] = 3;
  EXPECT_EQ(load->add_tensor(tensor_name(0), desc, memory.data(), kColumns).code(), CKPT_MISMATCH);
  ASSERT_TRUE(load->add_tensor("absent", row_desc(1, 1), memory.data(), kColumns).ok());
  EXPECT_EQ(run(*load).code(), CKPT_NOT_FOUND);
}

TEST_F(OwnPart, ThatCannotBeReadIsToldByTheLoadThatNeedsIt) {
  shell->before([](std::string_view operation, std::string_view key) {
    return operation == "open" && key.ends_with("PART_001") ? Status(CKPT_NOT_FOUND, "gone") : Ok();
  });
  auto load = make_load(1);
  memory.resize(64);
  // Row 0 lies in part 0, but the check of a grid's cell needs no other part.
  ASSERT_TRUE(load->add_tensor(tensor_name(0), row_desc(0, 1), memory.data(), kColumns).ok());
  EXPECT_TRUE(run(*load).ok());
  auto needs = make_load(1);
  ASSERT_TRUE(needs->add_tensor(tensor_name(0), row_desc(1, 1), memory.data(), kColumns).ok());
  const Status status = run(*needs);
  EXPECT_EQ(status.code(), CKPT_INCOMPLETE) << status.message();
  EXPECT_EQ(*status.detail("part"), "PART_001");
}

// A caller that looks up names works for no call that would end in time.
TEST_F(OwnPart, NeedsNoLookupThatADiskCanHoldForEver) {
  std::promise<void> disk;
  const auto answers = disk.get_future().share();
  const auto hangs = std::make_shared<std::atomic<bool>>(false);
  shell->on_read([answers, hangs](std::string_view key, uint64_t) {
    const Busy busy("read", key);
    if (*hangs) answers.wait();
  });
  {
    const auto opening = std::make_shared<Call>();
    opening->bound(500);
    const ContextScope on{CallContext(opening.get())};
    checkpoint = *Checkpoint::open(shell, {"latest", "main", false});
  }
  *hangs = true;
  for (const Status& held : {checkpoint->find(tensor_name(kTensors / 2)).status(), checkpoint->part(1).status()}) {
    EXPECT_EQ(held.code(), CKPT_TIMEOUT) << held.message();
    EXPECT_NE(held.message().find("left behind"), std::string::npos) << held.message();
  }
  *hangs = false;
  disk.set_value();
  EXPECT_TRUE(checkpoint->find(tensor_name(kTensors / 2)).ok()) << "once the disk answers";
}

}  // namespace
}  // namespace ckpt::checkpoint

// What is no sparse table although it says so: put together from tensors, as an enemy would.
#include <functional>
#include <vector>

#include "checkpoint/engine.h"
#include "format/table.h"
#include "load/share.h"

namespace ckpt::load {
namespace {

// A table of ids in 4 buckets, as one rank saves it.
struct Drawn {
  std::vector<uint64_t> ids{4, 8, 1, 2, 7}, starts{0, 2, 3, 4};
  std::vector<uint8_t> column{10, 11, 12, 13, 14};
  std::string text = "mod 4\nc";
  int32_t ids_dtype = CKPT_DTYPE_I64;
  bool rows = true;
};

// Later runs of it, all the same.
struct DrawnRuns {
  uint32_t count = 1;
  std::vector<uint64_t> ids{4, 9}, removed{2}, live{5};
  std::string rule{format::kRunsValue};
};

ckpt_tensor_desc desc_of(int32_t dtype, size_t count, bool rows) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = dtype;
  desc.ndim = 1;
  desc.region_kind = rows ? CKPT_REGION_ROWS : CKPT_REGION_WHOLE;
  desc.shape[0] = static_cast<int64_t>(count);
  return desc;
}

Result<std::shared_ptr<checkpoint::Checkpoint>> saved(const Drawn& drawn, const DrawnRuns& runs = {.count = 0}) {
  const auto store = fresh_memory_store();
  auto save = save::Save::make(open_session(store), "a", 1, {}).take();
  CKPT_TRY(save->add_tensor("t/ids", desc_of(drawn.ids_dtype, drawn.ids.size(), drawn.rows), drawn.ids.data(),
                            drawn.ids.size() * 8));
  CKPT_TRY(save->add_tensor("t/buckets", desc_of(CKPT_DTYPE_U64, drawn.starts.size(), true), drawn.starts.data(),
                            drawn.starts.size() * 8));
  CKPT_TRY(save->add_tensor("t/c", desc_of(CKPT_DTYPE_U8, drawn.column.size(), true), drawn.column.data(),
                            drawn.column.size()));
  CKPT_TRY(save->add_alias("t", "t/ids", nullptr));
  CKPT_TRY(save->set_attr("t", format::kTableAttr, drawn.text));
  const std::vector<uint64_t> start{0};
  auto add = [&](const std::string& name, const std::vector<uint64_t>& numbers, int32_t dtype) {
    return save->add_tensor(name, desc_of(dtype, numbers.size(), true), numbers.data(), numbers.size() * 8);
  };
  for (uint32_t run = 1; run <= runs.count; run++) {
    const std::string name = format::run_name("t", run), removed = format::removed_name("t", run);
    CKPT_TRY(add(name + "/ids", runs.ids, drawn.ids_dtype));
    CKPT_TRY(add(name + "/buckets", start, CKPT_DTYPE_U64));
    CKPT_TRY(save->add_tensor(name + "/c", desc_of(CKPT_DTYPE_U8, runs.ids.size(), true), drawn.column.data(),
                              runs.ids.size()));
    CKPT_TRY(add(removed + "/ids", runs.removed, drawn.ids_dtype));
    CKPT_TRY(add(removed + "/buckets", start, CKPT_DTYPE_U64));
  }
  if (runs.count != 0) CKPT_TRY(add("t/run-live", runs.live, CKPT_DTYPE_U64));
  if (runs.count != 0) CKPT_TRY(save->set_attr("t", format::kRunsAttr, runs.rule));
  CKPT_TRY(run_whole(*save));
  return checkpoint::Checkpoint::open(store, {"latest", "main", false});
}

// What loading all rows, in windows of two, says.
Status load_all(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint, uint64_t window_rows) {
  Job opening;
  CKPT_ASSIGN(const auto share, Share::open(checkpoint, "t", {.window_rows = window_rows}, opening));
  std::vector<uint64_t> ids(share->rows());
  for (size_t window = 0; window < share->windows().size(); window++) {
    auto load = Load::make(checkpoint, {}).take();
    CKPT_TRY(load->add_table({share, window, reinterpret_cast<std::byte*>(ids.data()), {}}));
    CKPT_TRY(run_whole(*load));
  }
  return Ok();
}

Status status_of(const std::function<void(Drawn&)>& change) {
  Drawn drawn;
  change(drawn);
  auto checkpoint = saved(drawn);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const Status all = load_all(*checkpoint, 0), windows = load_all(*checkpoint, 2);
  EXPECT_EQ(all.code() == CKPT_OK, windows.code() == CKPT_OK) << windows.message();
  return all;
}

TEST(DrawnTable, ThatKeepsTheRulesIsRead) {
  EXPECT_EQ(status_of([](Drawn&) {}).message(), "");
  EXPECT_EQ(status_of([](Drawn& d) { d.starts = {0, 3}; }).message(), "");
}

TEST(DrawnTable, WhoseRowsAreNotSortedIsRefusedByName) {
  for (const auto& ids : std::vector<std::vector<uint64_t>>{{8, 4, 1, 2, 7}, {4, 4, 1, 2, 7}, {4, 8, 1, 7, 2}}) {
    const Status status = status_of([&](Drawn& d) { d.ids = ids; });
    EXPECT_EQ(status.code(), CKPT_FORMAT);
    EXPECT_NE(status.message().find("table \"t\": in part 0 id "), std::string::npos) << status.message();
  }
}

TEST(DrawnTable, WhoseBucketsAreWrongIsRefused) {
  for (const auto& starts : std::vector<std::vector<uint64_t>>{
           {1, 2, 3, 4}, {0, 2, 1, 4}, {0, 2, 3, 6}, {0, 2, 3}, {0, 1, 2, 3, 4}, {0, UINT64_MAX}}) {
    const Status status = status_of([&](Drawn& d) { d.starts = starts; });
    EXPECT_EQ(status.code(), CKPT_FORMAT) << status.message();
  }
}

TEST(DrawnTable, WhoseBucketsAreNotWhereTheySayIsRefusedByLookup) {
  Drawn drawn;
  drawn.starts = {0, 2, 3, 4};
  drawn.ids = {4, 8, 2, 1, 7};  // 1 and 2 have each other's place
  auto checkpoint = saved(drawn).take();
  for (const auto& ids : std::vector<std::vector<uint64_t>>{{1}, {2}, {1, 2}, {7, 4, 1}}) {
    Job job;
    const auto share = Share::open(checkpoint, "t", {.kind = CKPT_SHARE_IDS, .ids = ids}, job);
    EXPECT_EQ(share.status().code(), CKPT_FORMAT) << share.status().message();
  }
}

TEST(DrawnTable, WhoseTensorsDoNotMatchIsRefused) {
  EXPECT_EQ(status_of([](Drawn& d) { d.column.pop_back(); }).code(), CKPT_FORMAT);
  EXPECT_EQ(status_of([](Drawn& d) { d.ids_dtype = CKPT_DTYPE_F64; }).code(), CKPT_FORMAT);
  EXPECT_EQ(status_of([](Drawn& d) { d.rows = false; }).code(), CKPT_FORMAT);
  for (const char* text : {"mod 4\nd", "mod 4\nc\nc", "mod 4\nids", "mod 0", "mod 04\nc", "mod 4294967296\nc",
                           "mod 99999999999999999999\nc", "mod \nc", "mod 4 \nc", "mod 4\n\nc", "mod 4\nc\n"})
    EXPECT_EQ(status_of([&](Drawn& d) { d.text = text; }).code(), CKPT_FORMAT) << text;
  EXPECT_EQ(status_of([](Drawn& d) { d.text = "xxh3 4\nc"; }).code(), CKPT_UNSUPPORTED);
}

// What all rows say, and what a lookup says.
std::pair<Status, Status> read_runs(const DrawnRuns& runs) {
  auto checkpoint = saved({}, runs);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  Job job;
  const auto share = Share::open(*checkpoint, "t", {.kind = CKPT_SHARE_IDS, .ids = {9, 2, 4}}, job);
  if (share.ok()) {
    EXPECT_EQ((*share)->missing().size(), 1u);
  }
  return {load_all(*checkpoint, 2), share.ok() ? Ok() : share.status()};
}

TEST(DrawnRuns, ThatKeepTheRulesAreRead) {
  for (const uint32_t count : {1u, 2u, 63u}) {
    const auto [all, listed] = read_runs({.count = count});
    EXPECT_EQ(all.message() + listed.message(), "") << count;
  }
}

// tests/golden/bad has more of them, which all rows tell. A lookup counts nothing.
TEST(DrawnRuns, ThatBreakARuleAreRefusedByLookupToo) {
  const auto codes = [](const DrawnRuns& runs) {
    const auto [all, listed] = read_runs(runs);
    return std::pair(all.code(), listed.code());
  };
  const std::pair<ckpt_status, ckpt_status> format(CKPT_FORMAT, CKPT_FORMAT),
      unsupported(CKPT_UNSUPPORTED, CKPT_UNSUPPORTED), counted(CKPT_MISMATCH, CKPT_OK);
  EXPECT_EQ(codes({.count = 64}), format);
  EXPECT_EQ(codes({.ids = {9, 4}}), format);
  EXPECT_EQ(codes({.removed = {9}}), format);
  EXPECT_EQ(codes({.rule = "oldest"}), unsupported);
  EXPECT_EQ(codes({.rule = ""}), unsupported);
  EXPECT_EQ(codes({.live = {6}}), counted);
  EXPECT_EQ(codes({.live = {UINT64_MAX}}), counted);
}

}  // namespace
}  // namespace ckpt::load

// State trees of several ranks: merged where they fit together, refused with the place and the ranks where not.
#include <gtest/gtest.h>

#include <thread>

#include "checkpoint/engine.h"
#include "commit/rank_groups.h"
#include "load/state_tree.h"
#include "maintain/repair.h"
#include "tree/merge.h"

namespace ckpt::commit {
namespace {

using TreeOf = std::function<std::string(uint32_t rank)>;

std::string per_rank(uint32_t rank, const std::string& value) {
  return strformat(R"({{"$":"record","class":"ckpt.PerRank","items":{{"rank{}":{}}}}})", rank, value);
}

// Saves each rank's tree (none where it is empty), and a tensor "own/RANK" of each.
Status save_trees(const std::shared_ptr<store::Store>& store, uint32_t world, const TreeOf& tree_of) {
  std::vector<std::shared_ptr<session::Session>> sessions;
  for (uint32_t rank = 0; rank < world; rank++)
    sessions.push_back(open_session(store, rank, world, rank ? sessions[0]->string().c_str() : nullptr));
  auto save = [&](uint32_t rank) -> Status {
    CKPT_ASSIGN(auto mine, save::Save::make(sessions[rank], "s1", 1, {.wait = false}));
    ckpt_tensor_desc desc = f32_rows(1, 1, 0, 1);
    desc.replica_count = 1;
    CKPT_TRY(mine->add_tensor(strformat("own/{}", rank), desc, "data", 4));
    if (const std::string json = tree_of(rank); !json.empty()) {
      CKPT_ASSIGN(const tree::Tree tree, tree::parse_tree_json(json));
      CKPT_TRY(mine->add_tree(CKPT_TREE_OBJECT, tree));
    }
    return run_whole(*mine);
  };
  Status committed;
  std::thread first([&] { committed = save(0); });
  for (uint32_t rank = world - 1; rank > 0; rank--) (void)save(rank);
  first.join();
  return committed;
}

std::string loaded(const std::shared_ptr<store::Store>& store, std::optional<uint32_t> rank = std::nullopt) {
  auto checkpoint = checkpoint::Checkpoint::open(store, {"latest", "main", false});
  if (!checkpoint.ok()) return checkpoint.status().message();
  auto tree = load::read_state_tree(*checkpoint, nullptr, rank);
  return tree.ok() ? tree::tree_json(*tree) : tree.status().message();
}

TEST(TreesOfRanks, EqualOnesAreOneObjectOfTheFirstRank) {
  auto store = fresh_memory_store();
  ASSERT_TRUE(save_trees(store, 3, [](uint32_t) { return R"({"epoch":3})"; }).ok());
  const auto checkpoint = checkpoint::Checkpoint::open_quietly(*store, "s1.1.1").take();
  EXPECT_EQ(checkpoint->holders_of("state")->parts, std::vector<uint32_t>{0});
  EXPECT_EQ(loaded(store), R"({"epoch":3})");
}

TEST(TreesOfRanks, OfPipelineStagesAreMerged) {
  auto store = fresh_memory_store();
  auto stage = [](uint32_t rank) -> std::string {
    if (rank == 1) return "";  // a rank may have none
    return strformat(R"({{"model":{{"layer{}":{{"$":"tensor","name":"own/{}"}}}},"epoch":3}})", rank / 2, rank / 2 * 2);
  };
  const Status saved = save_trees(store, 4, stage);
  ASSERT_TRUE(saved.ok()) << saved.message();
  EXPECT_EQ(loaded(store),
            R"({"model":{"layer0":{"$":"tensor","name":"own/0"},"layer1":{"$":"tensor","name":"own/2"}},"epoch":3})");
}

TEST(TreesOfRanks, ThatContradictEachOtherAreRefusedByPlaceAndRanks) {
  auto store = fresh_memory_store();
  const Status saved = save_trees(store, 3, [](uint32_t rank) { return strformat(R"({{"t":{{"n":{}}}}})", rank / 2); });
  EXPECT_EQ(saved.code(), CKPT_MISMATCH);
  EXPECT_NE(saved.message().find("object \"state\": state at \"t/n\": rank 0 has 0, rank 2 has 1"), std::string::npos)
      << saved.message();
  EXPECT_EQ(*saved.detail("ranks"), "0, 2");
  EXPECT_FALSE(checkpoint::Checkpoint::open(store, {"latest", "main"}).ok());
}

TEST(TreesOfRanks, MayNameATensorThatOnlyAnotherRankAddedButNoneThatNobodyAdded) {
  auto naming = [](const char* name) {
    return [name](uint32_t rank) -> std::string {
      return rank == 1 ? strformat(R"([{{"$":"tensor","name":"{}"}}])", name) : "";
    };
  };
  EXPECT_TRUE(save_trees(fresh_memory_store(), 3, naming("own/2")).ok());
  const Status refused = save_trees(fresh_memory_store(), 3, naming("own/3"));
  EXPECT_EQ(refused.code(), CKPT_MISMATCH);
  EXPECT_NE(refused.message().find("object \"state\" of rank 1"), std::string::npos) << refused.message();
}

TEST(TreesOfRanks, WhatIsEachRanksOwnDoesNotMakeTreesDifferent) {
  auto store = fresh_memory_store();
  const Status saved = save_trees(store, 3, [](uint32_t rank) {
    return strformat(R"({{"rng":{},"epoch":3}})", per_rank(rank, strformat("[{}]", 100 + rank)));
  });
  ASSERT_TRUE(saved.ok()) << saved.message();
  const auto checkpoint = checkpoint::Checkpoint::open_quietly(*store, "s1.1.1").take();
  EXPECT_EQ(checkpoint->holders_of("state")->parts, std::vector<uint32_t>{0});
  auto with = [](const std::string& items) {
    return R"({"rng":{"$":"record","class":"ckpt.PerRank","items":{)" + items + R"(}},"epoch":3})";
  };
  EXPECT_EQ(loaded(store), with(R"("rank0":[100],"rank1":[101],"rank2":[102])"));
  EXPECT_EQ(loaded(store, 1), with(R"("rank1":[101])"));
  EXPECT_EQ(loaded(store, 7), with(R"("rank0":[100])")) << "rank 0's, where there were fewer ranks";
}

TEST(TreesOfRanks, OfSeveralGroupsOfRanksAreReadOnceEach) {
  constexpr uint32_t kWorld = 256;
  auto store = fresh_memory_store();
  // Two kinds of trees, both in most groups, and one rank of the last group with a third one.
  auto tree_of = [](uint32_t rank) {
    return strformat(R"({{"k{}":{}}})", rank == 255 ? 2 : rank % 2, rank == 255 ? 7 : 5);
  };
  const Status saved = save_trees(store, kWorld, tree_of);
  ASSERT_TRUE(saved.ok()) << saved.message();
  const auto checkpoint = checkpoint::Checkpoint::open_quietly(*store, "s1.1.1").take();
  EXPECT_EQ(checkpoint->holders_of("state")->parts, (std::vector<uint32_t>{0, 1, 255}));
  EXPECT_EQ(loaded(store), R"({"k0":5,"k1":5,"k2":7})");

  const Status refused = save_trees(fresh_memory_store(), kWorld,
                                    [](uint32_t rank) { return strformat(R"({{"k":{}}})", rank == 200 ? 1 : 0); });
  EXPECT_EQ(refused.code(), CKPT_MISMATCH);
  EXPECT_NE(refused.message().find("rank 0 has 0, rank 200 has 1"), std::string::npos) << refused.message();
}

TEST(TreesOfRanks, ComeBackFromALostManifest) {
  auto store = fresh_memory_store();
  ASSERT_TRUE(save_trees(store, 3, [](uint32_t rank) { return strformat(R"({{"k{}":1}})", rank); }).ok());
  const auto before = store->get("s1.1.1/MANIFEST", 1 << 20).take();
  ASSERT_TRUE(store->remove("s1.1.1/MANIFEST", false).ok());
  Report report;
  const Status repaired = maintain::repair_checkpoint(*store, "s1.1.1", false, false, &report);
  ASSERT_TRUE(repaired.ok()) << repaired.message();
  EXPECT_EQ(*store->get("s1.1.1/MANIFEST", 1 << 20), before);
  EXPECT_EQ(loaded(store), R"({"k0":1,"k1":1,"k2":1})");
}

}  // namespace
}  // namespace ckpt::commit

// States of several ranks that differ: stages of a pipeline, and what is each rank's own.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ckpt.hpp"

namespace {

// What rank `rank` of a pipeline saves: a common step, a layer of its own, its random state.
ckpt::Tree stage(ckpt::Save& save, uint32_t rank, const std::vector<float>& layer) {
  auto tree = ckpt::Tree::create();
  tree.begin_dict();
  tree.key("step");
  tree.add_int(7);
  tree.key("layer" + std::to_string(rank));
  save.add_tensor(tree.add_tensor(), {2}, layer);
  tree.key("rng");
  tree.begin_per_rank(rank);
  tree.add_int(100 + rank);
  tree.end();
  tree.end();
  return tree;
}

ckpt::Reader two_stages(const std::string& name) {
  auto store = ckpt::Store::open("mem:cpp-ranks-" + name);
  auto first = ckpt::Session::open(store, 0, 2), second = ckpt::Session::open(store, 1, 2, first.string());
  const std::vector<float> layers[] = {{1, 2}, {3, 4}};
  std::vector<ckpt::Save> saves;
  saves.push_back(ckpt::Save::create(first, "a", 7, {{"held_by", "some"}}));
  saves.push_back(ckpt::Save::create(second, "a", 7, {{"held_by", "some"}}));
  std::vector<ckpt::Job> jobs;
  for (uint32_t rank = 0; rank < 2; rank++) saves[rank].add_tree(stage(saves[rank], rank, layers[rank]));
  // With held_by=some staging waits for the other rank, so that one thread cannot start() both.
  for (auto& save : saves) jobs.push_back(save.start_in_place());
  for (const auto& job : jobs) job.wait_committed();
  return ckpt::Reader::open(store);
}

TEST(CppRanks, TheTreeOfACheckpointIsThatOfAllItsRanks) {
  const auto reader = two_stages("merged");
  const ckpt::Tree tree = reader.tree();
  EXPECT_EQ(tree.root()["step"].as_int(), 7);
  EXPECT_EQ(tree.root()["rng"]["rank0"].as_int(), 100);
  EXPECT_EQ(tree.root()["rng"]["rank1"].as_int(), 101);
  EXPECT_EQ(reader.read<float>("layer0"), (std::vector<float>{1, 2}));
  EXPECT_EQ(reader.read<float>("layer1"), (std::vector<float>{3, 4}));
  EXPECT_EQ(reader.object(CKPT_TREE_OBJECT).scope, CKPT_OBJECT_TREE);
}

TEST(CppRanks, ARankReadsItsOwnValueAndThatOfRank0WhereThereWereFewerRanks) {
  const auto reader = two_stages("own");
  EXPECT_EQ(reader.tree_of_rank(1).root()["rng"].own().as_int(), 101);
  EXPECT_EQ(reader.tree_of_rank(5).root()["rng"].own().as_int(), 100);
  EXPECT_EQ(reader.tree_of_rank(1, CKPT_TREE_OBJECT).root()["step"].as_int(), 7);
}

TEST(CppRanks, OwnRefusesWhatIsNotTheValueOfOneRank) {
  const ckpt::Tree tree = two_stages("refused").tree();
  for (const char* key : {"rng", "step"}) {
    try {
      tree.root()[key].own();
      ADD_FAILURE() << key;
    } catch (const ckpt::Error& error) {
      EXPECT_EQ(error.status(), CKPT_MISMATCH);
      EXPECT_EQ(error.detail("path"), key);
    }
  }
}

TEST(CppRanks, ABufferIsZeroedMemoryToLoadInto) {
  const auto reader = two_stages("buffer");
  auto buffer = ckpt::Buffer::make(2 * sizeof(float));
  ASSERT_EQ(buffer.size(), 8u);
  EXPECT_EQ(buffer.data()[7], std::byte{0});
  auto load = ckpt::Load::create(reader);
  load.add_tensor("layer1", ckpt::Tensor::of<float>({2}), buffer);
  load.run();
  const ckpt::Buffer moved = std::move(buffer);
  EXPECT_EQ(reinterpret_cast<const float*>(moved.data())[1], 4.0f);
  EXPECT_EQ(buffer.data(), nullptr);
}

}  // namespace

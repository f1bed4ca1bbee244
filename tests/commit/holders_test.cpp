// Whole tensors that only some ranks add: they are dealt among those that hold them, by name.
#include "commit/holders.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "checkpoint/engine.h"
#include "store/weak_store.h"

namespace ckpt::commit {
namespace {

using NamesOf = std::function<std::set<std::string>(uint32_t rank)>;

constexpr uint64_t kRows = 300;

std::vector<float> values_named(const std::string& name) {
  return std::vector<float>(kRows, static_cast<float>(std::hash<std::string>()(name) % 1000));
}

// All ranks of a session.
struct Ranks {
  explicit Ranks(uint32_t world, std::shared_ptr<store::Store> in = fresh_memory_store()) : store(std::move(in)) {
    for (uint32_t rank = 0; rank < world; rank++)
      sessions.push_back(open_session(store, rank, world, rank ? sessions[0]->string().c_str() : nullptr));
  }
  // Each rank saves whole tensors of these names. What each is told.
  std::vector<Status> save(int64_t step, const NamesOf& names_of, const SaveOptions& options) {
    std::vector<Status> told(sessions.size());
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < sessions.size(); rank++)
      threads.emplace_back([&, rank] { told[rank] = save_rank(rank, step, names_of(rank), options); });
    for (std::thread& thread : threads) thread.join();
    return told;
  }
  Status save_rank(uint32_t rank, int64_t step, const std::set<std::string>& names, const SaveOptions& options) {
    CKPT_ASSIGN(auto save, save::Save::make(sessions[rank], "s" + std::to_string(step), step, options));
    std::deque<std::vector<float>> memory;
    for (const std::string& name : names) {
      ckpt_tensor_desc desc = f32_rows(kRows, 1, 0, kRows);
      desc.region_kind = CKPT_REGION_WHOLE;
      memory.push_back(values_named(name));
      CKPT_TRY(save->add_tensor(name, desc, memory.back().data(), kRows * sizeof(float)));
    }
    return run_whole(*save);
  }

  std::shared_ptr<store::Store> store;
  std::vector<std::shared_ptr<session::Session>> sessions;
};

SaveOptions some(int64_t timeout_ms = 60000) { return {.timeout_ms = timeout_ms, .held_by = "some"}; }

// By part: the names that it stores. Checks the values of all.
std::vector<std::set<std::string>> stored(const std::shared_ptr<store::Store>& store) {
  auto checkpoint = checkpoint::Checkpoint::open(store, {"latest", "main"}).take();
  std::vector<std::set<std::string>> parts(checkpoint->summary().part_count);
  auto load = load::Load::make(checkpoint, {}).take();
  std::deque<std::vector<float>> memory;
  for (uint64_t i = 0; i < checkpoint->name_count(); i++) {
    const auto named = checkpoint->named_at(i).take();
    const auto pieces = checkpoint->pieces(named.tensor).take();
    for (const checkpoint::Piece& piece : pieces) parts[piece.part].insert(std::string(named.name()));
    memory.emplace_back(kRows);
    EXPECT_TRUE(load->add_tensor(named.name(), f32_rows(kRows, 1, 0, kRows), memory.back().data(), kRows * 4).ok());
  }
  EXPECT_TRUE(run_whole(*load).ok());
  for (uint64_t i = 0; i < checkpoint->name_count(); i++)
    EXPECT_EQ(memory[i], values_named(std::string(checkpoint->named_at(i)->name())));
  return parts;
}

TEST(Holders, OfATensorShareItsWritingAndOnlyThey) {
  Ranks ranks(4);
  auto stage = [](uint32_t rank) -> std::set<std::string> {
    if (rank == 3) return {"all.a", "all.b", "all.c", "all.d", "alone"};
    return {"all.a", "all.b", "all.c", "all.d", rank < 2 ? "first.a" : "second", rank < 2 ? "first.b" : "second"};
  };
  for (const Status& told : ranks.save(1, stage, some())) ASSERT_TRUE(told.ok()) << told.message();
  const auto parts = stored(ranks.store);
  std::multiset<std::string> all;
  for (uint32_t rank = 0; rank < 4; rank++) {
    for (const std::string& name : parts[rank]) EXPECT_TRUE(stage(rank).contains(name)) << name << " on " << rank;
    all.insert(parts[rank].begin(), parts[rank].end());
  }
  EXPECT_EQ(all,
            (std::multiset<std::string>{"all.a", "all.b", "all.c", "all.d", "alone", "first.a", "first.b", "second"}));
  EXPECT_EQ(parts[0].contains("first.a") + parts[1].contains("first.a"), 1);
  EXPECT_NE(parts[0].contains("first.a"), parts[0].contains("first.b")) << "they share";
}

TEST(Holders, MayChangeFromSaveToSave) {
  Ranks ranks(3);
  for (uint32_t step : {1u, 2u, 3u}) {
    auto names = [&](uint32_t rank) -> std::set<std::string> {
      return rank == step % 3 ? std::set<std::string>{"w", "new"} : std::set<std::string>{"w"};
    };
    for (const Status& told : ranks.save(step, names, some())) ASSERT_TRUE(told.ok()) << told.message();
    EXPECT_TRUE(stored(ranks.store)[step % 3].contains("new"));
  }
}

TEST(Holders, LeaveNothingBesideTheParts) {
  Ranks ranks(3);
  for (const Status& told : ranks.save(1, [](uint32_t) { return std::set<std::string>{"w"}; }, some()))
    ASSERT_TRUE(told.ok()) << told.message();
  const auto listed = ranks.store->list("s1.1.1").take();
  std::set<std::string> files;
  for (const auto& file : listed) files.insert(file.name);
  EXPECT_EQ(files, (std::set<std::string>{"MANIFEST", "PART_000", "PART_001", "PART_002"}));
}

TEST(Holders, NeedNoListingsOrLocksOfTheStore) {
  Ranks ranks(3, std::make_shared<store::WeakStore>(std::make_shared<store::Bucket>(store::Weakness{})));
  auto names = [](uint32_t rank) { return std::set<std::string>{"w", "of" + std::to_string(rank)}; };
  for (const Status& told : ranks.save(1, names, some())) ASSERT_TRUE(told.ok()) << told.message();
  for (uint32_t rank : {0u, 1u, 2u}) EXPECT_TRUE(stored(ranks.store)[rank].contains("of" + std::to_string(rank)));
}

TEST(Holders, OfOtherValuesAreAMismatchThatNamesThem) {
  Ranks ranks(3);
  std::vector<Status> told(3);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 3; rank++)
    threads.emplace_back([&, rank] {
      auto save = save::Save::make(ranks.sessions[rank], "s1", 1, some()).take();
      const float value = rank == 2 ? 1 : 2;
      ckpt_tensor_desc desc = f32_rows(1, 1, 0, 1);
      desc.region_kind = CKPT_REGION_WHOLE;
      if (rank > 0) {
        EXPECT_TRUE(save->add_tensor("w", desc, &value, 4).ok());
      }
      told[rank] = run_whole(*save);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(told[0].code(), CKPT_MISMATCH);
  EXPECT_NE(told[0].message().find("tensor \"w\": its values differ between ranks 1, 2"), std::string::npos)
      << told[0].message();
}

TEST(Holders, AreToldToUseTheOptionWhereARankLacksATensor) {
  Ranks ranks(2);
  auto names = [](uint32_t rank) { return rank ? std::set<std::string>{"w"} : std::set<std::string>{"w", "x"}; };
  const auto told = ranks.save(1, names, {});
  EXPECT_EQ(told[0].code(), CKPT_MISMATCH);
  EXPECT_NE(told[0].message().find("held_by=some"), std::string::npos) << told[0].message();
}

TEST(Holders, ThatNeverComeAreNamed) {
  Ranks ranks(3);
  std::thread second([&] { (void)ranks.save_rank(1, 1, {"w"}, some()); });
  const Status told = ranks.save_rank(0, 1, {"w"}, some(300));
  second.join();
  EXPECT_EQ(told.code(), CKPT_TIMEOUT);
  EXPECT_EQ(*told.detail("ranks"), "2");
}

}  // namespace
}  // namespace ckpt::commit

// Strict coverage: if any element is not covered exactly once, or if ranks disagree about anything, all ranks refuse
// the save and name the tensor and the ranks. Nothing is committed, and what was committed before stays the latest.
#include "api/ranks.h"

namespace ckpt_test {
namespace {

class Mismatch : public OnEveryStore {
 protected:
  using Fill = std::function<void(uint32_t rank, ckpt_save*)>;

  // Saves "good", then what `fill` adds. The leader must name `tensor` and `ranks`; the other ranks must know them too.
  Outcome refuse(const Fill& fill, const std::string& tensor, const std::string& ranks, uint32_t world_size = 3) {
    const StorePlace fresh(GetParam());
    World world(fresh.uri(), world_size, {{"chunk_bytes", 4096}, {"large_tensor_bytes", 8192}});
    Bytes good = pattern(512, 1);
    world.commit("good", {}, [&](uint32_t, ckpt_save* save) { add(save, "g", whole(CKPT_DTYPE_U8, {512}), good); });
    auto outcomes = world.save("bad", {}, fill);
    EXPECT_EQ(outcomes[0].status, CKPT_MISMATCH) << outcomes[0].text;
    EXPECT_EQ(outcomes[0].tensor, tensor) << outcomes[0].text;
    EXPECT_EQ(outcomes[0].ranks, ranks) << outcomes[0].text;
    for (uint32_t rank = 1; rank < world_size; rank++) {
      EXPECT_EQ(outcomes[rank].status, CKPT_ABORTED) << rank << " " << outcomes[rank].text;
      EXPECT_NE(outcomes[rank].text.find("MISMATCH"), std::string::npos) << outcomes[rank].text;
    }
    EXPECT_EQ(committed_count(world.store), 1u);
    Reader latest = open_reader(world.store);
    EXPECT_EQ(load_one(latest, "g", whole(CKPT_DTYPE_U8, {512}), 512), good);
    // The session still works.
    world.commit("after", {}, [&](uint32_t, ckpt_save* save) { add(save, "g", whole(CKPT_DTYPE_U8, {512}), good); });
    EXPECT_EQ(committed_count(world.store), 2u);
    return outcomes[0];
  }

  Bytes data = pattern(1 << 16, 2);
};
INSTANTIATE_TEST_SUITE_P(Store, Mismatch, ::testing::Values("mem", "dir"),
                         [](const auto& test) { return std::string(test.param); });

// ---- a rank that does not get as far as its save ----

// Rank 0 saves; what rank 1 does instead, it does meanwhile. What rank 0 is told; it must not wait for its deadline.
static Outcome save_while(World& world, const std::function<void()>& other) {
  Bytes data = pattern(8, 1);
  Save save = new_save(world.sessions[0], "a");
  add(save.get(), "w", whole(CKPT_DTYPE_U8, {8}), data);
  std::thread thread(other);
  Error error;
  const ckpt_status status = ckpt_save_run(save.get(), error);
  thread.join();
  return outcome_of(status, error);
}

TEST_P(Mismatch, ARankThatFreesItsSaveAfterAFailedAddEndsTheOthersWithTheReason) {
  World world(place.uri(), 2);
  Outcome outcome = save_while(world, [&] {
    Save save = new_save(world.sessions[1], "a");
    auto wrong = whole(CKPT_DTYPE_U8, {-1});
    EXPECT_NE(ckpt_save_add_tensor(save.get(), "broken", &wrong, nullptr, 0, CKPT_DEVICE_CPU, 0, nullptr), CKPT_OK);
  });
  EXPECT_EQ(outcome.status, CKPT_ABORTED) << outcome.text;
  EXPECT_NE(outcome.text.find("broken"), std::string::npos) << outcome.text;
}

TEST_P(Mismatch, ARankThatGivesUpTellsTheOthersWhy) {
  World world(place.uri(), 2);
  Outcome outcome = save_while(world, [&] {
    Save save = new_save(world.sessions[1], "a");
    Error error;
    EXPECT_EQ(ckpt_save_give_up(save.get(), "TypeError: state at 'm': a Lock", error), CKPT_OK) << error.text();
    EXPECT_EQ(ckpt_save_give_up(save.get(), "again", error), CKPT_INVALID);
    EXPECT_EQ(ckpt_save_run(save.get(), error), CKPT_INVALID);
  });
  EXPECT_EQ(outcome.status, CKPT_ABORTED) << outcome.text;
  EXPECT_NE(outcome.text.find("rank 1 gave up: TypeError: state at 'm': a Lock"), std::string::npos) << outcome.text;
}

TEST_P(Mismatch, ARankThatFreesItsSaveUnusedEndsTheOthers) {
  World world(place.uri(), 2);
  Outcome outcome = save_while(world, [&] { new_save(world.sessions[1], "a"); });
  EXPECT_EQ(outcome.status, CKPT_ABORTED) << outcome.text;
  world.commit("b", {}, [](uint32_t, ckpt_save* save) {
    Error error;
    EXPECT_EQ(ckpt_save_set_attr(save, nullptr, "k", "v", error), CKPT_OK) << error.text();
  });
}

TEST_P(Mismatch, ARankWhoseOptionsAreRefusedEndsTheOthersAndTheNextSaveOfTheLabelWorks) {
  World world(place.uri(), 2);
  Outcome outcome = save_while(world, [&] {
    ckpt_save* save = nullptr;
    auto bag = options({{"keep_every", 5}});
    EXPECT_EQ(ckpt_save_new(&save, world.sessions[1].get(), "a", -1, bag.get(), nullptr), CKPT_INVALID);
  });
  EXPECT_EQ(outcome.status, CKPT_ABORTED) << outcome.text;
  EXPECT_NE(outcome.text.find("keep_every"), std::string::npos) << outcome.text;
  world.commit("a", {}, [](uint32_t, ckpt_save* save) {
    Error error;
    EXPECT_EQ(ckpt_save_set_attr(save, nullptr, "k", "v", error), CKPT_OK) << error.text();
  });
}

// ---- replicas ----

TEST_P(Mismatch, ASmallReplicaWhoseValuesDifferInOneBitNamesTheRanks) {
  std::array<Bytes, 3> counts;
  Outcome outcome = refuse(
      [&](uint32_t rank, ckpt_save* save) {
        counts[rank] = pattern(24, 3);
        if (rank == 2) counts[rank][23] ^= 0x80;
        add(save, "equal", whole(CKPT_DTYPE_U8, {64}), data);
        add(save, "count", whole(CKPT_DTYPE_I64, {3}), counts[rank]);
      },
      "count", "0, 2");
  EXPECT_NE(outcome.text.find("its values differ between ranks"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("replicas=rank0"), std::string::npos) << outcome.text;
}

TEST_P(Mismatch, OneFlippedBitAnywhereInALargeReplicaIsFoundAndTheMajorityIsRight) {
  World world(place.uri(), 3, {{"chunk_bytes", 4096}, {"large_tensor_bytes", 8192}});
  std::array<Bytes, 3> states;
  for (size_t at : {size_t{0}, size_t{100001}, size_t{299999}}) {
    auto outcomes = world.save("bad", {}, [&](uint32_t rank, ckpt_save* save) {
      states[rank] = pattern(300000, 4);
      if (rank == 0) states[rank][at] ^= 1;
      add(save, "w", whole(CKPT_DTYPE_U8, {300000}), states[rank]);
    });
    EXPECT_EQ(outcomes[0].status, CKPT_MISMATCH) << outcomes[0].text;
    EXPECT_EQ(outcomes[0].ranks, "1, 0") << outcomes[0].text;
  }
}

TEST_P(Mismatch, ReplicasComparedInTwoWays) {
  World world(place.uri(), 2);
  auto outcomes = world.save("bad", {}, [&](uint32_t rank, ckpt_save* save) {
    auto desc = whole(CKPT_DTYPE_U8, {64});
    if (rank == 1) desc.flags = CKPT_TENSOR_FIRST_REPLICA;
    add(save, "w", desc, data);
  });
  EXPECT_EQ(outcomes[0].status, CKPT_MISMATCH) << outcomes[0].text;
  EXPECT_NE(outcomes[0].text.find("rank 1 has u8 [64] whole, first replica"), std::string::npos) << outcomes[0].text;
}

// What ranks with other values each save under an option or flag, as it comes back.
static Bytes saved_by_different_ranks(World& world, const std::string& replicas, uint32_t flags) {
  static std::array<Bytes, 3> states;
  world.commit(replicas, {{"replicas", replicas.c_str()}}, [&](uint32_t rank, ckpt_save* save) {
    states[rank] = pattern(20000, 10 + rank);
    auto desc = whole(CKPT_DTYPE_U8, {20000});
    desc.flags = flags;
    add(save, "w", desc, states[rank]);
  });
  return load_one(open_reader(world.store), "w", whole(CKPT_DTYPE_U8, {20000}), 20000);
}

TEST_P(Mismatch, NeverMixesValuesWhereTheFirstReplicaCounts) {
  const Bytes first = pattern(20000, 10);
  World world(place.uri(), 3, {{"chunk_bytes", 4096}, {"large_tensor_bytes", 8192}});
  EXPECT_EQ(saved_by_different_ranks(world, "rank0", 0), first);
  EXPECT_EQ(saved_by_different_ranks(world, "check", CKPT_TENSOR_FIRST_REPLICA), first);
}

// ---- what each rank says of one tensor ----

using Held = std::optional<ckpt_tensor_desc>;  // none: the rank does not add it

static ckpt_tensor_desc member(ckpt_tensor_desc desc, uint32_t count, uint64_t group = 0, uint32_t index = 0) {
  desc.replica_count = count;
  desc.replica_group = group;
  desc.replica_index = index;
  return desc;
}

struct Contradiction {
  const char *what, *ranks;
  std::vector<const char*> words;
  Held (*held)(uint32_t rank);
};

static const Contradiction kContradictions[] = {
    {"a hole between boxes",
     "0, 1, 2",
     {"19"},
     [](uint32_t rank) -> Held { return box(CKPT_DTYPE_F32, {30, 4}, {rank * 10, 0}, {rank == 1 ? 9 : 10, 4}); }},
    {"a hole between flat ranges",
     "0, 1, 2",
     {},
     [](uint32_t rank) -> Held { return flat(CKPT_DTYPE_F32, {30, 4}, rank * 40, rank == 2 ? 39 : 40); }},
    {"a box that nobody holds",
     "1, 2",
     {},
     [](uint32_t rank) { return rank ? Held(box(CKPT_DTYPE_F32, {30, 4}, {rank * 10, 0}, {10, 4})) : Held(); }},
    {"only empty regions of a tensor with elements",
     "2",
     {},
     [](uint32_t rank) { return rank == 2 ? Held(flat(CKPT_DTYPE_F32, {30, 4}, 0, 0)) : Held(); }},
    {"overlapping boxes",
     "1, 2",
     {},
     [](uint32_t rank) -> Held {
       return box(CKPT_DTYPE_F32, {30, 4}, {rank == 2 ? 19 : rank * 10, 0}, {rank == 2 ? 11 : 10, 4});
     }},
    {"overlapping flat ranges",
     "0, 1",
     {},
     [](uint32_t rank) { return rank < 2 ? Held(flat(CKPT_DTYPE_F32, {100}, rank * 49, rank ? 51 : 50)) : Held(); }},
    {"a box over a flat range",
     "0, 2",
     {},
     [](uint32_t rank) -> Held {
       if (rank == 1) return {};
       return rank == 0 ? flat(CKPT_DTYPE_F32, {10, 10}, 0, 55) : box(CKPT_DTYPE_F32, {10, 10}, {5, 0}, {5, 10});
     }},
    {"two ranks hold it whole without saying so",
     "0, 2",
     {},
     [](uint32_t rank) { return rank == 1 ? Held() : Held(member(whole(CKPT_DTYPE_F32, {10}), 1)); }},
    {"another dtype of a replicated tensor",
     "0, 2",
     {"i32", "f32"},
     [](uint32_t rank) -> Held { return whole(rank == 2 ? CKPT_DTYPE_I32 : CKPT_DTYPE_F32, {10}); }},
    {"another shape of a replicated tensor",
     "0, 1",
     {},
     [](uint32_t rank) -> Held { return whole(CKPT_DTYPE_F32, rank == 1 ? Ints{5, 2} : Ints{10}); }},
    {"another dtype of a sharded tensor",
     "0, 1",
     {},
     [](uint32_t rank) -> Held { return box(rank == 1 ? CKPT_DTYPE_BF16 : CKPT_DTYPE_F16, {30}, {rank * 10}, {10}); }},
    {"another shape of a sharded tensor",
     "0, 2",
     {},
     [](uint32_t rank) -> Held { return box(CKPT_DTYPE_F16, {rank == 2 ? 31 : 30}, {rank * 10}, {10}); }},
    {"another shape of a tensor without elements",
     "0, 1",
     {},
     [](uint32_t rank) -> Held { return member(whole(CKPT_DTYPE_F16, {0, rank == 1 ? 3 : 2}), 1); }},
    {"a replica group without one of its members",
     "0, 1",
     {},
     [](uint32_t rank) { return rank < 2 ? Held(member(whole(CKPT_DTYPE_F32, {20}), 3, 5, rank)) : Held(); }},
    {"two ranks with one index of a replica group",
     "0, 1",
     {"group 5"},
     [](uint32_t rank) { return rank < 2 ? Held(member(whole(CKPT_DTYPE_F32, {20}), 2, 5)) : Held(); }},
};

TEST_P(Mismatch, WhatRanksSayOfATensorMustFitTogether) {
  for (const Contradiction& row : kContradictions) {
    SCOPED_TRACE(row.what);
    const Outcome outcome = refuse(
        [&](uint32_t rank, ckpt_save* save) {
          add(save, "v", whole(CKPT_DTYPE_F32, {11}), data);
          if (const Held held = row.held(rank)) add(save, "w", *held, data);
        },
        "w", row.ranks);
    for (const char* word : row.words) EXPECT_NE(outcome.text.find(word), std::string::npos) << outcome.text;
  }
}

TEST_P(Mismatch, ANameThatARankSpellsDifferently) {
  Outcome outcome = refuse(
      [&](uint32_t rank, ckpt_save* save) { add(save, rank == 2 ? "W" : "w", whole(CKPT_DTYPE_F32, {20}), data); }, "W",
      "0, 2");
  EXPECT_NE(outcome.text.find("not added"), std::string::npos) << outcome.text;
}

TEST_P(Mismatch, TheDifferenceIsFoundAmongThousandsOfTensors) {
  refuse(
      [&](uint32_t rank, ckpt_save* save) {
        for (int i = 0; i < 3000; i++)
          add(save, "t" + std::to_string(i), whole(rank == 1 && i == 2345 ? CKPT_DTYPE_F16 : CKPT_DTYPE_BF16, {8}),
              data);
      },
      "t2345", "0, 1");
}

// What one rank adds under a name that another adds otherwise, or not.
struct Disagreement {
  const char *what, *name, *ranks;
  void (*fill)(uint32_t rank, ckpt_save* save, const Bytes& data);
};

static const Disagreement kDisagreements[] = {
    {"a replicated tensor that a rank does not add", "w", "0, 1",
     [](uint32_t rank, ckpt_save* save, const Bytes& data) {
       add(save, "v", whole(CKPT_DTYPE_F32, {10}), data);
       if (rank != 1) add(save, "w", whole(CKPT_DTYPE_F32, {20}), data);
     }},
    {"shared objects of other bytes", "o", "0, 1",
     [](uint32_t rank, ckpt_save* save, const Bytes&) {
       add_object(save, "o", CKPT_OBJECT_SHARED, pattern(4, rank == 1));
     }},
    {"a shared object that rank 0 does not add", "o", "0, 2",
     [](uint32_t rank, ckpt_save* save, const Bytes&) {
       if (rank == 2) add_object(save, "o", CKPT_OBJECT_SHARED, pattern(1, 1));
     }},
    {"an object shared here and per rank there", "o", "0, 1",
     [](uint32_t rank, ckpt_save* save, const Bytes&) {
       add_object(save, "o", rank == 1 ? CKPT_OBJECT_PER_RANK : CKPT_OBJECT_SHARED, pattern(1, 1));
     }},
    {"aliases of other targets", "tied", "0, 2",
     [](uint32_t rank, ckpt_save* save, const Bytes& data) {
       for (const char* name : {"v", "w"}) add(save, name, whole(CKPT_DTYPE_F32, {10}), data);
       add_alias(save, "tied", rank == 2 ? "v" : "w");
     }},
    {"an alias here and a tensor there", "w", "0, 1",
     [](uint32_t rank, ckpt_save* save, const Bytes& data) {
       if (rank < 2) add(save, rank == 0 ? "v" : "w", member(whole(CKPT_DTYPE_F32, {10}), 1), data);
       if (rank == 0) add_alias(save, "w", "v");
     }},
    {"attributes of a tensor", "w", "0, 1",
     [](uint32_t rank, ckpt_save* save, const Bytes& data) {
       add(save, "w", whole(CKPT_DTYPE_F32, {10}), data);
       EXPECT_EQ(ckpt_save_set_attr(save, "w", "lr", rank == 1 ? "1" : "2", nullptr), CKPT_OK);
     }},
};

TEST_P(Mismatch, WhatRanksAddUnderANameMustFitTogether) {
  for (const Disagreement& row : kDisagreements) {
    SCOPED_TRACE(row.what);
    refuse([&](uint32_t rank, ckpt_save* save) { row.fill(rank, save, data); }, row.name, row.ranks);
  }
}

TEST_P(Mismatch, PlanOptionsOtherThanTheSessions) {
  World world(place.uri(), 2, {{"chunk_bytes", 8192}});
  ckpt_save* save = nullptr;
  Error error;
  for (const char* key : {"chunk_bytes", "large_tensor_bytes"}) {
    EXPECT_EQ(ckpt_save_new(&save, world.sessions[1].get(), "a", -1, options({{key, 65536}}).get(), error),
              CKPT_MISMATCH);
    EXPECT_EQ(save, nullptr);
  }
  EXPECT_EQ(ckpt_save_new(&save, world.sessions[1].get(), "a", -1, options({{"chunk_bytes", 8192}}).get(), error),
            CKPT_OK);
  ckpt_save_free(save);
}

TEST_P(Mismatch, AReplicaIndexThatChangesWithinAGroupIsInvalid) {
  World world(place.uri(), 2);
  Save save = new_save(world.sessions[0], "a");
  auto desc = whole(CKPT_DTYPE_F32, {10});
  desc.replica_count = 2;
  desc.replica_group = 9;
  add(save.get(), "v", desc, data);
  desc.replica_index = 1;
  add(save.get(), "w", desc, data);
  Error error;
  EXPECT_EQ(ckpt_save_run(save.get(), error), CKPT_INVALID) << error.text();
  EXPECT_EQ(error.detail("tensor"), "w");
  EXPECT_EQ(committed_count(world.store), 0u);
}

}  // namespace
}  // namespace ckpt_test

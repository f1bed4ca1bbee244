// ckpt_keeper with a store: what is kept, found, passed over, and gone on from.
#include "ckpt_keeper.h"

#include <signal.h>

#include <filesystem>
#include <functional>

#include "api/ranks.h"

namespace ckpt_test {
namespace {

using Labels = std::vector<std::string>;

// A start of a training whose state is its step.
class Trainer {
 public:
  Trainer(const Store& store, const std::vector<Setting>& policy, uint32_t rank = 0, uint32_t world = 1)
      : store_(store) {
    EXPECT_EQ(ckpt_keeper_new(&keeper_, store.get(), rank, world, options(policy).get(), e_), CKPT_OK) << e_.text();
  }
  ~Trainer() { ckpt_keeper_free(keeper_); }

  ckpt_keeper* operator*() { return keeper_; }

  // Makes a step, and saves it if that is due. The id, or "".
  std::string step(int64_t step, double loss = -1) {
    int64_t votes[CKPT_KEEPER_VOTES];
    int32_t what = -1;
    if (loss >= 0) {
      EXPECT_EQ(ckpt_keeper_tell(keeper_, CKPT_KEEPER_METRIC, "loss", loss, e_), CKPT_OK) << e_.text();
    }
    EXPECT_EQ(ckpt_keeper_step(keeper_, step, 0, votes, e_), CKPT_OK) << e_.text();
    EXPECT_EQ(ckpt_keeper_decide(keeper_, votes, &what, e_), CKPT_OK) << e_.text();
    return what == CKPT_KEEPER_GO_ON ? "" : save(step);
  }
  // Saves a step that `every` did not ask for, without metrics.
  std::string save_as(int64_t step, const char* label) {
    EXPECT_EQ(ckpt_keeper_step(keeper_, step, 0, nullptr, e_), CKPT_OK) << e_.text();
    return save(step, label);
  }
  // Saves the step that was told last.
  std::string save(int64_t step, const char* label = nullptr) {
    const char* plan = nullptr;
    EXPECT_EQ(ckpt_keeper_plan(keeper_, label, &plan, e_), CKPT_OK) << e_.text();
    const Save save = begin(plan);
    if (!save) return "";
    const auto desc = whole(CKPT_DTYPE_I64, {1});
    EXPECT_EQ(ckpt_save_add_tensor(save.get(), "step", &desc, &step, sizeof step, CKPT_DEVICE_CPU, 0, e_), CKPT_OK);
    for (size_t i = 0; i < notes; i++)
      EXPECT_EQ(ckpt_save_set_attr(save.get(), nullptr, ("note" + std::to_string(i)).c_str(),
                                   std::string(4000, 'n').c_str(), e_),
                CKPT_OK);
    EXPECT_EQ(ckpt_save_run(save.get(), e_), CKPT_OK) << e_.text();
    return ckpt_save_id(save.get());
  }
  std::string planned(int64_t step, const char* label) {
    const char* plan = "";
    EXPECT_EQ(ckpt_keeper_step(keeper_, step, 0, nullptr, e_), CKPT_OK) << e_.text();
    EXPECT_EQ(ckpt_keeper_plan(keeper_, label, &plan, e_), CKPT_OK) << e_.text();
    return plan;
  }
  Save begin(const char* plan, const Session* session = nullptr) {
    if (!session && !own_) own_ = open_session(store_);
    ckpt_save* made = nullptr;
    EXPECT_EQ(ckpt_keeper_begin(&made, keeper_, (session ? *session : own_).get(), plan, nullptr, e_), CKPT_OK)
        << e_.text();
    return Save(made);
  }
  // The id; "" if there is none yet; the error's text.
  std::string find(const char* selector) {
    const char* id = nullptr;
    if (ckpt_keeper_find(keeper_, selector, &id, e_) != CKPT_OK) return e_.text();
    return id ? id : "";
  }
  // Loads what is found, as a trainer whose state does not fit it, and does not go on from it.
  void restore_in_vain(const char* selector) {
    const Reader reader = open_reader(store_, find(selector));
    int64_t step = -1;
    EXPECT_EQ(load(reader, &step), CKPT_OK) << e_.text();
  }
  // As a trainer does: loads what is found, and goes on from it.
  int64_t restore() {
    for (std::string id = find("latest"); !id.empty(); id = find("latest")) {
      ckpt_reader* opened = nullptr;
      EXPECT_EQ(ckpt_reader_open(&opened, store_.get(), id.c_str(), nullptr, e_), CKPT_OK) << e_.text();
      const Reader reader(opened);
      int64_t step = -1;
      const ckpt_status status = load(reader, &step);
      if (status != CKPT_OK) {
        EXPECT_EQ(ckpt_keeper_pass_over(keeper_, status, e_.text().c_str(), e_), CKPT_OK) << e_.text();
        passed.push_back(id);
        continue;
      }
      EXPECT_EQ(ckpt_keeper_restored(keeper_, reader.get(), e_), CKPT_OK) << e_.text();
      return step;
    }
    return -1;
  }
  std::string warning() const {
    const char* const text = ckpt_keeper_warning(keeper_);
    return text ? text : "";
  }
  const std::string error() const { return e_.text(); }

  Labels passed;
  size_t notes = 0;  // attributes of the caller's own, of 4,000 bytes each

 private:
  ckpt_status load(const Reader& reader, int64_t* step) {
    ckpt_load* made = nullptr;
    EXPECT_EQ(ckpt_load_new(&made, reader.get(), nullptr, e_), CKPT_OK) << e_.text();
    const Load load(made);
    const auto desc = whole(CKPT_DTYPE_I64, {1});
    EXPECT_EQ(ckpt_load_add_tensor(made, "step", &desc, step, sizeof *step, CKPT_DEVICE_CPU, 0, e_), CKPT_OK);
    return ckpt_load_run(made, e_);
  }
  const Store& store_;
  Error e_;
  ckpt_keeper* keeper_ = nullptr;
  Session own_;
};

Labels labels(const Store& store) {
  Labels all;
  for (const auto& info : entries_of(store)) all.emplace_back(info.label);
  return all;
}

TEST(Keeper, NewestBestAndNamedOnesStayAcrossStarts) {
  const Store store = open_store("mem:keeper-retention");
  const std::vector<Setting> policy{{"every", "1 step"}, {"keep_last", 2}, {"keep_best", "loss:min:2"}};
  {
    Trainer first(store, policy);
    first.step(1, 0.5);
    first.step(2, 0.1);
    first.save_as(2, "mine-2");
    first.step(3, 0.4);
    first.step(4, 0.9);
  }
  EXPECT_EQ(labels(store), (Labels{"step-2", "mine-2", "step-3", "step-4"}));
  Trainer second(store, policy);
  EXPECT_EQ(second.restore(), 4);
  second.step(5, 0.8);
  second.step(6, 0.3);
  second.step(7, 0.7);
  EXPECT_EQ(labels(store), (Labels{"step-2", "mine-2", "step-6", "step-7"})) << "what the first start told is known";
  EXPECT_EQ(second.find("best"), "step-2.1.1");
  EXPECT_EQ(Trainer(store, {}).find("best"), "step-2.1.1") << "checkpoints tell by which metric";
  EXPECT_EQ(Trainer(store, {}).find("best:loss:max"), "step-7.2.1");
  EXPECT_EQ(Trainer(store, {}).find("step:6"), "step-6.2.1");
}

TEST(Keeper, OneThatIsCalledBestGoesBeforeUnlessKeepBestSaysWhatThatIs) {
  const Store store = open_store("mem:keeper-called-best");
  Trainer trainer(store, {{"every", "1 step"}, {"keep_best", "loss:min"}});
  trainer.step(1, 0.5);
  trainer.step(2, 0.7);
  trainer.save(2, "best");
  EXPECT_EQ(trainer.find("best"), "step-1.1.1");
  EXPECT_EQ(Trainer(store, {}).find("best"), "best.1.1");
  EXPECT_EQ(Trainer(store, {}).find("best:loss"), "step-1.1.1");
}

TEST(Keeper, ASaveThatIsFreedOrFailsIsNotRemembered) {
  const Store store = open_store("mem:keeper-given-up");
  Trainer trainer(store, {{"keep_last", 1}});
  Error e;
  ASSERT_EQ(ckpt_keeper_step(*trainer, 5, 0, nullptr, e), CKPT_OK);
  const char* plan = nullptr;
  ASSERT_EQ(ckpt_keeper_plan(*trainer, nullptr, &plan, e), CKPT_OK);
  const std::string first = plan;
  {
    const Save freed = trainer.begin(plan);
  }
  EXPECT_EQ(ckpt_keeper_saved(*trainer), nullptr);
  ASSERT_EQ(ckpt_keeper_plan(*trainer, nullptr, &plan, e), CKPT_OK);
  EXPECT_EQ(plan, first) << "it is in flight no more";
  EXPECT_EQ(trainer.save(5), "step-5.1.2");
  EXPECT_STREQ(ckpt_keeper_saved(*trainer), "step-5.1.2");
}

TEST(Keeper, AStoreThatHasNothingIsNoErrorForLatestOnly) {
  const Scratch scratch;
  const Store store = open_store(scratch / "none");
  Trainer trainer(store, {{"keep_last", 1}});
  EXPECT_EQ(trainer.find("latest"), "");
  EXPECT_EQ(trainer.restore(), -1);
  EXPECT_EQ(trainer.find("step:5").substr(0, 9), "NOT_FOUND");
  EXPECT_EQ(trainer.find("best").substr(0, 9), "NOT_FOUND");
  EXPECT_FALSE(std::filesystem::exists(scratch / "none")) << "looking makes no store";
  trainer.step(0);
  EXPECT_EQ(trainer.save(0), "step-0.1.1");
}

// Its load would succeed, and only then fail.
TEST(Keeper, DamagedAttributesArePassedOverBeforeTheLoad) {
  const Scratch scratch;
  const Store store = open_store(scratch / "s");
  {
    Trainer first(store, {{"every", "1 step"}});
    first.notes = 1100;  // a MANIFEST below 4 MiB is checked when it is listed
    first.step(1, 0.5);
    first.step(2, 0.25);
  }
  // In every file that has it: where attributes lie is the format's business.
  size_t places = 0;
  for (const char* name : {"MANIFEST", "PART_000"}) {
    const std::string path = scratch / "s/step-2.1.1/" + name;
    std::string bytes = read_file(path);
    for (size_t at = bytes.find("0.25"); at != bytes.npos; at = bytes.find("0.25", at + 1), places++) bytes[at] = '7';
    write_file(path, bytes);
  }
  ASSERT_GT(places, 0u);
  Trainer second(store, {});
  EXPECT_EQ(second.restore(), 1);
  EXPECT_EQ(second.passed, Labels{}) << "nothing of it was loaded";
  EXPECT_EQ(second.find("latest"), "step-1.1.1");
  EXPECT_EQ(second.warning().substr(0, 23), "passed over step-2.1.1:") << second.warning();
  EXPECT_EQ(second.find("step:2").substr(0, 7), "CORRUPT");
  EXPECT_EQ(Trainer(store, {{"on_damaged", "error"}}).find("latest").substr(0, 7), "CORRUPT");
  EXPECT_EQ(Trainer(store, {}, 1, 2).find("latest").substr(0, 7), "CORRUPT") << "rank 0 looks for the one before";
  EXPECT_EQ(second.save_as(2, nullptr), "step-2.2.1") << "its step can be saved again";
}

TEST(Keeper, ALabelOfTheCallersOwnStaysInAPruneToo) {
  const Store store = open_store("mem:keeper-prune");
  Trainer trainer(store, {});
  for (int64_t n = 1; n <= 4; n++) trainer.save_as(n, n == 2 ? "final-2" : nullptr);
  ckpt_report* made = nullptr;
  ASSERT_EQ(ckpt_store_prune(store.get(), options({{"keep_last", 1}}).get(), &made, nullptr), CKPT_OK);
  const Report report(made);
  EXPECT_EQ(labels(store), (Labels{"final-2", "step-4"}));
}

TEST(Keeper, WhereAFileIsThereIsNoStoreThatIsEmpty) {
  const Scratch scratch;
  write_file(scratch / "f", "a file");
  for (const char* path : {"f", "f/below"}) {
    const Store store = open_store(scratch / path);
    EXPECT_EQ(Trainer(store, {}).find("latest").substr(0, 7), "INVALID") << path;
    EXPECT_EQ(Trainer(store, {}).find("best").substr(0, 7), "INVALID") << path;
  }
}

TEST(Keeper, ALoopThatOnlySavesStops) {
  const Store store = open_store("mem:keeper-only-saves");
  Trainer trainer(store, {});
  int64_t saved = 0;
  for (int64_t n = 1; n <= 9 && !ckpt_keeper_stopping(*trainer); n++, saved++) {
    if (n == 3) ckpt_keeper_stop(*trainer, SIGTERM);
    trainer.save_as(n, nullptr);
  }
  EXPECT_EQ(saved, 3);
  EXPECT_STREQ(ckpt_keeper_stopping(*trainer), "SIGTERM");
}

TEST(Keeper, ALoadAfterWhichNothingWasRestoredCountsForNothing) {
  const Store store = open_store("mem:keeper-in-vain");
  Trainer first(store, {{"every", "1 step"}});
  for (int64_t n = 1; n <= 3; n++) first.step(n);
  Trainer second(store, {{"every", "1 step"}, {"keep_last", 1}, {"label", "anew-{step}"}});
  second.restore_in_vain("step:1");
  second.step(2);
  EXPECT_EQ(labels(store), (Labels{"step-1", "step-2", "step-3", "anew-2"})) << "it goes on from nothing";
}

TEST(Keeper, ATrainingThatBeginsAnewReplacesWhatHasTheLabelThatItSavesUnlessOnExistingWasGiven) {
  const Store store = open_store("mem:keeper-anew");
  {
    Trainer first(store, {{"every", "1 step"}});
    for (int64_t n = 1; n <= 3; n++) first.step(n);
  }
  Trainer second(store, {{"every", "1 step"}, {"continue_from", "none"}});
  EXPECT_EQ(second.step(2), "step-2.2.1");
  EXPECT_EQ(second.warning(),
            "the run begins anew on purpose, and has step-1, step-2, step-3: saves with these labels replace them, and "
            "retention leaves them");
  EXPECT_EQ(second.step(4), "step-4.2.1");
  EXPECT_EQ(second.warning(), "") << "told once";
  EXPECT_EQ(labels(store), (Labels{"step-1", "step-3", "step-2", "step-4"}));
  EXPECT_EQ(second.planned(2, "step-2").find("replace"), std::string::npos) << "that is its own";

  Trainer third(store, {{"continue_from", "none"}, {"on_existing", "error"}});
  EXPECT_EQ(third.planned(2, "step-2").find("replace"), std::string::npos);
}

TEST(Keeper, GoingBackInOneSessionLeavesWhatIsLater) {
  const Store store = open_store("mem:keeper-back-in-one");
  Trainer trainer(store, {{"every", "1 step"}, {"keep_last", 2}});
  trainer.step(2);
  trainer.save_as(3, "final-3");
  trainer.step(4);
  ckpt_reader* reader = nullptr;
  Error e;
  ASSERT_EQ(ckpt_reader_open(&reader, store.get(), "step:2", nullptr, e), CKPT_OK) << e.text();
  ASSERT_EQ(ckpt_keeper_restored(*trainer, reader, e), CKPT_OK) << e.text();
  ckpt_reader_free(reader);
  for (int64_t n = 5; n <= 8; n++) trainer.step(n);
  EXPECT_EQ(labels(store), (Labels{"final-3", "step-4", "step-7", "step-8"}));
}

TEST(Keeper, AnotherStepUnderALabelIsSavedThoughTheLabelWasJustSaved) {
  const Store store = open_store("mem:keeper-one-label");
  Trainer trainer(store, {{"on_existing", "replace"}});
  EXPECT_EQ(trainer.save_as(10, "best"), "best.1.1");
  EXPECT_EQ(trainer.save_as(10, "best"), "");
  EXPECT_EQ(trainer.save_as(20, "best"), "best.1.2");
}

TEST(Keeper, ASessionOfAnotherRunIsRefused) {
  const Store store = open_store("mem:keeper-runs");
  Trainer trainer(store, {});
  const Session other = open_session(store, 0, 1, nullptr, {{"run", "other"}});
  Error e;
  ASSERT_EQ(ckpt_keeper_step(*trainer, 5, 0, nullptr, e), CKPT_OK);
  const char* plan = nullptr;
  ASSERT_EQ(ckpt_keeper_plan(*trainer, nullptr, &plan, e), CKPT_OK);
  ckpt_save* save = nullptr;
  EXPECT_EQ(ckpt_keeper_begin(&save, *trainer, other.get(), plan, nullptr, e), CKPT_MISMATCH);
  EXPECT_EQ(e.detail("found"), "run \"other\", rank 0 of 1");
}

TEST(Keeper, NumbersComeBackWithWhatIsRestored) {
  const Store store = open_store("mem:keeper-numbers");
  Error e;
  {
    Trainer first(store, {{"every", "1 epoch"}});
    ckpt_keeper_tell(*first, CKPT_KEEPER_COUNTER, "epoch", 3, nullptr);
    ckpt_keeper_tell(*first, CKPT_KEEPER_COUNTER, "token", 1e15, nullptr);
    first.step(9, 0.1);
  }
  Trainer second(store, {{"every", "1 epoch"}});
  EXPECT_EQ(second.restore(), 9);
  double value = 0;
  EXPECT_STREQ(ckpt_keeper_number_at(*second, CKPT_KEEPER_COUNTER, 0, &value), "epoch");
  EXPECT_EQ(value, 3);
  EXPECT_STREQ(ckpt_keeper_number_at(*second, CKPT_KEEPER_COUNTER, 1, &value), "token");
  EXPECT_EQ(value, 1e15);
  EXPECT_EQ(ckpt_keeper_number_at(*second, CKPT_KEEPER_COUNTER, 2, &value), nullptr);
  EXPECT_STREQ(ckpt_keeper_number_at(*second, CKPT_KEEPER_METRIC, 0, &value), "loss");
  EXPECT_EQ(value, 0.1);
  ckpt_keeper_tell(*second, CKPT_KEEPER_COUNTER, "epoch", 3, nullptr);
  EXPECT_EQ(second.step(10), "") << "no further epoch has ended";
}

TEST(Keeper, WhatTheCallerDoesWrongIsSaid) {
  const Store store = open_store("mem:keeper-wrong");
  Trainer trainer(store, {});
  Error e;
  ckpt_keeper* keeper = nullptr;
  EXPECT_EQ(ckpt_keeper_new(nullptr, store.get(), 0, 1, nullptr, e), CKPT_INVALID);
  EXPECT_EQ(ckpt_keeper_new(&keeper, nullptr, 0, 1, nullptr, e), CKPT_INVALID);
  EXPECT_EQ(ckpt_keeper_new(&keeper, store.get(), 0, 0, nullptr, e), CKPT_INVALID);
  const char* text = nullptr;
  ckpt_save* save = nullptr;
  const Session session = open_session(store);
  EXPECT_EQ(ckpt_keeper_plan(*trainer, nullptr, &text, e), CKPT_INVALID);
  EXPECT_EQ(ckpt_keeper_begin(&save, *trainer, session.get(), "step-5", nullptr, e), CKPT_FORMAT);
  EXPECT_EQ(ckpt_keeper_begin(&save, *trainer, session.get(), nullptr, nullptr, e), CKPT_INVALID);
  EXPECT_EQ(ckpt_keeper_tell(*trainer, CKPT_KEEPER_METRIC, nullptr, 1, e), CKPT_INVALID);
  EXPECT_EQ(ckpt_keeper_tell(nullptr, CKPT_KEEPER_METRIC, "loss", 1, e), CKPT_INVALID);
  EXPECT_EQ(ckpt_keeper_find(*trainer, nullptr, &text, e), CKPT_INVALID);
  EXPECT_EQ(ckpt_keeper_pass_over(*trainer, CKPT_OK, nullptr, e), CKPT_INVALID);
  EXPECT_EQ(ckpt_keeper_restored(*trainer, nullptr, e), CKPT_INVALID);
  EXPECT_EQ(ckpt_keeper_decide(*trainer, nullptr, nullptr, e), CKPT_INVALID);
  EXPECT_EQ(ckpt_keeper_needs_votes(nullptr), 0);
  EXPECT_EQ(ckpt_keeper_saved(nullptr), nullptr);
  EXPECT_EQ(ckpt_keeper_stopping(nullptr), nullptr);
  EXPECT_EQ(ckpt_keeper_warning(nullptr), nullptr);
  EXPECT_EQ(ckpt_keeper_number_at(nullptr, CKPT_KEEPER_METRIC, 0, nullptr), nullptr);
  ckpt_keeper_stop(nullptr, 1);
  ckpt_keeper_free(nullptr);
}

}  // namespace
}  // namespace ckpt_test

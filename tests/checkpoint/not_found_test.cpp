// What a selector that picks nothing says: which place, run, label, step or id is wrong, and what is there instead.
#include <filesystem>
#include <fstream>

#include "checkpoint/engine.h"

namespace ckpt::checkpoint {
namespace {

namespace fs = std::filesystem;

class NotFoundTest : public ::testing::Test {
 protected:
  NotFoundTest() { fs::create_directory(folder); }
  ~NotFoundTest() override { fs::remove_all(folder); }

  static std::shared_ptr<session::Session> open_run(const std::shared_ptr<store::Store>& store, const char* run) {
    auto session = session::Session::open(store, 0, 1, nullptr, {.run = run});
    EXPECT_TRUE(session.ok()) << session.status().message();
    return *session;
  }
  void save(const std::string& label, int64_t step, const char* run = "main") {
    auto made = save::Save::make(open_run(inner, run), label, step, {});
    ASSERT_TRUE(made.ok()) << made.status().message();
    Status saved = run_whole(**made);
    ASSERT_TRUE(saved.ok()) << saved.message();
  }
  static Status ask(const store::Store& store, std::string_view selector, std::string_view run = "main") {
    Status status = find_checkpoint(store, {selector, run}).status();
    EXPECT_EQ(status.code(), CKPT_NOT_FOUND);
    return status;
  }
  // The message after the path, which every message begins with.
  std::string said(std::string_view selector, std::string_view run = "main") {
    const std::string message = ask(*inner, selector, run).message(), uri = inner->uri() + ": ";
    EXPECT_EQ(message.substr(0, uri.size()), uri);
    return message.substr(std::min(uri.size(), message.size()));
  }
  std::string said_of(const fs::path& path) {
    auto store = store::open_posix(path.string(), {});
    EXPECT_TRUE(store.ok());
    const Status status = ask(**store, "latest");
    EXPECT_EQ(*status.detail("path"), path.string());
    return status.message().substr(path.string().size() + 2);
  }

  const fs::path folder = fs::temp_directory_path() / ("ckpt_not_found_" + std::to_string(getpid()));
  std::shared_ptr<store::Store> inner = fresh_memory_store();
};
using NotFound = NotFoundTest;

// A trainer that is told NOT_FOUND starts from zero.
TEST_F(NotFound, AStoreThatCannotBeListedIsNotEmptyWheneverThatIs) {
  for (const int listings : {0, 1, 2}) {
    auto shell = std::make_shared<store::ShellStore>(inner);
    int left = listings;
    shell->before([&](std::string_view operation, std::string_view key) {
      return operation == "list" && key.empty() && left-- <= 0 ? Status(CKPT_IO, "away") : Ok();
    });
    const Status status = find_checkpoint(*shell, {"latest", "main"}).status();
    EXPECT_NE(status.code(), CKPT_OK);
    EXPECT_EQ(status.code() == CKPT_NOT_FOUND, left > 0) << listings << ": " << status.message();
  }
}

TEST_F(NotFound, SaysWhatIsWrongWithThePlace) {
  EXPECT_EQ(said_of(folder / "none"), "no such directory");
  std::ofstream(folder / "file") << "text";
  for (const fs::path& place : {folder / "file", folder / "file" / "below"}) {
    const Status status = find_checkpoint(**store::open_posix(place.string(), {}), {"latest", "main"}).status();
    EXPECT_EQ(status.code(), CKPT_INVALID) << "no store can be there";
    EXPECT_NE(status.message().find("it or what it lies in is another file"), std::string::npos) << status.message();
  }
  EXPECT_EQ(said_of(folder), "no store: this directory holds neither .ckpt nor a checkpoint");
  EXPECT_EQ(said("latest"), "the store is empty: no checkpoint was saved here yet");
  auto store = *store::open_posix((folder / "store").string(), {});
  ASSERT_TRUE(save_step(open_session(store), 1).ok());
}

// "None" of such a place would let a training begin anew, and save there.
TEST_F(NotFound, OfAPlaceThatIsNoStoreIsNoAnswer) {
  auto store = *store::open_posix((folder / "store").string(), {});
  ASSERT_TRUE(save_step(open_session(store), 1).ok());
  fs::create_directory_symlink(folder / "disk" / "run", folder / "link");
  const struct {
    fs::path path;
    ckpt_status code;
    const char* text;
  } places[] = {{folder / "store" / "s1.1.1", CKPT_INVALID, "a checkpoint's own directory; its store is the directory"},
                {folder / "link", CKPT_IO, "is a link to what is not there: is its disk mounted?"},
                {folder / "link" / "below", CKPT_IO, "is a link to what is not there: is its disk mounted?"}};
  for (const auto& [path, code, text] : places) {
    const auto opened = *store::open_posix(path.string(), {});
    const Status told[] = {find_checkpoint(*opened, {"latest", "main"}).status(), list_checkpoints(*opened).status(),
                           session::Session::open(opened, 0, 1, nullptr, {}).status()};
    for (const Status& status : told) {
      EXPECT_EQ(status.code(), code) << path;
      EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
    }
  }
  EXPECT_FALSE(fs::exists(folder / "store" / "s1.1.1" / ".ckpt"));
}

TEST_F(NotFound, NamesTheOnlyOtherRunAndHowToAskForIt) {
  save("base", -1, "import");
  EXPECT_EQ(said("latest"),
            "run \"main\" has no checkpoint; the only run is \"import\", its newest label \"base\" "
            "(option run chooses it)");
  EXPECT_EQ(*ask(*inner, "latest").detail("found"), "import");
}

TEST_F(NotFound, NamesOtherRunsFromTheNewestOn) {
  for (const char* run : {"a", "e", "c", "d", "b"}) save("x", 1, run);
  EXPECT_EQ(
      said("step:1"),
      "run \"main\" has no checkpoint; runs, newest first: \"b\", \"d\", \"c\" and 2 more (option run chooses one)");
}

TEST_F(NotFound, NamesLabelsNearAndNew) {
  for (int step : {100, 200, 300}) save("step-" + std::to_string(step), step);
  save("best", 200);
  EXPECT_EQ(said("label:bets"),
            "run \"main\" has no checkpoint \"bets\"; near: \"best\"; newest: \"best\", \"step-300\", \"step-200\" "
            "and 1 more");
  EXPECT_NE(said("Step_100").find("; near: \"step-100\"; newest: "), std::string::npos);
  EXPECT_NE(said("lastest").find("; near: \"latest\"; newest: "), std::string::npos);
  EXPECT_EQ(said("300"), "run \"main\" has no checkpoint \"300\"; step:300 is \"step-300\"");
  const Status status = ask(*inner, "label:bets");
  EXPECT_EQ(*status.detail("expected"), "label:bets");
  EXPECT_EQ(*status.detail("found"), "best");
  EXPECT_EQ(*status.detail("path"), inner->uri());
}

TEST_F(NotFound, SaysWhoElseHasTheLabel) {
  save("best", 1, "other");
  save("step-5", 5);
  EXPECT_EQ(
      said("best"),
      "run \"main\" has no checkpoint \"best\"; run \"other\" has it (option run chooses it); newest: \"step-5\"");
  ASSERT_TRUE(inner->make_directory("open.9.1").ok());
  EXPECT_EQ(said("label:open"),
            "run \"main\" has no checkpoint \"open\"; open.9.1 is an attempt at it, not committed; newest: \"step-5\"");
}

TEST_F(NotFound, NamesTheNearestSteps) {
  for (int step : {100, 200, 300}) save("s" + std::to_string(step), step);
  EXPECT_EQ(said("step:150"), "run \"main\" has no checkpoint of step 150; nearest: 100, 200; newest: 300");
  EXPECT_EQ(said("step:7"), "run \"main\" has no checkpoint of step 7; nearest: 100; newest: 300");
  save("base", -1, "import");
  EXPECT_EQ(said("step:7", "import"), "run \"import\" has no checkpoint of step 7; none has a step; newest: \"base\"");
}

TEST_F(NotFound, NamesTheIdThatALabelHasNow) {
  save("step-5", 5);
  EXPECT_EQ(said("step-5.7.1"), "no checkpoint has the id \"step-5.7.1\"; of its label there is step-5.1.1");
}

TEST_F(NotFound, SaysThatAStoreHoldsNothingThatIsCommitted) {
  ASSERT_TRUE(inner->make_directory("step-5.1.1").ok());
  EXPECT_EQ(said("latest"),
            "the store has no checkpoint that can be loaded: of 1 directories that are attempts, damaged or of other "
            "stores the newest is step-5.1.1");
}

}  // namespace
}  // namespace ckpt::checkpoint

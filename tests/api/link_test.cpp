// A checkpoint's directory that was moved to another disk and linked back.
#include <filesystem>

#include "api/ranks.h"

namespace ckpt_test {
namespace {

namespace fs = std::filesystem;

class Linked : public ::testing::Test {
 protected:
  Linked() : place_("dir"), world_(place_.uri(), 1) {
    for (int step : {1, 2, 3}) save(step);
    fs::create_directory(cold_.path() + "/cold");
  }
  void save(int step, const std::vector<Setting>& settings = {}) {
    const std::string label = "s" + std::to_string(step);
    const Save save = new_save(world_.sessions[0], label, settings, step);
    add(save.get(), "w", whole(CKPT_DTYPE_U8, {64}), data_);
    run(save);
  }
  std::string move_away(const std::string& id) {
    const std::string to = cold_.path() + "/cold/" + id;
    fs::copy(place_.uri() + "/" + id, to, fs::copy_options::recursive);
    fs::remove_all(place_.uri() + "/" + id);
    fs::create_directory_symlink(to, place_.uri() + "/" + id);
    return to;
  }
  Scratch cold_;
  StorePlace place_;
  World world_;
  Bytes data_ = pattern(64, 1);
};

TEST_F(Linked, IsTheCheckpointThatItLeadsTo) {
  move_away("s3.1.1");
  EXPECT_STREQ(find(world_.store).id, "s3.1.1");
  EXPECT_EQ(load_one(open_reader(world_.store), "w", whole(CKPT_DTYPE_U8, {64}), 64), data_);
  EXPECT_EQ(committed_count(world_.store), 3u);
}

TEST_F(Linked, IsPassedOverByNameWhereNothingIsThere) {
  const std::string to = move_away("s3.1.1");
  fs::remove_all(to);
  EXPECT_STREQ(find(world_.store).id, "s2.1.1");
  EXPECT_EQ(find(world_.store).passed_over, 1u);
  const Reader reader = open_reader(world_.store);
  ckpt_report* report = nullptr;
  Error error;
  ASSERT_EQ(ckpt_reader_report(reader.get(), &report, error), CKPT_OK) << error.text();
  const auto found = findings_of(Report(report).get());
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].name, "s3.1.1");
  EXPECT_NE(found[0].text.find("symbolic link to " + to), std::string::npos) << found[0].text;
}

TEST_F(Linked, IsKeptByWhoeverRemoves) {
  const std::string to = move_away("s1.1.1");
  Error error;
  EXPECT_EQ(ckpt_store_remove(world_.store.get(), "s1.1.1", error), CKPT_UNSUPPORTED) << error.text();
  EXPECT_NE(error.text().find("symbolic link"), std::string::npos) << error.text();
  save(4, {{"keep_last", 2}});  // removes s2
  EXPECT_TRUE(fs::exists(to + "/MANIFEST"));
  EXPECT_TRUE(fs::is_symlink(place_.uri() + "/s1.1.1"));
  EXPECT_FALSE(fs::exists(place_.uri() + "/s2.1.1"));
}

}  // namespace
}  // namespace ckpt_test

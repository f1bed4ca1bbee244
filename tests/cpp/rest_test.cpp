// The functions of ckpt.hpp that no other test here calls; that there are no more, functions_test.py proves.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ckpt.hpp"

namespace {

struct Folder {
  ~Folder() { std::filesystem::remove_all(path); }
  const std::filesystem::path path;
};

// A session whose store has a mirror, and a committed checkpoint "a" with a tensor.
struct Saved {
  explicit Saved(const std::string& name)
      : place{std::filesystem::temp_directory_path() / ("ckpt-rest-" + name + std::to_string(getpid()))},
        store(ckpt::Store::open((folder / "store").string(), {{"mirror", (folder / "mirror").string()}})),
        session(ckpt::Session::open(store)) {
    auto save = ckpt::Save::create(session, "a", 7);
    save.add_tensor("w", {2, 3}, w);
    save.run();
    EXPECT_TRUE(save.report().empty());
  }

  Folder place;  // goes last: the session's mirror writes to it until the session ends
  const std::filesystem::path& folder = place.path;
  ckpt::Store store;
  ckpt::Session session;
  std::vector<float> w = {1, 2, 3, 4, 5, 6};
};

TEST(CppRest, AReaderSaysItsPartsItsSegmentsAndWhatWasPassedOver) {
  Saved saved("reader");
  const auto reader = ckpt::Reader::open(saved.store);
  EXPECT_TRUE(reader.report().empty());
  EXPECT_STREQ(reader.part(0).name, "PART_000");
  EXPECT_EQ(reader.segment("w", 0).stored_bytes, 24u);
  EXPECT_EQ(ckpt::version(), std::string(ckpt_version_string()));

  ckpt::Save::create(saved.session, "b", 8).run();
  std::fstream manifest(saved.folder / "store" / "b.1.1" / "MANIFEST", std::ios::in | std::ios::out | std::ios::binary);
  manifest.seekg(100);
  const int byte = manifest.get();
  manifest.seekp(100).put(static_cast<char>(byte ^ 1));
  manifest.close();
  const auto older = ckpt::Reader::open(saved.store);
  EXPECT_EQ(older.info().step, 7);
  EXPECT_EQ(older.info().passed_over, 1u);
  EXPECT_EQ(saved.store.find("latest").passed_over, 1u);
  ASSERT_EQ(older.report().size(), 1u);
  EXPECT_EQ(older.report().at(0).kind, CKPT_FINDING_PASSED_OVER);
}

TEST(CppRest, ALoadRunsInTheBackgroundAndReportsWhatWasNotThere) {
  Saved saved("load");
  std::vector<float> got(6);
  auto load = ckpt::Load::create(ckpt::Reader::open(saved.store), {{"strict", "none"}});
  load.add_tensor("w", {2, 3}, got);
  load.add_tensor("missing", {2, 3}, got);
  load.start().wait_done();
  EXPECT_EQ(got, saved.w);
  EXPECT_EQ(load.report().at(0).kind, CKPT_FINDING_MISSING);
}

TEST(CppRest, ACheckpointIsMirroredAndCopiedAndASoundOneIsNotRepaired) {
  Saved saved("copy");
  saved.session.mirror().wait_done();
  const auto mirror = ckpt::Store::open((saved.folder / "mirror").string());
  const auto reader = ckpt::Reader::open(mirror);
  const auto other = ckpt::Store::open("mem:cpp-rest");
  const auto job = ckpt::Job::create();
  EXPECT_TRUE(reader.copy(other, ckpt::Options().set_job(job)).empty());
  EXPECT_EQ(other.runs().at(0).newest_step, 7);
  EXPECT_THROW(mirror.repair(reader.info().id), ckpt::Error);  // it is sound
}

TEST(CppRest, AFileIsImported) {
  Saved saved("import");
  const std::string path = (saved.folder / "w.safetensors").string();
  ckpt::Reader::open(saved.store).export_to(path);
  EXPECT_TRUE(ckpt::File::open(path).left_out().empty());
  EXPECT_EQ(saved.store.import(path, "imported", 9).step, 9);
}

TEST(CppRest, ATreeIsBuiltOfValuesOfEachKind) {
  auto tree = ckpt::Tree::create();
  tree.begin_list();
  tree.add_null();
  tree.add_bool(true);
  tree.add_bigint("123456789012345678901");
  tree.begin_set();
  tree.add_int(1);
  tree.end();
  tree.end();
  EXPECT_EQ(tree.json(), R"([null,true,{"$":"int","value":"123456789012345678901"},{"$":"set","items":[1]}])");
}

TEST(CppRest, AStoreKeepsACheckpointAndGivesItAName) {
  const Saved saved("name");
  saved.store.keep("a.1.1");
  saved.store.name("main", "best", "a.1.1");
  EXPECT_STREQ(saved.store.find("name:best").id, "a.1.1");
  EXPECT_STREQ(saved.store.list()[0].names, "best");
  saved.store.name("main", "best", "");
  EXPECT_STREQ(saved.store.list()[0].names, "");
}

}  // namespace

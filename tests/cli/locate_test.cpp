// What a person types, resolved against directories made for the test.
#include "cli/locate.h"
#include "base/text.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace cli {
namespace {

namespace fs = std::filesystem;

class Locate : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/ckpt_locate_XXXXXX";
    root_ = fs::canonical(mkdtemp(pattern)).string();
    fs::create_directories(root_ + "/run/step-1.1.1");
    fs::create_directories(root_ + "/run/lost.1.1");
    fs::create_directories(root_ + "/run@home");
    std::ofstream(root_ + "/run/step-1.1.1/MANIFEST") << "x";
    std::ofstream(root_ + "/run/lost.1.1/PART_001") << "x";
    start_ = fs::current_path();
  }
  void TearDown() override {
    fs::current_path(start_);
    fs::remove_all(root_);
  }

  // "kind store selector" with the root as ~, or the name of the status.
  std::string located(const std::string& argument) try {
    const Target target = locate(argument);
    const char* kinds[] = {"directory", "selector", "store"};
    std::string store = target.store;
    if (store.starts_with(root_)) store = "~" + store.substr(root_.size());
    return std::string(kinds[static_cast<int>(target.kind)]) + " " + store + " " + target.selector;
  } catch (const ckpt::Error& error) {
    return error.status_name();
  }

  std::string root_;
  fs::path start_;
};

TEST_F(Locate, AnAddressIsACheckpointInTheDirectoryAboveAndKeepsItsQuery) {
  EXPECT_EQ(located("https://h/run7/step-1.1.1"), "directory https://h/run7 step-1.1.1");
  EXPECT_EQ(located("https://h/run7/step-1.1.1//?a=/x@y#z"), "directory https://h/run7?a=/x@y step-1.1.1");
  EXPECT_EQ(located("HTTP://u:p@h:1/best"), "directory HTTP://u:p@h:1 best");
  EXPECT_EQ(located("https://h/run7@step-1.1.1?q"), "selector https://h/run7?q step-1.1.1");
  EXPECT_EQ(located("https://h/@me/run7/@latest"), "selector https://h/@me/run7 latest");
  EXPECT_EQ(located("https://u@h"), "store https://u@h latest");
  EXPECT_EQ(located("https://h/run7@"), "INVALID");
  EXPECT_EQ(locate_store("https://h/run7/?q"), "https://h/run7/?q");
}

TEST_F(Locate, AnAddressIsAFileByItsEndingAndShowsNoSecret) {
  for (const char* file :
       {"https://h/a.pt?x", "http://u:p@h/a.safetensors", "https://h/model.safetensors.index.json#x"})
    EXPECT_TRUE(is_foreign(file)) << file;
  for (const char* other : {"https://h/run7", "https://h/run7/step-1.1.1", "https://h/a?b.pt", "s3://b/a.pt"})
    EXPECT_FALSE(is_foreign(other)) << other;
  EXPECT_EQ(shown("https://u:p@h/a@b?q#f"), "https://h/a@b");
  EXPECT_EQ(shown("/data/a?b"), "/data/a?b");
  for (const std::string mistyped : {"file://u:SECRET@h", "https://[::1/u:SECRET@h"}) try {
      const Target target = locate(mistyped);
      (void)ckpt::Store::open(target.store);
      FAIL() << mistyped;
    } catch (const ckpt::Error& error) {
      EXPECT_EQ(error.status(), CKPT_INVALID);
      EXPECT_EQ(std::string(error.what()).find("SECRET"), std::string::npos) << error.what();
    }
}

TEST_F(Locate, DirectoryWithAManifestIsACheckpointOfItsParent) {
  EXPECT_EQ(located(root_ + "/run/step-1.1.1"), "directory ~/run step-1.1.1");
  EXPECT_EQ(located(root_ + "/run/step-1.1.1///"), "directory ~/run step-1.1.1");
  for (const std::string scheme : {"file://", "file://localhost"})
    EXPECT_EQ(located(scheme + root_ + "/run/step-1.1.1"), "directory ~/run step-1.1.1");
}

TEST_F(Locate, DirectoryWithPartsOnlyIsACheckpoint) {
  EXPECT_EQ(located(root_ + "/run/lost.1.1"), "directory ~/run lost.1.1");
}

TEST_F(Locate, DotIsTheDirectoryThatItStandsFor) {
  fs::current_path(root_ + "/run/step-1.1.1");
  EXPECT_EQ(located("."), "directory ~/run step-1.1.1");
  EXPECT_EQ(located("./"), "directory ~/run step-1.1.1");
  EXPECT_EQ(located("../lost.1.1/"), "directory ~/run lost.1.1");
}

TEST_F(Locate, LinkIsTheCheckpointThatItPointsTo) {
  fs::create_symlink(root_ + "/run/step-1.1.1", root_ + "/best");
  EXPECT_EQ(located(root_ + "/best"), "directory ~/run step-1.1.1");
}

TEST_F(Locate, OtherDirectoryIsAStoreWhoseLatestIsMeant) {
  EXPECT_EQ(located(root_ + "/run"), "store ~/run latest");
  EXPECT_EQ(located(root_ + "/run/"), "store ~/run latest");
}

TEST_F(Locate, AtSignSeparatesTheSelector) {
  EXPECT_EQ(located(root_ + "/run@latest"), "selector ~/run latest");
  EXPECT_EQ(located(root_ + "/run/@step:100"), "selector ~/run step:100");
  EXPECT_EQ(located(root_ + "/run@label:step-1"), "selector ~/run label:step-1");
  fs::current_path(root_);
  EXPECT_EQ(located("run@latest"), "selector run latest");
  EXPECT_EQ(located("@latest"), "selector . latest");
  EXPECT_EQ(located("run@"), "INVALID");
}

TEST_F(Locate, AtSignBeforeASlashBelongsToThePath) {
  EXPECT_EQ(located(root_ + "/run@home/"), "store ~/run@home latest");
  EXPECT_EQ(located(root_ + "/run@home@latest"), "selector ~/run@home latest");
}

TEST_F(Locate, MissingPathsAndFilesAreRefused) {
  EXPECT_EQ(located(root_ + "/none"), "NOT_FOUND");
  EXPECT_EQ(located(root_ + "/none@latest"), "NOT_FOUND");
  EXPECT_EQ(located(root_ + "/run/step-1.1.1/MANIFEST"), "INVALID");
  EXPECT_EQ(located(""), "INVALID");
}

TEST_F(Locate, RemoteStoresAreNotLookedAt) {
  EXPECT_EQ(located("s3://bucket/run"), "store s3://bucket/run latest");
  EXPECT_EQ(located("s3://bucket/run@step:3"), "selector s3://bucket/run step:3");
}

TEST_F(Locate, StoreArgumentRefusesACheckpointAndNamesItsStore) {
  EXPECT_EQ(locate_store(root_ + "/run/"), root_ + "/run");
  try {
    locate_store(root_ + "/run/step-1.1.1");
    FAIL() << "a checkpoint was taken for a store";
  } catch (const ckpt::Error& error) {
    EXPECT_EQ(error.status(), CKPT_INVALID);
    EXPECT_NE(std::string(error.what()).find("its store is " + root_ + "/run"), std::string::npos);
  }
}

TEST_F(Locate, BareStoreNeverNamesTheOneToRemove) {
  try {
    resolve_id(ckpt::Store::open(root_ + "/run"), locate(root_ + "/run"), {});
    FAIL() << "a store was taken for a checkpoint";
  } catch (const ckpt::Error& error) {
    EXPECT_EQ(error.status(), CKPT_INVALID);
    EXPECT_NE(std::string(error.what()).find("is a store"), std::string::npos);
  }
}

}  // namespace
}  // namespace cli

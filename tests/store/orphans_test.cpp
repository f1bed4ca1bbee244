// Preparing a store removes the orphans of killed processes from .ckpt, but nothing that may be in use.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "faults.h"
#include "store_suite.h"

namespace ckpt::store {
namespace {

class Orphans : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(code(store_->prepare()), "OK");
    for (const char* key : {".ckpt/owners", ".ckpt/attempts", ".ckpt/runs/main", ".ckpt/rendezvous/main"})
      ASSERT_EQ(code(store_->make_directory(key)), "OK");
  }
  void leave(const std::string& key, const std::string& bytes = "x") {
    std::ofstream(scratch_ / "store/" + key) << bytes;
  }
  void prepare_again() { EXPECT_EQ(code(open_posix(scratch_ / "store", {}).take()->prepare()), "OK"); }

  Scratch scratch_;
  std::shared_ptr<Store> store_ = open_posix(scratch_ / "store", {}).take();
};

const std::string kNonce = "0123456789abcdef";

TEST_F(Orphans, FilesThatNeverGotTheirNameAndProbesGo) {
  for (const std::string& key :
       {".ckpt/store.tmp." + kNonce, ".ckpt/owners/7.tmp." + kNonce, ".ckpt/attempts/7.1.step-1.tmp." + kNonce,
        ".ckpt/probe." + kNonce + kNonce, ".ckpt/probe." + kNonce + kNonce + ".tmp." + kNonce})
    leave(key);
  leave(".ckpt/owners/8.tmp." + kNonce, "");
  std::filesystem::last_write_time(scratch_ / "store/.ckpt/owners/8.tmp.0123456789abcdef",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  prepare_again();
  EXPECT_EQ(names(*store_, ".ckpt"), "attempts/ owners/ rendezvous/ runs/");
  EXPECT_EQ(names(*store_, ".ckpt/owners") + names(*store_, ".ckpt/attempts"), "");
}

TEST_F(Orphans, ThoseInTheDirectoriesOfRunsGoAndTheRecordsStay) {
  for (const std::string directory : {".ckpt/runs/main/", ".ckpt/rendezvous/main/"}) {
    const std::string record = "7." + kNonce + kNonce;
    leave(directory + record);
    leave(directory + record + ".tmp." + kNonce);
    leave(directory + "8.tmp." + kNonce, "");  // somebody may be about to write it
    prepare_again();
    EXPECT_EQ(names(*store_, directory.substr(0, directory.size() - 1)), record + " 8.tmp." + kNonce);
  }
}

TEST_F(Orphans, OtherFilesStay) {
  for (const std::string& name :
       {std::string("7"), std::string("7.tmp."), "7.tmp." + kNonce.substr(1), "7.tmp." + kNonce + "0",
        std::string("7.tmp.0123456789ABCDEF"), kNonce, std::string("probe.0123")})
    leave(".ckpt/owners/" + name);
  leave(".ckpt/owners/8.tmp." + kNonce, "");  // somebody may be about to write it
  std::string before = names(*store_, ".ckpt/owners");
  prepare_again();
  EXPECT_EQ(names(*store_, ".ckpt/owners"), before);
}

TEST_F(Orphans, AFileThatIsBeingWrittenStays) {
  auto writer = store_->create(".ckpt/owners/7", 0);
  ASSERT_TRUE(writer.ok());
  ASSERT_EQ(code((*writer)->write_at(0, as_bytes("x"))), "OK");
  prepare_again();
  EXPECT_EQ(code((*writer)->publish(1)), "OK");
  EXPECT_EQ(read_text(*store_, ".ckpt/owners/7"), "x");
}

TEST_F(Orphans, AFileThatIsClosedAndAboutToGetItsNameStays) {
  Faults faults;
  faults.before_rename = [&] { prepare_again(); };
  EXPECT_EQ(code(store_->put_if_absent(".ckpt/owners/7", as_bytes("x"))), "OK");
  EXPECT_FALSE(faults.before_rename);
  EXPECT_EQ(names(*store_, ".ckpt/owners"), "7");
}

TEST_F(Orphans, AProbeThatIsUnderWayStays) {
  Faults faults;
  int renames = 0;
  faults.after_rename = [&] {
    if (renames++ == 0) prepare_again();  // the first probe file has its name now
    return 0;
  };
  prepare_again();
  EXPECT_GT(renames, 1);
}

TEST_F(Orphans, WithoutLeasesAllStays) {
  leave(".ckpt/owners/7.tmp." + kNonce);
  in_child({{SYS_fcntl, EINVAL, 1, F_SETLEASE}}, [&] { prepare_again(); });
  EXPECT_EQ(names(*store_, ".ckpt/owners"), "7.tmp." + kNonce);
}

}  // namespace
}  // namespace ckpt::store

#include "store/mount.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ckpt::store {
namespace {

using Locks = Mount::Locks;

Mount of(const std::string& type, const std::string& options, const std::string& super = "rw") {
  return parse_mount("36 35 0:51 / /data " + options + " shared:1 - " + type + " server:/export " + super);
}

TEST(Mount, ALineOfTheKernelIsRead) {
  const Mount mount = parse_mount(
      "98 24 0:47 /run7 /mnt/my\\040data rw,relatime shared:54 master:2 - nfs4 nas:/a\\134b rw,vers=4.2,hard");
  EXPECT_EQ(mount.type, "nfs4");
  EXPECT_EQ(mount.source, "nas:/a\\b");
  EXPECT_EQ(mount.point, "/mnt/my data");
  EXPECT_EQ(mount.options, "rw,relatime,rw,vers=4.2,hard");
  EXPECT_TRUE(mount.has("hard"));
  EXPECT_TRUE(mount.has("vers=4.2"));
  EXPECT_FALSE(mount.has("vers=4"));
  EXPECT_FALSE(mount.has("relatim"));
  // Without a field between the options and the dash.
  EXPECT_EQ(parse_mount("22 1 254:0 / / rw,relatime - ext4 /dev/vda rw").type, "ext4");
}

TEST(Mount, WhatIsNoLineHasNoType) {
  for (const char* line : {"", " ", "a b c", "36 35 98:0 / /data rw shared:1 - ext4", "1 2 3 4 5 6 7 8 9 10 11"})
    EXPECT_EQ(parse_mount(line).type, "") << line;
}

TEST(Mount, LocalFileSystemsAreOfOneMachine) {
  for (const char* type : {"ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs"}) {
    EXPECT_FALSE(of(type, "rw").shared()) << type;
    EXPECT_EQ(of(type, "rw").locks(), Locks::kForAll) << type;
    EXPECT_EQ(of(type, "rw").harmful(), "") << type;
  }
  for (const char* type : {"nfs", "lustre", "gpfs", "fuse.sshfs", "9p", "virtiofs", "something"})
    EXPECT_TRUE(of(type, "rw").shared()) << type;
}

TEST(Mount, OptionsOfNfsDecideWhoSeesItsLocks) {
  for (const char* type : {"nfs", "nfs4"}) {
    EXPECT_EQ(of(type, "rw", "rw,vers=3,hard,local_lock=none").locks(), Locks::kForAll);
    EXPECT_EQ(of(type, "rw", "rw,vers=3,hard,local_lock=posix").locks(), Locks::kForAll);
    EXPECT_EQ(of(type, "rw", "rw,vers=3,nolock,local_lock=all").locks(), Locks::kOfThisMachine);
    EXPECT_EQ(of(type, "rw", "rw,vers=3,local_lock=flock").locks(), Locks::kOfThisMachine);
    EXPECT_EQ(of(type, "rw", "rw,vers=3,hard").harmful(), "");
    EXPECT_EQ(of(type, "rw", "rw,vers=3,nocto").harmful(), "nocto");
    EXPECT_EQ(of(type, "rw", "rw,vers=3,nordirplus").harmful(), "nordirplus");
    EXPECT_EQ(of(type, "rw", "rw,vers=3,local_lock=flock").harmful(), "local_lock=flock");
  }
}

TEST(Mount, OthersAreAsTheirDocumentsSay) {
  EXPECT_EQ(of("lustre", "rw", "rw,flock,lazystatfs").locks(), Locks::kForAll);
  EXPECT_EQ(of("lustre", "rw", "rw,lazystatfs").locks(), Locks::kOfThisMachine);
  EXPECT_EQ(of("lustre", "rw", "rw,localflock").locks(), Locks::kOfThisMachine);
  EXPECT_EQ(of("lustre", "rw", "rw,localflock").harmful(), "localflock");
  EXPECT_EQ(of("cifs", "rw", "rw,nobrl").locks(), Locks::kOfThisMachine);
  EXPECT_EQ(of("cifs", "rw", "rw,cache=loose").harmful(), "cache=loose");
  for (const char* type : {"gfs2", "ocfs2"}) {
    EXPECT_EQ(of(type, "rw").locks(), Locks::kForAll);
    EXPECT_EQ(of(type, "rw", "rw,localflocks").locks(), Locks::kOfThisMachine);
    EXPECT_EQ(of(type, "rw", "rw,localflocks").harmful(), "localflocks");
  }
  EXPECT_EQ(parse_mount("1 2 0:5 / /m rw - fuse mfs#10.0.0.1:9421 rw").locks(), Locks::kForAll);
  for (const char* type : {"ceph", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.juicefs", "fuse.mfs"})
    EXPECT_EQ(of(type, "rw").locks(), Locks::kForAll) << type;
  for (const char* type : {"gpfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone"})
    EXPECT_EQ(of(type, "rw").locks(), Locks::kOfThisMachine) << type;
  for (const char* type : {"beegfs", "wekafs", "9p", "fuse", "fuse.nobody_knows", ""})
    EXPECT_EQ(of(type, "rw").locks(), Locks::kUnknown) << type;
}

TEST(Mount, StreamsAreReadWhereTheyWereMeasuredToBeFaster) {
  for (const char* type : {"fuse.ceph-fuse", "fuse.glusterfs", "fuse.juicefs", "fuse.mfs"})
    EXPECT_TRUE(of(type, "rw").follows_streams()) << type;
  EXPECT_TRUE(parse_mount("1 2 0:5 / /m rw - fuse mfs#10.0.0.1:9421 rw").follows_streams());
  for (const char* type : {"ext4", "nfs4", "lustre", "ceph", "fuse", ""})
    EXPECT_FALSE(of(type, "rw").follows_streams()) << type;
}

TEST(Mount, TheMountOfAnOpenFolderIsFound) {
  const int folder = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(folder, 0);
  EXPECT_EQ(find_mount(folder).type, "proc");
  EXPECT_EQ(find_mount(folder).point, "/proc");
  close(folder);
  EXPECT_EQ(find_mount(-1).type, "");
}

// Maps of checkpoints, recycling and retention trust locks of a file system of this machine's own, whether the kernel
// lists it or not.
TEST(Mount, WhereTheKernelListsNoneAFileSystemOfThisMachineIsStillKnown) {
  const int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (find_mount(folder).shared()) GTEST_SKIP() << "the tests lie on " << find_mount(folder).type;
  const pid_t child = fork();
  if (child == 0) {
    if (chroot(".") != 0) _exit(77);
    const Mount found = find_mount(folder);
    _exit(access("/proc/self", F_OK) != 0 && !found.shared() && found.locks() == Locks::kForAll ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  close(folder);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "only root may try this";
  EXPECT_EQ(status, 0);
}

TEST(Mount, OnlyFileSystemsThatNoOtherMachineHasOpenAreLocal) {
  EXPECT_EQ(local_type(0xef53), "ext4");
  EXPECT_EQ(local_type(0x01021994), "tmpfs");
  for (const uint32_t type :
       {0u, 0x6969u /* NFS */, 0x65735546u /* FUSE */, 0x00c36400u /* Ceph */, 0xff534d42u /* CIFS */})
    EXPECT_EQ(local_type(type), "") << type;
}

}  // namespace
}  // namespace ckpt::store

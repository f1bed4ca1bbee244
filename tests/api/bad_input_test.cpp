// Mistakes of callers, disks and operators: each ends in the documented error, and loses nothing saved earlier.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <thread>

#include "api/ranks.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(BadInput);
CKPT_ON_EVERY_STORE(Structs);
CKPT_ON_EVERY_STORE(Statuses);

void commit_one(World& world, const std::string& label, const Bytes& data) {
  world.commit(label, {}, [&](uint32_t, ckpt_save* save) {
    add(save, "w", whole(CKPT_DTYPE_U8, {static_cast<int64_t>(data.size())}), data);
  });
}

ckpt_status try_open(const Store& store, const char* selector, Error& error) {
  ckpt_reader* reader = nullptr;
  ckpt_status status = ckpt_reader_open(&reader, store.get(), selector, nullptr, error);
  EXPECT_TRUE(status == CKPT_OK || reader == nullptr) << "an output was touched";
  ckpt_reader_free(reader);
  return status;
}

TEST_P(BadInput, SelectorsThatLeaveTheStoreFindNothing) {
  World world(place.uri(), 1);
  commit_one(world, "a", pattern(10, 1));
  Error error;
  for (const char* selector :
       {"../store/a.1.1", "./a.1.1", "a.1.1/", "/a.1.1", "..", ".", ".ckpt", "step:", "step:x", "step:-5"}) {
    ckpt_status status = try_open(world.store, selector, error);
    EXPECT_TRUE(status == CKPT_NOT_FOUND || status == CKPT_INVALID) << selector << " " << error.text();
  }
}

TEST_P(BadInput, SessionStringsThatCannotBeAreRefused) {
  Store store = open_store(place.uri());
  Error error;
  ckpt_session* session = nullptr;
  Session leader = open_session(store, 0, 2);
  std::string good = ckpt_session_string(leader.get());
  for (const std::string& bad : {std::string(""), std::string("x"), good.substr(0, good.size() - 1), good + "0",
                                 good + ";1", "ckpt2" + good.substr(5), std::string(5000, 'a')}) {
    ckpt_status status = ckpt_session_open(&session, store.get(), 1, 2, bad.c_str(), nullptr, error);
    EXPECT_TRUE(status == CKPT_INVALID || status == CKPT_FORMAT) << bad << " " << error.text();
  }
  EXPECT_EQ(session, nullptr);
}

TEST_P(BadInput, DescriptorsThatCannotBeAreInvalidAndNameTheTensor) {
  World world(place.uri(), 2);
  Save save = new_save(world.sessions[0], "a");
  Bytes data(64);
  Error error;
  auto refuse = [&](const ckpt_tensor_desc& desc, ckpt_status expected = CKPT_INVALID) {
    EXPECT_EQ(ckpt_save_add_tensor(save.get(), "w", &desc, data.data(), 64, CKPT_DEVICE_CPU, 0, error), expected)
        << error.text();
    EXPECT_EQ(error.detail("tensor"), "w") << error.text();
  };
  refuse(whole(CKPT_DTYPE_F32, {17}));
  EXPECT_EQ(error.detail("expected"), "68");
  EXPECT_EQ(error.detail("found"), "64");
  refuse(whole(0, {1}));
  refuse(whole(0x0200, {1}));
  refuse(whole(-1, {1}));
  refuse(whole(0x10000 + 8, {1}));
  refuse(whole(CKPT_DTYPE_F32, {-1}));
  refuse(whole(CKPT_DTYPE_F32, {INT64_MAX, 4}));
  refuse(whole(CKPT_DTYPE_F32, {INT64_MAX}));
  auto desc = whole(CKPT_DTYPE_F32, {4});
  desc.ndim = CKPT_MAX_NDIM + 1;
  refuse(desc);
  desc.ndim = -1;
  refuse(desc);
  desc = whole(CKPT_DTYPE_F32, {4});
  desc.region_kind = 4;
  refuse(desc);
  desc.region_kind = 0;
  for (const uint32_t flags : {uint32_t{CKPT_TENSOR_CONVERT}, 1u << 31}) {
    desc.flags = flags;
    refuse(desc);
  }
  desc.flags = 0;
  desc.replica_count = 2;
  desc.replica_index = 2;
  refuse(desc);
  desc.replica_count = 3;
  refuse(desc);
  desc.replica_count = 0;
  refuse(desc);
  refuse(box(CKPT_DTYPE_F32, {4}, {2}, {3}));
  refuse(box(CKPT_DTYPE_F32, {4}, {-1}, {1}));
  refuse(flat(CKPT_DTYPE_F32, {4}, 5, 0));
  refuse(flat(CKPT_DTYPE_F32, {4}, INT64_MAX, INT64_MAX));
  desc = flat(CKPT_DTYPE_F32, {4}, 0, 4);
  desc.flags = CKPT_TENSOR_STRIDED;
  refuse(desc);
  desc = whole(CKPT_DTYPE_F32, {4});
  EXPECT_EQ(ckpt_save_add_tensor(save.get(), "w", &desc, nullptr, 64, CKPT_DEVICE_CPU, 0, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_save_add_tensor(save.get(), "w", &desc, data.data(), 64, CKPT_DEVICE_CUDA, 0, error),
            CKPT_UNSUPPORTED);
  EXPECT_EQ(error.detail("tensor"), "w");
  EXPECT_EQ(ckpt_save_add_alias(save.get(), "tied", "../w", nullptr, error), CKPT_INVALID);
  EXPECT_EQ(error.detail("tensor"), "tied");
  add(save.get(), "w", desc, data);
  EXPECT_EQ(ckpt_save_add_tensor(save.get(), "w", &desc, data.data(), 64, CKPT_DEVICE_CPU, 0, error), CKPT_EXISTS);
  EXPECT_EQ(error.detail("tensor"), "w");
}

TEST_P(BadInput, WhateverANameHoldsTheErrorIsOneLineOfUtf8) {
  World world(place.uri(), 1);
  const Bytes data = pattern(4, 1);
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) { add(save, "w", whole(CKPT_DTYPE_U8, {4}), data); });
  Reader reader = open_reader(world.store);
  auto info = sized<ckpt_tensor_info>();
  Error error;
  EXPECT_EQ(ckpt_reader_tensor_find(reader.get(), "a\xff\n", &info, error), CKPT_NOT_FOUND);
  EXPECT_NE(error.text().find("a\\xff\\n"), std::string::npos) << error.text();
  EXPECT_EQ(error.detail("tensor"), "a\\xff\\n");
  EXPECT_EQ(ckpt_reader_tensor_find(reader.get(), "é", &info, error), CKPT_NOT_FOUND);
  EXPECT_EQ(error.detail("tensor"), "é");
}

TEST_P(BadInput, NullArgumentsAreInvalidAndErrorsMayBeNull) {
  World world(place.uri(), 1);
  commit_one(world, "a", pattern(10, 1));
  Reader reader = open_reader(world.store);
  Save save = new_save(world.sessions[0], "b");
  Load load = new_load(reader);
  auto desc = whole(CKPT_DTYPE_U8, {1});
  unsigned char byte = 0;
  ckpt_store* store = nullptr;
  ckpt_save* out_save = nullptr;
  ckpt_load* out_load = nullptr;
  EXPECT_EQ(ckpt_store_open(nullptr, "mem:x", nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_store_open(&store, nullptr, nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_store_list(nullptr, nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_store_find(world.store.get(), "latest", nullptr, nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_store_remove(world.store.get(), nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_session_open(nullptr, world.store.get(), 0, 1, nullptr, nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_save_new(&out_save, nullptr, "a", -1, nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_save_new(&out_save, world.sessions[0].get(), nullptr, -1, nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_save_add_tensor(save.get(), nullptr, &desc, &byte, 1, CKPT_DEVICE_CPU, 0, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_save_add_tensor(save.get(), "w", nullptr, &byte, 1, CKPT_DEVICE_CPU, 0, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_save_add_tensor(nullptr, "w", &desc, &byte, 1, CKPT_DEVICE_CPU, 0, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_save_add_alias(save.get(), "a", nullptr, nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_save_set_attr(save.get(), nullptr, "k", nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_save_run(nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_save_start(save.get(), nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_reader_open(nullptr, world.store.get(), "a", nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_reader_info(reader.get(), nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_reader_tensor_find(reader.get(), nullptr, nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_reader_map(reader.get(), "w", nullptr, nullptr, nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_load_new(&out_load, nullptr, nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_load_add_tensor(load.get(), "w", nullptr, &byte, 1, CKPT_DEVICE_CPU, 0, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_load_add_object(load.get(), nullptr, 0, &byte, 1, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_load_run(nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_job_wait(nullptr, CKPT_JOB_DONE, 0, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_job_report(nullptr, nullptr, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_save_run(save.get(), nullptr), CKPT_OK) << "none of these was the beginning of the save";
  ckpt_job_cancel(nullptr);
  ckpt_error_free(nullptr);
  ckpt_store_free(nullptr);
  ckpt_session_free(nullptr);
  ckpt_save_free(nullptr);
  ckpt_reader_free(nullptr);
  ckpt_load_free(nullptr);
  ckpt_job_free(nullptr);
  ckpt_list_free(nullptr);
  ckpt_report_free(nullptr);
  ckpt_options_free(nullptr);
  EXPECT_STREQ(ckpt_error_message(nullptr), "");
  EXPECT_EQ(ckpt_error_detail(nullptr, "path"), nullptr);
}

// ---- structs of other versions ----

TEST_P(Structs, ShorterAndLongerOnesThanOursAreTaken) {
  World world(place.uri(), 1);
  Bytes data = pattern(16, 1);
  struct Longer {
    ckpt_tensor_desc desc;
    uint64_t more;
  } longer{whole(CKPT_DTYPE_U8, {16}), 0};
  longer.desc.struct_size = sizeof longer;
  ckpt_tensor_desc shorter = whole(CKPT_DTYPE_U8, {16});
  shorter.struct_size = offsetof(ckpt_tensor_desc, flat_offset);
  shorter.flat_offset = shorter.flat_size = -7;  // beyond what an older caller has
  Error error;
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) {
    add(save, "longer", longer.desc, data);
    add(save, "shorter", shorter, data);
    longer.more = 1;
    EXPECT_EQ(ckpt_save_add_tensor(save, "x", &longer.desc, data.data(), 16, CKPT_DEVICE_CPU, 0, error),
              CKPT_UNSUPPORTED);
    shorter.struct_size = 0;
    EXPECT_EQ(ckpt_save_add_tensor(save, "x", &shorter, data.data(), 16, CKPT_DEVICE_CPU, 0, error), CKPT_INVALID);
  });
  Reader reader = open_reader(world.store);
  ckpt_tensor_info info{};
  info.bytes = 4711;
  info.struct_size = offsetof(ckpt_tensor_info, bytes);
  EXPECT_EQ(ckpt_reader_tensor_find(reader.get(), "longer", &info, error), CKPT_OK) << error.text();
  EXPECT_EQ(info.shape[0], 16);
  EXPECT_EQ(info.bytes, 4711u) << "beyond the caller's struct";
  EXPECT_EQ(info.struct_size, offsetof(ckpt_tensor_info, bytes));
  struct LongerInfo {
    ckpt_tensor_info info;
    uint64_t more;
  } longer_info{};
  longer_info.info.struct_size = sizeof longer_info;
  EXPECT_EQ(ckpt_reader_tensor_find(reader.get(), "longer", &longer_info.info, error), CKPT_OK);
  EXPECT_EQ(longer_info.info.bytes, 16u);
  info.struct_size = 0;
  EXPECT_EQ(ckpt_reader_tensor_find(reader.get(), "longer", &info, error), CKPT_INVALID);
}

// ---- disks ----

// A tmpfs on a fresh directory, seen by this process only.
class Disk {
 public:
  explicit Disk(const char* settings) {
    // EINVAL: in a chroot, "/" is not a mount point; whoever made the chroot has decided what is shared.
    static bool own = unshare(CLONE_NEWNS) == 0 &&
                      (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 || errno == EINVAL);
    ok = own && mount("none", scratch.path().c_str(), "tmpfs", 0, settings) == 0;
  }
  ~Disk() {
    if (ok) umount2(scratch.path().c_str(), MNT_DETACH);
  }
  bool read_only() { return mount("none", scratch.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0; }
  std::string uri() const { return scratch.path(); }

  Scratch scratch;
  bool ok;
};

TEST(DiskFault, AFullOneEndsTheSaveAndKeepsWhatWasThere) {
  Disk disk("size=8m");
  if (!disk.ok) GTEST_SKIP() << "mounting a tmpfs needs root";
  World world(disk.uri(), 2);
  Bytes data = pattern(1 << 20, 1), big = pattern(12 << 20, 2);
  commit_one(world, "good", data);
  for (const char* label : {"bad", "worse"}) {
    auto outcomes = world.save(label, {}, [&](uint32_t rank, ckpt_save* save) {
      add(save, "w", box(CKPT_DTYPE_U8, {24 << 20}, {rank * (12 << 20)}, {12 << 20}), big);
    });
    int full = 0;
    for (const auto& outcome : outcomes) {
      EXPECT_TRUE(outcome.status == CKPT_NO_SPACE || outcome.status == CKPT_ABORTED) << outcome.text;
      full += outcome.status == CKPT_NO_SPACE;
    }
    EXPECT_GE(full, 1);
  }
  EXPECT_EQ(committed_count(world.store), 1u);
  EXPECT_TRUE(load_one(open_reader(world.store), "w", whole(CKPT_DTYPE_U8, {1 << 20}), data.size()) == data);
  commit_one(world, "small", data);  // the failed saves have freed their space
  EXPECT_EQ(committed_count(world.store), 2u);
}

TEST(DiskFault, AReadOnlyOneLoadsAndRefusesToSave) {
  Disk disk("size=8m");
  if (!disk.ok) GTEST_SKIP() << "mounting a tmpfs needs root";
  Bytes data = pattern(1 << 16, 1);
  World world(disk.uri(), 1);
  commit_one(world, "good", data);
  ASSERT_TRUE(disk.read_only());
  Error error;
  Save save = new_save(world.sessions[0], "bad");
  add(save.get(), "w", whole(CKPT_DTYPE_U8, {1 << 16}), data);
  EXPECT_EQ(ckpt_save_run(save.get(), error), CKPT_IO) << error.text();
  EXPECT_NE(error.text().find(disk.uri()), std::string::npos) << error.text();
  ckpt_session* session = nullptr;
  EXPECT_EQ(ckpt_session_open(&session, world.store.get(), 0, 1, nullptr, nullptr, error), CKPT_IO) << error.text();
  EXPECT_EQ(ckpt_store_remove(world.store.get(), "good.1.1", error), CKPT_IO) << error.text();
  EXPECT_TRUE(load_one(open_reader(world.store), "w", whole(CKPT_DTYPE_U8, {1 << 16}), data.size()) == data);
}

TEST(DiskFault, AStoreThatIsAFileIsNoStore) {
  Scratch scratch;
  write_file(scratch / "file", "x");
  Error error;
  Store store = open_store(scratch / "file");
  ckpt_session* session = nullptr;
  EXPECT_EQ(ckpt_session_open(&session, store.get(), 0, 1, nullptr, nullptr, error), CKPT_INVALID) << error.text();
  EXPECT_NE(try_open(store, "latest", error), CKPT_OK);
  EXPECT_NE(error.text().find("file"), std::string::npos) << error.text();
  ckpt_store* opened = nullptr;
  for (const char* uri : {"", "s3://", "ftp://x"}) {
    ckpt_status status = ckpt_store_open(&opened, uri, nullptr, error);
    EXPECT_TRUE(status == CKPT_INVALID || status == CKPT_UNSUPPORTED) << uri << " " << error.text();
  }
}

// ---- memory ----

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their operator new ends the process
TEST_P(Statuses, NomemIsAnObjectLargerThanMemory) {
  World world(place.uri(), 1);
  Save save = new_save(world.sessions[0], "a");
  Error error;
  char byte = 0;
  EXPECT_EQ(ckpt_save_add_object(save.get(), "o", nullptr, 0, &byte, uint64_t{1} << 60, error), CKPT_NOMEM);
  run(save);
}
#endif

// ---- fork ----

TEST_P(Statuses, AForkedChildMayOnlyFreeAndTheParentGoesOn) {
  World world(place.uri(), 2);
  Bytes data = pattern(100, 1);
  commit_one(world, "good", data);
  Reader reader = open_reader(world.store);
  const ckpt_tensor_info known = tensor_info(reader, "w");
  Load load = new_load(reader);
  ask(load, "w", whole(CKPT_DTYPE_U8, {100}), data.data(), 100);
  Save save = new_save(world.sessions[0], "next"), other = new_save(world.sessions[1], "next");
  for (auto* each : {save.get(), other.get()}) add(each, "w", whole(CKPT_DTYPE_U8, {100}), data);
  ckpt_job* started = nullptr;
  Error error;
  ASSERT_EQ(ckpt_save_start(save.get(), &started, error), CKPT_OK);
  Job job(started);
  // From here on it waits for the other rank. Amid its work, a fork hangs TSan, which keeps locks of its own (GCC 12).
  ASSERT_EQ(ckpt_job_wait(started, CKPT_JOB_WRITTEN, -1, error), CKPT_OK);
  pid_t child = fork();
  if (child == 0) {
    int wrong = 0;
    auto forked = [&](ckpt_status status) { wrong += status != CKPT_FORKED; };
    auto desc = whole(CKPT_DTYPE_U8, {100});
    auto stats = sized<ckpt_job_stats>();
    ckpt_list* list = nullptr;
    ckpt_save* made = nullptr;
    ckpt_load* loaded = nullptr;
    ckpt_job* again = nullptr;
    forked(ckpt_store_list(world.store.get(), &list, nullptr));
    forked(ckpt_save_new(&made, world.sessions[0].get(), "x", -1, nullptr, nullptr));
    forked(ckpt_save_add_tensor(save.get(), "x", &desc, data.data(), 100, CKPT_DEVICE_CPU, 0, nullptr));
    forked(ckpt_save_run(save.get(), nullptr));
    forked(ckpt_save_start(other.get(), &again, nullptr));
    forked(ckpt_load_new(&loaded, reader.get(), nullptr, nullptr));
    forked(ckpt_load_run(load.get(), nullptr));
    forked(ckpt_reader_verify(reader.get(), nullptr, &again, nullptr));
    forked(ckpt_job_wait(started, CKPT_JOB_COMMITTED, 0, nullptr));
    forked(ckpt_job_stats_get(started, &stats, nullptr));
    ckpt_report* passed_over = nullptr;
    forked(ckpt_reader_report(reader.get(), &passed_over, nullptr));
    // What has no status, and texts from before the fork, are as they were.
    wrong += ckpt_reader_tensor_count(reader.get()) != 1 || ckpt_reader_object_count(reader.get()) != 0;
    wrong += ckpt_reader_attr_count(reader.get(), nullptr) != 0 || ckpt_reader_attr(reader.get(), "w", "x");
    wrong += std::strcmp(known.name, "w") != 0 || *ckpt_save_id(save.get()) == 0;
    wrong += *ckpt_session_string(world.sessions[0].get()) == 0 || ckpt_job_state(started) == 0;
    ckpt_job_cancel(started);  // must not cancel the parent's job
    job.reset();
    load.reset();
    reader.reset();
    save.reset();
    other.reset();
    world.sessions.clear();
    world.store.reset();
    _exit(wrong);
  }
  int result = -1;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  EXPECT_TRUE(WIFEXITED(result));
  EXPECT_EQ(WEXITSTATUS(result), 0) << "calls that did not say FORKED";
  run(other);
  EXPECT_EQ(ckpt_job_wait(started, CKPT_JOB_COMMITTED, -1, error), CKPT_OK) << error.text();
  run(load);
  EXPECT_EQ(committed_count(world.store), 2u);
}

}  // namespace
}  // namespace ckpt_test

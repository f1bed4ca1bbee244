// A store from outside: the suite of all stores on the example in C, and backends that do not keep to what they
// promise. All through the ABI.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <latch>
#include <stdexcept>
#include <thread>

#include "base/job.h"
#include "base/parallel.h"
#include "maintain/check_store.h"
#include "store/keys.h"
#include "store/puppet_backend.h"
#include "store/remote_store.h"
#include "store/store_suite.h"

extern "C" ckpt_status ckpt_backend_init(ckpt_error** err);  // of examples/c/folder_store.c

namespace ckpt::store {
namespace {

class FolderHome final : public Home {
 public:
  FolderHome() {
    static const ckpt_status registered = ckpt_backend_init(nullptr);
    EXPECT_EQ(registered, CKPT_OK);
  }
  std::shared_ptr<Store> open() override {
    auto store = open_store("folder://" + scratch_.path, {});
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.take();
  }

 private:
  const Scratch scratch_;
};

INSTANTIATE_TEST_SUITE_P(Backend, StoreSuite,
                         testing::Values(Backend{"Folder", [] { return std::make_unique<FolderHome>(); }}),
                         testing::PrintToStringParamName());

class Puppets : public testing::Test {
 protected:
  // From now on this call says that, or does what it likes.
  void on(const std::string& call, std::function<ckpt_status(ckpt_error** err)> does) {
    puppet()->before = [call, does = std::move(does)](const std::string& made, const std::string&, ckpt_error** err) {
      return made == call ? does(err) : CKPT_OK;
    };
  }
  void say(const std::string& call, int32_t status) {
    on(call, [status](ckpt_error**) { return status; });
  }
  Status put(const std::string& key, const std::string& text) { return store->put_if_absent(key, as_bytes(text)); }
  void pass_hours(int hours) { puppet()->now_ms += hours * int64_t{3600 * 1000}; }

  std::shared_ptr<Store> store = open_puppet();
};

// ---- errors ----

TEST_F(Puppets, WhatABackendThrowsIsIoAndGoesNoFurther) {
  ASSERT_TRUE(put("a", "x").ok());
  on("look", [](ckpt_error**) -> ckpt_status { throw std::runtime_error("a defect"); });
  EXPECT_EQ(code(store->open("a").status()), "IO");
  on("look", [](ckpt_error**) -> ckpt_status { throw 7; });
  EXPECT_EQ(code(store->open("a").status()), "IO");
  on("look", [](ckpt_error**) -> ckpt_status { throw std::bad_alloc(); });
  EXPECT_EQ(code(store->open("a").status()), "NOMEM");
}

TEST_F(Puppets, AStatusThatSaysTooMuchIsIo) {
  ASSERT_TRUE(put("a", "x").ok());
  for (const int32_t status : {999, -1, int32_t{CKPT_FENCED}, int32_t{CKPT_COMMIT_UNKNOWN}, int32_t{CKPT_EXISTS},
                               int32_t{CKPT_GONE}, int32_t{CKPT_ABORTED}, int32_t{CKPT_CANCELLED}}) {
    say("look", status);
    EXPECT_EQ(code(store->open("a").status()), "IO") << status;
  }
  for (const char* call : {"create", "append"}) {
    say(call, CKPT_EXISTS);
    EXPECT_EQ(code(put("b", "x")), "IO") << call << ": nobody may take it for a commit of another";
  }
  say("publish", CKPT_NOT_FOUND);
  EXPECT_EQ(code(put("b", "x")), "IO") << "no directory can be gone";
  EXPECT_EQ(puppet()->files, 0);
}

TEST_F(Puppets, ItsExplanationComesWithTheKeyAndItsFacts) {
  on("look", [](ckpt_error** err) {
    const char *key = "request_id", *value = "r7";
    *err = ckpt_error_new(CKPT_IO, "the disk is on fire", &key, &value, 1);
    return CKPT_IO;
  });
  const Status status = store->open("d/a").status();
  EXPECT_EQ(status.message(), "puppet://host/run7/d/a: look: IO: the disk is on fire");
  EXPECT_EQ(*status.detail("request_id"), "r7");
  EXPECT_EQ(*status.detail("path"), "puppet://host/run7/d/a");
}

TEST_F(Puppets, SecretsOfTheAddressAreGivenToTheBackendAndShownToNobody) {
  std::string given;
  puppet()->before = [&](const std::string& call, const std::string& uri, ckpt_error**) {
    if (call == "open") given = uri;
    return call == "look" ? CKPT_IO : CKPT_OK;
  };
  const auto secret = open_puppet(false, "puppet://me:hunter2@host/run7?key=hunter2");
  EXPECT_EQ(given, "puppet://me:hunter2@host/run7?key=hunter2");
  EXPECT_EQ(secret->uri(), "puppet://host/run7");
  EXPECT_EQ(secret->open("a").status().message().find("hunter2"), std::string::npos);
}

// ---- answers ----

TEST_F(Puppets, ShortReadsAreContinuedAndOnesThatCannotBeAreIo) {
  ASSERT_TRUE(put("a", "0123456789").ok());
  puppet()->most_read = 3;
  EXPECT_EQ(read_text(*store, "a"), "0123456789");
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{11}, UINT64_MAX}) {
    ckpt_backend calls = puppets::kCalls;
    static uint64_t says;
    says = bytes;
    calls.read = [](void*, const char*, const char*, uint64_t, void*, uint64_t, uint64_t* done, ckpt_error**) {
      *done = says;
      return ckpt_status{CKPT_OK};
    };
    const std::string scheme = "short" + std::to_string(bytes);
    ASSERT_EQ(ckpt_backend_register(scheme.c_str(), &calls, nullptr), CKPT_OK);
    EXPECT_EQ(read_text(**open_store(scheme + "://x", {}), "a"), "<IO>");
  }
}

TEST_F(Puppets, AFileThatCannotBeIsIo) {
  ASSERT_TRUE(put("a", "x").ok());
  for (int wrong = 0; wrong < 2; wrong++) {
    puppet()->twist = [wrong](ckpt_backend_file* file) {
      if (wrong == 0) file->size = -2;
      if (wrong == 1) std::memset(file->version, 'v', sizeof file->version);
    };
    EXPECT_EQ(code(store->open("a").status()), "IO") << wrong;
  }
  EXPECT_EQ(names(*store, ""), "<IO>") << "a version without an end";
}

TEST_F(Puppets, AnotherVersionThanWasOpenedIsGone) {
  ASSERT_TRUE(put("a", "old").ok());
  const auto reader = store->open("a");
  ASSERT_TRUE(store->put_over("a", as_bytes("new")).ok());
  std::byte out[3];
  EXPECT_EQ((*reader)->read_at(0, out).code(), CKPT_GONE);
  EXPECT_EQ(read_text(*store, "a"), "new");
}

// ---- lists ----

// What the list of a scheme does; each has its own.
template <typename List>
std::shared_ptr<Store> listing_store(const char* scheme, List list) {
  ckpt_backend calls = puppets::kCalls;
  calls.list = list;
  EXPECT_EQ(ckpt_backend_register(scheme, &calls, nullptr), CKPT_OK);
  return *open_store(std::string(scheme) + "://x", {});
}

TEST_F(Puppets, AListThatDoesNotEndIsRefused) {
  const auto same = listing_store("same", [](void*, const char*, ckpt_backend_found found, void* list, ckpt_error**) {
    auto file = fresh<ckpt_backend_file>();
    for (;;)
      if (const ckpt_status told = found(list, "again", &file)) return told;
  });
  EXPECT_EQ(code(same->list("d").status()), "IO");
  const auto many = listing_store("many", [](void*, const char*, ckpt_backend_found found, void* list, ckpt_error**) {
    auto file = fresh<ckpt_backend_file>();
    for (uint64_t i = 0;; i++)
      if (found(list, std::to_string(i).c_str(), &file)) return ckpt_status{CKPT_OK};  // not what it was told
  });
  EXPECT_EQ(code(many->list_at_most("d", 1000).status()), "UNSUPPORTED");
}

TEST_F(Puppets, NamesThatNoStoreHasAreLeftOutOfAList) {
  const auto odd = listing_store("odd", [](void*, const char*, ckpt_backend_found found, void* list, ckpt_error**) {
    auto file = fresh<ckpt_backend_file>();
    for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                    std::string(5000, 'x'), std::string("b"), std::string("a")})
      if (const ckpt_status told = found(list, name.c_str(), &file)) return told;
    return ckpt_status{CKPT_OK};
  });
  EXPECT_EQ(names(*odd, "d"), "a b");
  const auto none = listing_store("none", [](void*, const char*, ckpt_backend_found found, void* list, ckpt_error**) {
    return found(list, nullptr, nullptr);
  });
  EXPECT_EQ(names(*none, "d"), "<IO>");
}

// ---- time ----

TEST_F(Puppets, ACallKnowsHowMuchTimeItHas) {
  ASSERT_TRUE(put("a", "x").ok());
  EXPECT_EQ(ckpt_backend_left_ms(), -1);
  int64_t left = -2;
  on("look", [&](ckpt_error**) {
    left = ckpt_backend_left_ms();
    return CKPT_OK;
  });
  const auto look = [kept = store](Job&) { return kept->exists("a"); };
  EXPECT_TRUE(make_apart<bool>(std::make_shared<Job>(), 60000, look).ok());
  EXPECT_GT(left, 0);
  EXPECT_LE(left, 60000);
}

TEST_F(Puppets, RequestsAreCountedForTheJobWhereCallsAreSome) {
  ASSERT_TRUE(put("a", "12345").ok());
  for (const uint32_t promises : {uint32_t{0}, uint32_t{CKPT_BACKEND_REMOTE}}) {
    puppet()->traits.promises = promises;
    const auto job = std::make_shared<Job>();
    const auto work = [kept = open_puppet(false)](Job&) -> Status {
      CKPT_TRY(kept->get("a", 10).status());
      CKPT_TRY(kept->put_if_absent("b", as_bytes("123")));
      CKPT_TRY(kept->list("").status());
      return kept->remove("b", false);
    };
    ASSERT_TRUE(run_apart(job, 60000, work).ok());
    const RequestCounters& made = job->call->requests;
    const bool some = promises != 0;
    EXPECT_EQ(made.gets, some ? 2u : 0u);
    EXPECT_EQ(made.puts, some ? 1u : 0u);
    EXPECT_EQ(made.lists + made.deletes, some ? 2u : 0u);
    EXPECT_EQ(made.bytes_received + made.bytes_sent, some ? 8u : 0u);
  }
}

TEST_F(Puppets, ACacheKeepsWhatARemoteOneReadAndNoOtherMayHaveOne) {
  ASSERT_TRUE(put("s1/PART_000", std::string(100000, 'x')).ok());
  const Scratch scratch;
  const StoreOptions options{.cache = scratch / "cache", .cache_bytes = kCacheRoom};
  EXPECT_EQ(code(open_places("puppet://x", options).status()), "INVALID");
  puppet()->traits.promises |= CKPT_BACKEND_REMOTE;
  int reads = 0;
  on("read", [&](ckpt_error**) { return reads++, CKPT_OK; });
  for (int start = 0; start < 2; start++) {
    const auto opened = open_places("puppet://x", options);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    auto file = (*opened).store->open_cached("s1/PART_000", Content(100000), false);
    ASSERT_TRUE(file.ok()) << file.status().message();
    std::vector<std::byte> out(100000);
    ASSERT_TRUE((*file)->read_at(0, out).ok());
    EXPECT_EQ(as_text(out), std::string(100000, 'x'));
  }
  EXPECT_EQ(reads, 1);
}

TEST_F(Puppets, ACallThatHangsIsLeftBehindAndReleaseComesAfterIt) {
  ASSERT_TRUE(put("a", "x").ok());
  const auto held = puppet();
  // The thread may use it longer than this test lasts.
  const auto answers = std::make_shared<std::latch>(1);
  on("read", [answers](ckpt_error**) {
    answers->wait();
    return CKPT_OK;
  });
  auto read = [kept = std::move(store)](Job&) { return kept->get("a", 10); };
  const Status told = make_apart<std::vector<std::byte>>(std::make_shared<Job>(), 100, std::move(read)).status();
  EXPECT_EQ(told.code(), CKPT_TIMEOUT) << told.message();
  EXPECT_NE(told.message().find("read of puppet://host/run7/a"), std::string::npos) << told.message();
  EXPECT_NE(told.message().find("left behind"), std::string::npos) << told.message();
  const auto released = [&] {
    std::lock_guard lock(held->mutex);
    return held->released;
  };
  EXPECT_EQ(released(), 0);
  answers->count_down();
  while (released() == 0) std::this_thread::yield();
  EXPECT_EQ(held->late, 0);
}

TEST_F(Puppets, ACallThatEndsItsThreadEndsTheCallOfTheEngine) {
  ASSERT_TRUE(put("a", "x").ok());
  on("read", [](ckpt_error**) -> ckpt_status { pthread_exit(nullptr); });
  const auto read_some = [kept = store](Job&) {
    return for_each_parallel(3, 6, [&](size_t) { return kept->get("a", 10).status(); });
  };
  const Status told = run_apart(std::make_shared<Job>(), 60000, read_some);
  EXPECT_EQ(told.code(), CKPT_INTERNAL);
  EXPECT_NE(told.message().find("pthread_exit"), std::string::npos) << told.message();
}

// The put of a save that was left behind must not replace the tombstone by which the next session closed it.
TEST_F(Puppets, NoPutComesBesideOneThatWasLeftBehindWherePutsLookFirst) {
  puppet()->traits.promises = CKPT_BACKEND_DURABLE;
  store = open_puppet(false);
  const auto answers = std::make_shared<std::latch>(1);
  const auto publishes = std::make_shared<std::atomic<int>>(0);
  on("publish", [answers, publishes](ckpt_error**) {
    (*publishes)++;
    answers->wait();
    return CKPT_OK;
  });
  const auto put_as = [&](const char* text) {
    const auto work = [kept = open_puppet(false), text](Job&) {
      return kept->put_if_absent("s1/MANIFEST", as_bytes(text));
    };
    return run_apart(std::make_shared<Job>(), 100, work);
  };
  EXPECT_EQ(put_as("a commit").code(), CKPT_TIMEOUT);
  const Status late = put_as("a tombstone");
  EXPECT_EQ(late.code(), CKPT_TIMEOUT);
  EXPECT_NE(late.message().find("an earlier put has not ended"), std::string::npos) << late.message();
  EXPECT_EQ(*publishes, 1);
  answers->count_down();
  while (puppet()->text("s1/MANIFEST") == "<none>") std::this_thread::yield();
  EXPECT_EQ(code(store->put_if_absent("s1/MANIFEST", as_bytes("a tombstone"))), "EXISTS");
  EXPECT_EQ(puppet()->text("s1/MANIFEST"), "a commit");
}

TEST_F(Puppets, ReleaseComesOnceAndNothingComesAfterIt) {
  ASSERT_TRUE(put("a", "x").ok());
  const auto held = puppet();
  auto reader = store->open("a");
  auto writer = store->create("b", 1);
  store.reset();
  EXPECT_EQ(held->released, 0);
  std::byte out[1];
  EXPECT_TRUE((*reader)->read_at(0, out).ok());
  reader = Status();
  writer = Status();
  EXPECT_EQ(held->released, 1);
  EXPECT_EQ(held->late, 0);
  EXPECT_EQ(held->files, 0) << "what was written is discarded";
  say("open", CKPT_INVALID);
  EXPECT_EQ(code(open_store("puppet://x", {}).status()), "INVALID");
  EXPECT_EQ(held->released, 1);
}

// ---- promises ----

// What a backend does otherwise than ckpt_backend.h says, and the promises that ckpt_backend_check finds broken.
struct Breach {
  std::string name, promises;
  void (*make)(ckpt_backend* calls);
};

// Lists as those of a puppet, told by another.
using Tell = ckpt_status (*)(const ckpt_backend_found found, void* list, const char* name, ckpt_backend_file file,
                             int number);
template <Tell tell>
ckpt_status list_by(void* context, const char* directory, ckpt_backend_found found, void* list, ckpt_error** err) {
  struct Told {
    ckpt_backend_found found;
    void* list;
    int number = 0;
  } told{found, list};
  const auto each = [](void* at, const char* name, const ckpt_backend_file* file) -> ckpt_status {
    auto& to = *static_cast<Told*>(at);
    return tell(to.found, to.list, name, *file, to.number++);
  };
  return puppets::list(context, directory, each, &told, err);
}

constexpr auto kPage = [](ckpt_backend_found found, void* list, const char* name, ckpt_backend_file file,
                          int number) -> ckpt_status { return number < 1000 ? found(list, name, &file) : CKPT_OK; };
constexpr auto kLarger = [](ckpt_backend_found found, void* list, const char* name, ckpt_backend_file file,
                            int) -> ckpt_status { return file.size++, found(list, name, &file); };
constexpr auto kLate = [](ckpt_backend_found found, void* list, const char* name, ckpt_backend_file file,
                          int) -> ckpt_status {
  return file.version == "v" + std::to_string(puppet()->versions) ? CKPT_OK : found(list, name, &file);
};

const Breach kBreaches[] = {
    {"none", "", [](ckpt_backend*) {}},
    {"a page in the place of a list", "long_list", [](ckpt_backend* calls) { calls->list = list_by<kPage>; }},
    {"lists with other sizes", "lists", [](ckpt_backend* calls) { calls->list = list_by<kLarger>; }},
    {"lists that lag", "lists long_list", [](ckpt_backend* calls) { calls->list = list_by<kLate>; }},
    {"names without case", "lists",
     [](ckpt_backend* calls) {
       calls->create = [](void* context, const char* key, uint64_t size, int32_t how, void** file, ckpt_error** err) {
         std::string lower = key;
         std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
         return puppets::create(context, lower.c_str(), size, how, file, err);
       };
     }},
    {"half a file", "whole_at_once",
     [](ckpt_backend* calls) {
       calls->publish = [](void* context, void* file, ckpt_error** err) -> ckpt_status {
         const auto& [key, bytes, how] = *static_cast<Puppet::File*>(file);
         if (key.ends_with("/whole")) {
           for (std::string half : {bytes.substr(0, 1000), std::string()}) {
             {
               const std::lock_guard lock(puppet()->mutex);
               half.empty() ? void(puppet()->objects.erase(key)) : void(puppet()->objects[key] = {half, "half", 0});
             }
             std::this_thread::sleep_for(std::chrono::milliseconds(half.empty() ? 0 : 100));
           }
         }
         return puppets::publish(context, file, err);
       };
     }},
    {"large files that replace", "publish_if_absent",
     [](ckpt_backend* calls) {
       calls->publish = [](void* context, void* file, ckpt_error** err) {
         auto& to = *static_cast<Puppet::File*>(file);
         if (to.bytes.size() > 65536) to.how = CKPT_BACKEND_OVER;
         return puppets::publish(context, file, err);
       };
     }},
    {"NOT_FOUND of what is gone", "versions",
     [](ckpt_backend* calls) {
       calls->read = [](void* context, const char* key, const char* version, uint64_t offset, void* buffer,
                        uint64_t size, uint64_t* done, ckpt_error** err) -> ckpt_status {
         const ckpt_status told = puppets::read(context, key, version, offset, buffer, size, done, err);
         return told == CKPT_GONE ? CKPT_NOT_FOUND : told;
       };
     }},
    {"files that do not age", "ages",
     [](ckpt_backend*) { puppet()->twist = [](ckpt_backend_file* file) { file->age_ms = 0; }; }},
    {"ages in seconds", "ages",
     [](ckpt_backend*) { puppet()->twist = [](ckpt_backend_file* file) { file->age_ms /= 1000; }; }},
};

TEST_F(Puppets, ACheckFindsWhateverABackendDoesOtherwise) {
  int number = 0;
  for (const auto& [name, broken, make] : kBreaches) {
    SCOPED_TRACE(name);
    puppet() = std::make_shared<Puppet>();
    puppet()->before = [](const std::string&, const std::string&, ckpt_error**) -> ckpt_status {
      const std::lock_guard lock(puppet()->mutex);
      puppet()->now_ms = steady_ms();
      return CKPT_OK;
    };
    // To look at them takes two seconds.
    if (name != "none" && broken != "ages") puppet()->traits.promises &= ~uint32_t{CKPT_BACKEND_AGES};
    ckpt_backend calls = puppets::kCalls;
    make(&calls);
    const std::string scheme = "breach" + std::to_string(number++);
    ASSERT_EQ(ckpt_backend_register(scheme.c_str(), &calls, nullptr), CKPT_OK);
    const auto promises = maintain::check_store(**open_store(scheme + "://x", {}));
    ASSERT_TRUE(promises.ok()) << promises.status().message();
    for (const auto& [tried, state, found] : *promises)
      EXPECT_EQ(state == maintain::Promise::kBroken, (" " + broken + " ").find(" " + tried + " ") != std::string::npos)
          << tried << ": " << found;
    EXPECT_TRUE(puppet()->objects.empty());
  }
}

TEST_F(Puppets, APutThatIsNotExclusiveIsFoundBeforeASave) {
  EXPECT_EQ(code(store->prepare()), "OK");
  EXPECT_TRUE(puppet()->objects.empty());
  puppet()->before = [](const std::string& call, const std::string& key, ckpt_error**) {
    if (call == "publish") puppet()->objects.erase(key);  // so it lets all of them in
    return CKPT_OK;
  };
  EXPECT_EQ(code(open_puppet(false)->prepare()), "UNSUPPORTED");
}

TEST_F(Puppets, AListDelayBeyondAMinuteIsRefused) {
  puppet()->traits.list_delay_ms = INT64_MAX;
  EXPECT_EQ(code(open_store("puppet://x", {}).status()), "IO");
}

TEST_F(Puppets, AStoreThatIsOnlyReadSaysSoToWhateverWrites) {
  ASSERT_TRUE(put("a", "x").ok());
  ckpt_backend calls = puppets::kCalls;
  calls.create = nullptr;
  calls.append = nullptr, calls.publish = nullptr, calls.discard = nullptr, calls.remove = nullptr;
  ASSERT_EQ(ckpt_backend_register("reads", &calls, nullptr), CKPT_OK);
  const auto reads = *open_store("reads://x", {});
  EXPECT_EQ(read_text(*reads, "a"), "x");
  for (const Status& status : {reads->prepare(), reads->put_if_absent("b", {}), reads->remove("a", true),
                               reads->create("b", 0).status(), reads->put_over("a", {})})
    EXPECT_EQ(code(status), "UNSUPPORTED") << status.message();
}

TEST_F(Puppets, ASchemeIsRegisteredOnceAndOnlyIfItIsOneAndWhole) {
  const auto told = [](const char* scheme, ckpt_backend calls = puppets::kCalls) {
    return ckpt_backend_register(scheme, &calls, nullptr);
  };
  EXPECT_EQ(told("once"), CKPT_OK);
  EXPECT_EQ(told("once"), CKPT_EXISTS);
  for (const char* scheme : {"", "x", "Mine", "1st", "my scheme", "my_scheme", "s3", "gs", "mem", "file", "https",
                             "a-scheme-of-more-than-32-characters"})
    EXPECT_EQ(told(scheme), CKPT_INVALID) << scheme;
  ckpt_backend calls = puppets::kCalls;
  calls.look = nullptr;
  EXPECT_EQ(told("blind", calls), CKPT_INVALID);
  calls = puppets::kCalls;
  calls.publish = nullptr;
  EXPECT_EQ(told("half", calls), CKPT_INVALID);
  calls = puppets::kCalls;
  calls.reserved = 1;
  EXPECT_EQ(told("newer", calls), CKPT_UNSUPPORTED);
  EXPECT_EQ(ckpt_backend_register(nullptr, &calls, nullptr), CKPT_INVALID);
  EXPECT_EQ(ckpt_backend_register("null", nullptr, nullptr), CKPT_INVALID);
}

// ---- removals ----

class Removals : public Puppets {
 protected:
  void SetUp() override {
    for (const char* key : {"s1/PART_000", "s1/MANIFEST"}) ASSERT_TRUE(put(key, "x").ok());
  }
  Status retire() { return store->retire("s1", "MANIFEST", as_bytes("a tombstone")); }
  // After hours, and a new start.
  std::string names_after(int hours) {
    pass_hours(hours);
    EXPECT_EQ(code(store->finish_removals()), "OK");
    EXPECT_EQ(code(open_puppet(false)->prepare()), "OK");
    return names(*store, "s1");
  }
};

TEST_F(Removals, ATombstoneStaysAnHourOfTheStoresClock) {
  ASSERT_EQ(code(retire()), "OK");
  EXPECT_EQ(names_after(0), "MANIFEST");
  ASSERT_TRUE(put("s1/PART_001", "late").ok());
  EXPECT_EQ(names_after(0), "MANIFEST") << "what came late goes too";
  EXPECT_EQ(names_after(2), "<NOT_FOUND>");
  EXPECT_TRUE(puppet()->objects.empty());
}

TEST_F(Removals, WithoutAClockATombstoneStaysUntilTheNextStart) {
  puppet()->traits.promises = CKPT_BACKEND_EXCLUSIVE;
  store = open_puppet(false);
  ASSERT_EQ(code(retire()), "OK");
  ASSERT_EQ(code(store->finish_removals()), "OK");
  EXPECT_EQ(names(*store, "s1"), "MANIFEST");
  EXPECT_EQ(names_after(0), "<NOT_FOUND>");
}

TEST_F(Removals, WhereOneProcessWritesATombstoneGoesAtOnce) {
  puppet()->traits.promises = 0;
  store = open_puppet(false);
  ASSERT_EQ(code(retire()), "OK");
  ASSERT_EQ(code(store->finish_removals()), "OK");
  EXPECT_TRUE(puppet()->objects.empty());
}

TEST_F(Removals, WithoutAClockTheProbeOfAnotherSessionOfTheProcessStays) {
  puppet()->traits.promises = 0;
  const std::string probe = strformat("{}/{}x", kTrashDir, kProbePrefix);
  ASSERT_TRUE(put(probe, "probe").ok());
  store = open_puppet(false);
  EXPECT_EQ(code(store->prepare()), "OK");
  EXPECT_EQ(puppet()->text(probe), "probe");
}

TEST_F(Removals, WhoMeetsATombstoneThatIsPutAgainHearsThatItIsRemoved) {
  ASSERT_EQ(code(retire()), "OK");
  on("read", [](ckpt_error**) {  // another's comes between his look and his read
    puppet()->before = nullptr;
    return puppet()->objects.at("s1/MANIFEST").version = "another's", CKPT_OK;
  });
  EXPECT_EQ(code(retire()), "NOT_FOUND");
}

TEST_F(Removals, ThatACrashInterruptedAreFinishedOrForgotten) {
  say("remove", CKPT_IO);  // after the tombstone
  ASSERT_EQ(code(retire()), "OK");
  puppet()->before = nullptr;
  EXPECT_EQ(names_after(0), "MANIFEST");
  for (const char* key : {"s2/PART_000", "s2/MANIFEST"}) ASSERT_TRUE(put(key, "x").ok());
  puppet()->before = [](const std::string& call, const std::string& key, ckpt_error**) {
    return call == "publish" && key == "s2/MANIFEST" ? CKPT_IO : CKPT_OK;  // before it
  };
  EXPECT_NE(store->retire("s2", "MANIFEST", as_bytes("a tombstone")).detail("undecided"), nullptr);
  puppet()->before = nullptr;
  EXPECT_EQ(names_after(2), "<NOT_FOUND>");
  EXPECT_EQ(names(*store, "s2"), "MANIFEST PART_000");
  EXPECT_EQ(names(*store, kTrashDir), "<NOT_FOUND>");
}

}  // namespace
}  // namespace ckpt::store

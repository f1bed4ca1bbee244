// The store on an S3 server: StoreSuite, and what is special about it. Runs where tests/s3/run.sh has started one.
#include "base/text.h"
#include "s3/fault_proxy.h"
#include "s3/server.h"
#include "store/keys.h"
#include "store/s3/s3_writer.h"
#include "store/store_suite.h"

namespace ckpt::store {
namespace {

class S3Home final : public Home {
 public:
  std::shared_ptr<Store> open() override { return open(s3_options()); }
  std::shared_ptr<Store> open(const S3Options& options) const {
    auto store = open_s3(uri_, options);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? store.take() : nullptr;
  }
  std::shared_ptr<Store> open(const FaultProxy& proxy, const S3Timing& timing = {}) const {
    S3Options options = s3_options();
    options.endpoint = proxy.endpoint();
    options.timing = timing;
    return open(options);
  }
  std::shared_ptr<s3::Client> client() const { return *s3::Client::make(uri_, s3_options()); }

 private:
  const std::string uri_ = fresh_s3_uri();
};

std::vector<Backend> s3_backends() {
  if (!s3_endpoint()) return {};
  return {Backend{"S3", [] { return std::make_unique<S3Home>(); }}};
}
INSTANTIATE_TEST_SUITE_P(S3, StoreSuite, testing::ValuesIn(s3_backends()), testing::PrintToStringParamName());

class S3Special : public testing::TestWithParam<Backend> {
 protected:
  S3Home home;
  std::shared_ptr<Store> store = home.open();
};
INSTANTIATE_TEST_SUITE_P(S3, S3Special, testing::ValuesIn(s3_backends()), testing::PrintToStringParamName());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(S3Special);

// Writes the bytes in pieces as a part has them: a page, blocks, a tail. Its blocks come from several threads.
Status write_in_pieces(Store& store, std::string_view key, Bytes bytes, uint64_t expected) {
  CKPT_ASSIGN(auto writer, store.create(key, expected));
  constexpr size_t kSizes[] = {4096, 8 << 20, 5 << 20, 1 << 20, 3 << 20, 7 << 20, 8 << 20, 100000, 9 << 20};
  std::vector<Status> told(std::size(kSizes) + 1);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0, at = 0; at < bytes.size(); i++) {
      const size_t size = i < std::size(kSizes) ? std::min(kSizes[i], bytes.size() - at) : bytes.size() - at;
      threads.emplace_back([&, i, at, size] { told[i] = writer->write_at(at, bytes.subspan(at, size)); });
      at += size;
    }
  }
  for (const Status& status : told) CKPT_TRY(status);
  return writer->publish(bytes.size());
}

// An option or a variable of the environment, as long as a test runs.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

void expect_refused(const Status& status, const std::string& http, const std::string& s3_code) {
  EXPECT_EQ(code(status), "IO") << status.message();
  for (const char* key : {"path", "bucket", "key", "http_status", "s3_code", "request_id"})
    EXPECT_NE(status.detail(key), nullptr) << key << ": " << status.message();
  EXPECT_EQ(status.detail("http_status") ? *status.detail("http_status") : "", http);
  EXPECT_EQ(status.detail("s3_code") ? *status.detail("s3_code") : "", s3_code);
  EXPECT_NE(status.message().find("HTTP status " + http + " " + s3_code), std::string::npos) << status.message();
  for (const char* secret : {"testsecret", "not the secret"})
    EXPECT_EQ(status.message().find(secret), std::string::npos) << status.message();
}

TEST_P(S3Special, AFileOfAnySizeArrivesWholeInPartsOfAnyOrOneSize) {
  for (const bool uniform : {false, true}) {
    S3Options options = s3_options();
    options.uniform = uniform;
    auto writing = home.open(options);
    for (size_t size : {8 << 20, (8 << 20) + 1, 16 << 20, 37 << 20, 43 << 20}) {
      const std::string key = strformat("d/{}.{}", size, uniform ? "uniform" : "any");
      Pattern data(size, static_cast<unsigned>(size));
      ASSERT_EQ(code(write_in_pieces(*writing, key, data.bytes(), size)), "OK") << key;
      const auto found = store->get(key, size);
      ASSERT_TRUE(found.ok()) << found.status().message();
      EXPECT_TRUE(std::equal(found->begin(), found->end(), data.bytes().begin(), data.bytes().end())) << key;
      EXPECT_EQ(code(write_in_pieces(*writing, key, data.bytes(), size)), "EXISTS") << key;
      // The ETag of an upload ends in the number of its parts.
      const std::string etag = (*s3::look_at_object(*home.client(), key))->etag;
      const std::string parts = strformat("-{}\"", (size + (8 << 20) - 1) >> 23);
      EXPECT_TRUE(!uniform || etag.ends_with(parts)) << key << " " << etag;
    }
  }
  EXPECT_EQ(s3::list_uploads(*home.client(), "")->size(), 0u);
  EXPECT_EQ(code(store->remove_directory("d")), "OK");
}

TEST_P(S3Special, AWriterThatIsGivenUpEndsItsUpload) {
  Pattern data(9 << 20, 1);
  {
    auto writer = store->create("d/a", 9 << 20);
    ASSERT_EQ(code((*writer)->write_at(0, data.bytes())), "OK");
    EXPECT_EQ(s3::list_uploads(*home.client(), "d")->size(), 1u);
  }
  EXPECT_EQ(s3::list_uploads(*home.client(), "d")->size(), 0u);
}

TEST_P(S3Special, WhoeverRetiresAnAttemptEndsTheUploadsOfItsDeadWriters) {
  Pattern data(9 << 20, 1);
  auto writer = store->create("s1/PART_000", 9 << 20);
  ASSERT_EQ(code((*writer)->write_at(0, data.bytes())), "OK");
  ASSERT_EQ(code(store->put_if_absent("s1/MANIFEST", as_bytes("a tombstone"))), "OK");
  ASSERT_EQ(code(home.open()->retire("s1", "MANIFEST", {})), "OK");
  EXPECT_EQ(s3::list_uploads(*home.client(), "s1")->size(), 0u);
  EXPECT_EQ(code((*writer)->publish(9 << 20)), "NOT_FOUND");
  EXPECT_EQ(names(*store, "s1"), "MANIFEST");
}

TEST_P(S3Special, WritesThatComeOutOfOrderForEverAreNoPart) {
  auto writer = store->create("d/a", 0);
  ASSERT_EQ(code((*writer)->write_at(0, as_bytes("12"))), "OK");
  EXPECT_EQ(code((*writer)->write_at(0, as_bytes("12"))), "INVALID");
  EXPECT_EQ(code((*writer)->publish(3)), "INVALID");
  EXPECT_EQ(names(*store, "d"), "<NOT_FOUND>");
}

// As if the engine had lost the bytes between.
TEST_P(S3Special, AWriteThatWaitsForOthersEndsWhenTheFileIsGivenUp) {
  for (const bool published : {false, true}) {
    auto writer = store->create("d/a", 0);
    std::string told;
    std::jthread waiting([&] { told = code((*writer)->write_at(100, as_bytes("12"))); });
    if (published)
      EXPECT_NE(code((*writer)->publish(102)), "OK");
    else
      (*writer)->abandon();
    waiting.join();
    EXPECT_EQ(told, published ? "INVALID" : "IO");
    EXPECT_NE(code((*writer)->write_at(0, as_bytes("12"))), "OK");
  }
  EXPECT_EQ(names(*store, "d"), "<NOT_FOUND>");
}

TEST_P(S3Special, AReaderOfAnObjectThatIsReplacedOrRemovedGetsGone) {
  Pattern data(1 << 20, 1), other(1 << 20, 2);
  for (const bool replaced : {false, true}) {
    ASSERT_EQ(code(store->put_if_absent("d/a", data.bytes())), "OK");
    auto reader = store->open("d/a");
    std::vector<std::byte> out(1000);
    ASSERT_EQ(code((*reader)->read_at(0, out)), "OK");
    ASSERT_EQ(code(store->remove("d/a", true)), "OK");
    if (replaced) {
      ASSERT_EQ(code(store->put_if_absent("d/a", other.bytes())), "OK");
    }
    EXPECT_EQ((*reader)->read_at(0, out).code(), CKPT_GONE);
    (void)store->remove("d/a", true);
  }
}

// It is what it is: a record is refused, and a manifest can be looked into and repaired.
TEST_P(S3Special, AnObjectThatCameToHarmInTheBucketIsNoRecordButCanBeOpened) {
  const Bytes text = as_bytes("other bytes than the checksum");
  s3::Request request("PUT", "d/a");
  request.body = std::span(&text, 1);
  request.headers = {{std::string(s3::kChecksumHeader), "AAAAAA=="}};
  ASSERT_TRUE(home.client()->ask(request).good());
  EXPECT_EQ(store->get("d/a", 100).status().code(), CKPT_CORRUPT);
  auto file = store->open("d/a");
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::vector<std::byte> found(text.size());
  ASSERT_EQ(code((*file)->read_at(0, found)), "OK");
  EXPECT_TRUE(std::equal(found.begin(), found.end(), text.begin()));
}

// ---- removal ----

constexpr int64_t kMinute = 60;

// As a server sees it that much later.
void expect_nothing_left_after(FaultProxy& proxy, const S3Home& home, int64_t minutes) {
  proxy.shift_dates(minutes * kMinute);
  auto late = home.open(proxy);
  ASSERT_EQ(code(late->prepare()), "OK");
  EXPECT_EQ(names(*late, "s1"), "<NOT_FOUND>");
  EXPECT_EQ(names(*late, kTrashDir), "<NOT_FOUND>");
}

void put_checkpoint(Store& store, const std::string& directory) {
  for (const char* file : {"PART_000", "MANIFEST"})
    ASSERT_EQ(code(store.put_if_absent(directory + "/" + file, as_bytes("x"))), "OK");
}

// A network that repeats a request does so at any time until the server refuses its signature.
TEST_P(S3Special, ARepeatedPutThatComesAfterTheRemovalBringsNothingBack) {
  for (const char* file : {"MANIFEST", "PART_000"}) {
    FaultProxy proxy(s3_endpoint());
    proxy.script([&](const std::string& line) {
      if (line.starts_with("PUT") && line.ends_with(file)) proxy.arm(Fault::kLate, 1);
      return "";
    });
    put_checkpoint(*home.open(proxy), "s1");
    proxy.script(nullptr);
    ASSERT_EQ(code(store->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "OK");
    const std::string told = proxy.repeat();
    EXPECT_NE(told.find(file[0] == 'M' ? " 412 " : " 200 "), std::string::npos) << told;
    EXPECT_EQ(read_text(*store, "s1/MANIFEST"), "a tombstone");
    expect_nothing_left_after(proxy, home, 61);
  }
}

TEST_P(S3Special, ATombstoneIsSweptAnHourLaterByWhoeverPreparesOrRemoves) {
  FaultProxy proxy(s3_endpoint());
  put_checkpoint(*store, "s1");
  ASSERT_EQ(code(store->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "OK");
  proxy.shift_dates(59 * kMinute);
  auto other = home.open(proxy);
  ASSERT_EQ(code(other->prepare()), "OK");
  EXPECT_EQ(names(*store, "s1"), "MANIFEST");
  proxy.shift_dates(61 * kMinute);
  put_checkpoint(*store, "s2");
  ASSERT_EQ(code(other->retire("s2", "MANIFEST", as_bytes("a tombstone"))), "OK");
  EXPECT_EQ(names(*store, "s1"), "<NOT_FOUND>");
}

// A removal whose process died: of s1 after its tombstone, of s2 before it.
TEST_P(S3Special, TheNextOwnerFinishesARemovalThatWasInterruptedAndNoOther) {
  auto client = home.client();
  const std::string number = to_hex(random_id());
  for (const char* directory : {"s1", "s2"}) {
    put_checkpoint(*store, directory);
    ASSERT_EQ(code(store->put_if_absent(trash_key(directory, random_id()),
                                        as_bytes(strformat("{}\nMANIFEST\n{}\n", directory, number)))),
              "OK");
  }
  const std::string etag = (*s3::look_at_object(*client, "s1/MANIFEST"))->etag;
  ASSERT_EQ(code(s3::replace_object(*client, "s1/MANIFEST", etag, number, as_bytes("a tombstone"))), "OK");
  ASSERT_EQ(code(store->prepare()), "OK");
  EXPECT_EQ(names(*store, "s1"), "MANIFEST");
  EXPECT_EQ(names(*store, "s2"), "MANIFEST PART_000");
  EXPECT_EQ(store->list(kTrashDir)->size(), 2u) << "the removal of s2 may be going on";
  FaultProxy proxy(s3_endpoint());
  expect_nothing_left_after(proxy, home, 61);
  EXPECT_EQ(names(*store, "s2"), "MANIFEST PART_000");
}

std::string is_denied(const std::string& line, const std::string& verb) {
  return line.starts_with(verb) ? error_answer("403 Forbidden", "AccessDenied") : "";
}

TEST_P(S3Special, WhoeverMayNotDeleteRemovesNothing) {
  FaultProxy proxy(s3_endpoint());
  put_checkpoint(*store, "s1");
  proxy.script([](const std::string& line) { return is_denied(line, "DELETE"); });
  const Status refused = home.open(proxy)->retire("s1", "MANIFEST", as_bytes("a tombstone"));
  EXPECT_EQ(code(refused), "IO");
  EXPECT_NE(refused.message().find("AccessDenied"), std::string::npos) << refused.message();
  EXPECT_EQ(read_text(*store, "s1/MANIFEST"), "x");
  EXPECT_EQ(names(*store, "s1"), "MANIFEST PART_000");
}

TEST_P(S3Special, OnceTheTombstoneIsThereTheRemovalIsDoneAndTheRestIsEndedLater) {
  FaultProxy proxy(s3_endpoint());
  put_checkpoint(*store, "s1");
  proxy.script(
      [](const std::string& line) { return line.ends_with("PART_000") ? is_denied(line, "DELETE") : std::string(); });
  auto denied = home.open(proxy);
  EXPECT_EQ(code(denied->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "OK");
  EXPECT_EQ(names(*store, "s1"), "MANIFEST PART_000");
  EXPECT_EQ(code(denied->prepare()), "OK") << "what cannot be deleted stops no session";
  EXPECT_EQ(code(store->prepare()), "OK");
  EXPECT_EQ(names(*store, "s1"), "MANIFEST");
}

TEST_P(S3Special, AnAnswerToTheTombstoneThatGotLostIsSettledWhateverComesAfterIt) {
  FaultProxy proxy(s3_endpoint());
  put_checkpoint(*store, "s1");
  int puts = 0;
  proxy.script([&](const std::string& line) {
    if (!line.starts_with("PUT") || !line.ends_with("s1/MANIFEST")) return std::string();
    if (++puts == 1) proxy.arm(Fault::kLost, 1);
    return puts == 1 ? std::string() : error_answer("507 Insufficient Storage", "QuotaExceeded");
  });
  EXPECT_EQ(code(home.open(proxy)->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "OK");
  EXPECT_EQ(names(*store, "s1"), "MANIFEST");
}

// What a writer that is not dead completes while its attempt is being removed.
TEST_P(S3Special, APartThatAppearsDuringTheRemovalGoesWithTheOthers) {
  for (const bool has_tombstone : {false, true}) {
    const std::string directory = has_tombstone ? "s2" : "s1";
    FaultProxy proxy(s3_endpoint());
    put_checkpoint(*store, directory);
    Pattern data(9 << 20, 1);
    auto writer = store->create(directory + "/PART_001", 9 << 20);
    ASSERT_EQ(code((*writer)->write_at(0, data.bytes())), "OK");
    std::string published;
    proxy.script([&](const std::string& line) {
      const bool now = has_tombstone ? line.starts_with("GET") && line.find("uploads=") != line.npos
                                     : line.starts_with("PUT") && line.ends_with("s1/MANIFEST");
      if (now && published.empty()) published = code((*writer)->publish(9 << 20));
      return "";
    });
    EXPECT_EQ(code(home.open(proxy)->retire(directory, "MANIFEST", as_bytes(has_tombstone ? "" : "a tombstone"))),
              "OK");
    EXPECT_EQ(published, "OK");
    EXPECT_EQ(names(*store, directory), "MANIFEST");
  }
}

TEST_P(S3Special, KeysMayHaveOddCharacters) {
  std::string all;
  for (const char* name : {"a b", "a+b", "a=b&c", "\xc3\xa9", "()!*'", "a%20b", "<&>", "a\"b", "~", "a;b:c@d,$"}) {
    ASSERT_EQ(code(store->put_if_absent(std::string("d/") + name, as_bytes(name))), "OK") << name;
    EXPECT_EQ(read_text(*store, std::string("d/") + name), name);
    EXPECT_TRUE(*store->exists(std::string("d/") + name));
  }
  const auto entries = *store->list("d");
  EXPECT_EQ(entries.size(), 10u);
  for (const Entry& entry : entries) EXPECT_EQ(read_text(*store, "d/" + entry.name), entry.name);
  EXPECT_EQ(code(store->remove_directory("d")), "OK");
}

TEST_P(S3Special, AListingGoesOnFromPageToPage) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; t++)
    threads.emplace_back([&, t] {
      for (int i = t; i < 1100; i += 8)
        EXPECT_EQ(code(store->put_if_absent("d/" + std::to_string(10000 + i), as_bytes("x"))), "OK");
    });
  threads.clear();
  const auto entries = store->list("d");
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 1100u);
  EXPECT_EQ((*entries)[1099].name, "11099");
  EXPECT_EQ(*store->bytes_in("d"), 1100u);
  EXPECT_EQ(code(store->remove_directory("d")), "OK");
  EXPECT_EQ(names(*store, "d"), "<NOT_FOUND>");
}

TEST_P(S3Special, AFileIsAskedForByOneRequestAndADirectoryByAnother) {
  FaultProxy proxy(s3_endpoint());
  auto asking = home.open(proxy);
  ASSERT_EQ(code(store->put_if_absent("d/a", as_bytes("x"))), "OK");
  EXPECT_TRUE(*asking->exists("d/a"));
  EXPECT_FALSE(*asking->exists("d/b"));
  EXPECT_FALSE(*asking->exists("d"));
  EXPECT_TRUE(*asking->has_directory("d"));
  EXPECT_FALSE(*asking->has_directory("e"));
  EXPECT_EQ(proxy.requests(), 5u);
}

// As consoles and mounted buckets make it: an empty object whose key ends in a slash.
TEST_P(S3Special, AMarkOfADirectoryHidesNothingInIt) {
  auto client = home.client();
  ASSERT_TRUE(client->ask(s3::Request("PUT", "d/")).good());
  EXPECT_FALSE(*store->has_directory("d"));
  ASSERT_EQ(code(store->put_if_absent("d/a", as_bytes("x"))), "OK");
  EXPECT_TRUE(*store->has_directory("d"));
  EXPECT_EQ(names(*store, "d"), "a");
}

// ---- what a server may refuse, or be unable to do ----

TEST_P(S3Special, AServerThatIgnoresConditionsIsUnsupportedUnlessThereIsOneWriter) {
  for (const char* verb : {"PUT", "POST"}) {
    FaultProxy proxy(s3_endpoint());
    proxy.ignore_conditions(verb);
    S3Options options = s3_options();
    options.endpoint = proxy.endpoint();
    const Status refused = home.open(options)->prepare();
    EXPECT_EQ(code(refused), "UNSUPPORTED") << verb;
    EXPECT_NE(refused.message().find("conditional_puts"), std::string::npos) << refused.message();
    options.conditional = false;
    auto alone = home.open(options);
    EXPECT_EQ(code(alone->prepare()), "OK");
    const std::string key = std::string("d/") + verb;
    EXPECT_EQ(code(alone->put_if_absent(key, as_bytes("1"))), "OK");
    EXPECT_EQ(code(alone->put_if_absent(key, as_bytes("2"))), "EXISTS");
    EXPECT_EQ(read_text(*alone, key), "1");
  }
}

// It lets two removals, or a removal and a repair, write over each other.
TEST_P(S3Special, AServerThatIgnoresIfMatchIsUnsupported) {
  FaultProxy proxy(s3_endpoint());
  int puts = 0;
  proxy.script([&](const std::string& line) {
    const bool third = line.starts_with("PUT") && line.find("probe.") != line.npos && ++puts == 3;
    return third ? "HTTP/1.1 200 OK\r\netag: \"x\"\r\ncontent-length: 0\r\n\r\n" : "";
  });
  const Status refused = home.open(proxy)->prepare();
  EXPECT_EQ(code(refused), "UNSUPPORTED");
  EXPECT_NE(refused.message().find("If-Match"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("conditional_puts"), std::string::npos) << refused.message();
}

TEST_P(S3Special, AServerThatKnowsNoConditionsIsUnsupportedAndSaysWhatToDo) {
  FaultProxy proxy(s3_endpoint());
  proxy.script([](const std::string& line) {
    return line.starts_with("PUT") ? error_answer("501 Not Implemented", "NotImplemented") : "";
  });
  const Status refused = home.open(proxy)->prepare();
  EXPECT_EQ(code(refused), "UNSUPPORTED");
  EXPECT_NE(refused.message().find("conditional_puts"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("NotImplemented"), std::string::npos) << refused.message();
}

TEST_P(S3Special, AServerIsProbedOnceAndWhatACrashLeftOfAProbeGoes) {
  FaultProxy proxy(s3_endpoint());
  auto first = home.open(proxy);
  ASSERT_EQ(code(first->prepare()), "OK");
  int writes = 0;
  proxy.script([&](const std::string& line) {
    writes += line.starts_with("PUT") || line.starts_with("POST") ? 1 : 0;
    return "";
  });
  ASSERT_EQ(code(first->prepare()), "OK");
  auto second = home.open(proxy);
  ASSERT_EQ(code(second->prepare()), "OK");
  EXPECT_EQ(writes, 0);
  const std::string probe = std::string(kTrashDir) + "/probe." + to_hex(random_id());
  ASSERT_EQ(code(store->put_if_absent(probe, as_bytes("probe"))), "OK");
  Pattern data(9 << 20, 1);
  auto upload = store->create(probe, 9 << 20);
  ASSERT_EQ(code((*upload)->write_at(0, data.bytes())), "OK");
  ASSERT_EQ(code(second->prepare()), "OK");
  EXPECT_EQ(read_text(*store, probe), "probe") << "it may be going on";
  proxy.shift_dates(61 * kMinute);
  ASSERT_EQ(code(second->prepare()), "OK");
  EXPECT_EQ(names(*store, kTrashDir), "<NOT_FOUND>");
  EXPECT_EQ(s3::list_uploads(*home.client(), "")->size(), 0u);
}

TEST_P(S3Special, WhoeverMayNotListIsToldSo) {
  FaultProxy proxy(s3_endpoint());
  proxy.script([](const std::string& line) {
    return line.find("list-type=2") != line.npos ? error_answer("403 Forbidden", "AccessDenied") : "";
  });
  auto denied = home.open(proxy);
  for (const Status& refused : {denied->prepare(), denied->list("").status(), denied->has_directory("d").status()}) {
    EXPECT_EQ(code(refused), "IO");
    EXPECT_NE(refused.message().find("AccessDenied"), std::string::npos) << refused.message();
  }
}

TEST_P(S3Special, WhoeverMayNotListUploadsLeavesThemToTheBucket) {
  FaultProxy proxy(s3_endpoint());
  proxy.script([](const std::string& line) {
    return line.find("uploads=") != line.npos && line.starts_with("GET") ? error_answer("403 Forbidden", "AccessDenied")
                                                                         : "";
  });
  auto denied = home.open(proxy);
  put_checkpoint(*denied, "s1");
  EXPECT_EQ(code(denied->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "OK");
  EXPECT_EQ(names(*store, "s1"), "MANIFEST");
  EXPECT_EQ(code(denied->prepare()), "OK");
}

// Each of its errors names what was asked of whom.
TEST_P(S3Special, WhoeverMayOnlyReadIsToldSo) {
  FaultProxy proxy(s3_endpoint());
  proxy.script([](const std::string& line) {
    return line.starts_with("GET") || line.starts_with("HEAD") ? std::string()
                                                               : error_answer("403 Forbidden", "AccessDenied");
  });
  auto reading = home.open(proxy);
  ASSERT_EQ(code(store->put_if_absent("d/a", as_bytes("x"))), "OK");
  expect_refused(reading->prepare(), "403", "AccessDenied");
  expect_refused(reading->put_if_absent("d/b", as_bytes("x")), "403", "AccessDenied");
  expect_refused(reading->remove("d/a", true), "403", "AccessDenied");
  Pattern data(9 << 20, 1);
  expect_refused(write_in_pieces(*reading, "d/c", data.bytes(), 9 << 20), "403", "AccessDenied");
  EXPECT_EQ(read_text(*reading, "d/a"), "x");
}

TEST_P(S3Special, TwoConditionalRequestsAtOnceAreTriedAgain) {
  for (const char* verb : {"PUT", "POST"}) {
    FaultProxy proxy(s3_endpoint());
    int refused = 0;
    proxy.script([&](const std::string& line) {
      const bool concerned = line.starts_with(verb) && line.find("?uploads=") == line.npos;
      return concerned && refused++ == 0 ? error_answer("409 Conflict", "ConditionalRequestConflict") : "";
    });
    Pattern data(9 << 20, 1);
    EXPECT_EQ(code(write_in_pieces(*home.open(proxy), std::string("d/") + verb, data.bytes(), 9 << 20)), "OK") << verb;
    EXPECT_GE(refused, 2) << verb;
  }
}

// AWS begins its answer before it knows how the completion ends.
TEST_P(S3Special, ACompletionThatFailsAfterAGoodStatusIsNoSuccess) {
  for (const char* s3_code : {"InternalError", "PreconditionFailed", "AccessDenied"}) {
    FaultProxy proxy(s3_endpoint());
    int completions = 0;
    proxy.script([&](const std::string& line) {
      const bool concerned = line.starts_with("POST") && line.find("?uploads=") == line.npos;
      return concerned && completions++ == 0 ? error_answer("200 OK", s3_code) : "";
    });
    Pattern data(9 << 20, 1);
    const std::string key = std::string("d/") + s3_code;
    const bool passing = std::string_view(s3_code) == "InternalError";
    EXPECT_EQ(code(write_in_pieces(*home.open(proxy), key, data.bytes(), 9 << 20)), passing ? "OK" : "IO") << s3_code;
    EXPECT_EQ(completions, passing ? 2 : 1);
    EXPECT_EQ(*store->exists(key), passing) << s3_code;
  }
  EXPECT_EQ(s3::list_uploads(*home.client(), "")->size(), 0u);
}

// ---- TLS ----

TEST_P(S3Special, TlsIsTrustedByCaFileOnly) {
  S3Options options = s3_options();
  options.endpoint = s3_tls_endpoint();
  options.ca_file = s3_certificate();
  auto safe = home.open(options);
  ASSERT_EQ(code(safe->prepare()), "OK");
  Pattern data(9 << 20, 1);
  ASSERT_EQ(code(write_in_pieces(*safe, "d/a", data.bytes(), 9 << 20)), "OK");
  const auto found = safe->get("d/a", 9 << 20);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_TRUE(std::equal(found->begin(), found->end(), data.bytes().begin(), data.bytes().end()));
  EXPECT_TRUE(*store->exists("d/a")) << "the same bucket";
}

TEST_P(S3Special, ACertificateThatIsNotTrustedOrOfAnotherNameEndsAtOnce) {
  const std::string endpoint = s3_tls_endpoint(), port = endpoint.substr(endpoint.rfind(':'));
  for (const auto& [server, trusted] : {std::pair(endpoint, s3_other_certificate()), std::pair(endpoint, std::string()),
                                        std::pair("https://localhost" + port, s3_certificate())}) {
    S3Options options = s3_options();
    options.endpoint = server;
    options.ca_file = trusted;
    const Status refused = home.open(options)->list("").status();
    EXPECT_EQ(code(refused), "IO") << server << " " << trusted;
    EXPECT_NE(refused.message().find("certificate"), std::string::npos) << refused.message();
  }
}

TEST_P(S3Special, AWrongBucketIsNamed) {
  auto elsewhere = *open_s3("s3://no-such-bucket/run", s3_options());
  expect_refused(elsewhere->prepare(), "404", "NoSuchBucket");
  expect_refused(elsewhere->list("").status(), "404", "NoSuchBucket");
}

TEST_P(S3Special, AWrongSecretIsNamedWithoutTellingIt) {
  Variable secret("AWS_SECRET_ACCESS_KEY", "not the secret");
  expect_refused(home.open()->prepare(), "403", "SignatureDoesNotMatch");
}

TEST_P(S3Special, AnUnknownKeyAndNoKeyAreNamed) {
  {
    Variable key("AWS_ACCESS_KEY_ID", "unknown");
    expect_refused(home.open()->prepare(), "403", "InvalidAccessKeyId");
  }
  Variable key("AWS_ACCESS_KEY_ID", "");
  const Status refused = home.open()->prepare();
  expect_refused(refused, "403", "AccessDenied");
  EXPECT_NE(refused.message().find("not signed"), std::string::npos) << refused.message();
}

// ---- servers that are none ----

// The heads of what a server is asked; it answers with an empty listing.
struct Listener {
  std::mutex mutex;
  std::vector<std::string> heads;
  HttpServer server{[this](int client, const std::string& head, const std::string&) {
    std::lock_guard lock(mutex);
    heads.push_back(head);
    return send_all(client, answer_of("200 OK", "<ListBucketResult></ListBucketResult>"));
  }};
  std::string port() const { return server.endpoint().substr(server.endpoint().rfind(':')); }
};

S3Options quick(const std::string& endpoint) {
  S3Options options;
  options.endpoint = endpoint;
  options.timing = {.connect_ms = 1000, .stall_s = 1, .retry_ms = 500, .first_ms = 300};
  return options;
}

TEST_P(S3Special, AServerThatIsNotThereIsIo) {
  const Status status = (*open_s3("s3://b", quick("http://127.0.0.1:1")))->prepare();
  EXPECT_EQ(code(status), "IO") << status.message();
  EXPECT_NE(status.message().find("http://127.0.0.1:1"), std::string::npos) << status.message();
}

TEST_P(S3Special, AServerThatIsNoneOfS3IsNoSuccess) {
  for (const char* body : {"", "<html>hello</html>", "<a>", "{}"}) {
    HttpServer server([body](int client, const std::string&, const std::string&) {
      return send_all(client, answer_of("200 OK", body));
    });
    auto other = *open_s3("s3://b", quick(server.endpoint()));
    EXPECT_FALSE(other->prepare().ok()) << body;
    EXPECT_FALSE(other->list("").ok()) << body;
    EXPECT_FALSE(other->open("x").ok()) << body;
    EXPECT_FALSE(other->exists("x").ok()) << body;
  }
}

TEST_P(S3Special, ARedirectIsNotFollowed) {
  std::atomic<int> asked = 0;
  HttpServer thief([&asked](int client, const std::string&, const std::string&) {
    asked++;
    return send_all(client, answer_of("200 OK", ""));
  });
  HttpServer server([&thief](int client, const std::string&, const std::string&) {
    return send_all(client, "HTTP/1.1 307 Temporary Redirect\r\nlocation: " + thief.endpoint() +
                                "/\r\nx-amz-bucket-region: eu-west-1\r\ncontent-length: 0\r\n\r\n");
  });
  const Status status = (*open_s3("s3://b", quick(server.endpoint())))->list("").status();
  EXPECT_EQ(code(status), "IO");
  EXPECT_NE(status.message().find("eu-west-1"), std::string::npos) << status.message();
  EXPECT_EQ(asked, 0);
}

TEST_P(S3Special, ABucketInTheHostIsSentAndSigned) {
  Listener listener;
  S3Options options = quick("http://localhost" + listener.port());
  options.path_style = "off";
  ASSERT_EQ(code((*open_s3("s3://b/run7", options))->list("").status()), "OK");
  ASSERT_EQ(listener.heads.size(), 1u);
  EXPECT_NE(listener.heads[0].find("\r\nHost: b.localhost" + listener.port() + "\r\n"), std::string::npos)
      << listener.heads[0];
  EXPECT_TRUE(listener.heads[0].starts_with("GET /?")) << listener.heads[0];
  EXPECT_NE(listener.heads[0].find("SignedHeaders=host;"), std::string::npos) << listener.heads[0];
}

TEST_P(S3Special, ASessionTokenIsSentAndSigned) {
  Variable token("AWS_SESSION_TOKEN", "a-token");
  Listener listener;
  ASSERT_EQ(code((*open_s3("s3://b", quick(listener.server.endpoint())))->list("").status()), "OK");
  ASSERT_EQ(listener.heads.size(), 1u);
  EXPECT_NE(listener.heads[0].find("\r\nx-amz-security-token: a-token\r\n"), std::string::npos) << listener.heads[0];
  EXPECT_NE(listener.heads[0].find(";x-amz-security-token,"), std::string::npos) << listener.heads[0];
}

TEST_P(S3Special, AWrongRegionIsNamedWithTheRightOne) {
  for (const char* status : {"400 Bad Request", "301 Moved Permanently"}) {
    const std::string body = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>x</Message></Error>";
    HttpServer server([&](int client, const std::string&, const std::string&) {
      return send_all(client, std::string("HTTP/1.1 ") + status + "\r\nx-amz-bucket-region: eu-west-1\r\n" +
                                  "x-amz-request-id: R1\r\ncontent-length: " + std::to_string(body.size()) +
                                  "\r\n\r\n" + body);
    });
    const Status refused = (*open_s3("s3://b", quick(server.endpoint())))->prepare();
    expect_refused(refused, std::string(status).substr(0, 3), "AuthorizationHeaderMalformed");
    EXPECT_NE(refused.message().find("eu-west-1: set option region"), std::string::npos) << refused.message();
    EXPECT_NE(refused.message().find("(request R1)"), std::string::npos) << refused.message();
  }
}

TEST_P(S3Special, AClockThatIsWrongIsSetByTheServersDateOnce) {
  std::atomic<int> asked = 0;
  std::string second_date;
  HttpServer server([&](int client, const std::string& head, const std::string&) {
    if (asked++ == 0)
      return send_all(client,
                      "HTTP/1.1 403 Forbidden\r\ndate: Thu, 01 Jan 2037 00:00:00 GMT\r\ncontent-length: 68\r\n\r\n"
                      "<Error><Code>RequestTimeTooSkewed</Code><Message>x</Message></Error>");
    second_date = head.substr(head.find("x-amz-date: ") + 12, 8);
    return send_all(client, answer_of("200 OK", "<ListBucketResult></ListBucketResult>"));
  });
  const auto listed = (*open_s3("s3://b", quick(server.endpoint())))->list("");
  EXPECT_TRUE(listed.ok()) << listed.status().message();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(second_date, "20370101");
}

// What a server answers, one after the other; the last one is a listing.
struct Answers {
  explicit Answers(std::vector<std::string> texts) : answers(std::move(texts)) {}
  std::vector<std::string> answers;
  std::atomic<size_t> asked = 0;
  HttpServer server{[this](int client, const std::string&, const std::string&) {
    const size_t number = asked++;
    return send_all(client, number < answers.size() ? answers[number]
                                                    : answer_of("200 OK", "<ListBucketResult></ListBucketResult>"));
  }};
};

TEST_P(S3Special, WhatIsMendedAtOnceHasItsTriesStillBeforeIt) {
  const std::string crowded = error_answer("503 Slow Down", "SlowDown"),
                    skewed =
                        "HTTP/1.1 403 Forbidden\r\ndate: Thu, 01 Jan 2037 00:00:00 GMT\r\ncontent-length: 0\r\n\r\n";
  Answers skew({skewed, crowded});
  EXPECT_EQ(code((*open_s3("s3://b", quick(skew.server.endpoint())))->list("").status()), "OK");
  EXPECT_EQ(skew.asked, 3u);
  Answers twice({skewed, skewed});
  EXPECT_EQ(code((*open_s3("s3://b", quick(twice.server.endpoint())))->list("").status()), "IO");
  EXPECT_EQ(twice.asked, 2u) << "a clock is set once";
}

TEST_P(S3Special, AServerThatAsksForMorePatienceThanThereIsIsAskedOnceMore) {
  const std::string later =
      "HTTP/1.1 503 Slow Down\r\nretry-after: 45\r\ncontent-length: 39\r\n\r\n<Error><Code>SlowDown</Code></Error>    ";
  Answers once({later});
  EXPECT_EQ(code((*open_s3("s3://b", quick(once.server.endpoint())))->list("").status()), "OK");
  EXPECT_EQ(once.asked, 2u);
  Answers always({later, later, later});
  EXPECT_EQ(code((*open_s3("s3://b", quick(always.server.endpoint())))->list("").status()), "IO");
  EXPECT_EQ(always.asked, 2u);
}

TEST_P(S3Special, ACrowdedServerIsAskedAgainWhenItSays) {
  std::atomic<int> asked = 0;
  HttpServer server([&](int client, const std::string&, const std::string&) {
    if (asked++ < 2) return send_all(client, answer_of("503 Slow Down", "<Error><Code>SlowDown</Code></Error>"));
    return send_all(client, answer_of("200 OK", "<ListBucketResult></ListBucketResult>"));
  });
  S3Options options = quick(server.endpoint());
  options.timing.retry_ms = 20000;
  EXPECT_EQ(code((*open_s3("s3://b", options))->list("").status()), "OK");
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace ckpt::store

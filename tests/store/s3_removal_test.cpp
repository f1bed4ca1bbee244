// Checkpoints are removed on an S3 server: by whoever dies, may not, comes late or at the same time.
#include "store/s3_fixture.h"

namespace ckpt::store {
namespace {

class S3Removal : public S3Special {};
CKPT_S3_SUITE(S3Removal);

// As a server sees it that much later.
void expect_nothing_left_after(FaultProxy& proxy, const S3Home& home, int64_t minutes) {
  proxy.shift_dates(minutes * kMinute);
  auto late = home.open(proxy);
  ASSERT_EQ(code(late->prepare()), "OK");
  EXPECT_EQ(names(*late, "s1"), "<NOT_FOUND>");
  EXPECT_EQ(names(*late, kTrashDir), "<NOT_FOUND>");
}

// A network that repeats a request does so at any time until the server refuses its signature.
TEST_P(S3Removal, ARepeatedPutThatComesAfterTheRemovalBringsNothingBack) {
  for (const char* file : {"MANIFEST", "PART_000"}) {
    FaultProxy proxy(s3_endpoint());
    proxy.script([&](const std::string& line) {
      if (puts_object(line, file)) proxy.arm(Fault::kLate, 1);
      return "";
    });
    put_checkpoint(*home.open(proxy), "s1");
    proxy.script(nullptr);
    ASSERT_EQ(code(store->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "OK");
    const std::string told = proxy.repeat();
    EXPECT_NE(told.find(file[0] == 'M' ? server_kind().refused : server_kind().done), std::string::npos) << told;
    EXPECT_EQ(read_text(*store, "s1/MANIFEST"), "a tombstone");
    expect_nothing_left_after(proxy, home, 61);
  }
}

// More than comes with the opening: its other bytes are asked for by their ETag, which is another one by then.
TEST_P(S3Removal, GetOfALargeObjectThatIsReplacedOnTheWayIsTheNewOne) {
  FaultProxy proxy(s3_endpoint());
  const auto other = home.open(proxy);
  const std::string first(300000, 'a'), second(300000, 'b');
  ASSERT_EQ(code(store->put_over("d/a", as_bytes(first))), "OK");
  int asked = 0;
  proxy.script([&](const std::string& line) {
    if (reads_object(line, "d/a") && ++asked == 2) {
      EXPECT_EQ(code(store->put_over("d/a", as_bytes(second))), "OK");
    }
    return "";
  });
  const auto found = other->get("d/a", 1 << 20);
  ASSERT_EQ(code(found.status()), "OK") << found.status().message();
  EXPECT_TRUE(as_text(*found) == second);
  EXPECT_GE(asked, 3);
}

TEST_P(S3Removal, ATombstoneIsSweptAnHourLaterByWhoeverPreparesOrRemoves) {
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
  EXPECT_TRUE(other->finish_removals().ok());
  EXPECT_EQ(names(*store, "s1"), "<NOT_FOUND>");
}

// A removal whose process died: of s1 after its tombstone, of s2 before it.
TEST_P(S3Removal, TheNextOwnerFinishesARemovalThatWasInterruptedAndNoOther) {
  auto client = home.client();
  const std::string number = to_hex(random_id());
  for (const char* directory : {"s1", "s2"}) {
    put_checkpoint(*store, directory);
    ASSERT_EQ(code(store->put_if_absent(trash_key(directory, random_id()),
                                        as_bytes(strformat("{}\nMANIFEST\n{}\n", directory, number)))),
              "OK");
  }
  const std::string etag = (*client->look("s1/MANIFEST"))->version;
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

TEST_P(S3Removal, WhoeverMayNotDeleteRemovesNothing) {
  FaultProxy proxy(s3_endpoint());
  put_checkpoint(*store, "s1");
  proxy.script([](const std::string& line) { return is_denied(line, "DELETE"); });
  const Status refused = home.open(proxy)->retire("s1", "MANIFEST", as_bytes("a tombstone"));
  EXPECT_EQ(code(refused), "IO");
  EXPECT_NE(refused.message().find("AccessDenied"), std::string::npos) << refused.message();
  EXPECT_EQ(read_text(*store, "s1/MANIFEST"), "x");
  EXPECT_EQ(names(*store, "s1"), "MANIFEST PART_000");
}

TEST_P(S3Removal, OnceTheTombstoneIsThereTheRemovalIsDoneAndTheRestIsEndedLater) {
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

TEST_P(S3Removal, AnAnswerToTheTombstoneThatGotLostIsSettledWhateverComesAfterIt) {
  FaultProxy proxy(s3_endpoint());
  put_checkpoint(*store, "s1");
  int seen = 0;
  proxy.script([&](const std::string& line) {
    if (!puts_object(line, "s1/MANIFEST")) return std::string();
    if (++seen == 1) proxy.arm(Fault::kLost, 1);
    return seen == 1 ? std::string() : error_answer("507 Insufficient Storage", "QuotaExceeded");
  });
  EXPECT_EQ(code(home.open(proxy)->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "OK");
  EXPECT_EQ(names(*store, "s1"), "MANIFEST");
}

// What a writer that is not dead completes while its attempt is being removed.
TEST_P(S3Removal, APartThatAppearsDuringTheRemovalGoesWithTheOthers) {
  for (const bool has_tombstone : {false, true}) {
    const std::string directory = has_tombstone ? "s2" : "s1";
    FaultProxy proxy(s3_endpoint());
    put_checkpoint(*store, directory);
    Pattern data(9 << 20, 1);
    auto writer = store->create(directory + "/PART_001", 9 << 20);
    ASSERT_EQ(code((*writer)->write_at(0, data.bytes())), "OK");
    std::string published;
    proxy.script([&](const std::string& line) {
      const bool now = has_tombstone ? line.starts_with("GET") && line.find(server_kind().removes_parts) != line.npos
                                     : puts_object(line, "s1/MANIFEST");
      if (now && published.empty()) published = code((*writer)->publish(9 << 20));
      return "";
    });
    EXPECT_EQ(code(home.open(proxy)->retire(directory, "MANIFEST", as_bytes(has_tombstone ? "" : "a tombstone"))),
              "OK");
    EXPECT_EQ(published, "OK");
    EXPECT_EQ(names(*store, directory), "MANIFEST");
  }
}

// ---- with a grace for readers ----

constexpr int64_t kGrace = 10 * kMinute;

std::shared_ptr<Store> open_with_grace(const S3Home& home, const FaultProxy& proxy, int64_t grace_ms = kGrace * 1000) {
  S3Options options = s3_options();
  options.endpoint = proxy.endpoint();
  options.grace_ms = grace_ms;
  return home.open(options);
}

TEST_P(S3Removal, ThePartsOfWhatIsRemovedStayForTheGraceByTheServersClock) {
  FaultProxy proxy(s3_endpoint());
  put_checkpoint(*store, "s1");
  auto graceful = open_with_grace(home, proxy), hasty = home.open(proxy);
  auto part = store->open_lazily("s1/PART_000"), slot = store->open_lazily("s1/MANIFEST");
  ASSERT_EQ(code(graceful->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "OK");
  EXPECT_EQ(code(hasty->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "NOT_FOUND") << "it is removed already";
  // The clock of a server that was set back tells nothing.
  for (const int64_t seconds : {int64_t{0}, kGrace - 1, int64_t{-3600}}) {
    proxy.shift_dates(seconds);
    EXPECT_TRUE(hasty->finish_removals().ok());
    ASSERT_EQ(code(hasty->prepare()), "OK");
    EXPECT_EQ(names(*store, "s1"), "MANIFEST MANIFEST.retired PART_000") << seconds;
  }
  for (const auto& file : {&part, &slot}) {
    char byte = 0;
    EXPECT_EQ(code((**file)->read_at(0, std::as_writable_bytes(std::span(&byte, 1)))), "OK");
    EXPECT_EQ(byte, 'x');
  }
  EXPECT_EQ(read_text(*store, "s1/MANIFEST"), "a tombstone");
  proxy.shift_dates(kGrace + 2);
  EXPECT_TRUE(hasty->finish_removals().ok());
  EXPECT_EQ(names(*store, "s1"), "MANIFEST");
  for (const auto& file : {&part, &slot}) {
    char byte = 0;
    EXPECT_EQ((**file)->read_at(0, std::as_writable_bytes(std::span(&byte, 1))).code(), CKPT_GONE);
  }
  expect_nothing_left_after(proxy, home, 75);
}

TEST_P(S3Removal, AGraceOfMoreThanAnHourIsKept) {
  FaultProxy proxy(s3_endpoint());
  put_checkpoint(*store, "s1");
  auto graceful = open_with_grace(home, proxy, 120 * kMinute * 1000);
  ASSERT_EQ(code(graceful->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "OK");
  proxy.shift_dates(119 * kMinute);
  ASSERT_EQ(code(graceful->prepare()), "OK");
  EXPECT_EQ(names(*store, "s1"), "MANIFEST MANIFEST.retired PART_000");
  expect_nothing_left_after(proxy, home, 121);
}

// What was put under its key later is another object, whatever its size.
TEST_P(S3Removal, ACopyOfAnotherObjectIsNotTakenForTheOneThatWasOpen) {
  FaultProxy proxy(s3_endpoint());
  put_checkpoint(*store, "s1");
  auto slot = home.open(proxy)->open_lazily("s1/MANIFEST");
  ASSERT_EQ(code(store->remove("s1/MANIFEST", true)), "OK");
  ASSERT_EQ(code(store->put_if_absent("s1/MANIFEST", as_bytes("y"))), "OK");
  ASSERT_EQ(code(open_with_grace(home, proxy)->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "OK");
  char byte = 0;
  EXPECT_EQ((*slot)->read_at(0, std::as_writable_bytes(std::span(&byte, 1))).code(), CKPT_GONE);
}

// A process that dies at a request is one whose later requests do not come.
void die_at(FaultProxy& proxy, int number) {
  auto count = std::make_shared<std::atomic<int>>(0);
  proxy.script([count, number](const std::string&) {
    return ++*count < number ? std::string() : error_answer("403 Forbidden", "AccessDenied");
  });
}

TEST_P(S3Removal, WhoeverDiesWhileRemovingOrDeletingLeavesACheckpointOrWhatTheNextOneDeletes) {
  int begun = 0, deleted = 0;
  for (const bool deletes : {false, true})
    for (int number = 1; number <= 16; number++) {
      SCOPED_TRACE(strformat("{} at request {}", deletes ? "deletes" : "removes", number));
      const std::string directory = strformat("s{}", number + (deletes ? 100 : 0));
      FaultProxy dying(s3_endpoint()), clock(s3_endpoint());
      put_checkpoint(*store, directory);
      auto victim = open_with_grace(home, dying);
      if (!deletes) die_at(dying, number);
      const Status told = victim->retire(directory, "MANIFEST", as_bytes("a tombstone"));
      if (deletes) {
        dying.shift_dates(kGrace + 2);
        die_at(dying, number);
        (void)victim->finish_removals();
        deleted += names(*store, directory) == "MANIFEST" ? 1 : 0;
      } else {
        ASSERT_EQ(code(store->prepare()), "OK");
        EXPECT_NE(names(*store, directory).find("PART_000"), std::string::npos) << "within the grace";
      }
      const bool removed = read_text(*store, directory + "/MANIFEST") == "a tombstone";
      EXPECT_TRUE(removed || !told.ok());
      begun += removed ? 1 : 0;
      clock.shift_dates(kGrace + 2);
      ASSERT_EQ(code(home.open(clock)->prepare()), "OK");
      if (removed)
        EXPECT_EQ(names(*store, directory), "MANIFEST");
      else
        EXPECT_NE(names(*store, directory).find("PART_000"), std::string::npos);
    }
  EXPECT_GT(begun, 16);
  EXPECT_LT(begun, 32) << "some died before the tombstone";
  EXPECT_GT(deleted, 0);
  EXPECT_LT(deleted, 16) << "some died before they deleted";
}

}  // namespace
}  // namespace ckpt::store

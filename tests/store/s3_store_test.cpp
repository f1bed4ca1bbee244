// The store on an S3 server: StoreSuite, and what is special about it.
#include "base/text.h"
#include "store/s3_fixture.h"

namespace ckpt::store {
namespace {

INSTANTIATE_TEST_SUITE_P(S3, StoreSuite, testing::ValuesIn(s3_backends()), testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(S3, NamesSuite, testing::ValuesIn(s3_backends()), testing::PrintToStringParamName());
CKPT_S3_SUITE(S3Special);

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
      const std::string etag = (*home.client()->look(key))->version;
      const std::string parts = strformat("-{}\"", (size + (8 << 20) - 1) >> 23);
      EXPECT_TRUE(!uniform || !is_s3() || etag.ends_with(parts)) << key << " " << etag;
    }
  }
  EXPECT_EQ(home.client()->list_uploads("")->size(), 0u);
  EXPECT_EQ(code(store->remove_directory("d")), "OK");
}

// S3: a begin and an end. Google: a composition, and a look at what it left. Azure: a list of the blocks.
TEST_P(S3Special, AFileOfThreePartsTakesTwoRequestsMore) {
  constexpr size_t kPart = 8 << 20;
  FaultProxy proxy(s3_endpoint());
  Pattern data(3 * kPart, 1);
  auto writer = home.open(proxy)->create("d/a", 3 * kPart);
  for (size_t at = 0; at < 3 * kPart; at += kPart)
    ASSERT_EQ(code((*writer)->write_at(at, data.bytes().subspan(at, kPart))), "OK");
  ASSERT_EQ(code((*writer)->publish(3 * kPart)), "OK");
  EXPECT_EQ(proxy.requests(), server_kind().keeps_uploads ? 5u : 4u);
}

// More than one composition takes.
TEST_P(S3Special, AFileOfManyPiecesIsWholeAndLeavesNone) {
  if (!is_gcs()) return;
  std::string text;
  cloud::ObjectWriter writer(home.client(), "d/a", 0, 1);
  for (int i = 0; i < 70; i++) {
    const std::string piece = std::to_string(i) + ",";
    ASSERT_EQ(code(writer.write_at(text.size(), as_bytes(piece))), "OK");
    text += piece;
  }
  ASSERT_EQ(code(writer.publish(text.size())), "OK");
  EXPECT_EQ(read_text(*store, "d/a"), text);
  EXPECT_EQ(home.client()->list_uploads("")->size(), 0u);
}

TEST_P(S3Special, AWriterThatIsGivenUpEndsItsUpload) {
  Pattern data(9 << 20, 1);
  {
    auto writer = store->create("d/a", 9 << 20);
    ASSERT_EQ(code((*writer)->write_at(0, data.bytes())), "OK");
    EXPECT_EQ(home.client()->list_uploads("d")->size(), s3_lists_uploads() ? 1u : 0u);
  }
  EXPECT_EQ(home.client()->list_uploads("d")->size(), 0u);
}

TEST_P(S3Special, WhoeverRetiresAnAttemptEndsTheUploadsOfItsDeadWriters) {
  Pattern data(9 << 20, 1);
  auto writer = store->create("s1/PART_000", 9 << 20);
  ASSERT_EQ(code((*writer)->write_at(0, data.bytes())), "OK");
  ASSERT_EQ(code(store->put_if_absent("s1/MANIFEST", as_bytes("a tombstone"))), "OK");
  ASSERT_EQ(code(home.open()->retire("s1", "MANIFEST", {})), "OK");
  EXPECT_EQ(home.client()->list_uploads("s1")->size(), 0u);
  // Where they cannot be listed, a writer that wakes up late does no harm: the slot is taken.
  EXPECT_EQ(code((*writer)->publish(9 << 20)), s3_lists_uploads() ? "NOT_FOUND" : "OK");
  EXPECT_EQ(names(*store, "s1"), s3_lists_uploads() ? "MANIFEST" : "MANIFEST PART_000");
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
  request.headers = {{"x-amz-meta-ckpt-crc32c", "AAAAAA=="}};
  ASSERT_TRUE(home.client()->ask(request).good());
  EXPECT_EQ(store->get("d/a", 100).status().code(), CKPT_CORRUPT);
  auto file = store->open("d/a");
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::vector<std::byte> found(text.size());
  ASSERT_EQ(code((*file)->read_at(0, found)), "OK");
  EXPECT_TRUE(std::equal(found.begin(), found.end(), text.begin()));
}

TEST_P(S3Special, KeysAndThePrefixMayHaveAnyCharacter) {
  std::vector<std::string> odd = {"a%20b", "%",        "%2F", "<&>", "&amp;", "\xc3\xa9", "\xf0\x9f\x98\x80",
                                  "...",   "e\xcc\x81"};
  for (char c = ' '; c <= '~'; c++)
    if (c != '/') odd.push_back(std::string("x") + c + "y");
  const std::string prefix = home.uri() + "/a b+c%20\xc3\xa9&=<\">'~?#";
  for (const auto& place : {store, *open_bucket(prefix, s3_options())}) {
    for (const std::string& name : odd) {
      ASSERT_EQ(code(place->put_if_absent("d/" + name, as_bytes(name))), "OK") << name;
      EXPECT_TRUE(*place->exists("d/" + name)) << name;
    }
    const auto entries = *place->list("d");
    EXPECT_EQ(entries.size(), odd.size());
    for (const Entry& entry : entries) EXPECT_EQ(read_text(*place, "d/" + entry.name), entry.name);
    EXPECT_EQ(code(place->remove_directory("d")), "OK");
    EXPECT_EQ(names(*place, "d"), "<NOT_FOUND>");
  }
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

}  // namespace
}  // namespace ckpt::store

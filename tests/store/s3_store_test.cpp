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

TEST_P(S3Special, TheNextOwnerFinishesARemovalThatWasInterruptedAndNoOther) {
  auto client = home.client();
  const std::string number = to_hex(random_id());
  for (const char* directory : {"s1", "s2"})
    for (const char* file : {"MANIFEST", "PART_000"})
      ASSERT_EQ(code(store->put_if_absent(std::string(directory) + "/" + file, as_bytes("x"))), "OK");
  for (const char* directory : {"s1", "s2"})
    ASSERT_EQ(code(store->put_if_absent(trash_key(directory, random_id()),
                                        as_bytes(strformat("{}\nMANIFEST\n{}\n", directory, number)))),
              "OK");
  const std::string etag = (*s3::look_at_object(*client, "s1/MANIFEST"))->etag;
  ASSERT_EQ(code(s3::replace_object(*client, "s1/MANIFEST", etag, number, as_bytes("a tombstone"))), "OK");
  ASSERT_EQ(code(store->prepare()), "OK");
  EXPECT_EQ(names(*store, "s1"), "<NOT_FOUND>");
  EXPECT_EQ(names(*store, "s2"), "MANIFEST PART_000");
  EXPECT_EQ(names(*store, ".ckpt"), "<NOT_FOUND>");
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

// An option or a variable of the environment, as long as a test runs.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name), before_(std::getenv(name)) { setenv(name, value, 1); }
  ~Variable() { setenv(name_, before_.c_str(), 1); }

 private:
  const char* const name_;
  const std::string before_;
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

// What answers in an S3 server's place, and what a server may say that nobody may believe.
#include "base/job.h"
#include "store/s3_environment.h"
#include "store/s3_fixture.h"

namespace ckpt::store {
namespace {

class S3Strangers : public S3Special {};
CKPT_S3_SUITE(S3Strangers);

// ---- a 404 ----

// What an ingress, a cache or a proxy says while the server is away.
const char* const kStray[] = {"default backend - 404",
                              "",
                              "<html><body>Not Found</body></html>",
                              "<html>",
                              "{\"message\":\"no route\"}",
                              "<Error></Error>",
                              "<NotFound/>"};

TEST_P(S3Strangers, A404ThatIsNotS3sIsNoAbsence) {
  for (const char* body : kStray) {
    SCOPED_TRACE(body);
    FaultProxy proxy(s3_endpoint());
    proxy.script([&](const std::string&) { return answer_of("404 Not Found", body); });
    auto away = home.open(proxy, {.retry_ms = 1, .first_ms = 1});
    for (const Status& status : {away->open("d/a").status(), away->exists("d/a").status(), away->get("d/a", 9).status(),
                                 away->list("").status(), away->list("d").status(), away->has_directory("d").status(),
                                 away->remove("d/a", true), away->remove_directory("d"), away->age_ms("d/a").status(),
                                 away->attempt_exists("d/a", "d").status(), away->put_if_absent("d/a", as_bytes("x")),
                                 away->retire("d", "MANIFEST", as_bytes("x")), away->prepare()}) {
      EXPECT_EQ(code(status), "IO") << status.message();
      EXPECT_NE(status.message().find("no answer of S3"), std::string::npos) << status.message();
    }
    EXPECT_GT(proxy.requests(), 13u) << "each is asked again";
  }
}

TEST_P(S3Strangers, A404ThatLastsIsWhatATimeoutTells) {
  FaultProxy proxy(s3_endpoint());
  proxy.script([&](const std::string&) { return answer_of("404 Not Found", kStray[0]); });
  const Status late =
      run_apart(std::make_shared<Job>(), 300, [away = home.open(proxy)](Job&) { return away->get("d/a", 9).status(); });
  EXPECT_EQ(late.code(), CKPT_TIMEOUT) << late.message();
  EXPECT_NE(late.message().find("no answer of S3"), std::string::npos) << late.message();
}

TEST_P(S3Strangers, A404ThatPassesIsAskedAgain) {
  ASSERT_EQ(code(store->put_if_absent("d/a", as_bytes("text"))), "OK");
  for (const char* body : kStray) {
    SCOPED_TRACE(body);
    FaultProxy proxy(s3_endpoint());
    int passing = 0;
    proxy.script([&](const std::string&) { return passing-- > 0 ? answer_of("404 Not Found", body) : ""; });
    auto again = home.open(proxy);
    auto after_one = [&] {
      passing = 1;
      return again.get();
    };
    EXPECT_EQ(read_text(*after_one(), "d/a"), "text");
    EXPECT_TRUE(*after_one()->exists("d/a"));
    EXPECT_EQ(names(*after_one(), "d"), "a");
    EXPECT_FALSE(*after_one()->exists("d/b"));
    EXPECT_EQ(code(after_one()->open("d/b").status()), "NOT_FOUND");
    auto file = again->open("d/a");
    ASSERT_TRUE(file.ok());
    std::byte byte;
    EXPECT_EQ(code((*file)->read_at(0, {&byte, 1})), "OK");
  }
}

// No key is asked for in a list.
TEST_P(S3Strangers, AListThatSaysNoSuchKeyIsNoEmptyList) {
  FaultProxy proxy(s3_endpoint());
  proxy.script([](const std::string& line) {
    return line.find("list-type=2") != line.npos ? error_answer("404 Not Found", "NoSuchKey") : "";
  });
  auto odd = home.open(proxy, {.retry_ms = 1, .first_ms = 1});
  EXPECT_EQ(code(odd->list("").status()), "IO");
  EXPECT_EQ(code(odd->list("d").status()), "IO");
  EXPECT_EQ(code(odd->remove_directory("d")), "IO");
}

TEST_P(S3Strangers, EmptyObjectsAreThere) {
  ASSERT_EQ(code(store->put_if_absent("d/empty", {})), "OK");
  EXPECT_TRUE(*store->exists("d/empty"));
  EXPECT_EQ((*store->open_lazily("d/empty"))->size(), 0u);
  EXPECT_EQ(code(store->remove("d/empty", true)), "OK");
  EXPECT_FALSE(*store->exists("d/empty"));
}

// ---- without an end ----

S3Options impatient(const std::string& endpoint) {
  S3Options options;
  options.endpoint = endpoint;
  options.timing = {.connect_ms = 1000, .stall_s = 1, .retry_ms = 500, .first_ms = 300};
  return options;
}

// A listing of pages that `inner` makes of their numbers, from 1.
void expect_no_listing(const std::function<std::string(int page)>& inner, int most_pages) {
  std::atomic<int> pages = 0;
  HttpServer server([&](int client, const std::string&, const std::string&) {
    const int page = ++pages;
    return send_all(
        client, answer_of("200 OK",
                          "<ListBucketResult><IsTruncated>true</IsTruncated>"
                          "<NextContinuationToken>t" +
                              std::to_string(page) + "</NextContinuationToken>" + inner(page) + "</ListBucketResult>"));
  });
  const Status told = (*open_bucket("s3://b", impatient(server.endpoint())))->list("").status();
  EXPECT_FALSE(told.ok());
  EXPECT_TRUE(code(told) == "IO" || code(told) == "UNSUPPORTED") << told.message();
  EXPECT_LE(pages, most_pages);
}

std::string prefixes(uint64_t first, uint64_t count) {
  std::string text;
  for (uint64_t i = first; i < first + count; i++)
    text += strformat("<CommonPrefixes><Prefix>d{:010}/</Prefix></CommonPrefixes>", i);
  return text;
}

TEST_P(S3Strangers, AListingEndsWhateverTheServerSays) {
  expect_no_listing([](int) { return ""; }, 100);
  expect_no_listing([](int) { return prefixes(1, 10); }, 101);
  expect_no_listing([](int page) { return prefixes(static_cast<uint64_t>(page % 3), 1); }, 110);
  expect_no_listing([](int page) { return prefixes(static_cast<uint64_t>(page), 1); }, 1200);
  expect_no_listing([](int page) { return prefixes(static_cast<uint64_t>(page) * 5000, 5000); }, 210);
  expect_no_listing([](int) { return "<Contents><Key>../" + std::string(300, 'x') + "</Key></Contents>"; }, 101);
}

// Somebody's marks of directories, and what no key of a store is.
TEST_P(S3Strangers, KeysThatNoStoreHasAreLeftOut) {
  HttpServer server([](int client, const std::string&, const std::string&) {
    std::string body = "<ListBucketResult>";
    for (const std::string key : {"good", "junk/", "../x", "./x", "a/../b", "..", "/etc/passwd", "//x"})
      body += "<Contents><Key>" + key + "</Key><Size>1</Size><ETag>e</ETag></Contents><CommonPrefixes><Prefix>" + key +
              "/</Prefix></CommonPrefixes>";
    return send_all(client, answer_of("200 OK", body + "</ListBucketResult>"));
  });
  const auto listed = (*open_bucket("s3://b", impatient(server.endpoint())))->list("");
  ASSERT_TRUE(listed.ok()) << listed.status().message();
  for (const Entry& entry : *listed) EXPECT_TRUE(check_element(entry.name).ok()) << entry.name;
  EXPECT_EQ(listed->front().name, "good");
}

TEST_P(S3Strangers, AnswersHaveABound) {
  const std::string head = "HTTP/1.1 200 OK\r\n";
  std::string many;
  for (int i = 0; i < 300000; i++) many += "<a/>";
  for (const std::string& answer :
       {answer_of("200 OK", "<ListBucketResult>" + many + "</ListBucketResult>"),
        answer_of("200 OK", std::string(17 << 20, 'x')), head + "x: " + std::string(2 << 20, 'y') + "\r\n\r\n"}) {
    HttpServer server([&](int client, const std::string&, const std::string&) { return send_all(client, answer); });
    const Status told = (*open_bucket("s3://b", impatient(server.endpoint())))->list("").status();
    EXPECT_EQ(code(told), "IO") << told.message();
  }
  HttpServer interim([](int client, const std::string&, const std::string&) {
    while (send_all(client, "HTTP/1.1 100 Continue\r\nx: y\r\n\r\n")) {
    }
    return false;
  });
  EXPECT_EQ(code((*open_bucket("s3://b", impatient(interim.endpoint())))->list("").status()), "IO");
}

// Whoever reads the log of a trainer must not get its keys.
TEST_P(S3Strangers, WhatAServerEchoesOfOurSecretsIsBlotted) {
  Variable token("AWS_SESSION_TOKEN", "session+token/SECRET=");
  for (const bool encoded : {false, true}) {
    std::string signature;
    HttpServer server([&](int client, const std::string& head, const std::string&) {
      signature = head.substr(head.find("Signature=") + 10, 64);
      std::string got = header_of(head, "x-amz-security-token") + " " + header_of(head, "authorization");
      if (encoded) got = s3::percent_encode(got, false);
      const std::string body = "<Error><Code>C " + got + "</Code><Message>M " + got + "</Message></Error>";
      return send_all(client, "HTTP/1.1 400 Bad\r\nx-amz-request-id: " + got + "\r\nx-amz-bucket-region: " + got +
                                  "\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    });
    const Status told = (*open_bucket("s3://b", impatient(server.endpoint())))->list("").status();
    for (const std::string& text : {told.message(), *told.detail("s3_code"), *told.detail("request_id")})
      for (const std::string& secret : {std::string("session"), std::string("SECRET"), signature.substr(0, 8)})
        EXPECT_EQ(text.find(secret), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ckpt::store

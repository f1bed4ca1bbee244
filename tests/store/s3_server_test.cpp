// What a server may refuse, be unable to do, or not be at all.
#include "store/s3_environment.h"
#include "store/s3_fixture.h"

namespace ckpt::store {
namespace {

class S3Server : public S3Special {};
CKPT_S3_SUITE(S3Server);

TEST_P(S3Server, AServerThatIgnoresConditionsIsUnsupportedUnlessThereIsOneWriter) {
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

// What prepare() says of a server that says yes to every put of a probe, of those at once or the others, from that
// number on.
Status prepare_where_puts_succeed(const S3Home& home, bool at_once, int from) {
  FaultProxy proxy(s3_endpoint());
  std::atomic<int> puts = 0;
  proxy.script([&](const std::string& line) {
    const bool concerned = line.starts_with("PUT") && line.find("/probe.") != line.npos;
    const bool yes = concerned && line.ends_with(".shared") == at_once && ++puts >= from;
    return yes ? "HTTP/1.1 200 OK\r\netag: \"x\"\r\ncontent-length: 0\r\n\r\n" : "";
  });
  return home.open(proxy)->prepare();
}

// It lets two removals, or a removal and a repair, write over each other.
TEST_P(S3Server, AServerThatIgnoresIfMatchIsUnsupported) {
  const Status refused = prepare_where_puts_succeed(home, false, 3);
  EXPECT_EQ(code(refused), "UNSUPPORTED");
  EXPECT_NE(refused.message().find("If-Match"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("conditional_puts"), std::string::npos) << refused.message();
}

TEST_P(S3Server, AServerThatLooksFirstAndPutsThenIsUnsupported) {
  const Status refused = prepare_where_puts_succeed(home, true, 1);
  EXPECT_EQ(code(refused), "UNSUPPORTED");
  EXPECT_NE(refused.message().find("several puts at once"), std::string::npos) << refused.message();
}

TEST_P(S3Server, AServerThatKnowsNoConditionsIsUnsupportedAndSaysWhatToDo) {
  FaultProxy proxy(s3_endpoint());
  proxy.script([](const std::string& line) {
    return line.starts_with("PUT") ? error_answer("501 Not Implemented", "NotImplemented") : "";
  });
  const Status refused = home.open(proxy)->prepare();
  EXPECT_EQ(code(refused), "UNSUPPORTED");
  EXPECT_NE(refused.message().find("conditional_puts"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("NotImplemented"), std::string::npos) << refused.message();
}

TEST_P(S3Server, AServerIsProbedOnceAndWhatACrashLeftOfAProbeGoes) {
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
  EXPECT_EQ(home.client()->list_uploads("")->size(), 0u);
}

TEST_P(S3Server, WhoeverMayNotListIsToldSo) {
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

TEST_P(S3Server, WhoeverMayNotListUploadsLeavesThemToTheBucket) {
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
TEST_P(S3Server, WhoeverMayOnlyReadIsToldSo) {
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

TEST_P(S3Server, TwoConditionalRequestsAtOnceAreTriedAgain) {
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
TEST_P(S3Server, ACompletionThatFailsAfterAGoodStatusIsNoSuccess) {
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
  EXPECT_EQ(home.client()->list_uploads("")->size(), 0u);
}

// ---- TLS ----

TEST_P(S3Server, TlsIsTrustedByCaFileOnly) {
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

TEST_P(S3Server, ACertificateThatIsNotTrustedOrOfAnotherNameEndsAtOnce) {
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

TEST_P(S3Server, AWrongBucketIsNamed) {
  auto elsewhere = *open_bucket("s3://no-such-bucket/run", s3_options());
  expect_refused(elsewhere->prepare(), "404", "NoSuchBucket");
  expect_refused(elsewhere->list("").status(), "404", "NoSuchBucket");
  expect_refused(elsewhere->exists("d/a").status(), "404", "NoSuchBucket");
}

TEST_P(S3Server, AWrongSecretIsNamedWithoutTellingIt) {
  Variable secret("AWS_SECRET_ACCESS_KEY", "not the secret");
  expect_refused(home.open()->prepare(), "403", "SignatureDoesNotMatch");
}

TEST_P(S3Server, AnUnknownKeyAndNoKeyAreNamed) {
  {
    Variable key("AWS_ACCESS_KEY_ID", "unknown");
    const Status refused = home.open()->prepare();  // versitygw knows another code for it
    const bool odd = refused.detail("s3_code") && *refused.detail("s3_code") == "XAdminUserNotFound";
    expect_refused(refused, odd ? "404" : "403", odd ? "XAdminUserNotFound" : "InvalidAccessKeyId");
  }
  Variable key("AWS_ACCESS_KEY_ID", "");
  const Status refused = home.open()->prepare();
  expect_refused(refused, "403", "AccessDenied");
  EXPECT_NE(refused.message().find("not signed"), std::string::npos) << refused.message();
}

// Of what is not found, only a key is absent: else a store that cannot be reached would look like one that is empty.
TEST_P(S3Server, WhatIsNotFoundMustBeAKeyToBeAbsent) {
  FaultProxy proxy(s3_endpoint());
  proxy.script([](const std::string&) { return error_answer("404 Not Found", "NoSuchUser"); });
  auto other = home.open(proxy);
  expect_refused(other->prepare(), "404", "NoSuchUser");
  expect_refused(other->open("d/a").status(), "404", "NoSuchUser");
  expect_refused(other->list("d").status(), "404", "NoSuchUser");
  expect_refused(other->put_if_absent("d/a", as_bytes("x")), "404", "NoSuchUser");
  expect_refused(other->remove_directory("d"), "404", "NoSuchUser");
  expect_refused(other->exists("d/a").status(), "404", "NoSuchUser");
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

// What takes uploads and keeps nothing.
struct UploadTaker {
  // What to answer instead; "" for nothing.
  std::function<std::string(const std::string& head)> refuse = [](const std::string&) { return std::string(); };
  std::mutex mutex;
  std::vector<std::string> heads;  // of the others
  HttpServer server{[this](int client, const std::string& head, const std::string&) {
    if (const std::string refusal = refuse(head); !refusal.empty()) return send_all(client, refusal);
    std::lock_guard lock(mutex);
    heads.push_back(head);
    if (head.starts_with("PUT")) return send_all(client, "HTTP/1.1 200 OK\r\netag: \"x\"\r\ncontent-length: 0\r\n\r\n");
    const bool begins = head.starts_with("POST") && head.find("?uploads=") != head.npos;
    return send_all(client, answer_of("200 OK", begins ? "<InitiateMultipartUploadResult><UploadId>u</UploadId>"
                                                         "</InitiateMultipartUploadResult>"
                                                       : "<CompleteMultipartUploadResult/>"));
  }};
  size_t count(const std::string& verb) {
    return static_cast<size_t>(
        std::count_if(heads.begin(), heads.end(), [&](const auto& head) { return head.starts_with(verb); }));
  }
};

// Parts of a thousandth of what is there, so that 10,000 hold 8,000 times as much as the first thousand of least size.
TEST_P(S3Server, AFileThatGrowsBeyondWhatWasExpectedHasLargerPartsAndNoMoreThanThereMayBe) {
  UploadTaker taker;
  uint64_t written = 0;
  {
    s3::ObjectWriter writer(*s3::S3Bucket::make("s3://b", quick(taker.server.endpoint())), "d/a", 0, 1);
    const std::string bytes(1 << 20, 'x');
    Status told;
    for (int parts = 0; told.ok() && parts < 20000; parts++) {
      const uint64_t size = std::max<uint64_t>(1, written / 900);
      told = writer.write_at(written, as_bytes(bytes).first(size));
      written += told.ok() ? size : 0;
    }
    EXPECT_EQ(code(told), "UNSUPPORTED");
    EXPECT_NE(told.message().find("more than 10000 parts"), std::string::npos) << told.message();
  }
  EXPECT_GT(written, 4u << 20);
  EXPECT_EQ(taker.count("PUT"), 10000u);
  EXPECT_EQ(taker.count("DELETE"), 1u) << "it is given up";
}

TEST_P(S3Server, WhereNoChecksumIsKnownTheHashIsSigned) {
  UploadTaker taker;
  taker.refuse = [](const std::string& head) {
    return head.find("x-amz-checksum-") != head.npos ? error_answer("501 Not Implemented", "NotImplemented") : "";
  };
  s3::ObjectWriter writer(*s3::S3Bucket::make("s3://b", quick(taker.server.endpoint())), "d/a", 0);
  Pattern data(13 << 20, 1);
  ASSERT_EQ(code(writer.write_at(0, data.bytes().first(9 << 20))), "OK");
  ASSERT_EQ(code(writer.write_at(9 << 20, data.bytes().subspan(9 << 20))), "OK");
  ASSERT_EQ(code(writer.publish(13 << 20)), "OK");
  ASSERT_EQ(taker.count("PUT"), 2u);
  for (const std::string& head : taker.heads) EXPECT_EQ(head.find("UNSIGNED-PAYLOAD"), std::string::npos) << head;
}

TEST_P(S3Server, KeysThatExpireDuringAnUploadAreAskedForAgain) {
  AwsFolder aws;
  aws.write("config", "[profile short]\ncredential_process = echo x >> " + (aws / "asked") +
                          "; echo '{\"AccessKeyId\":\"K'$(wc -l <" + (aws / "asked") +
                          ")'\",\"SecretAccessKey\":\"s\"}'\n");
  Variable file("AWS_CONFIG_FILE", (aws / "config").c_str());
  UploadTaker taker;
  taker.refuse = [](const std::string& head) {
    const bool too_late = head.find("partNumber=1&") == head.npos && head.starts_with("PUT");
    return too_late && head.find("Credential=K1/") != head.npos ? error_answer("400 Bad Request", "ExpiredToken") : "";
  };
  S3Options options = quick(taker.server.endpoint());
  options.profile = "short";
  s3::ObjectWriter writer(*s3::S3Bucket::make("s3://b", options), "d/a", 0);
  Pattern data(9 << 20, 1);
  for (uint64_t i = 0; i < 3; i++) ASSERT_EQ(code(writer.write_at(i * data.bytes().size(), data.bytes())), "OK");
  ASSERT_EQ(code(writer.publish(27 << 20)), "OK");
  EXPECT_EQ(taker.count("PUT"), 3u);
  EXPECT_NE(taker.heads.back().find("Credential=K2/"), std::string::npos);
  EXPECT_EQ(*s3::read_small_file(aws / "asked"), "x\nx\n");
}

TEST_P(S3Server, WhatAServerSaysOfAnErrorIsOneLineOfText) {
  HttpServer server([](int client, const std::string&, const std::string&) {
    return send_all(client, answer_of("400 Bad Request", "<Error><Code>A\xc3\xa9&#127;B</Code><Message>one\ntwo\xff" +
                                                             std::string(299, 'x') + "\xc3\xa9</Message></Error>"));
  });
  const Status refused = (*open_bucket("s3://b", quick(server.endpoint())))->list("").status();
  for (const std::string& text : {refused.message(), *refused.detail("s3_code")})
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; })) << text;
  EXPECT_NE(refused.message().find("A???B: one two?xxx"), std::string::npos) << refused.message();
}

TEST_P(S3Server, AnAnswerInChunksMayHaveTrailers) {
  HttpServer server([](int client, const std::string&, const std::string&) {
    return send_all(client,
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n"
                    "12\r\n<ListBucketResult>\r\n13\r\n</ListBucketResult>\r\n0\r\nx: y\r\n\r\n");
  });
  EXPECT_EQ(code((*open_bucket("s3://b", quick(server.endpoint())))->list("").status()), "OK");
}

TEST_P(S3Server, AServerThatIsNotThereIsIo) {
  const Status status = (*open_bucket("s3://b", quick("http://127.0.0.1:1")))->prepare();
  EXPECT_EQ(code(status), "IO") << status.message();
  EXPECT_NE(status.message().find("http://127.0.0.1:1"), std::string::npos) << status.message();
}

TEST_P(S3Server, AServerThatIsNoneOfS3IsNoSuccess) {
  for (const char* body : {"", "<html>hello</html>", "<a>", "{}"}) {
    HttpServer server([body](int client, const std::string&, const std::string&) {
      return send_all(client, answer_of("200 OK", body));
    });
    auto other = *open_bucket("s3://b", quick(server.endpoint()));
    EXPECT_FALSE(other->prepare().ok()) << body;
    EXPECT_FALSE(other->list("").ok()) << body;
    EXPECT_FALSE(other->open("x").ok()) << body;
    EXPECT_FALSE(other->exists("x").ok()) << body;
  }
}

TEST_P(S3Server, ARedirectIsNotFollowed) {
  std::atomic<int> asked = 0;
  HttpServer thief([&asked](int client, const std::string&, const std::string&) {
    asked++;
    return send_all(client, answer_of("200 OK", ""));
  });
  HttpServer server([&thief](int client, const std::string&, const std::string&) {
    return send_all(client, "HTTP/1.1 307 Temporary Redirect\r\nlocation: " + thief.endpoint() +
                                "/\r\nx-amz-bucket-region: eu-west-1\r\ncontent-length: 0\r\n\r\n");
  });
  const Status status = (*open_bucket("s3://b", quick(server.endpoint())))->list("").status();
  EXPECT_EQ(code(status), "IO");
  EXPECT_NE(status.message().find("eu-west-1"), std::string::npos) << status.message();
  EXPECT_EQ(asked, 0);
}

TEST_P(S3Server, ABucketInTheHostIsSentAndSigned) {
  Listener listener;
  S3Options options = quick("http://localhost" + listener.port());
  options.path_style = "off";
  ASSERT_EQ(code((*open_bucket("s3://b/run7", options))->list("").status()), "OK");
  ASSERT_EQ(listener.heads.size(), 1u);
  EXPECT_NE(listener.heads[0].find("\r\nHost: b.localhost" + listener.port() + "\r\n"), std::string::npos)
      << listener.heads[0];
  EXPECT_TRUE(listener.heads[0].starts_with("GET /?")) << listener.heads[0];
  EXPECT_NE(listener.heads[0].find("SignedHeaders=host;"), std::string::npos) << listener.heads[0];
}

TEST_P(S3Server, ASessionTokenIsSentAndSigned) {
  Variable token("AWS_SESSION_TOKEN", "a-token");
  Listener listener;
  ASSERT_EQ(code((*open_bucket("s3://b", quick(listener.server.endpoint())))->list("").status()), "OK");
  ASSERT_EQ(listener.heads.size(), 1u);
  EXPECT_NE(listener.heads[0].find("\r\nx-amz-security-token: a-token\r\n"), std::string::npos) << listener.heads[0];
  EXPECT_NE(listener.heads[0].find(";x-amz-security-token,"), std::string::npos) << listener.heads[0];
}

TEST_P(S3Server, AWrongRegionIsNamedWithTheRightOne) {
  for (const char* status : {"400 Bad Request", "301 Moved Permanently"}) {
    const std::string body = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>x</Message></Error>";
    HttpServer server([&](int client, const std::string&, const std::string&) {
      return send_all(client, std::string("HTTP/1.1 ") + status + "\r\nx-amz-bucket-region: eu-west-1\r\n" +
                                  "x-amz-request-id: R1\r\ncontent-length: " + std::to_string(body.size()) +
                                  "\r\n\r\n" + body);
    });
    const Status refused = (*open_bucket("s3://b", quick(server.endpoint())))->prepare();
    expect_refused(refused, std::string(status).substr(0, 3), "AuthorizationHeaderMalformed");
    EXPECT_NE(refused.message().find("eu-west-1: set option region"), std::string::npos) << refused.message();
    EXPECT_NE(refused.message().find("(request R1)"), std::string::npos) << refused.message();
  }
}

TEST_P(S3Server, AClockThatIsWrongIsSetByTheServersDateOnce) {
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
  const auto listed = (*open_bucket("s3://b", quick(server.endpoint())))->list("");
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

TEST_P(S3Server, WhatIsMendedAtOnceHasItsTriesStillBeforeIt) {
  const std::string crowded = error_answer("503 Slow Down", "SlowDown"),
                    skewed =
                        "HTTP/1.1 403 Forbidden\r\ndate: Thu, 01 Jan 2037 00:00:00 GMT\r\ncontent-length: 0\r\n\r\n";
  Answers skew({skewed, crowded});
  EXPECT_EQ(code((*open_bucket("s3://b", quick(skew.server.endpoint())))->list("").status()), "OK");
  EXPECT_EQ(skew.asked, 3u);
  Answers twice({skewed, skewed});
  EXPECT_EQ(code((*open_bucket("s3://b", quick(twice.server.endpoint())))->list("").status()), "IO");
  EXPECT_EQ(twice.asked, 2u) << "a clock is set once";
}

TEST_P(S3Server, AServerThatAsksForMorePatienceThanThereIsIsAskedOnceMore) {
  const std::string later =
      "HTTP/1.1 503 Slow Down\r\nretry-after: 45\r\ncontent-length: 39\r\n\r\n<Error><Code>SlowDown</Code></Error>    ";
  Answers once({later});
  EXPECT_EQ(code((*open_bucket("s3://b", quick(once.server.endpoint())))->list("").status()), "OK");
  EXPECT_EQ(once.asked, 2u);
  Answers always({later, later, later});
  EXPECT_EQ(code((*open_bucket("s3://b", quick(always.server.endpoint())))->list("").status()), "IO");
  EXPECT_EQ(always.asked, 2u);
}

TEST_P(S3Server, ACrowdedServerIsAskedAgainWhenItSays) {
  std::atomic<int> asked = 0;
  HttpServer server([&](int client, const std::string&, const std::string&) {
    if (asked++ < 2) return send_all(client, answer_of("503 Slow Down", "<Error><Code>SlowDown</Code></Error>"));
    return send_all(client, answer_of("200 OK", "<ListBucketResult></ListBucketResult>"));
  });
  S3Options options = quick(server.endpoint());
  options.timing.retry_ms = 20000;
  EXPECT_EQ(code((*open_bucket("s3://b", options))->list("").status()), "OK");
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace ckpt::store

// Where the keys of S3 stores come from.
#include <atomic>
#include <future>

#include "s3/http_server.h"
#include "store/s3/credentials.h"
#include "store/s3/process.h"
#include "store/s3_environment.h"
#include "store/store_suite.h"

namespace ckpt::store::s3 {
namespace {

// "KEY/SECRET/TOKEN from SOURCE", or the code of the error.
std::string credentials_of(const S3Options& options = {}, std::string* error = nullptr) {
  auto config = make_config("s3://b", options);
  if (!config.ok()) return code(config.status());
  auto http = Http::make("");
  EXPECT_TRUE(http.ok()) << http.status().message();
  CredentialChain chain(*config, **http);
  auto found = chain.get(time(nullptr));
  if (error) *error = found.status().message();
  if (!found.ok()) return code(found.status());
  const Keys& keys = (*found)->keys;
  return keys.access_key + "/" + keys.secret_key + "/" + keys.session_token + " from " + (*found)->source;
}

TEST(S3Credentials, TheFirstSourceThatIsConfiguredCounts) {
  AwsFolder aws;
  aws.write("credentials",
            "[default]\naws_access_key_id=A\naws_secret_access_key = s+/=\naws_session_token=t\n"
            "[other]\naws_access_key_id=B\naws_secret_access_key=c\n");
  auto set = aws.environment();
  {
    Environment environment(set);
    EXPECT_EQ(credentials_of(), "A/s+/=/t from profile default");
    EXPECT_EQ(credentials_of({.profile = "other"}), "B/c/ from profile other");
  }
  set.insert(set.end(), {{"AWS_ACCESS_KEY_ID", "E"}, {"AWS_SECRET_ACCESS_KEY", "f"}});
  Environment environment(set);
  EXPECT_EQ(credentials_of(), "E/f/ from the environment");
  EXPECT_EQ(credentials_of({.profile = "other"}), "B/c/ from profile other");
}

TEST(S3Credentials, NobodyIsNobody) {
  Environment none;
  EXPECT_EQ(credentials_of(), "// from nobody (no credentials were found)");
}

TEST(S3Credentials, AProcessGivesThem) {
  AwsFolder aws;
  aws.write("config",
            "[default]\ncredential_process = echo '{\"Version\": 1, \"AccessKeyId\": \"P\", "
            "\"SecretAccessKey\": \"q\", \"SessionToken\": \"r\", \"Expiration\": \"2099-01-01T00:00:00Z\"}'\n"
            "[profile fails]\ncredential_process = echo secret-output; exit 3\n"
            "[profile empty]\ncredential_process = echo '{}'\n");
  Environment environment(aws.environment());
  EXPECT_EQ(credentials_of(), "P/q/r from credential_process of profile default");
  std::string error;
  EXPECT_EQ(credentials_of({.profile = "fails"}, &error), "IO");
  EXPECT_NE(error.find("status 3"), std::string::npos) << error;
  EXPECT_EQ(error.find("secret-output"), std::string::npos) << error;
  EXPECT_EQ(credentials_of({.profile = "empty"}), "FORMAT");
}

TEST(S3Credentials, AProcessCountsUntilItEndsWhateverItLeavesBehind) {
  EXPECT_EQ(*output_of("echo a; (sleep 100; echo b) 2>&- & echo c"), "a\nc\n");
  EXPECT_EQ(*output_of("cat; echo end"), "end\n") << "what a trainer reads is not for it";
  EXPECT_EQ(output_of("exec >&-; exit 4").status().code(), CKPT_IO);
  EXPECT_EQ(output_of("yes").status().code(), CKPT_IO) << "more than a MiB";
  EXPECT_EQ(output_of("kill -9 $$").status().code(), CKPT_IO);
}

TEST(S3Credentials, HalfOfAKeyIsInvalidAndWhatCannotBeUsedSaysSo) {
  AwsFolder aws;
  aws.write("config", "[profile role]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = default\n");
  auto set = aws.environment();
  {
    Environment environment(set);
    std::string error;
    EXPECT_EQ(credentials_of({.profile = "role"}, &error), "UNSUPPORTED");
    EXPECT_NE(error.find("credential_process"), std::string::npos) << error;
  }
  Environment environment(Settings{{"AWS_ACCESS_KEY_ID", "E"}});
  EXPECT_EQ(credentials_of(), "INVALID");
}

std::string json_keys(const std::string& expires) {
  return "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"SessionToken\":\"t\",\"Expiration\":\"" +
         expires + "\"}";
}
bool holds(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

TEST(S3Credentials, AnInstanceGivesThemToWhoeverHasAToken) {
  HttpServer server([](int client, const std::string& head, const std::string&) {
    const std::string line = head.substr(0, head.find(" HTTP"));
    if (line == "PUT /latest/api/token" && holds(head, "x-aws-ec2-metadata-token-ttl-seconds: 21600"))
      return send_all(client, answer_of("200 OK", "a-token"));
    if (!holds(head, "x-aws-ec2-metadata-token: a-token")) return send_all(client, answer_of("401 Unauthorized", ""));
    if (line == "GET /latest/meta-data/iam/security-credentials/")
      return send_all(client, answer_of("200 OK", "a-role\n"));
    if (line == "GET /latest/meta-data/iam/security-credentials/a-role")
      return send_all(client, answer_of("200 OK", json_keys("2099-01-01T00:00:00Z")));
    return send_all(client, answer_of("404 Not Found", ""));
  });
  Environment environment(
      {{"AWS_EC2_METADATA_DISABLED", "false"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.endpoint()}});
  EXPECT_EQ(credentials_of(), "A/s/t from the instance's metadata");
}

TEST(S3Credentials, AContainerGivesThemByItsEndpointButNoStrangerIsAsked) {
  HttpServer server([](int client, const std::string& head, const std::string&) {
    const bool asked = head.starts_with("GET /keys ") && holds(head, "authorization: Bearer x\r\n");
    return send_all(client, answer_of(asked ? "200 OK" : "403 Forbidden", json_keys("2099-01-01T00:00:00Z")));
  });
  AwsFolder aws;
  aws.write("token", "Bearer x\n");
  {
    Environment environment({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.endpoint() + "/keys"},
                             {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", aws / "token"}});
    EXPECT_EQ(credentials_of(), "A/s/t from the container's endpoint");
  }
  {
    Environment environment(Settings{{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.endpoint() + "/keys"}});
    EXPECT_EQ(credentials_of(), "IO");
  }
  Environment environment(Settings{{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/keys"}});
  EXPECT_EQ(credentials_of(), "INVALID");
}

TEST(S3Credentials, AWebIdentityIsExchangedForThem) {
  HttpServer server([](int client, const std::string& head, const std::string& body) {
    const bool asked = head.starts_with("POST / ") && holds(body, "WebIdentityToken=the%2Btoken") &&
                       holds(body, "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx") &&
                       holds(body, "Action=AssumeRoleWithWebIdentity");
    return send_all(client,
                    answer_of(asked ? "200 OK" : "400 Bad Request",
                              "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
                              "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A</AccessKeyId>"
                              "<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
                              "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>"
                              "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"));
  });
  AwsFolder aws;
  aws.write("token", "the+token\n");
  Environment environment({{"AWS_WEB_IDENTITY_TOKEN_FILE", aws / "token"},
                           {"AWS_ROLE_ARN", "arn:aws:iam::1:role/x"},
                           {"AWS_ENDPOINT_URL_STS", server.endpoint()}});
  EXPECT_EQ(credentials_of(), "A/s/t from web identity " + (aws / "token"));
}

// As JSON has it.
std::string iso_of(int64_t seconds) {
  const std::string date = amz_date(seconds);  // 20130524T000000Z
  return date.substr(0, 4) + "-" + date.substr(4, 2) + "-" + date.substr(6, 5) + ":" + date.substr(11, 2) + ":" +
         date.substr(13, 2) + "Z";
}

// A container's endpoint whose answers a test chooses, and a chain that asks it.
struct Container {
  std::function<std::string(int number)> answer;  // the first one has number 1
  std::atomic<int> asked = 0;
  HttpServer server{
      [this](int client, const std::string&, const std::string&) { return send_all(client, answer(++asked)); }};
  Environment environment{Settings{{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.endpoint() + "/keys"}}};
  Config config = *make_config("s3://b", {});
  std::unique_ptr<Http> http = Http::make("").take();
  CredentialChain chain{config, *http};

  std::string key_at(int64_t now) {
    auto found = chain.get(now);
    return found.ok() ? (*found)->keys.access_key : code(found.status());
  }
};
std::string key_until(const std::string& key, int64_t end) {
  return answer_of("200 OK", "{\"AccessKeyId\":\"" + key +
                                 "\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":\"" + iso_of(end) +
                                 "\"}");
}
constexpr int64_t kNow = 1800000000;  // of the server, whatever this machine's clock says
const std::string kUnwilling = answer_of("500 Internal Server Error", "");

TEST(S3Credentials, TheyAreAskedForAgainBeforeTheyExpireOnceInHalfAMinuteAndTheOldOnesCountUntilTheEnd) {
  Container container;
  container.answer = [](int number) { return number == 1 ? key_until("A", kNow + 1000) : kUnwilling; };
  for (int i = 0; i < 3; i++) EXPECT_EQ(container.key_at(kNow), "A");
  EXPECT_EQ(container.asked, 1);
  for (int i = 0; i < 3; i++) EXPECT_EQ(container.key_at(kNow + 750), "A");
  EXPECT_EQ(container.asked, 4) << "one question, with three tries";
  EXPECT_EQ(container.key_at(kNow + 781), "A");
  EXPECT_EQ(container.asked, 7);
  EXPECT_EQ(container.key_at(kNow + 1001), "IO");
  container.answer = [](int) { return key_until("B", kNow + 9000); };
  EXPECT_EQ(container.key_at(kNow + 1002), "B");
}

TEST(S3Credentials, AServiceThatIsCrowdedIsAskedAgain) {
  Container container;
  container.answer = [](int number) {
    return number < 3 ? answer_of("429 Too Many Requests", "") : key_until("A", kNow + 1000);
  };
  EXPECT_EQ(container.key_at(kNow), "A");
}

TEST(S3Credentials, WhileOneThreadAsksForNewOnesTheOthersUseTheOld) {
  Container container;
  std::promise<void> asked, enough;
  container.answer = [&](int number) {
    if (number == 1) return key_until("A", kNow + 100);
    asked.set_value();
    enough.get_future().wait();
    return key_until("B", kNow + 9000);
  };
  EXPECT_EQ(container.key_at(kNow), "A");
  std::string of_who_asked;
  std::jthread asking([&] { of_who_asked = container.key_at(kNow + 50); });
  asked.get_future().wait();
  EXPECT_EQ(container.key_at(kNow + 50), "A") << "it would wait for ever";
  enough.set_value();
  asking.join();
  EXPECT_EQ(of_who_asked, "B");
  EXPECT_EQ(container.key_at(kNow + 50), "B");
}

// An instance whose metadata a test breaks.
TEST(S3Credentials, KnownOnesAreNeverGivenUpForNobodyAndNobodyMayBecomeSomebody) {
  std::atomic<bool> is_there = false;
  std::atomic<int> failing = 0, questions = 0;
  HttpServer server([&](int client, const std::string& head, const std::string&) {
    if (!is_there) return send_all(client, answer_of("404 Not Found", ""));
    if (head.starts_with("PUT")) questions++;
    if (failing-- > 0) return send_all(client, answer_of("503 Service Unavailable", ""));
    if (head.starts_with("PUT")) return send_all(client, answer_of("200 OK", "a-token"));
    if (head.starts_with("GET /latest/meta-data/iam/security-credentials/ "))
      return send_all(client, answer_of("200 OK", "a-role"));
    return send_all(client, key_until("A", kNow + 1000));
  });
  Environment environment(
      {{"AWS_EC2_METADATA_DISABLED", "false"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.endpoint()}});
  const Config config = *make_config("s3://b", {});
  auto http = Http::make("").take();
  CredentialChain chain(config, *http);
  auto key_at = [&](int64_t now) { return (*chain.get(now))->keys.access_key; };
  EXPECT_EQ(key_at(kNow - 60), "");
  is_there = true;
  failing = 2;
  EXPECT_EQ(key_at(kNow), "A");
  EXPECT_EQ(questions, 3) << "a service that is crowded is no service that is absent";
  is_there = false;
  EXPECT_EQ(key_at(kNow + 800), "A");
  EXPECT_EQ(code(chain.get(kNow + 1001).status()), "IO");
}

TEST(S3Credentials, ExpiredOnesAreAskedForAgainOnce) {
  AwsFolder aws;
  aws.write("config", "[default]\ncredential_process = echo x >> " + (aws / "asked") +
                          "; echo '{\"AccessKeyId\":\"'$(wc -l <" + (aws / "asked") +
                          ")'\",\"SecretAccessKey\":\"s\"}'\n");
  std::vector<std::string> keys;
  HttpServer server([&](int client, const std::string& head, const std::string&) {
    keys.push_back(head.substr(head.find("Credential=") + 11, 1));
    return send_all(client, keys.size() == 2
                                ? answer_of("500 Internal Server Error", "")
                                : answer_of("400 Bad Request", "<Error><Code>ExpiredToken</Code></Error>"));
  });
  Environment environment(aws.environment());
  auto store = open_bucket("s3://b", {.endpoint = server.endpoint()});
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(code((*store)->list("").status()), "IO");
  EXPECT_EQ(keys, (std::vector<std::string>{"1", "2", "2"})) << "refused, failed and tried again, refused for good";
  EXPECT_EQ(*read_small_file(aws / "asked"), "x\nx\n");
}

// As the helpers of single sign-on write it.
TEST(S3Credentials, AFileOfKeysIsReadAgainWhenTheServerRefusesThem) {
  AwsFolder aws;
  aws.write("credentials", "[default]\naws_access_key_id=OLD\naws_secret_access_key=s\naws_session_token=t\n");
  HttpServer server([&](int client, const std::string& head, const std::string&) {
    return send_all(client, holds(head, "Credential=NEW/")
                                ? answer_of("200 OK", "<ListBucketResult></ListBucketResult>")
                                : answer_of("400 Bad Request", "<Error><Code>ExpiredToken</Code></Error>"));
  });
  Environment environment(aws.environment());
  auto store = open_bucket("s3://b", {.endpoint = server.endpoint()});
  EXPECT_EQ(code((*store)->list("").status()), "IO");
  auto later = open_bucket("s3://b", {.endpoint = server.endpoint()});
  auto config = *make_config("s3://b", {});
  auto http = Http::make("").take();
  CredentialChain chain(config, *http);
  const auto old = *chain.get(kNow);
  EXPECT_FALSE(chain.refused(*old, kNow));
  aws.write("credentials", "[default]\naws_access_key_id=NEW\naws_secret_access_key=s\naws_session_token=t\n");
  EXPECT_FALSE(chain.refused(*old, kNow + 29));
  EXPECT_TRUE(chain.refused(**chain.get(kNow + 31), kNow + 31));
  EXPECT_EQ((*chain.get(kNow + 31))->keys.access_key, "NEW");
  EXPECT_EQ(code((*later)->list("").status()), "OK");
}

TEST(S3Credentials, TheEnvironmentIsThatOfTheOpening) {
  Config config;
  {
    Environment environment(Settings{{"AWS_ACCESS_KEY_ID", "E"}, {"AWS_SECRET_ACCESS_KEY", "f"}});
    config = *make_config("s3://b", {});
  }
  auto http = Http::make("").take();
  EXPECT_EQ((*CredentialChain(config, *http).get(kNow))->keys.access_key, "E");
}

TEST(S3Credentials, ATokenGoesToNoStrangerWhoseNameBeginsAsOurs) {
  for (const char* stranger :
       {"http://localhost.evil.example/", "http://127.evil.example/", "http://127.0.0.1.evil.example",
        "http://localhost@evil.example/", "http://127.0.0.1@evil.example/", "http://[::1].evil/",
        "http://169.254.170.2.evil.example/", "ftp://localhost/", "http:///", "http://localhost:80@192.0.2.1/",
        "http://127.0.0.1:x@192.0.2.1/", "http://[::1]:80@192.0.2.1/", "http://169.254.170.2:@192.0.2.1/",
        "http://localhost\\@192.0.2.1/", "http://u:p@127.0.0.1/"}) {
    Environment environment(Settings{{"AWS_CONTAINER_CREDENTIALS_FULL_URI", stranger}});
    EXPECT_EQ(credentials_of(), "INVALID") << stranger;
  }
}

TEST(S3Credentials, ARelativeAddressOfAContainerLeadsNowhereElse) {
  for (const char* path : {"@192.0.2.1/", ".evil.example/", ":80@192.0.2.1/"}) {
    Environment environment(Settings{{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", path}});
    EXPECT_EQ(credentials_of(), "INVALID") << path;
  }
}

TEST(S3Credentials, KeysWithLineBreaksAndAnswersWithoutABoundAreNone) {
  Container container;
  for (const char* text : {"A\\r\\nX-Evil: 1", "A\\n", "A\\u0000"}) {
    container.answer = [&](int) { return key_until(text, kNow + 1000); };
    EXPECT_EQ(container.key_at(kNow), "FORMAT") << text;
  }
  container.answer = [&](int) { return answer_of("200 OK", std::string(1 << 20, '[')); };
  EXPECT_EQ(container.key_at(kNow), "IO");
  Environment environment(Settings{{"AWS_ACCESS_KEY_ID", "E"}, {"AWS_SECRET_ACCESS_KEY", "f\r\nX: y"}});
  EXPECT_EQ(credentials_of(), "INVALID");
}

TEST(S3Credentials, TheNameOfARoleIsOneNameOfBoundedLength) {
  for (const std::string& role : {std::string("a\r\nX: y"), std::string("../../x"), std::string("a?b"),
                                  std::string("a b"), std::string(1000, 'r')}) {
    HttpServer server([&](int client, const std::string& head, const std::string&) {
      return send_all(client, answer_of("200 OK", head.starts_with("PUT") ? "a-token" : role));
    });
    Environment environment(
        {{"AWS_EC2_METADATA_DISABLED", "false"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.endpoint()}});
    EXPECT_EQ(credentials_of(), "FORMAT") << role;
  }
}

TEST(S3Credentials, ARoleComesBeforeTheKeysOfItsProfile) {
  AwsFolder aws;
  aws.write("config", "[profile role]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = role\n");
  aws.write("credentials", "[role]\naws_access_key_id=A\naws_secret_access_key=s\n");
  Environment environment(aws.environment());
  EXPECT_EQ(credentials_of({.profile = "role"}), "UNSUPPORTED");
}

TEST(S3Credentials, ARefusalOfAWebIdentityIsNamed) {
  HttpServer server([](int client, const std::string&, const std::string&) {
    return send_all(client, answer_of("403 Forbidden",
                                      "<ErrorResponse><Error><Code>AccessDenied the+token</Code><Message>the+token"
                                      "</Message></Error></ErrorResponse>"));
  });
  AwsFolder aws;
  aws.write("token", "the+token\n");
  Environment environment({{"AWS_WEB_IDENTITY_TOKEN_FILE", aws / "token"},
                           {"AWS_ROLE_ARN", "arn:aws:iam::1:role/x"},
                           {"AWS_ENDPOINT_URL_STS", server.endpoint()}});
  std::string error;
  EXPECT_EQ(credentials_of({}, &error), "IO");
  EXPECT_NE(error.find("AccessDenied"), std::string::npos) << error;
  EXPECT_EQ(error.find("the+token"), std::string::npos) << error;
}

TEST(S3Credentials, TheirJsonIsReadStrictly) {
  auto parsed = parse_credentials(
      "{\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"b\",\"Token\":\"c\",\"Expiration\":\"2030-01-02T03:04:05Z\"}",
      "Token", "x");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->keys.session_token, "c");
  EXPECT_EQ(parsed->expires, 1893553445);
  for (const char* text : {"", "[]", "{\"AccessKeyId\":1,\"SecretAccessKey\":\"b\"}", "{\"AccessKeyId\":\"a\"}",
                           "{\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"b\",\"Expiration\":\"soon\"}"})
    EXPECT_EQ(code(parse_credentials(text, "Token", "x").status()), "FORMAT") << text;
}

}  // namespace
}  // namespace ckpt::store::s3

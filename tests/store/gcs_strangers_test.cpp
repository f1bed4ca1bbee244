// What a server says that is not Google, or not as it should be; and tokens that must not go there.
#include "s3/bucket.h"
#include "s3/http_server.h"
#include "store/store_suite.h"

namespace ckpt::store {
namespace {

// Answers of one server, by the first line of the request; without credentials.
class Stranger {
 public:
  explicit Stranger(std::function<std::string(const std::string& line)> answer)
      : server_([this, answer = std::move(answer)](int client, const std::string& head, const std::string& body) {
          std::lock_guard lock(mutex_);
          heads += head;
          bodies += body;
          return send_all(client, answer(head.substr(0, head.find('\r'))));
        }) {
    setenv("STORAGE_EMULATOR_HOST", server_.endpoint().c_str(), 1);
    unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
  }
  ~Stranger() { unsetenv("STORAGE_EMULATOR_HOST"); }
  std::shared_ptr<Store> store() const {
    S3Options options;
    options.timing.retry_ms = options.timing.first_ms = 50;
    return *open_bucket("gs://b/run", options);
  }
  std::string endpoint() const { return server_.endpoint(); }
  std::string heads, bodies;

 private:
  std::mutex mutex_;
  HttpServer server_;
};

// Tokens come from that server, until the variable is unset.
void be_a_user_of(const Stranger& server, const Scratch& scratch) {
  const std::string file = scratch / "user.json";
  std::ofstream(file) << R"({"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r",)"
                      << R"("token_uri":")" << server.endpoint() << R"(/token"})";
  setenv("GOOGLE_APPLICATION_CREDENTIALS", file.c_str(), 1);
}

bool asks_list(const std::string& line) { return line.find("prefix=") != line.npos; }
std::string error_of(const std::string& status, const std::string& message) {
  return answer_of(
      status, R"({"error":{"code":0,"message":")" + message + R"(","errors":[{"reason":"notFound","message":"x"}]}})");
}
const std::string kEmptyList = answer_of("200 OK", R"({"kind":"storage#objects"})");

TEST(GcsStrangers, AListIsWhatSaysThatItIsOne) {
  const std::string deep(200000, '[');
  const std::string kind = R"({"kind":"storage#objects",)";
  const std::vector<std::string> bodies = {R"({"status":"ok"})",
                                           "[]",
                                           "<html></html>",
                                           deep,
                                           kind + R"("items":)" + deep,
                                           kind + R"("items":{"a":1}})",
                                           kind + R"("items":[{"name":"run/a"}]})",
                                           kind + R"("items":[{"name":"run/a","size":"x","generation":"1"}]})",
                                           kind + R"("items":[{"name":"other/a","size":"1","generation":"1"}]})",
                                           kind + R"("nextPageToken":"t"})"};
  for (const std::string& body : bodies) {
    const Stranger server([&](const std::string&) { return answer_of("200 OK", body); });
    EXPECT_EQ(code(server.store()->list("").status()), "IO") << body.substr(0, 80);
  }
  const std::string nested = R"({"kind":"storage#objects","items":[)" + deep + std::string(200000, ']') + "]}";
  const Stranger server([&](const std::string&) { return answer_of("200 OK", nested); });
  EXPECT_EQ(code(server.store()->list("").status()), "IO");
}

TEST(GcsStrangers, OnlyAnAnswerOfTheServiceInABucketThatIsThereIsAnAbsence) {
  const auto told = [](const std::string& object, const std::string& list) {
    const Stranger server([&](const std::string& line) { return asks_list(line) ? list : object; });
    const auto found = server.store()->exists("s1/MANIFEST");
    return found.ok() ? (*found ? std::string("there") : std::string("absent")) : code(found.status());
  };
  const std::string absent = error_of("404 Not Found", "No such object: b/run/s1/MANIFEST"),
                    bare = error_of("404 Not Found", "Not Found"),
                    bucket = error_of("404 Not Found", "The specified bucket does not exist.");
  EXPECT_EQ(told(absent, kEmptyList), "absent");
  EXPECT_EQ(told(bare, kEmptyList), "absent");
  EXPECT_EQ(told(absent, bucket), "IO");
  EXPECT_EQ(told(bare, bucket), "IO");
  EXPECT_EQ(told(bucket, kEmptyList), "IO");
  EXPECT_EQ(told(absent, absent), "IO") << "a list is of no object";
  EXPECT_EQ(told(answer_of("404 Not Found", "<html>Not Found</html>"), kEmptyList), "IO");
  EXPECT_EQ(told(answer_of("404 Not Found", ""), kEmptyList), "IO");
  EXPECT_EQ(told(answer_of("200 OK", "{}"), kEmptyList), "IO");
}

// An ingress that is restarted.
TEST(GcsStrangers, A404AmidAReadIsAskedAgain) {
  for (const std::string& stray :
       {answer_of("404 Not Found", "no such service"), answer_of("404 Not Found", "Not Found\n")}) {
    int downloads = 0;
    const Stranger server([&](const std::string& line) {
      if (line.find("alt=media") == line.npos) return answer_of("200 OK", R"({"size":"2","generation":"7"})");
      if (++downloads == 1) return stray;
      return std::string(
          "HTTP/1.1 206 Partial Content\r\nx-goog-generation: 7\r\ncontent-range: bytes 0-1/2\r\n"
          "content-length: 2\r\n\r\nok");
    });
    const auto opened = server.store()->open("s1/PART_000");
    EXPECT_EQ(code(opened.status()), "OK") << opened.status().message();
    EXPECT_EQ(downloads, 2);
  }
}

TEST(GcsStrangers, ACopyEndsThatDoesNotGetOn) {
  const Stranger server([](const std::string& line) {
    return line.starts_with("POST")
               ? answer_of("200 OK", R"({"done":false,"rewriteToken":"t","totalBytesRewritten":"5"})")
               : answer_of("200 OK", R"({"size":"9","generation":"7"})");
  });
  S3Options options;
  EXPECT_EQ(code((*gcs::GcsBucket::make("gs://b/run", options))->copy("a", "7", "b")), "IO");
}

// ---- compositions ----

const std::string kObject = answer_of("200 OK", R"({"size":"1","generation":"7"})");

// Of an upload of so many pieces.
cloud::Outcome complete(size_t pieces) {
  std::vector<cloud::Bucket::Piece> sent;
  for (size_t i = 0; i < pieces; i++) sent.push_back({strformat(".ckpt/pieces/d/a/u.{:05}", i), ""});
  return (*gcs::GcsBucket::make("gs://b/run", {}))->complete_upload({"d/a", "u"}, sent);
}

TEST(GcsStrangers, APieceThatItsCompositionLeavesIsRemoved) {
  const Stranger server([](const std::string& line) {
    return asks_list(line)
               ? answer_of("200 OK", R"({"kind":"storage#objects","items":[)"
                                     R"({"name":"run/.ckpt/pieces/d/a/u.00000","size":"1","generation":"7"}]})")
               : kObject;
  });
  EXPECT_EQ(complete(2).what, cloud::Outcome::kDone);
  EXPECT_NE(server.bodies.find(R"("deleteSourceObjects":true)"), std::string::npos);
  EXPECT_NE(server.heads.find("DELETE /storage/v1/b/b/o/run%2F.ckpt%2Fpieces%2Fd%2Fa%2Fu.00000"), std::string::npos);
}

TEST(GcsStrangers, WhoeverMayNotDeleteComposesAllTheSame) {
  int composed = 0;
  const Stranger server([&](const std::string& line) {
    if (line.find("/compose") == line.npos) return asks_list(line) ? kEmptyList : kObject;
    return ++composed == 1 ? error_of("403 Forbidden", "no storage.objects.delete") : kObject;
  });
  EXPECT_EQ(complete(2).what, cloud::Outcome::kDone);
  EXPECT_EQ(composed, 2);
  EXPECT_NE(server.bodies.find(R"("deleteSourceObjects":false)"), std::string::npos);
}

// The first answer got lost, and to the second try the sources are gone.
TEST(GcsStrangers, WhetherACompositionOfPiecesWasMadeIsLookedUp) {
  for (const bool made : {true, false}) {
    const Stranger server([&](const std::string& line) {
      const std::string absent = error_of("404 Not Found", "No such object: b/x");
      if (line.find("u.1-00000/compose") != line.npos) return absent;
      if (line.find("u.1-00000?") != line.npos) return made ? kObject : absent;
      return asks_list(line) ? kEmptyList : kObject;
    });
    const cloud::Outcome outcome = complete(33);
    EXPECT_EQ(outcome.what, made ? cloud::Outcome::kDone : cloud::Outcome::kFailed);
    EXPECT_EQ(code(outcome.error), made ? "OK" : "NOT_FOUND");
  }
}

// ---- tokens ----

TEST(GcsStrangers, ATokenGoesByHttpsOrToThisMachineOnly) {
  Scratch scratch;
  const Stranger tokens([](const std::string& line) {
    return line.starts_with("POST /token") ? answer_of("200 OK", R"({"access_token":"SECRET","expires_in":3600})")
                                           : kEmptyList;
  });
  be_a_user_of(tokens, scratch);
  S3Options options;
  EXPECT_EQ(code((*open_bucket("gs://b/run", options))->list("").status()), "OK");
  EXPECT_NE(tokens.heads.find("Bearer SECRET"), std::string::npos);
  options.endpoint = "http://192.0.2.1:9";
  const Status refused = (*open_bucket("gs://b/run", options))->list("").status();
  EXPECT_EQ(code(refused), "INVALID") << refused.message();
  EXPECT_EQ(refused.message().find("SECRET"), std::string::npos) << refused.message();
  unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
}

// By the server, before its time.
TEST(GcsStrangers, ATokenThatIsRefusedIsAskedForAgainOnce) {
  for (const bool second_is_good : {true, false}) {
    Scratch scratch;
    int given = 0, asked = 0;
    const Stranger server([&](const std::string& line) {
      if (line.starts_with("POST /token"))
        return answer_of("200 OK", R"({"expires_in":3600,"access_token":"T)" + std::to_string(++given) + R"("})");
      return ++asked == 1 || !second_is_good ? error_of("401 Unauthorized", "Invalid Credentials") : kEmptyList;
    });
    be_a_user_of(server, scratch);
    EXPECT_EQ(code(server.store()->list("").status()), second_is_good ? "OK" : "IO");
    unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    EXPECT_EQ(given, 2);
    EXPECT_EQ(asked, 2);
    EXPECT_NE(server.heads.find("Bearer T2"), std::string::npos);
  }
}

TEST(GcsStrangers, NamesThatTheServiceCannotHaveAreRefused) {
  for (const std::string& root : {std::string("x\xff"), std::string(513, 'x')})
    EXPECT_EQ(code(open_bucket("gs://b/" + root, {}).status()), "INVALID") << root;
  const Stranger server([](const std::string&) { return answer_of("200 OK", R"({"size":"9","generation":"7"})"); });
  EXPECT_EQ(code(server.store()->put_if_absent("a\xff", as_bytes("x"))), "INVALID");
}

TEST(GcsStrangers, OneEndpointIsNotOfTwoServices) {
  StoreOptions options;
  options.mirror = "gs://b/run";
  options.endpoint = "https://minio.example";
  EXPECT_EQ(code(open_places("s3://b/run", options).status()), "INVALID");
}

}  // namespace
}  // namespace ckpt::store

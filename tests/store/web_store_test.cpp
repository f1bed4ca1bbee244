// The store on a web server, against servers of all manners.
#include <atomic>
#include <cstdlib>
#include <optional>

#include "base/call.h"
#include "base/job.h"
#include "s3/fault_proxy.h"
#include "s3/file_server.h"
#include "store/remote_store.h"
#include "store/store_suite.h"
#include "store/web/url.h"

namespace ckpt::store {
namespace {

constexpr size_t kLarge = 20 << 20;  // more than is taken whole

std::string content(size_t size, unsigned seed = 1) {
  const Pattern data(size, seed);
  return std::string(as_text(data.bytes()));
}

WebOptions quick() {
  WebOptions options;
  options.timing = {.connect_ms = 2000, .stall_s = 2, .retry_ms = 3000, .first_ms = 3000};
  return options;
}

WebOptions with_header(const std::string& header) {
  WebOptions options = quick();
  options.header = header;
  return options;
}

std::shared_ptr<Store> web(const std::string& uri, const WebOptions& options = quick()) {
  auto store = open_web(uri, options);
  EXPECT_TRUE(store.ok()) << store.status().message();
  return store.ok() ? store.take() : nullptr;
}

std::string read(const Reader& file, uint64_t offset, size_t size) {
  std::string text(size, '\0');
  const Status status = file.read_at(offset, std::as_writable_bytes(std::span(text)));
  return status.ok() ? text : strformat("<{}>", status_name(status.code()));
}

// What the store reads at some places of a file is what the file has.
void expect_reads(const std::string& address, const std::string& name, const std::string& all) {
  const auto file = web(address)->open(name);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ((*file)->size(), all.size());
  const size_t size = all.size();
  for (const auto& [offset, count] : {std::pair<size_t, size_t>{0, size}, {0, 1}, {size / 2, size / 3}, {size - 1, 1}})
    EXPECT_TRUE(read(**file, offset, count) == all.substr(offset, count)) << offset << " " << count;
  EXPECT_EQ(read(**file, size, 1), "<INCOMPLETE>");
}

// Variables of the environment as long as a test runs.
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

class WebStore : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("CKPT_HTTP_TOKEN");
    unsetenv("HF_TOKEN");
  }
};

TEST_F(WebStore, ReadsRangesOfWhatItOpensWithOneRequest) {
  FileServer server;
  const std::string all = content(3 << 20);
  server.put("/run7/step-1.1.1/PART_000", all);
  expect_reads(server.address() + "/run7", "step-1.1.1/PART_000", all);
  server.forget();
  auto file = web(server.address() + "/run7/")->open("step-1.1.1/PART_000");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(server.heads().size(), 1u);
  EXPECT_EQ(server.sent(), 128u << 10);
  EXPECT_EQ(read(**file, all.size() - 9, 9), all.substr(all.size() - 9));
  EXPECT_EQ(server.heads().size(), 1u) << "the end came with the opening";
  EXPECT_EQ(read(**file, 5, 10), all.substr(5, 10));
  ASSERT_EQ(server.heads().size(), 2u);
  EXPECT_EQ(header_of(server.heads()[1], "range"), "bytes=5-14");
  EXPECT_EQ(header_of(server.heads()[1], "if-match"), "\"v1\"");
  EXPECT_EQ(header_of(server.heads()[1], "accept-encoding"), "");
}

TEST_F(WebStore, ReadsEmptyAndSmallFilesAndNamesThatMustBeEncoded) {
  FileServer server;
  server.put("/empty", "");
  server.put("/a%20b%23c/%25", "text");
  auto store = web(server.address());
  EXPECT_EQ(read_text(*store, "empty"), "");
  EXPECT_EQ(read_text(*store, "a b#c/%"), "text");
  EXPECT_EQ(read_text(*store, "none"), "<NOT_FOUND>");
  EXPECT_TRUE(*store->exists("empty"));
  EXPECT_FALSE(*store->exists("none"));
}

TEST_F(WebStore, AServerThatKnowsNoLastBytesIsReadByOthers) {
  FileServer server({.ends = false});
  const std::string all = content(kLarge);
  server.put("/a", all);
  expect_reads(server.address(), "a", all);
  EXPECT_LT(server.sent(), 3 * kLarge) << "the first answer ends when it turns out to be all of the file";
}

TEST_F(WebStore, AServerWithoutRangesGivesSmallFilesAndIsRefusedForLargeOnes) {
  for (const bool lengths : {true, false}) {
    FileServer server({.ranges = false, .lengths = lengths});
    const std::string all = content(1 << 20);
    server.put("/small", all);
    server.put("/large", content(kLarge));
    expect_reads(server.address(), "small", all);
    const Status refused = web(server.address())->open("large").status();
    EXPECT_EQ(code(refused), "UNSUPPORTED") << refused.message();
    EXPECT_NE(refused.message().find("gives no ranges"), std::string::npos) << refused.message();
  }
}

TEST_F(WebStore, WhatIsReplacedOrRemovedIsGone) {
  const std::string all = content(1 << 20, 1), other = content(1 << 20, 2);
  const FileServer::Manner manners[] = {{},
                                        {.etags = false},
                                        {.weak = true},
                                        {.conditions = false},
                                        {.etags = false, .conditions = false},
                                        {.weak = true, .conditions = false}};
  for (const auto& manner : manners) {
    FileServer server(manner);
    server.put("/a", all);
    WebOptions hasty = quick();
    hasty.timing.retry_ms = 100;
    auto file = web(server.address(), hasty)->open("a");
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(read(**file, 0, 9), all.substr(0, 9));
    server.put("/a", other);
    EXPECT_EQ(read(**file, 0, 9), "<GONE>");
    server.remove("/a");
    EXPECT_EQ(read(**file, 0, 9), "<GONE>");
  }
  FileServer nothing({.etags = false, .dates = false});
  nothing.put("/a", all);
  auto file = web(nothing.address())->open("a");
  nothing.put("/a", other + "longer");
  EXPECT_EQ(read(**file, 0, 9), "<GONE>");
}

// ---- redirects ----

TEST_F(WebStore, RedirectsAreFollowedOnceAndRememberedUntilTheyEnd) {
  FileServer front, back;
  const std::string all = content(1 << 20);
  back.put("/b", all);
  std::atomic<int> signature = 1;
  front.script([&](const std::string&) {
    return redirect_to(back.address() + "/b?signature=" + std::to_string(signature), "307 Temporary Redirect");
  });
  back.script([&](const std::string& head) {
    const bool good = head.find("signature=" + std::to_string(signature) + " ") != head.npos;
    return good ? "" : answer_of("403 Forbidden", "expired");
  });
  auto file = web(front.address())->open("a");
  ASSERT_TRUE(file.ok()) << file.status().message();
  for (int i = 0; i < 3; i++) EXPECT_EQ(read(**file, 7, 9), all.substr(7, 9));
  EXPECT_EQ(front.heads().size(), 1u);
  signature = 2;
  for (int i = 0; i < 3; i++) EXPECT_EQ(read(**file, 7, 9), all.substr(7, 9));
  EXPECT_EQ(front.heads().size(), 2u);
}

TEST_F(WebStore, RedirectsMayBeRelativeAndEndSomewhere) {
  FileServer server;
  server.put("/x/y", "text");
  server.script([](const std::string& head) {
    if (head.starts_with("GET /a ")) return redirect_to("/x/z", "301 Moved");
    if (head.starts_with("GET /x/z ")) return redirect_to("y?q=1", "308 Permanent Redirect");
    if (head.starts_with("GET /loop ")) return redirect_to("/loop");
    if (head.starts_with("GET /odd ")) return redirect_to("ftp://127.0.0.1/x");
    return std::string();
  });
  auto store = web(server.address());
  EXPECT_EQ(read_text(*store, "a"), "text");
  for (const char* name : {"loop", "odd"}) {
    const Status refused = store->open(name).status();
    EXPECT_EQ(code(refused), "IO");
    EXPECT_NE(refused.message().find("redirected"), std::string::npos) << refused.message();
  }
}

TEST_F(WebStore, ATokenGoesToItsOwnHostOnly) {
  FileServer front, back;
  back.put("/b", content(1 << 20));
  front.script([&](const std::string&) { return redirect_to(back.address() + "/b"); });
  const Variable token("CKPT_HTTP_TOKEN", "secret1");
  auto file = web(front.address())->open("a");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(read(**file, 0, 3).size(), 3u);
  ASSERT_EQ(front.heads().size(), 1u);
  EXPECT_EQ(header_of(front.heads()[0], "authorization"), "Bearer secret1");
  EXPECT_EQ(back.heads().size(), 2u);
  for (const std::string& head : back.heads()) EXPECT_EQ(header_of(head, "authorization"), "");
}

// It is said for no host, so it goes nowhere where others can read it; nor through a proxy.
TEST_F(WebStore, ATokenOfTheEnvironmentGoesToThisMachineAndByTlsOrToTheHostThatItNames) {
  FileServer server;
  server.put("/a", "text");
  const std::string port = server.address().substr(server.address().rfind(':'));
  auto sent = [&](const std::string& value, const std::string& host) {
    const Variable token("CKPT_HTTP_TOKEN", value.c_str()), proxy("http_proxy", server.address().c_str());
    server.forget();
    (void)web("http://" + host)->open("a");
    return server.heads().empty() ? "" : header_of(server.heads()[0], "authorization");
  };
  EXPECT_EQ(sent("secret", "127.0.0.1" + port), "Bearer secret");
  EXPECT_EQ(sent("secret", "localhost" + port), "Bearer secret");
  EXPECT_EQ(sent("eyJ.x.y=", "127.0.0.1" + port), "Bearer eyJ.x.y=");
  EXPECT_EQ(sent("a.b==", "127.0.0.1" + port), "Bearer a.b==");
  EXPECT_EQ(sent("127.0.0.1=secret", "127.0.0.1" + port), "Bearer secret");
  EXPECT_EQ(sent("127.0.0.1" + port + "=secret", "127.0.0.1" + port), "Bearer secret");
  for (const char* other : {"127.0.0.1:1=secret", "host.example=secret", "localhost=secret"})
    EXPECT_EQ(sent(other, "127.0.0.1" + port), "") << other;
  for (const char* host : {"host.example", "127.0.0.1.example", "localhost.example", "127.1"}) {
    EXPECT_EQ(sent("secret", host), "") << host;
    EXPECT_EQ(sent(std::string(host) + "=secret", host), "") << host;
  }
  server.script([](const std::string&) { return answer_of("401 Unauthorized", ""); });
  const Variable token("CKPT_HTTP_TOKEN", "host.example=secret");
  const Status refused = web(server.address())->open("a").status();
  EXPECT_NE(refused.message().find("CKPT_HTTP_TOKEN is for another host"), std::string::npos) << refused.message();
}

// ---- who asks ----

TEST_F(WebStore, TheOptionComesBeforeTheAddressAndThatBeforeTheEnvironment) {
  FileServer server;
  server.put("/a", "text");
  const std::string with_user = "http://ann:p%40ss@" + server.address().substr(7);
  auto sent = [&](const std::string& uri, const std::string& header, const char* name) {
    server.forget();
    EXPECT_EQ(read_text(*web(uri, with_header(header)), "a"), "text");
    return header_of(server.heads().at(0), name);
  };
  EXPECT_EQ(sent(server.address(), "", "authorization"), "");
  EXPECT_EQ(sent(with_user, "", "authorization"), "Basic YW5uOnBAc3M=");
  const Variable hugging_face("HF_TOKEN", "of another place");
  EXPECT_EQ(sent(server.address(), "", "authorization"), "");
  const Variable token("CKPT_HTTP_TOKEN", "t");
  EXPECT_EQ(sent(server.address(), "", "authorization"), "Bearer t");
  EXPECT_EQ(sent(with_user, "", "authorization"), "Basic YW5uOnBAc3M=");
  EXPECT_EQ(sent(with_user, "Authorization: Token x", "authorization"), "Token x");
  EXPECT_EQ(sent(server.address(), "X-Key: y", "x-key"), "y");
  EXPECT_EQ(sent(server.address(), "X-Key: y", "authorization"), "Bearer t");
}

TEST_F(WebStore, AHeaderThatIsNoneIsRefusedWithoutBeingShown) {
  for (const char* header : {"secret", ": secret", "a b: secret", "A: secret\r\nB: secret", "Range: secret", "A:"}) {
    const Status refused = open_web("https://host/x", with_header(header)).status();
    EXPECT_EQ(code(refused), "INVALID") << header;
    EXPECT_EQ(refused.message().find("secret"), std::string::npos) << refused.message();
  }
}

TEST_F(WebStore, ErrorsNameAddressAndStatusAndNoSecret) {
  FileServer server;
  std::string status;
  server.script([&](const std::string&) { return answer_of(status, "no"); });
  const std::string uri = "http://ann:secret1@" + server.address().substr(7) + "/run7?sig=secret2";
  for (const auto& [line, expected, words] :
       {std::tuple("401 Unauthorized", "IO", "refuses the token"),
        std::tuple("403 Forbidden", "IO", "refuses the token"),
        std::tuple("404 Not Found", "NOT_FOUND", "is not there"), std::tuple("501 What", "IO", "HTTP status 501")}) {
    status = line;
    const Status refused = web(uri)->open("a").status();
    EXPECT_EQ(code(refused), expected);
    EXPECT_NE(refused.message().find(server.address() + "/run7/a"), std::string::npos) << refused.message();
    EXPECT_NE(refused.message().find(words), std::string::npos) << refused.message();
    EXPECT_EQ(refused.message().find("secret"), std::string::npos) << refused.message();
    EXPECT_EQ(*refused.detail("path"), server.address() + "/run7/a");
  }
  EXPECT_EQ(header_of(server.heads()[0], "authorization"), "Basic YW5uOnNlY3JldDE=");
  EXPECT_TRUE(server.heads()[0].starts_with("GET /run7/a?sig=secret2 ")) << server.heads()[0];
  status = "401 Unauthorized";
  const Status refused = web(server.address())->open("a").status();
  EXPECT_NE(refused.message().find("CKPT_HTTP_TOKEN"), std::string::npos) << refused.message();
}

TEST_F(WebStore, OfAProxyThatCannotBeUsedTheSecretIsNotShown) {
  for (const char* value : {"u:secret", "http://u:secret", "u:secret@", "u:sec:secret"}) {
    const Variable proxy("http_proxy", value);
    const Status refused = web("http://host.example/run7")->open("a").status();
    EXPECT_NE(code(refused), "OK") << value;
    EXPECT_EQ(refused.message().find("secret"), std::string::npos) << refused.message();
  }
}

TEST_F(WebStore, WhereNobodyListensIsSaidWithWhatToDo) {
  const Status refused = web("http://127.0.0.1:1/run7")->open("a").status();
  EXPECT_EQ(code(refused), "IO");
  EXPECT_NE(refused.message().find("https_proxy"), std::string::npos) << refused.message();
  for (const char* uri :
       {"https://", "https:///x", "http://a b/", "https://host:port/x", "https://u:secret@/x?secret"}) {
    const Status invalid = open_web(uri, quick()).status();
    EXPECT_EQ(code(invalid), "INVALID") << uri;
    EXPECT_EQ(invalid.message().find("secret"), std::string::npos) << invalid.message();
  }
}

// ---- what passes ----

TEST_F(WebStore, WhatPassesIsAskedAgain) {
  FileServer server;
  const std::string all = content(1 << 20);
  server.put("/a", all);
  for (const Fault fault :
       {Fault::kReset, Fault::kLost, Fault::kError, Fault::kSlowDown, Fault::kTruncate, Fault::kStall})
    for (const uint64_t number : {1, 2}) {
      FaultProxy proxy(server.address());
      proxy.arm(fault, number);
      auto file = web(proxy.endpoint())->open("a");
      ASSERT_TRUE(file.ok()) << name_of(fault) << file.status().message();
      EXPECT_TRUE(read(**file, 10, 1000) == all.substr(10, 1000)) << name_of(fault);
      EXPECT_NE(proxy.struck(), "") << name_of(fault);
    }
}

TEST_F(WebStore, WhatDoesNotPassInTimeIsToldWithWhatTheServerSaid) {
  FileServer server;
  server.script([&](const std::string&) { return answer_of("503 Busy", "no"); });
  const Status late = run_apart(std::make_shared<Job>(), 300,
                                [store = web(server.address())](Job&) { return store->open("a").status(); });
  EXPECT_EQ(late.code(), CKPT_TIMEOUT) << late.message();
  EXPECT_NE(late.message().find("the last try"), std::string::npos) << late.message();
  EXPECT_NE(late.message().find("HTTP status 503"), std::string::npos) << late.message();
}

TEST_F(WebStore, EveryRequestIsCountedAlsoOneThatIsRedirectedOrTriedAgain) {
  FileServer server;
  server.put("/b", content(1000));
  std::atomic<int> failures = 1;
  server.script([&](const std::string& head) {
    if (head.starts_with("GET /a ")) return redirect_to("/b");
    return failures-- > 0 ? std::string("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n") : std::string();
  });
  const auto call = std::make_shared<Call>();
  {
    const ContextScope work{CallContext(call.get())};
    ASSERT_TRUE(web(server.address())->get("a", 1 << 20).ok());
  }
  EXPECT_EQ(call->requests.gets, server.heads().size());
  EXPECT_EQ(call->requests.retries, 2u) << "the redirect is asked for again, and what it leads to";
  EXPECT_EQ(call->requests.bytes_received, 1000u);
  EXPECT_EQ(call->requests.puts + call->requests.lists + call->requests.deletes, 0u);
}

TEST_F(WebStore, PartsAreReadThroughACacheOnce) {
  FileServer server;
  const std::string all = content(3 << 20);
  server.put("/run/x.1.1/PART_000", all);
  const Scratch folder;
  for (const bool warm : {false, true}) {
    const auto opened =
        open_places(server.address() + "/run", {.cache = folder.path + "/cache", .cache_bytes = kCacheRoom});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    server.forget();
    const auto file = opened->store->open_cached("x.1.1/PART_000", all.size(), false);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_TRUE(read(**file, 0, all.size()) == all);
    EXPECT_EQ(server.sent() == 0, warm) << server.sent();
  }
}

TEST_F(WebStore, AnAnswerThatIsNotWhatWasAskedForIsRefused) {
  FileServer server;
  server.put("/a", content(1 << 20));
  auto file = web(server.address())->open("a");
  ASSERT_TRUE(file.ok());
  const std::string begin = "HTTP/1.1 206 Partial Content\r\netag: \"v1\"\r\ncontent-length: 3\r\n";
  for (const char* range : {"content-range: bytes 1-3/1048576\r\n", "content-range: bytes 0-2/*\r\n", ""}) {
    server.script([&](const std::string&) { return begin + range + "\r\nabc"; });
    EXPECT_EQ(read(**file, 0, 3), "<IO>") << range;
  }
  server.script(
      [&](const std::string&) { return "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc"; });
  EXPECT_EQ(code(web(server.address())->open("a").status()), "IO");
}

// While a server is away, what stands before it may say 404. Of the address that somebody gave it is the answer; what
// is known to be there is asked for again.
TEST_F(WebStore, AFileThatShouldBeThereIsAskedForAgainAfterA404) {
  FileServer server;
  const std::string all = content(1 << 20);
  server.put("/PART_000", all);
  std::atomic<int> away = 0, asked = 0;
  server.script([&](const std::string&) {
    asked++;
    return away-- > 0 ? answer_of("404 Not Found", "default backend - 404") : std::string();
  });
  const auto store = web(server.address());
  away = 1;
  EXPECT_EQ(code(store->open("PART_000").status()), "NOT_FOUND");
  away = 2;
  auto file = store->open_cached("PART_000", all.size(), false);
  ASSERT_TRUE(file.ok()) << file.status().message();
  away = 2;
  EXPECT_EQ(read(**file, 10, 20), all.substr(10, 20));
  asked = 0;
  EXPECT_EQ(code(store->open("none").status()), "NOT_FOUND");
  EXPECT_EQ(asked, 1);
  WebOptions hasty = quick();
  hasty.timing.retry_ms = 100;
  EXPECT_EQ(code(web(server.address(), hasty)->open_cached("none", 1, false).status()), "NOT_FOUND");
}

// ---- what a web server is not ----

TEST_F(WebStore, WritesAndListingsAreUnsupportedInWordsThatHelp) {
  auto store = web("https://host/run7");
  const Status writes[] = {store->make_root(),
                           store->prepare(),
                           store->make_directory("a"),
                           store->put_if_absent("a", as_bytes("x")),
                           store->create("a", 1).status(),
                           store->remove("a", true),
                           store->remove_directory("a"),
                           store->open_attempt("a", as_bytes("x"), "b"),
                           store->retire("a", "b", as_bytes("x")),
                           store->try_lock_exclusive("a").status()};
  for (const Status& status : writes) {
    EXPECT_EQ(code(status), "UNSUPPORTED");
    EXPECT_NE(status.message().find("https://host/run7: a web server is read-only"), std::string::npos);
  }
  for (const Status& status :
       {store->list("").status(), store->has_directory("a").status(), store->bytes_in("a").status()}) {
    EXPECT_EQ(code(status), "UNSUPPORTED");
    EXPECT_NE(status.message().find("https://host/run7/step-100.7.1"), std::string::npos);
  }
  EXPECT_FALSE((*store->lock_shared("a"))->protects());
}

// ---- addresses ----

TEST(WebUrl, PartsAreSentAndSecretsAreNotShown) {
  const auto url = web::parse_url("HTTPS://u:p@Host:443/a b/%41?q=1#part");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->sent(), "https://host/a%20b/%41?q=1");
  EXPECT_EQ(url->shown(), "https://host/a%20b/%41");
  EXPECT_EQ(url->below("x y/z").sent(), "https://host/a%20b/%41/x%20y/z?q=1");
  EXPECT_EQ(web::parse_url("http://h:80")->sent(), "http://h/");
  EXPECT_EQ(web::parse_url("http://[::1]:8080/x")->origin(), "http://[::1]:8080");
  for (const char* bracket : {"http://[::1/x", "http://::1]/x", "http://[::1]x/", "http://a[::1]/x"})
    EXPECT_EQ(code(web::parse_url(bracket).status()), "INVALID") << bracket;
}

TEST(WebUrl, AFileIsInTheFolderThatHoldsIt) {
  const auto file = split_web_url("https://u@h/a/b%20c.pt?q=/1#x");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->store, "https://u@h/a?q=/1");
  EXPECT_EQ(file->key, "b c.pt");
  for (const char* url : {"https://h", "https://h/", "https://h/a/?q=1/b", "https://h/%zz"})
    EXPECT_EQ(code(split_web_url(url).status()), "INVALID") << url;
}

TEST(WebUrl, RedirectsAreResolved) {
  const auto from = *web::parse_url("https://h/a/b?q");
  for (const auto& [location, expected] :
       {std::pair("https://x/y", "https://x/y"), std::pair("//x/y", "https://x/y"), std::pair("/y?z", "https://h/y?z"),
        std::pair("y", "https://h/a/y"), std::pair("?z", "https://h/a/b?z"), std::pair("y:z", "")}) {
    const auto to = web::redirected(from, location);
    EXPECT_EQ(to.ok() ? to->sent() : "", expected) << location;
  }
}

}  // namespace
}  // namespace ckpt::store

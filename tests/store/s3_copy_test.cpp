// Second names on an S3 server, which copies what it has: by one request, or in pieces.
#include "store/cloud/object_borrow.h"
#include "store/s3_fixture.h"

namespace ckpt::store {
namespace {

class S3Copy : public S3Special {
 protected:
  std::shared_ptr<cloud::Bucket> through_proxy() const {
    S3Options options = s3_options();
    options.endpoint = proxy.endpoint();
    options.timing.stall_s = 1;
    return home.client(options);
  }
  // Whether that key has these bytes.
  bool has(std::string_view key, Bytes bytes) const {
    const auto found = store->get(key, bytes.size());
    return found.ok() && std::ranges::equal(*found, bytes);
  }
  void put(std::string_view key, Bytes bytes) {
    ASSERT_EQ(code(write_in_pieces(*store, key, bytes, bytes.size())), "OK");
  }
  FaultProxy proxy{s3_endpoint()};
  const Pattern small{3 << 20, 1}, large{(12 << 20) + 5, 2};
};
CKPT_S3_SUITE(S3Copy);

TEST_P(S3Copy, NoByteOfItComesHere) {
  put("d/small", small.bytes());
  put("d/large", large.bytes());
  const auto client = through_proxy();
  proxy.arm(Fault::kNone, 0);
  auto one = s3::borrow_object(client, "d/small", "e/small", server_kind().copy_piece);
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(proxy.requests(), 4u) << "the new name, the object, its copy, and the end of that";
  auto three = s3::borrow_object(client, "d/large", "e/large", server_kind().copy_piece);
  ASSERT_TRUE(three.ok()) << three.status().message();
  EXPECT_EQ(proxy.requests(), 12u) << "three pieces, and the begin and the end of an upload";
  EXPECT_LT(proxy.answered(), 512u << 10) << "a look at the end of each copy";
  EXPECT_EQ((*three)->file().size(), large.bytes().size());
  ASSERT_TRUE(store->remove_directory("d").ok());
  EXPECT_TRUE(has("e/small", small.bytes()));
  EXPECT_TRUE(has("e/large", large.bytes()));
  EXPECT_TRUE((*home.client()->look("e/large"))->version.ends_with("-3\""));
  EXPECT_EQ(home.client()->list_uploads("")->size(), 0u);
}

TEST_P(S3Copy, AnObjectThatIsReplacedMeanwhileIsGoneAndNothingIsMade) {
  for (const bool in_pieces : {false, true}) {
    const Bytes bytes = in_pieces ? large.bytes() : small.bytes();
    const std::string from = strformat("d/{}", in_pieces ? "large" : "small");
    put(from, bytes);
    std::atomic<bool> done = false;
    proxy.script([&](const std::string& line) {
      const bool copies =
          is_gcs() ? line.find("/rewriteTo/") != line.npos : line.starts_with("PUT") && line.find("/e/b") != line.npos;
      if (copies && !done.exchange(true)) {
        EXPECT_TRUE(store->put_over(from, as_bytes("another")).ok());
      }
      return "";
    });
    const auto borrowed = s3::borrow_object(through_proxy(), from, "e/b", server_kind().copy_piece);
    EXPECT_TRUE(done);
    EXPECT_EQ(borrowed.status().code(), CKPT_GONE) << borrowed.status().message();
    EXPECT_FALSE(*store->exists("e/b"));
    EXPECT_EQ(home.client()->list_uploads("")->size(), 0u);
  }
}

// CKPT_S3_ALL=1: each fault at each request; else one of them.
TEST_P(S3Copy, AnyRequestMayMeetAnyFault) {
  const bool all = std::getenv("CKPT_S3_ALL") != nullptr;
  constexpr size_t kKinds = std::size(kFaults);
  put("d/small", small.bytes());
  put("d/large", large.bytes());
  for (const std::string name : {"small", "large"}) {
    const Bytes bytes = name == "small" ? small.bytes() : large.bytes();
    uint64_t requests = 0;
    for (uint64_t number = 0; number <= requests; number++)
      for (size_t kind = 0; kind < kKinds; kind++) {
        if (number == 0 ? kind != 0 : !all && kind != number % kKinds) continue;
        proxy.arm(number == 0 ? Fault::kNone : kFaults[kind], number);
        const auto borrowed = s3::borrow_object(through_proxy(), "d/" + name, "e/" + name, server_kind().copy_piece);
        if (number == 0) requests = proxy.requests();
        const std::string what = strformat("{} at request {}, {}", name_of(kFaults[kind]), number, proxy.struck());
        ASSERT_TRUE(borrowed.ok()) << what << ": " << borrowed.status().message();
        EXPECT_TRUE(has("e/" + name, bytes)) << what;
        ASSERT_TRUE(store->remove("e/" + name, true).ok());
        const bool may_begin_two = proxy.struck().find("?uploads=") != std::string::npos;
        const auto uploads = *home.client()->list_uploads("");
        EXPECT_LE(uploads.size(), may_begin_two ? 1u : 0u) << what;
        for (const auto& upload : uploads) (void)home.client()->abort_upload(upload);
      }
  }
}

// As ranks do that need the same file: each gets it, and the one that comes second finds it.
TEST_P(S3Copy, SeveralMayAskForTheSameName) {
  put("d/large", large.bytes());
  std::vector<std::string> told(6);
  {
    std::vector<std::jthread> threads;
    for (std::string& one : told)
      threads.emplace_back([&] {
        one = code(s3::borrow_object(home.client(), "d/large", "e/large", server_kind().copy_piece).status());
      });
  }
  for (const std::string& one : told) EXPECT_EQ(one, "OK");
  EXPECT_TRUE(has("e/large", large.bytes()));
  EXPECT_EQ(home.client()->list_uploads("")->size(), 0u);
}

}  // namespace
}  // namespace ckpt::store

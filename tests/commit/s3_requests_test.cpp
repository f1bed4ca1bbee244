// What sessions, saves, loads, verification and retention cost on an S3 server: the requests that their jobs count, by
// kind, against those that the server got. Runs where tests/s3/run.sh has started one.
#include <thread>

#include "checkpoint/given_names.h"
#include "commit/any_store.h"
#include "commit/retention.h"
#include "maintain/copy.h"
#include "maintain/verify.h"
#include "s3/fault_proxy.h"
#include "s3/server.h"
#include "store/shell_store.h"

namespace ckpt::commit {
namespace {

using store::Fault;

// "3 GET 2 PUT 1 LIST 0 DELETE 0 again".
std::string text_of(const RequestCounters& tally) {
  return strformat("{} GET {} PUT {} LIST {} DELETE {} again", tally.gets.load(), tally.puts.load(), tally.lists.load(),
                   tally.deletes.load(), tally.retries.load());
}

struct Told {
  Status status;
  std::string requests;
  uint64_t sent = 0, received = 0;
};

Told under_a_job(const std::function<Status(Job&)>& work) {
  Job job;
  Told told;
  told.status = job.run(CKPT_JOB_DONE, work);
  told.requests = text_of(job.call->requests);
  told.sent = job.call->requests.bytes_sent;
  told.received = job.call->requests.bytes_received;
  return told;
}

Status save_numbers(const std::shared_ptr<session::Session>& session, int64_t step, uint64_t columns, Job& job,
                    const SaveOptions& options = {}) {
  CKPT_ASSIGN(auto save, save::Save::make(session, "s" + std::to_string(step), step, options));
  std::vector<float> values(kStateRows * columns);
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i % 1000) + static_cast<float>(step);
  CKPT_TRY(save->add_tensor("w", f32_rows(kStateRows, columns, 0, kStateRows), values.data(),
                            values.size() * sizeof(float)));
  CKPT_TRY(save->begin());
  return save->work(job, false);
}

Status load_numbers(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint, uint64_t columns, Job& job) {
  CKPT_ASSIGN(auto load, load::Load::make(checkpoint, {}));
  std::vector<float> values(kStateRows * columns);
  CKPT_TRY(load->add_tensor("w", f32_rows(kStateRows, columns, 0, kStateRows), values.data(),
                            values.size() * sizeof(float)));
  CKPT_TRY(load->begin());
  return load->work(job);
}

class S3Requests : public testing::TestWithParam<int> {
 protected:
  std::shared_ptr<store::Store> through_proxy() const {
    store::S3Options options = store::s3_options();
    options.endpoint = proxy_->endpoint();
    return *store::open_bucket(uri_, options);
  }
  std::shared_ptr<store::Store> direct() const { return *store::open_bucket(uri_, store::s3_options()); }

  const std::unique_ptr<store::FaultProxy> proxy_ = std::make_unique<store::FaultProxy>(store::s3_endpoint());
  const std::string uri_ = store::fresh_s3_uri();
};
INSTANTIATE_TEST_SUITE_P(Server, S3Requests, testing::Range(0, store::s3_endpoint() ? 1 : 0));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(S3Requests);

// Not every service tells all of an object with its bytes: each opening asks once more.
uint64_t asked(uint64_t requests, uint64_t opened) { return requests + (store::server_kind().tells_all ? 0 : opened); }
std::string asked(uint64_t gets, uint64_t opened, const std::string& others) {
  return strformat("{} GET {} 0 again", asked(gets, opened), others);
}

TEST_P(S3Requests, OfASmallSaveAndLoadAreAFew) {
  auto store = through_proxy();
  auto session = open_session(store);
  proxy_->arm(Fault::kNone, 0);
  const Told saved = under_a_job([&](Job& job) { return save_numbers(session, 1, 5, job); });
  ASSERT_TRUE(saved.status.ok()) << saved.status.message();
  EXPECT_EQ(saved.requests, asked(4, 1, "3 PUT 5 LIST 1 DELETE")) << "a session's first save lists what the run has";
  EXPECT_EQ(proxy_->requests(), asked(13, 1));
  EXPECT_GT(saved.sent, 8192u);

  proxy_->arm(Fault::kNone, 0);
  std::shared_ptr<checkpoint::Checkpoint> opened;
  const Told opening = under_a_job([&](Job&) -> Status {
    CKPT_ASSIGN(opened, checkpoint::Checkpoint::open(store, {"s1.1.1", "main"}));
    return Ok();
  });
  ASSERT_TRUE(opening.status.ok()) << opening.status.message();
  EXPECT_EQ(opening.requests, asked(2, 2, "0 PUT 0 LIST 0 DELETE"));
  EXPECT_EQ(proxy_->requests(), asked(2, 2));

  const Told newest =
      under_a_job([&](Job&) { return checkpoint::Checkpoint::open(store, {"latest", "main"}).status(); });
  ASSERT_TRUE(newest.status.ok()) << newest.status.message();
  EXPECT_EQ(newest.requests, asked(2, 2, "0 PUT 1 LIST 0 DELETE")) << "the listing says which MANIFEST; the store's id";

  proxy_->arm(Fault::kNone, 0);
  ASSERT_TRUE(checkpoint::find_checkpoint(*store, {"latest", "main"}).ok());
  EXPECT_EQ(proxy_->requests(), asked(3, 2)) << "to find it is to open it";

  ASSERT_TRUE(checkpoint::give_name(*store, "main", "prod", "s1.1.1").ok());
  const Told named =
      under_a_job([&](Job&) { return checkpoint::Checkpoint::open(store, {"name:prod", "main"}).status(); });
  ASSERT_TRUE(named.status.ok()) << named.status.message();
  EXPECT_EQ(named.requests, asked(4, 3, "0 PUT 0 LIST 0 DELETE")) << "the first word, and that there is no second one";

  proxy_->arm(Fault::kNone, 0);
  const Told loaded = under_a_job([&](Job& job) { return load_numbers(opened, 5, job); });
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  EXPECT_EQ(loaded.requests, asked(1, 1, "0 PUT 0 LIST 0 DELETE")) << "all of so small a part comes with its end";
  EXPECT_EQ(proxy_->requests(), asked(1, 1));
  EXPECT_GT(loaded.received, kStateRows * 5 * sizeof(float));
}

// Sixteen processes would ask no more than this one.
TEST_P(S3Requests, OfALoadFromACacheAreNoneOnceAllOfItIsThere) {
  Folder folder;
  auto session = open_session(direct());
  ASSERT_TRUE(under_a_job([&](Job& job) { return save_numbers(session, 1, 200000, job); }).status.ok());
  for (const char* expected : {"3 GET 0 PUT 0 LIST 0 DELETE 0 again", "0 GET 0 PUT 0 LIST 0 DELETE 0 again"}) {
    auto store = *store::open_cache(through_proxy(), {.cache = {.directory = folder.path, .bytes = store::kCacheRoom}});
    auto opened = *checkpoint::Checkpoint::open(store, {"s1.1.1", "main"});
    proxy_->arm(Fault::kNone, 0);
    const Told loaded = under_a_job([&](Job& job) { return load_numbers(opened, 200000, job); });
    ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
    EXPECT_EQ(loaded.requests, expected);
    EXPECT_EQ(std::to_string(proxy_->requests()), std::string(expected).substr(0, 1));
  }
}

// 9.6 MB, in two parts of an upload.
TEST_P(S3Requests, OfALargerSaveLoadVerificationCopyAndRetentionAreInProportion) {
  constexpr uint64_t kMany = 200000;
  auto store = through_proxy();
  auto session = open_session(store);
  const Told saved = under_a_job([&](Job& job) { return save_numbers(session, 1, kMany, job); });
  ASSERT_TRUE(saved.status.ok()) << saved.status.message();
  EXPECT_EQ(saved.requests, "5 GET 6 PUT 5 LIST 1 DELETE 0 again") << "begin, two parts, completion";
  EXPECT_GT(saved.sent, kStateRows * kMany * sizeof(float));
  auto opened = *checkpoint::Checkpoint::open(store, {"s1.1.1", "main"});

  proxy_->arm(Fault::kNone, 0);
  const Told loaded = under_a_job([&](Job& job) { return load_numbers(opened, kMany, job); });
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  EXPECT_EQ(loaded.requests, "2 GET 0 PUT 0 LIST 0 DELETE 0 again") << "the part's end, up to 16 MiB";
  EXPECT_EQ(proxy_->requests(), 2u);

  const Told verified = under_a_job([&](Job& job) { return maintain::verify_checkpoint(*opened, {}, job); });
  ASSERT_TRUE(verified.status.ok()) << verified.status.message();
  EXPECT_EQ(verified.requests, "5 GET 0 PUT 0 LIST 0 DELETE 0 again");

  Report report;
  auto to = fresh_memory_store();
  const Told copied = under_a_job([&](Job& job) { return maintain::copy_checkpoint(*opened, *to, {}, &report, job); });
  ASSERT_TRUE(copied.status.ok()) << copied.status.message();
  EXPECT_EQ(copied.requests, "4 GET 0 PUT 0 LIST 0 DELETE 0 again");

  const Told again = under_a_job([&](Job& job) { return save_numbers(session, 2, 5, job); });
  ASSERT_TRUE(again.status.ok()) << again.status.message();
  const Told pruned =
      under_a_job([&](Job& job) { return apply_retention(*store, {.run = "main", .keep_last = 1}, &report, job); });
  ASSERT_TRUE(pruned.status.ok()) << pruned.status.message();
  EXPECT_EQ(pruned.requests, "12 GET 4 PUT 5 LIST 3 DELETE 0 again")
      << "whether its session may still ask, the word for it, whether its label is a trainer's own and whether it is "
         "kept, which its remover claims";
}

// As the benchmark counts them: by the job of the load, from a reader that is open. To open it by its id are two more,
// as `latest` three.
TEST_P(S3Requests, OfOneTensorAreAtMostThree) {
  constexpr uint64_t kLarge = (32 << 20) / (kStateRows * sizeof(float)) + 1;  // columns: 32 MiB, two reads
  auto store = through_proxy();
  auto session = open_session(store);
  ASSERT_TRUE(under_a_job([&](Job& job) { return save_numbers(session, 1, kLarge, job); }).status.ok());
  proxy_->arm(Fault::kNone, 0);
  auto opened = *checkpoint::Checkpoint::open(store, {"s1.1.1", "main"});
  EXPECT_EQ(proxy_->requests(), asked(2, 2));
  const Told loaded = under_a_job([&](Job& job) { return load_numbers(opened, kLarge, job); });
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  EXPECT_EQ(loaded.requests, asked(3, 1, "0 PUT 0 LIST 0 DELETE")) << "the part's end, twice up to 16 MiB";
  EXPECT_EQ(proxy_->requests(), asked(5, 3));
}

// As in a file of more than 72 GiB, whose parts must be larger than blocks usually are: nothing is copied for them.
TEST_P(S3Requests, OfAPartAreNoMoreThanTheStoreTakesBlocks) {
  struct FewBlocks : store::ShellStore {
    using ShellStore::ShellStore;
    store::Traits traits() const override {
      store::Traits traits = ShellStore::traits();
      traits.most_blocks = 3;
      return traits;
    }
  };
  constexpr uint64_t kLarge = (48 << 20) / (kStateRows * sizeof(float));  // columns: 48 MiB
  auto session = open_session(std::make_shared<FewBlocks>(through_proxy()));
  const Told saved = under_a_job([&](Job& job) { return save_numbers(session, 1, kLarge, job); });
  ASSERT_TRUE(saved.status.ok()) << saved.status.message();
  EXPECT_EQ(saved.requests, "5 GET 8 PUT 5 LIST 1 DELETE 0 again")
      << "record, begin, 3 + 1 parts, completion, MANIFEST";
  auto opened = *checkpoint::Checkpoint::open(through_proxy(), {"s1.1.1", "main"});
  EXPECT_TRUE(under_a_job([&](Job& job) { return load_numbers(opened, kLarge, job); }).status.ok());
}

TEST_P(S3Requests, OfTwoJobsOfOneHandleAreToldApart) {
  constexpr uint64_t kMany = 200000;
  auto store = through_proxy();
  auto session = open_session(store);
  ASSERT_TRUE(under_a_job([&](Job& job) { return save_numbers(session, 1, kMany, job); }).status.ok());
  const auto load = [&](Job& job) -> Status {
    CKPT_ASSIGN(auto opened, checkpoint::Checkpoint::open(store, {"s1.1.1", "main"}));
    return load_numbers(opened, kMany, job);
  };
  const auto verify = [&](Job& job) -> Status {
    CKPT_ASSIGN(auto opened, checkpoint::Checkpoint::open(store, {"s1.1.1", "main"}));
    return maintain::verify_checkpoint(*opened, {}, job);
  };
  const std::string loading = under_a_job(load).requests, verifying = under_a_job(verify).requests;
  EXPECT_NE(loading, verifying);
  for (int i = 0; i < 5; i++) {
    Told other;
    std::thread thread([&] { other = under_a_job(verify); });
    const Told loaded = under_a_job(load);
    thread.join();
    EXPECT_EQ(loaded.requests, loading);
    EXPECT_EQ(other.requests, verifying);
  }
}

TEST_P(S3Requests, ThatAreTriedAgainCountTwiceAndAreToldApart) {
  auto store = through_proxy();
  auto session = open_session(store);
  ASSERT_TRUE(under_a_job([&](Job& job) { return save_numbers(session, 1, 200000, job); }).status.ok());
  auto opened = *checkpoint::Checkpoint::open(store, {"s1.1.1", "main"});
  for (const Fault fault : {Fault::kError, Fault::kTruncate, Fault::kSlowDown}) {
    auto fresh = *checkpoint::Checkpoint::open(store, {"s1.1.1", "main"});
    proxy_->arm(fault, 2);
    const Told loaded = under_a_job([&](Job& job) { return load_numbers(fresh, 200000, job); });
    EXPECT_TRUE(loaded.status.ok()) << loaded.status.message();
    EXPECT_EQ(loaded.requests, "3 GET 0 PUT 0 LIST 0 DELETE 1 again") << store::name_of(fault);
  }
}

}  // namespace
}  // namespace ckpt::commit

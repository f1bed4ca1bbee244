// What ckpt_job_stats tells of requests to a server.
#include <cstdlib>

#include "api/ranks.h"
#include "s3/http_server.h"

namespace ckpt_test {
namespace {

// A bucket with nothing in it, whose server fails at first.
struct EmptyBucket {
  std::mutex mutex;
  uint64_t lists = 0, others = 0, bytes = 0;
  ckpt::store::HttpServer server{[this](int client, const std::string& head, const std::string&) {
    std::lock_guard lock(mutex);
    const bool fails = lists + others == 0, is_list = head.find("list-type=2") != head.npos;
    (is_list ? lists : others)++;
    const std::string body = fails     ? ""
                             : is_list ? "<ListBucketResult></ListBucketResult>"
                                       : "<Error><Code>NoSuchKey</Code></Error>";
    bytes += body.size();
    const char* status = fails ? "500 Internal Server Error" : is_list ? "200 OK" : "404 Not Found";
    return ckpt::store::send_all(client, ckpt::store::answer_of(status, body));
  }};
};

TEST(JobStats, CountTheRequestsThatACallMakesAndThoseThatItRepeats) {
  setenv("AWS_ACCESS_KEY_ID", "testkey", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "testsecret", 1);
  EmptyBucket bucket;
  Error error;
  ckpt_store* opened = nullptr;
  Options where = options({});
  ASSERT_EQ(ckpt_options_set_str(where.get(), "endpoint", bucket.server.endpoint().c_str(), error), CKPT_OK);
  ASSERT_EQ(ckpt_store_open(&opened, "s3://bucket/run", where.get(), error), CKPT_OK) << error.text();
  const Store store(opened);
  ckpt_job* made = nullptr;
  ASSERT_EQ(ckpt_job_new(&made, error), CKPT_OK);
  const Job job(made);
  Options pruning = options({{"keep_last", 1}});
  ASSERT_EQ(ckpt_options_set_job(pruning.get(), job.get(), error), CKPT_OK);
  EXPECT_EQ(ckpt_store_prune(store.get(), pruning.get(), nullptr, error), CKPT_OK) << error.text();
  const ckpt_job_stats stats = stats_of(job);
  EXPECT_GE(stats.list_count, 2u);
  EXPECT_EQ(stats.list_count, bucket.lists);
  EXPECT_EQ(stats.get_count + stats.put_count + stats.delete_count, bucket.others);
  EXPECT_EQ(stats.retry_count, 1u);
  EXPECT_EQ(stats.bytes_received, bucket.bytes);
  EXPECT_EQ(stats.bytes_sent, 0u);
}

TEST(JobStats, OfALocalStoreTellOfNoRequests) {
  const StorePlace place("dir");
  World world(place.uri(), 1);
  const Bytes data = pattern(100, 1);
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) { add(save, "w", whole(CKPT_DTYPE_U8, {100}), data); });
  const Reader reader = open_reader(world.store);
  Error error;
  ckpt_job* made = nullptr;
  ASSERT_EQ(ckpt_reader_verify(reader.get(), nullptr, &made, error), CKPT_OK) << error.text();
  const Job job(made);
  EXPECT_EQ(ckpt_job_wait(job.get(), CKPT_JOB_DONE, -1, error), CKPT_OK);
  const ckpt_job_stats stats = stats_of(job);
  EXPECT_GT(stats.bytes_read, 0u);
  EXPECT_EQ(stats.get_count + stats.put_count + stats.list_count + stats.delete_count + stats.retry_count, 0u);
  EXPECT_EQ(stats.bytes_sent + stats.bytes_received, 0u);
}

}  // namespace
}  // namespace ckpt_test

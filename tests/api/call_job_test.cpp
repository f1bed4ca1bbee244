// Jobs for calls that block: watched and cancelled from another thread, one call each, refused where nothing would look
// at them.
#include <filesystem>
#include <thread>

#include "api/ranks.h"
#include "api/tables.h"
#include "ckpt_file.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(CallJob);

Job new_job() {
  ckpt_job* job = nullptr;
  Error error;
  EXPECT_EQ(ckpt_job_new(&job, error), CKPT_OK) << error.text();
  return Job(job);
}

Options under(const Job& job, const std::vector<Setting>& settings = {}) {
  Options made = options(settings);
  Error error;
  EXPECT_EQ(ckpt_options_set_job(made.get(), job.get(), error), CKPT_OK) << error.text();
  return made;
}

void save_one(const Session& session, const std::string& label, int64_t step, const Bytes& data) {
  Save save = new_save(session, label, {}, step);
  add(save.get(), "w", whole(CKPT_DTYPE_U8, {static_cast<int64_t>(data.size())}), data);
  run(save);
}

Bytes small() { return pattern(100, 1); }

ckpt_status diff(const Reader& a, const Reader& b, const Options& options, Error& error) {
  ckpt_report* report = nullptr;
  const ckpt_status status = ckpt_reader_diff(a.get(), b.get(), options.get(), &report, error);
  ckpt_report_free(report);
  return status;
}

TEST_P(CallJob, TellsHowFarItIsAndHowItEnded) {
  World world(place.uri(), 1);
  save_one(world.sessions[0], "a", 1, pattern(20 << 20, 1));
  save_one(world.sessions[0], "b", 2, pattern(20 << 20, 2));
  const Job job = new_job();
  EXPECT_EQ(ckpt_job_state(job.get()), CKPT_JOB_NEW);
  Error error;
  EXPECT_EQ(ckpt_job_wait(job.get(), CKPT_JOB_DONE, 0, error), CKPT_TIMEOUT);
  EXPECT_EQ(diff(open_reader(world.store, "a"), open_reader(world.store, "b"), under(job), error), CKPT_OK)
      << error.text();
  EXPECT_EQ(ckpt_job_state(job.get()), CKPT_JOB_DONE);
  EXPECT_EQ(ckpt_job_wait(job.get(), CKPT_JOB_DONE, 0, error), CKPT_OK) << error.text();
  EXPECT_EQ(stats_of(job).bytes_total, 20u << 20);
  EXPECT_EQ(stats_of(job).bytes_done, 20u << 20);
}

TEST_P(CallJob, ServesOneCall) {
  World world(place.uri(), 1);
  save_one(world.sessions[0], "a", 1, small());
  const Reader reader = open_reader(world.store);
  const Job job = new_job();
  const Options bag = under(job);
  Error error;
  EXPECT_EQ(diff(reader, reader, bag, error), CKPT_OK) << error.text();
  EXPECT_EQ(diff(reader, reader, bag, error), CKPT_INVALID);
  EXPECT_NE(error.text().find("ckpt_job_new"), std::string::npos) << error.text();
  EXPECT_EQ(ckpt_options_set_job(bag.get(), nullptr, error), CKPT_OK) << "taken out again";
  EXPECT_EQ(diff(reader, reader, bag, error), CKPT_OK) << error.text();
  // The job of a save has its work already.
  Save save = new_save(world.sessions[0], "b");
  ckpt_job* started = nullptr;
  EXPECT_EQ(ckpt_save_start(save.get(), &started, error), CKPT_OK) << error.text();
  const Job busy(started);
  EXPECT_EQ(diff(reader, reader, under(busy), error), CKPT_INVALID);
  EXPECT_EQ(ckpt_job_wait(busy.get(), CKPT_JOB_COMMITTED, -1, error), CKPT_OK) << error.text();
}

TEST_P(CallJob, ASessionThatWaitsForRanksIsCancelled) {
  const Store store = open_store(place.uri());
  const std::vector<Setting> meet = {{"rendezvous", 1}, {"timeout_ms", 600000}};
  for (const uint32_t rank : {0u, 1u}) {
    const Job job = new_job();
    ckpt_status status = CKPT_OK;
    std::thread waiting([&] {
      ckpt_session* session = nullptr;
      status = ckpt_session_open(&session, store.get(), rank, 2, nullptr, under(job, meet).get(), nullptr);
    });
    while (ckpt_job_state(job.get()) == CKPT_JOB_NEW) std::this_thread::yield();
    ckpt_job_cancel(job.get());
    waiting.join();
    EXPECT_EQ(status, CKPT_CANCELLED) << rank;
    EXPECT_EQ(ckpt_job_state(job.get()), CKPT_JOB_CANCELLED) << rank;
  }
}

TEST(CallJobOnDisk, TheOtherRankIsToldThatRankZeroWasCancelled) {
  const Scratch scratch;
  const Store store = open_store(scratch.path());
  const Job job = new_job();
  ckpt_status leader = CKPT_OK, other = CKPT_OK;
  const std::vector<Setting> meet = {{"rendezvous", 1}, {"timeout_ms", 600000}};
  auto open = [&](uint32_t rank, const Options& bag, ckpt_status* status) {
    ckpt_session* session = nullptr;
    *status = ckpt_session_open(&session, store.get(), rank, 3, nullptr, bag.get(), nullptr);
    ckpt_session_free(session);
  };
  std::thread leading([&] { open(0, under(job, meet), &leader); });
  std::thread joining([&] { open(1, options(meet), &other); });
  // Rank 1 has its place; rank 2 never comes.
  while (!std::filesystem::exists(scratch / ".ckpt/sessions/1/rank.1")) std::this_thread::yield();
  ckpt_job_cancel(job.get());
  leading.join();
  joining.join();
  EXPECT_EQ(leader, CKPT_CANCELLED);
  EXPECT_EQ(other, CKPT_ABORTED);
}

TEST_P(CallJob, CallsThatDoNotWorkUnderOneRefuseIt) {
  World world(place.uri(), 1);
  save_one(world.sessions[0], "a", 1, small());
  const Reader reader = open_reader(world.store);
  const Job job = new_job();
  const Options bag = under(job);
  Error error;
  ckpt_store* store = nullptr;
  EXPECT_EQ(ckpt_store_open(&store, place.uri().c_str(), bag.get(), error), CKPT_INVALID);
  EXPECT_NE(error.text().find("does not work under one"), std::string::npos) << error.text();
  auto info = sized<ckpt_checkpoint_info>();
  EXPECT_EQ(ckpt_store_find(world.store.get(), "latest", bag.get(), &info, error), CKPT_INVALID);
  ckpt_reader* opened = nullptr;
  EXPECT_EQ(ckpt_reader_open(&opened, world.store.get(), "latest", bag.get(), error), CKPT_INVALID);
  const void* data = nullptr;
  uint64_t size = 0;
  EXPECT_EQ(ckpt_reader_map(reader.get(), "w", bag.get(), &data, &size, error), CKPT_INVALID);
  ckpt_job* started = nullptr;
  EXPECT_EQ(ckpt_reader_verify(reader.get(), bag.get(), &started, error), CKPT_INVALID);
  ckpt_load* load = nullptr;
  EXPECT_EQ(ckpt_load_new(&load, reader.get(), bag.get(), error), CKPT_INVALID);
  ckpt_save* save = nullptr;
  EXPECT_EQ(ckpt_save_new(&save, world.sessions[0].get(), "b", 1, bag.get(), error), CKPT_INVALID);
  ckpt_file* file = nullptr;
  EXPECT_EQ(ckpt_file_open(&file, "nothing.pt", bag.get(), error), CKPT_INVALID);
  EXPECT_EQ(ckpt_job_state(job.get()), CKPT_JOB_NEW) << "it can still be used";
}

TEST_P(CallJob, FreedEarlyItIsKeptByTheOptionsAndCancelsNothing) {
  World world(place.uri(), 1);
  save_one(world.sessions[0], "a", 1, small());
  const Reader reader = open_reader(world.store);
  Job job = new_job();
  const Options bag = under(job);
  job.reset();
  Error error;
  EXPECT_EQ(diff(reader, reader, bag, error), CKPT_OK) << error.text();
  EXPECT_EQ(ckpt_job_new(nullptr, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_options_set_job(nullptr, nullptr, error), CKPT_INVALID);
}

// Ids in a bucket each.
void save_ids(const Session& session, const std::string& label, uint64_t count) {
  Save save = new_save(session, label);
  TestTable table{{}, {}};
  for (uint64_t id = 0; id < count; id++) table.ids.push_back(id);
  table.add(save.get());
  run(save);
}

TEST_P(CallJob, OfAShareCountsTheIdsThatAreLookedAt) {
  World world(place.uri(), 1);
  save_ids(world.sessions[0], "a", 1000);
  const Reader reader = open_reader(world.store);
  const Ids list{5, 7, 5000};
  const std::pair<ckpt_share_desc, uint64_t> shares[] = {
      {of_count(CKPT_SHARE_MOD, 1, 3), 1000}, {share_desc(CKPT_SHARE_IDS), 3}, {share_desc(CKPT_SHARE_ALL), 0}};
  for (const auto& [desc, ids] : shares) {
    const Job job = new_job();
    ckpt_share* share = nullptr;
    const size_t listed = desc.kind == CKPT_SHARE_IDS ? list.size() : 0;
    Error error;
    EXPECT_EQ(ckpt_share_open(&share, reader.get(), "t", &desc, list.data(), listed, under(job).get(), error), CKPT_OK)
        << error.text();
    ckpt_share_free(share);
    EXPECT_EQ(ckpt_job_state(job.get()), CKPT_JOB_DONE);
    EXPECT_EQ(stats_of(job).bytes_total, 8 * ids);
    EXPECT_EQ(stats_of(job).bytes_done, 8 * ids);
  }
}

// In the middle: as soon as the counters move. Each call has much more to do then.
TEST(CallJobInTheMiddle, DiffCopyShareImportAndExportEndSoon) {
  const Scratch scratch;
  const Store store = open_store(scratch / "store");
  const Session session = open_session(store);
  const size_t size = 256 << 20;
  save_one(session, "a", 1, pattern(size, 1));
  save_one(session, "b", 2, pattern(size, 2));
  const Reader a = open_reader(store, "a"), b = open_reader(store, "b");
  auto stopped = [](const char* what, const std::function<ckpt_status(const ckpt_options*)>& call) {
    const Job job = new_job();
    const Options bag = under(job, {{"compression", "bitplane-lz4"}, {"threads", 1}});  // the import takes its time
    ckpt_status status = CKPT_OK;
    std::thread working([&] { status = call(bag.get()); });
    while (ckpt_job_state(job.get()) < CKPT_JOB_DONE && stats_of(job).bytes_done == 0) std::this_thread::yield();
    ckpt_job_cancel(job.get());
    working.join();
    EXPECT_EQ(status, CKPT_CANCELLED) << what;
    EXPECT_LT(stats_of(job).bytes_done, stats_of(job).bytes_total) << what;
  };
  ckpt_report* report = nullptr;
  stopped("diff", [&](auto* bag) { return ckpt_reader_diff(a.get(), b.get(), bag, &report, nullptr); });
  const Store to = open_store(scratch / "to");
  stopped("copy", [&](auto* bag) { return ckpt_reader_copy(a.get(), to.get(), bag, nullptr, nullptr); });
  EXPECT_EQ(committed_count(to), 0u);
  save_ids(session, "table", 60000);
  const Reader table = open_reader(store, "table");
  const ckpt_share_desc filter = of_count(CKPT_SHARE_MOD, 0, 2, 1);  // looks at the ids one by one
  ckpt_share* share = nullptr;
  stopped("share",
          [&](auto* bag) { return ckpt_share_open(&share, table.get(), "t", &filter, nullptr, 0, bag, nullptr); });
  EXPECT_EQ(share, nullptr);
  const std::string path = scratch / "x.safetensors";
  stopped("export", [&](auto* bag) { return ckpt_export(a.get(), path.c_str(), bag, nullptr); });
  Error error;
  ASSERT_EQ(ckpt_export(a.get(), path.c_str(), nullptr, error), CKPT_OK) << error.text();
  stopped("import", [&](auto* bag) { return ckpt_import(store.get(), path.c_str(), "l", 1, bag, nullptr, nullptr); });
  EXPECT_EQ(committed_count(store), 3u);
}

}  // namespace
}  // namespace ckpt_test

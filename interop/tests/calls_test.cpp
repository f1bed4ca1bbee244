// Imports and exports as calls: their job, what ends them, and what an import keeps others from while it looks. By the
// C API alone, so that it is also run against both shared libraries.
#include <filesystem>
#include <thread>

#include "ckpt_layer.h"
#include "no_threads.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

class Calls : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    must([&](auto** err) { return ckpt_job_new(&job_, err); });
    must([&](auto** err) { return ckpt_options_new(&options_, err); });
    must([&](auto** err) { return ckpt_options_set_job(options_, job_, err); });
  }
  void TearDown() override {
    ckpt_options_free(options_);
    ckpt_job_free(job_);
    StoreTest::TearDown();
  }
  ckpt_job_stats stats() const {
    ckpt_job_stats stats{};
    stats.struct_size = sizeof stats;
    must([&](auto** err) { return ckpt_job_stats_get(job_, &stats, err); });
    return stats;
  }

  ckpt_job* job_ = nullptr;
  ckpt_options* options_ = nullptr;
};

// Ends by itself, as a job that its program cancels once some of its work is done.
TEST_F(Calls, AnExportIsCancelledInTheMiddleAlsoWhereNoThreadIsToBeHad) {
  save("a", {{{"w", CKPT_DTYPE_U8, {256 << 20}, std::string(256 << 20, 'x')}}, {}, ""});
  ckpt_reader* const reader = open("a", "main");
  const std::string to = path("a.safetensors");
  std::thread cancelling([&] {
    while (ckpt_job_state(job_) < CKPT_JOB_DONE && stats().bytes_done == 0) std::this_thread::yield();
    ckpt_job_cancel(job_);
  });
  Failure failure;
  {
    const ckpt_test::NoThreads none;
    failure = attempt([&](auto** err) { return ckpt_export(reader, to.c_str(), options_, err); });
  }
  cancelling.join();
  EXPECT_EQ(failure.code, CKPT_CANCELLED) << failure.message;
  EXPECT_EQ(ckpt_job_state(job_), CKPT_JOB_CANCELLED);
  EXPECT_LT(stats().bytes_done, stats().bytes_total);
  EXPECT_FALSE(std::filesystem::exists(to));
  ckpt_reader_free(reader);
}

// Of a library above this one, say, whose program cancels its job.
TEST_F(Calls, OneInsideACallThatWasCancelledIsCancelled) {
  save("a", {{floats("w", {1000})}, {}, ""});
  ASSERT_EQ(export_to(path("a.safetensors"), "a").code, CKPT_OK);
  ckpt_reader* const reader = open("a", "main");
  ckpt_call* around = nullptr;
  must([&](auto** err) { return ckpt_call_new(&around, options_, err); });
  ckpt_job_cancel(job_);
  auto inside = [&] {
    const Failure out =
        attempt([&](auto** err) { return ckpt_export(reader, path("b.safetensors").c_str(), nullptr, err); });
    EXPECT_EQ(out.code, CKPT_CANCELLED) << out.message;
    const Failure in = import_from(path("a.safetensors"), "b");
    EXPECT_EQ(in.code, CKPT_CANCELLED) << in.message;
  };
  ckpt_call_run(around, CKPT_CALL_WORK, [](void* work) { (*static_cast<decltype(inside)*>(work))(); }, &inside);
  ckpt_call_finish(around, nullptr);
  ckpt_call_free(around);
  EXPECT_FALSE(std::filesystem::exists(path("b.safetensors")));
  ckpt_reader_free(reader);
}

TEST_F(Calls, AnImportTellsItsJobWhatItDidAndHowLongItTook) {
  write_file(path("w.safetensors"), file_of(padded("{" + entry("w", "F32", "[1024]", 0, 4096) + "}"), pattern(4096)));
  must([&](auto** err) { return ckpt_import(store_, path("w.safetensors").c_str(), "a", 1, options_, nullptr, err); });
  EXPECT_EQ(ckpt_job_state(job_), CKPT_JOB_DONE);
  EXPECT_EQ(stats().bytes_total, 4096u);
  EXPECT_EQ(stats().bytes_done, 4096u);
  EXPECT_GT(stats().total_us, 0u);
}

}  // namespace
}  // namespace ckpt::interop

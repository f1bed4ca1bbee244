// Ranks as threads of one process, each with its own session, on a store in memory or in a scratch directory.
// Also the reference for saves and loads: tensors as plain row-major bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <random>

#include "api/support.h"

namespace ckpt_test {

using Bytes = std::vector<unsigned char>;
using Ints = std::vector<int64_t>;

// A fresh place for a store: "mem", "dir", or "s3", on the server of tests/s3/run.sh.
class StorePlace {
 public:
  explicit StorePlace(const std::string& kind);
  const std::string& uri() const { return uri_; }
  bool in_memory() const { return !scratch_.has_value(); }

 private:
  std::optional<Scratch> scratch_;
  std::string uri_;
};

// Base of the tests that run on every kind of store.
class OnEveryStore : public ::testing::TestWithParam<const char*> {
 protected:
  StorePlace place{GetParam()};
};
#define CKPT_ON_EVERY_STORE(Suite)                                        \
  class Suite : public ::ckpt_test::OnEveryStore {};                      \
  INSTANTIATE_TEST_SUITE_P(Store, Suite, ::testing::Values("mem", "dir"), \
                           [](const auto& test) { return std::string(test.param); })

struct Outcome {
  ckpt_status status = CKPT_OK;
  std::string text, tensor, ranks, rank, found;
};

// All ranks of a run that share one session.
struct World {
  World(const std::string& uri, uint32_t size, const std::vector<Setting>& settings = {},
        const std::vector<Setting>& store_settings = {});
  // At the same time, every rank makes a save, lets `fill` add to it and runs it. Returns the outcomes by rank.
  std::vector<Outcome> save(const std::string& label, const std::vector<Setting>& settings,
                            const std::function<void(uint32_t rank, ckpt_save*)>& fill, int64_t step = -1);
  // The same; every rank must see it committed.
  void commit(const std::string& label, const std::vector<Setting>& settings,
              const std::function<void(uint32_t rank, ckpt_save*)>& fill);

  // Keeps memory that `fill` makes until the save has run.
  const Bytes& keep(Bytes bytes);

  Store store;
  std::vector<Session> sessions;

 private:
  std::mutex mutex_;
  std::deque<Bytes> kept_;
};

// Without a step, a label "s7" is of step 7, so that retention concerns it; any other has none.
Save new_save(const Session& session, const std::string& label, const std::vector<Setting>& settings = {},
              int64_t step = -1);
Reader open_reader(const Store& store, const std::string& selector = "latest");
Load new_load(const Reader& reader, const std::vector<Setting>& settings = {});

// Adds must succeed.
void add(ckpt_save* save, const std::string& name, const ckpt_tensor_desc& desc, const void* data, uint64_t bytes);
void add(ckpt_save* save, const std::string& name, const ckpt_tensor_desc& desc, const Bytes& data);
void ask(const Load& load, const std::string& name, const ckpt_tensor_desc& desc, void* data, uint64_t bytes);
void add_alias(ckpt_save* save, const std::string& name, const std::string& target,
               const ckpt_tensor_desc* view = nullptr);
void add_object(ckpt_save* save, const std::string& name, int32_t scope, const Bytes& data, const char* type = nullptr);
// They must end well, as a job that is started must begin.
void run(const Save& save);
void run(const Load& load);
Job start(const Save& save);
Job start(const Load& load);
void finish(const Job& job, int32_t state = CKPT_JOB_DONE);
// What a call that should fail says.
Outcome outcome_of(ckpt_status status, const Error& error);

// Loads one region of a tensor into memory that held a fill pattern before.
Bytes load_one(const Reader& reader, const std::string& name, const ckpt_tensor_desc& desc, uint64_t bytes,
               const std::vector<Setting>& settings = {});
uint32_t committed_count(const Store& store);
std::vector<ckpt_segment_info> segments_of(const Reader& reader, const std::string& name);
ckpt_tensor_info tensor_info(const Reader& reader, const std::string& name);
ckpt_job_stats stats_of(const Job& job);
ckpt_checkpoint_info info_of(const Reader& reader);
ckpt_checkpoint_info find(const Store& store, const std::string& selector = "latest");

struct Found {
  int32_t kind;
  ckpt_status status;
  std::string text, name, part;
  uint64_t offset, size, count;
  int64_t first, last;
  double max_abs, max_rel;
};
std::vector<Found> findings_of(const ckpt_report* report);
// Of one kind.
std::vector<Found> those_of(const std::vector<Found>& found, int32_t kind);
// The findings of a verify job that must end OK.
std::vector<Found> verify(const ckpt_reader* reader, const std::vector<Setting>& settings = {{"threads", 1}});
std::string to_text(const std::vector<Found>& found);

// ---- the reference ----

int64_t volume(const Ints& extent);
// Calls visit(index in the flattened tensor) for the elements of a box, in row-major order of the box.
void for_each_element(const Ints& shape, const Ints& offset, const Ints& extent,
                      const std::function<void(int64_t element)>& visit);
Bytes take_box(const Bytes& tensor, size_t width, const Ints& shape, const Ints& offset, const Ints& extent);
// Strides in elements of `extent` packed in row-major order.
Ints packed_strides(const Ints& extent);

struct TestBox {
  Ints offset, extent;
};
// Cuts a tensor into about `pieces` boxes at random places along random dimensions.
std::vector<TestBox> random_tiling(std::mt19937_64& random, const Ints& shape, size_t pieces);
Ints random_shape(std::mt19937_64& random, int max_ndim, int64_t max_elements);
TestBox random_box(std::mt19937_64& random, const Ints& shape);

}  // namespace ckpt_test

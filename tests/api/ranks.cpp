#include "api/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <sstream>
#include <thread>

namespace ckpt_test {

StorePlace::StorePlace(const std::string& kind) {
  static std::atomic<int> next{0};
  if (kind == "dir") scratch_.emplace();
  const char *server = std::getenv("CKPT_TEST_S3"), *google = std::getenv("CKPT_TEST_GCS");
  if (kind == "s3")
    setenv(google ? "STORAGE_EMULATOR_HOST" : "AWS_ENDPOINT_URL_S3", google ? google : server ? server : "", 1);
  const std::string name = "test-" + std::to_string(getpid()) + "-" + std::to_string(next++);
  uri_ = scratch_ ? *scratch_ / "store"
                  : (kind != "s3" ? "mem:"
                     : google     ? "gs://ckpt-test/"
                                  : "s3://ckpt-test/") +
                        name;
}

World::World(const std::string& uri, uint32_t size, const std::vector<Setting>& settings,
             const std::vector<Setting>& store_settings)
    : store(open_store(uri, store_settings)) {
  sessions.push_back(open_session(store, 0, size, nullptr, settings));
  for (uint32_t rank = 1; rank < size; rank++)
    sessions.push_back(open_session(store, rank, size, ckpt_session_string(sessions[0].get())));
}

const Bytes& World::keep(Bytes bytes) {
  std::lock_guard lock(mutex_);
  return kept_.emplace_back(std::move(bytes));
}

Outcome outcome_of(ckpt_status status, const Error& error) {
  return {
      status, error.text(), error.detail("tensor"), error.detail("ranks"), error.detail("rank"), error.detail("found")};
}

std::vector<Outcome> World::save(const std::string& label, const std::vector<Setting>& settings,
                                 const std::function<void(uint32_t rank, ckpt_save*)>& fill, int64_t step) {
  std::vector<Outcome> outcomes(sessions.size());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < sessions.size(); rank++)
    threads.emplace_back([&, rank] {
      Save made = new_save(sessions[rank], label, settings, step);
      fill(rank, made.get());
      Error error;
      ckpt_status status = ckpt_save_run(made.get(), error);
      outcomes[rank] = outcome_of(status, error);
    });
  for (auto& thread : threads) thread.join();
  return outcomes;
}

void World::commit(const std::string& label, const std::vector<Setting>& settings,
                   const std::function<void(uint32_t rank, ckpt_save*)>& fill) {
  for (const Outcome& outcome : save(label, settings, fill)) EXPECT_EQ(outcome.status, CKPT_OK) << outcome.text;
}

Save new_save(const Session& session, const std::string& label, const std::vector<Setting>& settings, int64_t step) {
  if (step < 0 && label.size() > 1 && label[0] == 's' && label.find_first_not_of("0123456789", 1) == label.npos)
    step = std::stoll(label.substr(1));
  ckpt_save* save = nullptr;
  Error error;
  ckpt_status status = ckpt_save_new(&save, session.get(), label.c_str(), step, options(settings).get(), error);
  EXPECT_EQ(status, CKPT_OK) << error.text();
  return Save(save);
}

Reader open_reader(const Store& store, const std::string& selector) {
  ckpt_reader* reader = nullptr;
  Error error;
  EXPECT_EQ(ckpt_reader_open(&reader, store.get(), selector.c_str(), nullptr, error), CKPT_OK) << error.text();
  return Reader(reader);
}

Load new_load(const Reader& reader, const std::vector<Setting>& settings) {
  ckpt_load* load = nullptr;
  Error error;
  EXPECT_EQ(ckpt_load_new(&load, reader.get(), options(settings).get(), error), CKPT_OK) << error.text();
  return Load(load);
}

void add(ckpt_save* save, const std::string& name, const ckpt_tensor_desc& desc, const void* data, uint64_t bytes) {
  Error error;
  EXPECT_EQ(ckpt_save_add_tensor(save, name.c_str(), &desc, data, bytes, CKPT_DEVICE_CPU, 0, error), CKPT_OK)
      << error.text();
}

void add(ckpt_save* save, const std::string& name, const ckpt_tensor_desc& desc, const Bytes& data) {
  add(save, name, desc, data.data(), data.size());
}

void ask(const Load& load, const std::string& name, const ckpt_tensor_desc& desc, void* data, uint64_t bytes) {
  Error error;
  EXPECT_EQ(ckpt_load_add_tensor(load.get(), name.c_str(), &desc, data, bytes, CKPT_DEVICE_CPU, 0, error), CKPT_OK)
      << error.text();
}

void add_alias(ckpt_save* save, const std::string& name, const std::string& target, const ckpt_tensor_desc* view) {
  Error error;
  EXPECT_EQ(ckpt_save_add_alias(save, name.c_str(), target.c_str(), view, error), CKPT_OK) << error.text();
}

void add_object(ckpt_save* save, const std::string& name, int32_t scope, const Bytes& data, const char* type) {
  Error error;
  EXPECT_EQ(ckpt_save_add_object(save, name.c_str(), type, scope, data.data(), data.size(), error), CKPT_OK)
      << error.text();
}

void run(const Save& save) {
  Error error;
  EXPECT_EQ(ckpt_save_run(save.get(), error), CKPT_OK) << error.text();
}
void run(const Load& load) {
  Error error;
  EXPECT_EQ(ckpt_load_run(load.get(), error), CKPT_OK) << error.text();
}

Job start(const Save& save) {
  ckpt_job* job = nullptr;
  Error error;
  EXPECT_EQ(ckpt_save_start(save.get(), &job, error), CKPT_OK) << error.text();
  return Job(job);
}
Job start(const Load& load) {
  ckpt_job* job = nullptr;
  Error error;
  EXPECT_EQ(ckpt_load_start(load.get(), &job, error), CKPT_OK) << error.text();
  return Job(job);
}
void finish(const Job& job, int32_t state) {
  Error error;
  EXPECT_EQ(ckpt_job_wait(job.get(), state, -1, error), CKPT_OK) << error.text();
}

Bytes load_one(const Reader& reader, const std::string& name, const ckpt_tensor_desc& desc, uint64_t bytes,
               const std::vector<Setting>& settings) {
  Bytes data(bytes, 0xa5);
  Load load = new_load(reader, settings);
  ask(load, name, desc, data.data(), bytes);
  run(load);
  return data;
}

uint32_t committed_count(const Store& store) {
  const auto all = entries_of(store);
  return static_cast<uint32_t>(
      std::ranges::count(all, int32_t{CKPT_CHECKPOINT_COMMITTED}, &ckpt_checkpoint_info::state));
}

ckpt_checkpoint_info info_of(const Reader& reader) {
  auto info = sized<ckpt_checkpoint_info>();
  Error error;
  EXPECT_EQ(ckpt_reader_info(reader.get(), &info, error), CKPT_OK) << error.text();
  return info;
}

ckpt_checkpoint_info find(const Store& store, const std::string& selector) {
  auto info = sized<ckpt_checkpoint_info>();
  Error error;
  EXPECT_EQ(ckpt_store_find(store.get(), selector.c_str(), nullptr, &info, error), CKPT_OK) << error.text();
  return info;
}

ckpt_tensor_info tensor_info(const Reader& reader, const std::string& name) {
  auto info = sized<ckpt_tensor_info>();
  Error error;
  EXPECT_EQ(ckpt_reader_tensor_find(reader.get(), name.c_str(), &info, error), CKPT_OK) << error.text();
  return info;
}

std::vector<ckpt_segment_info> segments_of(const Reader& reader, const std::string& name) {
  std::vector<ckpt_segment_info> segments(tensor_info(reader, name).segment_count);
  for (uint32_t i = 0; i < segments.size(); i++) {
    segments[i].struct_size = sizeof segments[i];
    Error error;
    EXPECT_EQ(ckpt_reader_segment_at(reader.get(), name.c_str(), i, &segments[i], error), CKPT_OK) << error.text();
  }
  return segments;
}

ckpt_job_stats stats_of(const Job& job) {
  auto stats = sized<ckpt_job_stats>();
  Error error;
  EXPECT_EQ(ckpt_job_stats_get(job.get(), &stats, error), CKPT_OK) << error.text();
  return stats;
}

static std::string text_of(const char* text) { return text ? text : ""; }

std::vector<Found> findings_of(const ckpt_report* report) {
  std::vector<Found> all;
  for (size_t i = 0; i < ckpt_report_count(report); i++) {
    auto finding = sized<ckpt_finding>();
    EXPECT_EQ(ckpt_report_at(report, i, &finding, nullptr), CKPT_OK);
    all.push_back({finding.kind, finding.status, text_of(finding.text), text_of(finding.name), text_of(finding.part),
                   finding.offset, finding.size, finding.count, finding.first_element, finding.last_element,
                   finding.max_abs, finding.max_rel});
  }
  return all;
}

std::vector<Found> those_of(const std::vector<Found>& found, int32_t kind) {
  std::vector<Found> some;
  std::ranges::copy_if(found, std::back_inserter(some), [&](const Found& one) { return one.kind == kind; });
  return some;
}

std::vector<Found> verify(const ckpt_reader* reader, const std::vector<Setting>& settings) {
  ckpt_job* raw_job = nullptr;
  Error error;
  EXPECT_EQ(ckpt_reader_verify(reader, settings.empty() ? nullptr : options(settings).get(), &raw_job, error), CKPT_OK)
      << error.text();
  Job job(raw_job);
  finish(job);
  ckpt_report* report = nullptr;
  EXPECT_EQ(ckpt_job_report(job.get(), &report, error), CKPT_OK) << error.text();
  Report owner(report);
  return findings_of(report);
}

std::string to_text(const std::vector<Found>& found) {
  std::ostringstream text;
  for (const Found& one : found) text << "  " << ckpt_status_name(one.status) << " " << one.text << "\n";
  return text.str();
}

// ---- the reference ----

int64_t volume(const Ints& extent) {
  int64_t product = 1;
  for (int64_t n : extent) product *= n;
  return product;
}

Ints packed_strides(const Ints& extent) {
  Ints strides(extent.size(), 1);
  for (size_t d = extent.size(); d-- > 1;) strides[d - 1] = strides[d] * extent[d];
  return strides;
}

void for_each_element(const Ints& shape, const Ints& offset, const Ints& extent,
                      const std::function<void(int64_t element)>& visit) {
  Ints at(shape.size(), 0), strides = packed_strides(shape);
  for (int64_t n = volume(extent); n > 0; n--) {
    int64_t element = 0;
    for (size_t d = 0; d < shape.size(); d++) element += (offset[d] + at[d]) * strides[d];
    visit(element);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < extent[d]) break;
      at[d] = 0;
    }
  }
}

Bytes take_box(const Bytes& tensor, size_t width, const Ints& shape, const Ints& offset, const Ints& extent) {
  Bytes out;
  out.reserve(static_cast<size_t>(volume(extent)) * width);
  for_each_element(shape, offset, extent, [&](int64_t element) {
    auto from = tensor.begin() + element * static_cast<int64_t>(width);
    out.insert(out.end(), from, from + static_cast<int64_t>(width));
  });
  return out;
}

static int64_t pick(std::mt19937_64& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

std::vector<TestBox> random_tiling(std::mt19937_64& random, const Ints& shape, size_t pieces) {
  std::vector<TestBox> boxes{{Ints(shape.size(), 0), shape}};
  for (size_t tries = 0; boxes.size() < pieces && !shape.empty() && tries < 10 * pieces; tries++) {
    TestBox& box = boxes[static_cast<size_t>(pick(random, 0, static_cast<int64_t>(boxes.size()) - 1))];
    size_t d = static_cast<size_t>(pick(random, 0, static_cast<int64_t>(shape.size()) - 1));
    if (box.extent[d] < 2) continue;
    int64_t cut = pick(random, 1, box.extent[d] - 1);
    TestBox rest = box;
    rest.offset[d] += cut;
    rest.extent[d] -= cut;
    box.extent[d] = cut;
    boxes.push_back(rest);
  }
  return boxes;
}

Ints random_shape(std::mt19937_64& random, int max_ndim, int64_t max_elements) {
  Ints shape(static_cast<size_t>(pick(random, 0, max_ndim)));
  int64_t left = max_elements;
  for (int64_t& n : shape) {
    n = pick(random, 1, std::max<int64_t>(1, std::min<int64_t>(left, 40)));
    left /= n;
  }
  std::shuffle(shape.begin(), shape.end(), random);
  return shape;
}

TestBox random_box(std::mt19937_64& random, const Ints& shape) {
  TestBox box{Ints(shape.size(), 0), Ints(shape.size(), 0)};
  for (size_t d = 0; d < shape.size(); d++) {
    box.offset[d] = pick(random, 0, shape[d] - 1);
    box.extent[d] = pick(random, 1, shape[d] - box.offset[d]);
  }
  return box;
}

}  // namespace ckpt_test

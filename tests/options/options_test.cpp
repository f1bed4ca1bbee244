// used_by of options.def names exactly the calls that read an option. The linker (--wrap, tests/CMakeLists.txt) sends
// every read of an option through the two functions below, which note it.
#include "base/options.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "base/text.h"
#include "ckpt.h"
#include "ckpt_file.h"

namespace ckpt {
namespace {

using Keys = std::set<std::string, std::less<>>;

std::mutex mutex;
Keys from_given, from_any;  // keys that were read: from the bag `given`, from any bag
const Options* given = nullptr;
// Set in that bag, to its default: a call may work on a copy. The calls whose option it is take no copies.
const char* const kMark = "dry_run";

void note(const Options* bag, std::string_view key) {
  std::lock_guard lock(mutex);
  from_any.emplace(key);
  if (bag == given || (given && bag->is_set(kMark))) from_given.emplace(key);
}

}  // namespace

// Options::str and Options::integer by their names in object files: the real ones, and those that callers get here.
#define STR "_ZNK4ckpt7Options3strB5cxx11ESt17basic_string_viewIcSt11char_traitsIcEE"
#define INTEGER "_ZNK4ckpt7Options7integerESt17basic_string_viewIcSt11char_traitsIcEE"
std::string real_str(const Options* self, std::string_view key) __asm__("__real_" STR);
int64_t real_integer(const Options* self, std::string_view key) __asm__("__real_" INTEGER);
std::string noted_str(const Options* self, std::string_view key) __asm__("__wrap_" STR);
int64_t noted_integer(const Options* self, std::string_view key) __asm__("__wrap_" INTEGER);

std::string noted_str(const Options* self, std::string_view key) {
  note(self, key);
  return real_str(self, key);
}
int64_t noted_integer(const Options* self, std::string_view key) {
  note(self, key);
  return real_integer(self, key);
}

namespace {

template <typename T, auto kFree>
struct Handle {
  T* it = nullptr;
  Handle() = default;
  Handle(const Handle&) = delete;
  ~Handle() { kFree(it); }
};

// What used_by says of a call, for instance "save".
Keys listed(std::string_view call) {
  Keys keys;
  for (const OptionRow& row : option_rows())
    if (row.is_for(call)) keys.emplace(row.key);
  return keys;
}

class OptionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ckpt-options-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Makes a call with options of its own; `make` may fail where only the reading matters.
  void record(const std::function<void(const ckpt_options*)>& make) {
    ckpt_options bag;
    ASSERT_TRUE(bag.bag.set_int(kMark, -1).ok());
    from_given.clear();
    from_any.clear();
    given = &bag.bag;
    make(&bag);
    given = nullptr;
  }
  void expect_reads(const std::string& call, const std::function<void(const ckpt_options*)>& make) {
    SCOPED_TRACE(call);
    record(make);
    EXPECT_EQ(from_given, listed(call));
    checked_.insert(call);
  }
  // These hand what used_by names on to calls of the API, which must read it.
  void expect_hands_on(const std::string& call, const std::function<void(const ckpt_options*)>& make) {
    SCOPED_TRACE(call);
    record(make);
    for (const std::string& key : listed(call)) EXPECT_TRUE(from_any.contains(key)) << key;
    checked_.insert(call);
  }

  void use_store();
  void use_session();
  void use_reader();
  void use_files();

  std::string folder_;
  Keys checked_;
  Handle<ckpt_store, ckpt_store_free> store_;
  Handle<ckpt_session, ckpt_session_free> session_;
  Handle<ckpt_reader, ckpt_reader_free> reader_;
};

void OptionsTest::use_store() {
  expect_reads("store", [&](auto* bag) { ckpt_store_open(&store_.it, (folder_ + "/store").c_str(), bag, nullptr); });
  ASSERT_NE(store_.it, nullptr);
}

void OptionsTest::use_session() {
  // Rank 0 reads some, those who join it others.
  expect_reads("session", [&](auto* bag) {
    Handle<ckpt_session, ckpt_session_free> first, second;
    ASSERT_EQ(ckpt_session_open(&first.it, store_.it, 0, 2, nullptr, bag, nullptr), CKPT_OK);
    const char* string = ckpt_session_string(first.it);
    ASSERT_EQ(ckpt_session_open(&second.it, store_.it, 1, 2, string, bag, nullptr), CKPT_OK);
  });
  ASSERT_EQ(ckpt_session_open(&session_.it, store_.it, 0, 1, nullptr, nullptr, nullptr), CKPT_OK);
  Handle<ckpt_save, ckpt_save_free> save;
  expect_reads("save", [&](auto* bag) { ckpt_save_new(&save.it, session_.it, "a", 1, bag, nullptr); });
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = CKPT_DTYPE_F32;
  float element = 1;
  ASSERT_EQ(ckpt_save_add_tensor(save.it, "w", &desc, &element, sizeof element, CKPT_DEVICE_CPU, 0, nullptr), CKPT_OK);
  ASSERT_EQ(ckpt_save_run(save.it, nullptr), CKPT_OK);
}

void OptionsTest::use_reader() {
  expect_reads("find", [&](auto* bag) {
    ckpt_checkpoint_info info{};
    info.struct_size = sizeof info;
    ckpt_store_find(store_.it, "latest", bag, &info, nullptr);
  });
  expect_reads("prune", [&](auto* bag) { ckpt_store_prune(store_.it, bag, nullptr, nullptr); });
  expect_reads("repair", [&](auto* bag) { ckpt_store_repair(store_.it, "none.1.1", bag, nullptr, nullptr); });
  expect_reads("reader", [&](auto* bag) { ckpt_reader_open(&reader_.it, store_.it, "latest", bag, nullptr); });
  ASSERT_NE(reader_.it, nullptr);
  expect_reads("map", [&](auto* bag) {
    const void* data;
    uint64_t size;
    ckpt_reader_map(reader_.it, "w", bag, &data, &size, nullptr);
  });
  expect_reads("verify", [&](auto* bag) {
    Handle<ckpt_job, ckpt_job_free> job;
    ckpt_reader_verify(reader_.it, bag, &job.it, nullptr);
  });
  expect_reads("diff", [&](auto* bag) {
    Handle<ckpt_report, ckpt_report_free> report;
    ckpt_reader_diff(reader_.it, reader_.it, bag, &report.it, nullptr);
  });
  expect_reads("share", [&](auto* bag) {
    ckpt_share_desc all{};
    all.struct_size = sizeof all;
    Handle<ckpt_share, ckpt_share_free> share;
    ckpt_share_open(&share.it, reader_.it, "none", &all, nullptr, 0, bag, nullptr);
  });
  expect_reads("copy", [&](auto* bag) { ckpt_reader_copy(reader_.it, store_.it, bag, nullptr, nullptr); });
  expect_reads("load", [&](auto* bag) {
    Handle<ckpt_load, ckpt_load_free> load;
    ckpt_load_new(&load.it, reader_.it, bag, nullptr);
  });
}

void OptionsTest::use_files() {
  const std::string path = folder_ + "/w.pt";
  expect_hands_on("export", [&](auto*) {  // each format has options of its own
    ckpt_options hfai;                    // the tree of this checkpoint is not what it wants
    ASSERT_TRUE(hfai.bag.set_str("format", "hfai").ok());
    EXPECT_EQ(ckpt_export(reader_.it, (folder_ + "/hfai").c_str(), &hfai, nullptr), CKPT_MISMATCH);
    ASSERT_EQ(ckpt_export(reader_.it, path.c_str(), nullptr, nullptr), CKPT_OK);
    EXPECT_EQ(ckpt_export(reader_.it, (folder_ + "/w.safetensors").c_str(), nullptr, nullptr), CKPT_OK);
  });
  expect_reads("file", [&](auto* bag) {
    Handle<ckpt_file, ckpt_file_free> file;
    EXPECT_EQ(ckpt_file_open(&file.it, path.c_str(), bag, nullptr), CKPT_OK);
  });
  expect_hands_on("import", [&](auto*) {
    ckpt_options bag;  // without a run the session chooses one
    ASSERT_TRUE(bag.bag.set_str("run", "main").ok());
    EXPECT_EQ(ckpt_import(store_.it, path.c_str(), "b", 1, &bag, nullptr, nullptr), CKPT_OK);
  });
}

// A second row would be shown, and never be looked at.
TEST(Options, HaveOneRowForEachKey) {
  Keys keys;
  for (const OptionRow& row : option_rows()) EXPECT_TRUE(keys.emplace(row.key).second) << row.key;
}

TEST_F(OptionsTest, UsedByNamesTheCallsThatReadAnOption) {
  use_store();
  use_session();
  if (!session_.it) return;
  use_reader();
  if (!reader_.it) return;
  use_files();

  Keys named;
  for (const OptionRow& row : option_rows())
    for (std::string_view call : split(row.used_by, ' ')) named.emplace(call);
  EXPECT_EQ(named, checked_);
}

}  // namespace
}  // namespace ckpt

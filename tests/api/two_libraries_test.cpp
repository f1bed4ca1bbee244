// libckpt_files above libckpt: they are of one version; and where memory is short, no exception gets out of either.
#include <dlfcn.h>

#include <cstdlib>
#include <functional>
#include <new>

#include "api/ranks.h"
#include "ckpt_file.h"
#include "ckpt_layer.h"

// These are in this program, which comes before its libraries: so they are those of all.
namespace {
const char* pretended_version = nullptr;
[[maybe_unused]] constexpr int64_t kEnough = -1;
[[maybe_unused]] thread_local int64_t allocations_left = kEnough;
}  // namespace

__attribute__((visibility("default"))) const char* ckpt_version_string(void) {
  static const auto own = reinterpret_cast<decltype(&ckpt_version_string)>(dlsym(RTLD_NEXT, "ckpt_version_string"));
  return pretended_version ? pretended_version : own();
}

// A sanitizer has operators of its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CKPT_TEST_MEMORY 1
void* operator new(size_t size) {
  void* const memory = allocations_left == 0 ? nullptr : std::malloc(std::max<size_t>(size, 1));
  if (!memory) throw std::bad_alloc();
  if (allocations_left > 0) allocations_left--;
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace ckpt_test {
namespace {

class TwoLibraries : public testing::Test {
 protected:
  TwoLibraries() {
    const Scratch out;
    const World world(out / "store", 1);
    Save save = new_save(world.sessions[0], "a");
    add(save.get(), "w", whole(CKPT_DTYPE_U8, {100}), data_);
    Error error;
    EXPECT_EQ(ckpt_save_run(save.get(), error), CKPT_OK) << error.text();
    const Reader reader = open_reader(world.store);
    EXPECT_EQ(ckpt_export(reader.get(), path_.c_str(), nullptr, error), CKPT_OK) << error.text();
  }

  const Scratch scratch_;
  const std::string path_ = scratch_ / "w.safetensors";
  const Bytes data_ = pattern(100, 1);
};

TEST_F(TwoLibraries, OfTwoVersionsAreRefused) {
  const Store store = open_store(scratch_ / "store");
  const Session session = open_session(store);
  Save save = new_save(session, "a");
  Error error;
  ASSERT_EQ(ckpt_save_run(save.get(), error), CKPT_OK) << error.text();
  const Reader reader = open_reader(store);
  ckpt_file* file = nullptr;
  const std::string out = scratch_ / "x.safetensors";
  const std::function<ckpt_status()> calls[] = {
      [&] { return ckpt_import(store.get(), path_.c_str(), "l", 1, nullptr, nullptr, error); },
      [&] { return ckpt_export(reader.get(), out.c_str(), nullptr, error); },
      [&] { return ckpt_file_open(&file, path_.c_str(), nullptr, error); }};
  for (const auto& call : calls) {
    pretended_version = "9.9.9";
    EXPECT_EQ(call(), CKPT_UNSUPPORTED) << error.text();
    pretended_version = nullptr;
    EXPECT_EQ(error.detail("found"), "9.9.9");
    EXPECT_EQ(error.detail("expected"), ckpt_version_string());
    EXPECT_EQ(call(), CKPT_OK) << error.text();
  }
  ckpt_file_free(file);
}

#ifdef CKPT_TEST_MEMORY

// Has each allocation of this thread fail in turn, with all that follow, until there is memory for all that is said.
void fail_at_each(ckpt_status expected, const std::function<ckpt_status(ckpt_error**)>& call) {
  int failed = 0;
  ckpt_error* whole = nullptr;
  ASSERT_EQ(call(&whole), expected);
  const std::string text = ckpt_error_message(whole);
  ckpt_error_free(whole);
  for (int64_t count = 0;; count++) {
    ckpt_error* error = nullptr;
    allocations_left = count;
    const ckpt_status status = call(&error);
    allocations_left = kEnough;
    ASSERT_EQ(ckpt_error_status(error), status) << count;
    const bool complete = ckpt_error_message(error) == text;
    ckpt_error_free(error);
    ASSERT_TRUE(status == expected || (status == CKPT_NOMEM && !complete)) << count << ": " << status;
    if (complete) break;
    ASSERT_LT(count, 1000);
    failed++;
  }
  EXPECT_GT(failed, 0);
}

TEST_F(TwoLibraries, GiveNomemWhereNoMemoryIsToBeHad) {
  ckpt_file* file = nullptr;
  Error error;
  ASSERT_EQ(ckpt_file_open(&file, path_.c_str(), nullptr, error), CKPT_OK) << error.text();
  ckpt_file_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  fail_at_each(CKPT_NOT_FOUND, [&](ckpt_error** err) { return ckpt_file_tensor_at(file, 7, &tensor, err); });
  const ckpt_tensor_desc other = whole(CKPT_DTYPE_F32, {25});  // its error has facts
  Bytes memory(100);
  fail_at_each(CKPT_MISMATCH,
               [&](ckpt_error** err) { return ckpt_file_read(file, 0, &other, memory.data(), memory.size(), err); });
  ckpt_file_free(file);
  const char* const keys[] = {"tensor"};
  const char* const values[] = {"a name that is too long for a string of its own"};
  fail_at_each(CKPT_IO, [&](ckpt_error** err) {
    *err = ckpt_error_new(CKPT_IO, "a text that is too long for a string of its own", keys, values, 1);
    return ckpt_error_status(*err);
  });
}

TEST_F(TwoLibraries, ReleaseWhatIsKeptAlsoWithoutMemory) {
  ckpt_call* call = nullptr;
  Error error;
  ASSERT_EQ(ckpt_call_new(&call, nullptr, error), CKPT_OK) << error.text();
  int released = 0;
  allocations_left = 0;
  ckpt_call_keep(call, &released, [](void* memory) { ++*static_cast<int*>(memory); });
  allocations_left = kEnough;
  EXPECT_EQ(released, 1);
  ckpt_call_finish(call, nullptr);
  ckpt_call_free(call);
}

#endif

}  // namespace
}  // namespace ckpt_test

// Many tensors in one call, and memory to load them into.
#include "api/ranks.h"

namespace ckpt_test {
namespace {

struct Many {
  std::vector<std::string> texts;
  std::vector<const char*> names;
  std::vector<ckpt_tensor_desc> descs;
  std::vector<void*> data;
  std::vector<uint64_t> sizes;

  Many(uint64_t count, std::byte* memory, uint64_t each) {
    for (uint64_t i = 0; i < count; i++) texts.push_back("t" + std::to_string(i));
    for (uint64_t i = 0; i < count; i++) {
      names.push_back(texts[i].c_str());
      descs.push_back(whole(CKPT_DTYPE_U8, {static_cast<int64_t>(each)}));
      data.push_back(memory + i * each);
      sizes.push_back(each);
    }
  }
};

TEST(Bulk, TensorsOfOneCallAreSavedAndLoadedIntoABufferOfTheLibrary) {
  World world("mem:bulk-round", 1);
  Bytes bytes = pattern(300 * 7, 1);
  const Many out(300, reinterpret_cast<std::byte*>(bytes.data()), 7);
  Save save = new_save(world.sessions[0], "a");
  Error error;
  ASSERT_EQ(ckpt_save_add_tensors(save.get(), 300, out.names.data(), out.descs.data(), out.data.data(),
                                  out.sizes.data(), CKPT_DEVICE_CPU, 0, error),
            CKPT_OK)
      << error.text();
  run(save);

  void* buffer = nullptr;
  ASSERT_EQ(ckpt_buffer_alloc(&buffer, bytes.size(), error), CKPT_OK) << error.text();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer) % 4096, 0u);
  const Many in(300, static_cast<std::byte*>(buffer), 7);
  Reader reader = open_reader(world.store);
  ckpt_load* load = nullptr;
  ASSERT_EQ(ckpt_load_new(&load, reader.get(), nullptr, error), CKPT_OK) << error.text();
  EXPECT_EQ(ckpt_load_add_tensors(load, 300, in.names.data(), in.descs.data(), in.data.data(), in.sizes.data(),
                                  CKPT_DEVICE_CPU, 0, error),
            CKPT_OK)
      << error.text();
  EXPECT_EQ(ckpt_load_run(load, error), CKPT_OK) << error.text();
  ckpt_load_free(load);
  EXPECT_EQ(std::memcmp(buffer, bytes.data(), bytes.size()), 0);
  ckpt_buffer_free(buffer, bytes.size());
}

TEST(Bulk, StopsAtTheFirstTensorThatFailsAndNamesIt) {
  World world("mem:bulk-fails", 1);
  Bytes bytes = pattern(5 * 7, 1);
  Many out(5, reinterpret_cast<std::byte*>(bytes.data()), 7);
  out.sizes[3] = 6;
  Save save = new_save(world.sessions[0], "a");
  Error error;
  EXPECT_EQ(ckpt_save_add_tensors(save.get(), 5, out.names.data(), out.descs.data(), out.data.data(), out.sizes.data(),
                                  CKPT_DEVICE_CPU, 0, error),
            CKPT_INVALID);
  EXPECT_NE(error.text().find("t3"), std::string::npos) << error.text();
  EXPECT_EQ(ckpt_save_add_tensors(save.get(), 1, nullptr, nullptr, nullptr, nullptr, CKPT_DEVICE_CPU, 0, error),
            CKPT_INVALID);
  EXPECT_EQ(ckpt_save_add_tensors(save.get(), 0, nullptr, nullptr, nullptr, nullptr, CKPT_DEVICE_CPU, 0, error),
            CKPT_OK);
}

TEST(Bulk, DescriptorsOfANewerProgramAreTakenByTheirSize) {
  World world("mem:bulk-newer", 1);
  struct Newer {
    ckpt_tensor_desc desc;
    uint64_t later = 0;
  };
  std::vector<Newer> descs(2, Newer{whole(CKPT_DTYPE_U8, {3})});
  for (Newer& newer : descs) newer.desc.struct_size = sizeof newer;
  const char* names[] = {"a", "b"};
  const void* data[] = {"abc", "def"};
  const uint64_t sizes[] = {3, 3};
  Save save = new_save(world.sessions[0], "a");
  Error error;
  EXPECT_EQ(ckpt_save_add_tensors(save.get(), 2, names, &descs[0].desc, data, sizes, CKPT_DEVICE_CPU, 0, error),
            CKPT_OK)
      << error.text();
  run(save);
  Reader reader = open_reader(world.store);
  EXPECT_EQ(load_one(reader, "b", whole(CKPT_DTYPE_U8, {3}), 3), (Bytes{'d', 'e', 'f'}));
}

TEST(Bulk, ABufferOfNoBytesCanBeFreed) {
  Error error;
  for (uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{5} << 20}) {
    void* buffer = nullptr;
    ASSERT_EQ(ckpt_buffer_alloc(&buffer, size, error), CKPT_OK) << error.text();
    std::memset(buffer, 1, size);
    ckpt_buffer_free(buffer, size);
  }
  ckpt_buffer_free(nullptr, 7);
}

}  // namespace
}  // namespace ckpt_test

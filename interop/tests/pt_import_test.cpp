// .pt files through the public headers: opened in place, and as checkpoints.
#include <numeric>

#include "pt_fixture.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

using namespace pickled;

// {"w": float[2, 3], "t": its transpose, "tied": w again, "gaps": every second of another storage, "epoch": 3}
std::string model() {
  const std::string w = storage("0", "FloatStorage", 6), other = storage("1", "LongStorage", 4);
  return dict({text("w"), tensor(w, 0, {2, 3}, {3, 1}), text("t"), tensor(w, 0, {3, 2}, {1, 3}), text("tied"),
               tensor(w, 0, {2, 3}, {3, 1}), text("gaps"), tensor(other, 1, {2}, {2}), text("epoch"), integer(3)});
}
std::vector<StorageBytes> storages() {
  return {{"0", elements<float>({0, 1, 2, 3, 4, 5})}, {"1", elements<int64_t>({10, 11, 12, 13})}};
}

class PtImport : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    must([&](auto** err) { return ckpt_options_new(&options_, err); });
  }
  void TearDown() override {
    ckpt_file_free(file_);
    ckpt_reader_free(reader_);
    ckpt_options_free(options_);
    StoreTest::TearDown();
  }

  Failure open_file(const std::string& bytes) {
    write_file(path("x.pt"), bytes);
    return attempt([&](auto** err) { return ckpt_file_open(&file_, path("x.pt").c_str(), options_, err); });
  }
  ckpt_file_tensor tensor_at(uint64_t index) {
    ckpt_file_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    must([&](auto** err) { return ckpt_file_tensor_at(file_, index, &tensor, err); });
    return tensor;
  }
  Failure import(const std::string& bytes) {
    write_file(path("x.pt"), bytes);
    return attempt(
        [&](auto** err) { return ckpt_import(store_, path("x.pt").c_str(), "l", 7, options_, nullptr, err); });
  }
  void open_reader() {
    must([&](auto** err) { return ckpt_reader_open(&reader_, store_, "latest", nullptr, err); });
  }
  template <typename T>
  std::vector<T> load(const char* name) {
    const ckpt_tensor_info info = tensor_info(reader_, name);
    std::vector<T> data(info.bytes / sizeof(T));
    load_whole(reader_, name, describe(info.dtype, {info.shape, info.shape + info.ndim}), data);
    return data;
  }
  std::string alias_of(const char* name) {
    const ckpt_tensor_info info = tensor_info(reader_, name);
    return info.alias_of ? info.alias_of : "";
  }

  ckpt_options* options_ = nullptr;
  ckpt_file* file_ = nullptr;
  ckpt_reader* reader_ = nullptr;
};

TEST_F(PtImport, AFileIsOpenedInPlace) {
  const Failure failure = open_file(pt_of(model(), storages()));
  ASSERT_EQ(failure.code, CKPT_OK) << failure.message;
  EXPECT_STREQ(ckpt_file_format(file_), "pt");
  ASSERT_EQ(ckpt_file_tensor_count(file_), 4u);
  const ckpt_file_tensor w = tensor_at(0), t = tensor_at(1), gaps = tensor_at(3);
  EXPECT_STREQ(w.name, "w");
  EXPECT_EQ(w.dtype, CKPT_DTYPE_F32);
  EXPECT_EQ(w.bytes, 24u);
  EXPECT_EQ(std::string(static_cast<const char*>(w.data), w.data_bytes), storages()[0].data);
  EXPECT_EQ(w.alias_of, nullptr);
  EXPECT_STREQ(t.alias_of, "w");
  EXPECT_EQ(t.data, w.data);
  EXPECT_EQ(t.strides[0], 1);
  EXPECT_EQ(gaps.strides[0], 2);
  EXPECT_EQ(gaps.bytes, 16u);
  EXPECT_EQ(gaps.data_bytes, 24u);

  const ckpt_tree* tree = nullptr;
  const char* json = nullptr;
  uint64_t size = 0;
  must([&](auto** err) { return ckpt_file_tree(file_, &tree, err); });
  must([&](auto** err) { return ckpt_tree_json(tree, &json, &size, err); });
  EXPECT_TRUE(std::string(json, size).ends_with(R"("epoch":3})")) << std::string(json, size);
}

TEST_F(PtImport, SafetensorsAreOpenedByTheSameCall) {
  write_file(path("x.pt"), file_of("{" + entry("w", "F32", "[2]", 0, 8) + "}", "abcdefgh"));
  must([&](auto** err) { return ckpt_file_open(&file_, path("x.pt").c_str(), options_, err); });
  EXPECT_STREQ(ckpt_file_format(file_), "safetensors");
  ASSERT_EQ(ckpt_file_tensor_count(file_), 1u);
  EXPECT_STREQ(tensor_at(0).name, "w");
  EXPECT_EQ(tensor_at(0).strides[0], 1);
}

// A byte of torch's float4_e2m1fn_x2 is one of its elements.
std::string pairs(int64_t offset, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                  int64_t bytes) {
  return call(torch_util("_rebuild_tensor_v3"),
              {storage("0", "UntypedStorage", bytes), integer(offset), integers(shape), integers(strides),
               boolean(false), ordered_dict(), global("torch", "float4_e2m1fn_x2")});
}

TEST_F(PtImport, WhatSharesPackedElementsIsLoaded) {
  std::vector<uint8_t> all(64);
  std::iota(all.begin(), all.end(), uint8_t{0});
  const Failure failure = import(pt_of(dict({text("v"), pairs(0, {64}, {1}, 64), text("tail"), pairs(4, {60}, {1}, 64),
                                             text("head"), pairs(0, {2, 2}, {2, 1}, 64), text("whole"),
                                             pairs(0, {8, 8}, {8, 1}, 64), text("tied"), pairs(0, {64}, {1}, 64)}),
                                       {{"0", elements(all)}}));
  ASSERT_EQ(failure.code, CKPT_OK) << failure.message;
  open_reader();
  for (const char* name : {"v", "whole", "tied"}) EXPECT_EQ(load<uint8_t>(name), all) << name;
  EXPECT_EQ(load<uint8_t>("tail"), (std::vector<uint8_t>(all.begin() + 4, all.end())));
  EXPECT_EQ(load<uint8_t>("head"), (std::vector<uint8_t>{0, 1, 2, 3}));
  EXPECT_EQ(alias_of("tied"), "v");
}

TEST_F(PtImport, AViewOfPackedElementsThatCouldNotBeLoadedIsLeftOutByName) {
  constexpr int64_t kBytes = 4096;
  Items items;
  for (int64_t i = 0; i < 16; i++) {
    items.push_back(text("v" + std::to_string(i)));
    items.push_back(pairs(i, {kBytes - i}, {1}, kBytes));
  }
  const std::string bytes = pt_of(dict(items), {{"0", std::string(kBytes, 'x')}});
  const Failure failure = import(bytes);
  EXPECT_EQ(failure.code, CKPT_UNSUPPORTED);
  EXPECT_NE(failure.message.find("option exclude=v1 leaves it out"), std::string::npos) << failure.message;
  must([&](auto** err) { return ckpt_options_set_str(options_, "only", "v0", err); });
  ASSERT_EQ(import(bytes).code, CKPT_OK);
  open_reader();
  EXPECT_EQ(load<char>("v0"), std::vector<char>(kBytes, 'x'));
}

TEST_F(PtImport, TheDeviceOfATensorIsKept) {
  const std::string s = storage("0", "FloatStorage", 1, "cuda:1");
  const Failure failure = import(pt_of(dict({text("a"), tensor(s, 0, {1}, {1})}), {{"0", elements<float>({7})}}));
  ASSERT_EQ(failure.code, CKPT_OK) << failure.message;
  open_reader();
  EXPECT_STREQ(ckpt_reader_attr(reader_, "a", "torch.device"), "cuda:1");
}

TEST_F(PtImport, DamageIsFoundUnlessVerifyIsOff) {
  std::string bytes = pt_of(model(), storages());
  bytes[bytes.find(storages()[1].data)] ^= 1;
  const Failure failure = import(bytes);
  EXPECT_EQ(failure.code, CKPT_CORRUPT);
  EXPECT_NE(failure.message.find("\"model/data/1\": CRC-32"), std::string::npos) << failure.message;
  EXPECT_EQ(open_file(bytes).code, CKPT_CORRUPT);
  must([&](auto** err) { return ckpt_options_set_int(options_, "verify", 0, err); });
  EXPECT_EQ(open_file(bytes).code, CKPT_OK);
  EXPECT_EQ(import(bytes).code, CKPT_OK);
}

TEST_F(PtImport, WhatCannotBeReadLeavesTheStoreEmpty) {
  const std::string hostile[] = {
      pt_of(call(global("os", "system"), {text("true")})),
      pt_of(dict({text("w"), tensor(storage("0", "FloatStorage", 9), 0, {9}, {1})}), storages()),
      pt_of(model(), storages()).substr(0, 500), std::string("\x80\x02}"), ""};
  for (const std::string& bytes : hostile) {
    const Failure failure = import(bytes);
    EXPECT_TRUE(failure.code == CKPT_FORMAT || failure.code == CKPT_UNSUPPORTED) << failure.message;
    EXPECT_NE(failure.message.find("x.pt"), std::string::npos) << failure.message;
  }
  EXPECT_EQ(checkpoint_count(), 0u);
}

}  // namespace
}  // namespace ckpt::interop

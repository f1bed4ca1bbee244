#include "api/sample.h"

#include <fcntl.h>
#include <unistd.h>

namespace ckpt_test {

using namespace ckpt_golden;

Contents sample_contents(const std::string& compression) {
  Contents out;
  out.label = "sample";
  out.step = 3;
  out.world = 3;
  out.text_options = {{"compression", compression}};
  out.number_options = {{"chunk_bytes", 4096}, {"large_tensor_bytes", 4096}, {"threads", 1}};
  auto add = [&](const char* name, int32_t dtype, std::vector<int64_t> shape, Split split, uint64_t seed) {
    out.tensors.push_back({name, dtype, shape, split, noise_for(shape, dtype, seed)});
  };
  add("box.columns", CKPT_DTYPE_F32, {4, 9}, Split::kColumns, 1);
  add("box.rows", CKPT_DTYPE_BF16, {8, 5}, Split::kRows, 2);
  add("flat", CKPT_DTYPE_F16, {5, 7}, Split::kFlat, 3);
  add("packed", CKPT_DTYPE_F4_E2M1FN, {3, 3}, Split::kReplicated, 4);
  add("pair", CKPT_DTYPE_I8, {30}, Split::kPair, 5);
  add("small", CKPT_DTYPE_I64, {4}, Split::kReplicated, 6);
  out.tensors.push_back({"smooth", CKPT_DTYPE_F32, {3, 1100}, Split::kReplicated, slope(3300, 1)});
  out.tensors.push_back({"woven", CKPT_DTYPE_I32, {4096}, Split::kLast, woven(4096)});
  out.tensors.push_back({"empty", CKPT_DTYPE_F64, {0, 4}, Split::kReplicated, {}});
  out.tensors[1].attrs = {{"layout", "rows"}};
  out.objects = {{"chunked", "application/octet-stream", false, {noise(4500, 7)}},
                 {"position", "", true, {noise(8, 8), noise(0, 9), noise(20, 10)}}};
  out.aliases = {{.name = "tied", .target = "box.rows", .extents = {}, .strides = {}},
                 {.name = "tied.corner",
                  .target = "box.columns",
                  .view = true,
                  .offset = 1,
                  .extents = {3, 2},
                  .strides = {9, 2}}};
  out.attrs = {{"purpose", "damage"}};
  return out;
}

Sample::Sample(Contents contents) : contents_(std::move(contents)) {
  ckpt_store* store = nullptr;
  Error error;
  // Uses the page cache, since these tests change single bytes many times.
  EXPECT_EQ(ckpt_store_open(&store, directory_.path().c_str(), options({{"direct_io", "off"}}).get(), error), CKPT_OK)
      << error.text();
  store_.reset(store);
  id_ = save(contents_);
}

std::string Sample::save(const Contents& contents) const {
  std::string id, problem;
  EXPECT_EQ(save_contents(store_.get(), contents, &id, &problem), CKPT_OK) << problem;
  return id;
}

Reader Sample::open() const {
  ckpt_reader* reader = nullptr;
  Error error;
  EXPECT_EQ(ckpt_reader_open(&reader, store_.get(), id_.c_str(), nullptr, error), CKPT_OK) << error.text();
  return Reader(reader);
}

ckpt_status Sample::try_open(std::string* problem) const {
  ckpt_reader* reader = nullptr;
  Error error;
  ckpt_status status = ckpt_reader_open(&reader, store_.get(), id_.c_str(), nullptr, error);
  ckpt_reader_free(reader);
  if (problem) *problem = error.text();
  return status;
}

namespace {
struct Wanted {
  Bytes got;
  Bytes expected;
};
}  // namespace

ckpt_status load_all(const ckpt_reader* reader, const Contents& contents, bool* right, std::string* problem) {
  *right = false;
  static const Options bag = options({{"threads", 1}, {"object_policy", "error"}});
  ckpt_load* raw_load = nullptr;
  Error error;
  EXPECT_EQ(ckpt_load_new(&raw_load, reader, bag.get(), error), CKPT_OK) << error.text();
  Load load(raw_load);
  std::vector<std::unique_ptr<Wanted>> all;
  ckpt_status status = CKPT_OK;
  auto add = [&](const std::string& name, const ckpt_tensor_desc& desc, Bytes expected) {
    all.push_back(std::make_unique<Wanted>(Wanted{Bytes(expected.size(), 0xa5), std::move(expected)}));
    if (!status)
      status = ckpt_load_add_tensor(load.get(), name.c_str(), &desc, all.back()->got.data(), all.back()->got.size(),
                                    CKPT_DEVICE_CPU, 0, error);
  };
  for (const Tensor& tensor : contents.tensors) add(tensor.name, whole_desc(tensor), tensor.bytes);
  for (const Alias& alias : contents.aliases)
    add(alias.name, alias_desc(contents, alias), expected_alias(contents, alias));
  for (const Object& object : contents.objects)
    for (uint32_t rank = 0; rank < object.bytes.size(); rank++) {
      all.push_back(std::make_unique<Wanted>(Wanted{Bytes(object.bytes[rank].size(), 0xa5), object.bytes[rank]}));
      if (!status)
        status = ckpt_load_add_object(load.get(), object.name.c_str(), rank, all.back()->got.data(),
                                      all.back()->got.size(), error);
    }
  if (!status) status = ckpt_load_run(load.get(), error);
  if (problem) *problem = error.text();
  *right = true;
  for (const auto& wanted : all) *right &= wanted->got == wanted->expected;
  return status;
}

Patch::Patch(const std::string& path, uint64_t offset, unsigned char byte)
    : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)), offset_(offset) {
  EXPECT_GE(fd_, 0) << path;
  EXPECT_EQ(pread(fd_, &before_, 1, static_cast<off_t>(offset)), 1);
  EXPECT_EQ(pwrite(fd_, &byte, 1, static_cast<off_t>(offset)), 1);
}

Patch::~Patch() {
  EXPECT_EQ(pwrite(fd_, &before_, 1, static_cast<off_t>(offset_)), 1);
  close(fd_);
}

}  // namespace ckpt_test

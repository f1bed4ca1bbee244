#include "api/support.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ckpt_test {

Scratch::Scratch(const char* base) {
  if (!base) base = std::getenv("TMPDIR");
  path_ = std::string(base && *base ? base : "/tmp") + "/ckpt-test-XXXXXX";
  if (!mkdtemp(path_.data())) std::abort();
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Options options(const std::vector<Setting>& settings) {
  ckpt_options* bag = nullptr;
  Error error;
  EXPECT_EQ(ckpt_options_new(&bag, error), CKPT_OK) << error.text();
  for (const auto& setting : settings) {
    ckpt_status status = setting.is_number
                             ? ckpt_options_set_int(bag, setting.key.c_str(), setting.number, error)
                             : ckpt_options_set_str(bag, setting.key.c_str(), setting.text.c_str(), error);
    EXPECT_EQ(status, CKPT_OK) << error.text();
  }
  return Options(bag);
}

Store open_store(const std::string& uri, const std::vector<Setting>& settings) {
  ckpt_store* store = nullptr;
  Error error;
  EXPECT_EQ(ckpt_store_open(&store, uri.c_str(), options(settings).get(), error), CKPT_OK) << error.text();
  return Store(store);
}

std::vector<ckpt_checkpoint_info> entries_of(const Store& store) {
  ckpt_list* made = nullptr;
  Error error;
  EXPECT_EQ(ckpt_store_list(store.get(), &made, error), CKPT_OK) << error.text();
  const List list(made);
  std::vector<ckpt_checkpoint_info> all(ckpt_list_count(made), sized<ckpt_checkpoint_info>());
  for (size_t i = 0; i < all.size(); i++) EXPECT_EQ(ckpt_list_at(made, i, &all[i], error), CKPT_OK) << error.text();
  return all;
}

Session open_session(const Store& store, uint32_t rank, uint32_t world, const char* string,
                     const std::vector<Setting>& settings) {
  ckpt_session* session = nullptr;
  Error error;
  EXPECT_EQ(ckpt_session_open(&session, store.get(), rank, world, string, options(settings).get(), error), CKPT_OK)
      << error.text();
  return Session(session);
}

ckpt_tensor_desc whole(int32_t dtype, const std::vector<int64_t>& shape) {
  auto desc = sized<ckpt_tensor_desc>();
  desc.dtype = dtype;
  desc.ndim = static_cast<int32_t>(shape.size());
  for (size_t i = 0; i < shape.size(); i++) desc.shape[i] = shape[i];
  return desc;
}

ckpt_tensor_desc box(int32_t dtype, const std::vector<int64_t>& shape, const std::vector<int64_t>& offset,
                     const std::vector<int64_t>& extent) {
  ckpt_tensor_desc desc = whole(dtype, shape);
  desc.region_kind = CKPT_REGION_BOX;
  for (size_t i = 0; i < shape.size(); i++) {
    desc.offset[i] = offset[i];
    desc.extent[i] = extent[i];
  }
  return desc;
}

ckpt_tensor_desc flat(int32_t dtype, const std::vector<int64_t>& shape, int64_t offset, int64_t size) {
  ckpt_tensor_desc desc = whole(dtype, shape);
  desc.region_kind = CKPT_REGION_FLAT;
  desc.flat_offset = offset;
  desc.flat_size = size;
  return desc;
}

std::vector<unsigned char> pattern(size_t count, uint64_t seed) {
  std::vector<unsigned char> bytes(count);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (auto& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<unsigned char>(state >> 56);
  }
  return bytes;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace ckpt_test

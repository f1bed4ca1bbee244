// save_table_program STORE LABEL NAME BUCKETS RANK WORLD ID[=NUMBER]...: saves a sparse table of f32 "emb" (2 a row:
// NUMBER and 0.5, by default the id's last two digits) and i32 "seen" (one a row).
// save_table_program STORE LABEL NAME: saves all floats of 8 and 16 bits: ids 0 to 255; columns named as their dtypes,
// one for each float8, of which row i has pattern i, and f16 and bf16, of which it has the 256 patterns from 256 i on.
#include <cstdio>
#include <cstdlib>

#include <ckpt.hpp>

static void save_all_floats(char** argv) {
  std::vector<uint64_t> ids(256);
  std::vector<uint8_t> bytes(256);
  std::vector<uint16_t> words(256 * 256);
  for (size_t i = 0; i < words.size(); i++) words[i] = static_cast<uint16_t>(i);
  ckpt::Rows rows{ids.data(), ids.size(), {}};
  for (size_t i = 0; i < ids.size(); i++) ids[i] = bytes[i] = static_cast<uint8_t>(i);
  for (const int32_t dtype : {CKPT_DTYPE_F16, CKPT_DTYPE_BF16})
    rows.columns.push_back({ckpt_dtype_name(dtype), dtype, {256}, {ckpt::Memory(words)}});
  for (const int32_t dtype :
       {CKPT_DTYPE_F8_E3M4, CKPT_DTYPE_F8_E4M3, CKPT_DTYPE_F8_E4M3B11FNUZ, CKPT_DTYPE_F8_E4M3FN, CKPT_DTYPE_F8_E4M3FNUZ,
        CKPT_DTYPE_F8_E5M2, CKPT_DTYPE_F8_E5M2FNUZ, CKPT_DTYPE_F8_E8M0FNU})
    rows.columns.push_back({ckpt_dtype_name(dtype), dtype, {}, {ckpt::Memory(bytes)}});
  auto save = ckpt::Save::create(ckpt::Session::open(ckpt::Store::open(argv[1])), argv[2]);
  save.add_table(argv[3], rows);
  save.run();
}

int main(int argc, char** argv) try {
  if (argc == 4) return save_all_floats(argv), 0;
  if (argc < 7) return 2;
  std::vector<uint64_t> ids;
  std::vector<float> emb;
  std::vector<int32_t> seen;
  for (int i = 7; i < argc; i++) {
    char* end = nullptr;
    const uint64_t id = std::strtoull(argv[i], &end, 10);  // "-1" is 2^64-1
    const float number = *end == '=' ? std::strtof(end + 1, nullptr) : static_cast<float>(id % 100);
    ids.push_back(id);
    emb.insert(emb.end(), {number, 0.5f});
    seen.push_back(static_cast<int32_t>(id % 10));
  }
  const auto rank = static_cast<uint32_t>(std::atoi(argv[5])), world = static_cast<uint32_t>(std::atoi(argv[6]));
  auto session = ckpt::Session::open(ckpt::Store::open(argv[1]), rank, world, "", {{"rendezvous", world > 1}});
  auto save = ckpt::Save::create(session, argv[2]);
  ckpt::Rows rows{ids.data(), ids.size(), {}};
  rows.bucket_count = std::strtoull(argv[4], nullptr, 10);
  rows.columns = {{"emb", CKPT_DTYPE_F32, {2}, {ckpt::Memory(emb)}},
                  {"seen", CKPT_DTYPE_I32, {}, {ckpt::Memory(seen)}}};
  save.add_table(argv[3], rows);
  static const float kOne = 1;
  save.add_tensor("w", ckpt::Tensor(CKPT_DTYPE_F32, {1}), ckpt::Memory(&kOne, sizeof kOne));
  save.run();
  return 0;
} catch (const ckpt::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

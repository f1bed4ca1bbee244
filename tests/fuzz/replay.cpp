// Runs a fuzzer's corpus without libFuzzer: each input as it is, and with some small changes that are always the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

// Of the whole corpus. libFuzzer makes many more, with sanitizers (tools/test --all).
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kChanges = 400;
#else
constexpr size_t kChanges = 1600;
#endif

std::vector<fs::path> corpus() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(CKPT_FUZZ_CORPUS)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<uint8_t> read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(Fuzz, CorpusDoesNoHarm) {
  auto files = corpus();
  ASSERT_FALSE(files.empty());
  for (const auto& file : files) {
    SCOPED_TRACE(file.string());
    auto bytes = read(file);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

TEST(Fuzz, SmallChangesToTheCorpusDoNoHarm) {
  std::mt19937 random(1);
  const auto files = corpus();
  for (const auto& file : files) {
    const auto sound = read(file);
    if (sound.empty()) continue;
    for (size_t i = 0; i < std::min<size_t>(300, kChanges / files.size()); i++) {
      auto bytes = sound;
      for (auto n = 1 + random() % 3; n > 0; n--) {
        size_t at = random() % bytes.size();
        switch (random() % 4) {
          case 0:
            bytes[at] ^= static_cast<uint8_t>(1 << random() % 8);
            break;
          case 1:
            bytes[at] = random() % 2 ? 0xff : 0;
            break;
          case 2:
            bytes[at] = static_cast<uint8_t>(bytes[at] + (random() % 2 ? 1 : -1));
            break;
          default:
            std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(random() % bytes.size()), 1,
                        bytes.begin() + static_cast<ptrdiff_t>(at));
        }
      }
      if (random() % 16 == 0) bytes.resize(random() % bytes.size());
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
  }
}

}  // namespace

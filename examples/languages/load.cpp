// One of three ranks that load what four ranks in four languages saved (README.md); compares every byte.
//
//   load_cpp STORE RANK WORLD
#include <ckpt.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int64_t kRows = 96, kColumns = 32, kTableRows = 7, kTableColumns = 12;

// The elements [first, end) of a tensor's formula, or those of a box of columns, in this process's memory.
template <class T>
std::vector<T> values(int64_t first, int64_t end, const std::function<T(int64_t)>& at) {
  std::vector<T> made;
  for (int64_t i = first; i < end; i++) made.push_back(at(i));
  return made;
}

int64_t first_of(int64_t count, int64_t rank, int64_t world) { return count * rank / world; }

int64_t loaded = 0;

template <class T>
void expect_equal(const std::string& name, const std::vector<T>& found, const std::vector<T>& expected) {
  if (found.size() != expected.size() || std::memcmp(found.data(), expected.data(), found.size() * sizeof(T)))
    throw std::runtime_error(name + " is not what was saved");
  loaded += static_cast<int64_t>(found.size() * sizeof(T));
}

void load_tensors(const ckpt::Reader& reader, int64_t rank, int64_t world) {
  const int64_t row = first_of(kRows, rank, world), rows = first_of(kRows, rank + 1, world) - row;
  const int64_t all = kRows * kColumns, low = first_of(all, rank, world), high = first_of(all, rank + 1, world);
  const int64_t line = first_of(kTableRows, rank, world), lines = first_of(kTableRows, rank + 1, world) - line;
  std::vector<float> embedding(65536 * 64), weight(rows * kColumns), momentum(high - low);
  std::vector<double> head(10);
  std::vector<uint8_t> table(lines * kTableColumns);

  auto load = ckpt::Load::create(reader);
  const auto layer = ckpt::Tensor::of<float>({kRows, kColumns});
  load.add_tensor("embedding.weight", ckpt::Tensor::of<float>({65536, 64}), embedding);
  load.add_tensor("head.bias", ckpt::Tensor::of<double>({10}), head);
  load.add_tensor("layer.weight", ckpt::Tensor(layer).box({row, 0}, {rows, kColumns}), weight);
  load.add_tensor("layer.weight.momentum", ckpt::Tensor(layer).flat(low, high - low), momentum);
  // Saved by columns, loaded by rows.
  load.add_tensor("table",
                  ckpt::Tensor::of<uint8_t>({kTableRows, kTableColumns}).box({line, 0}, {lines, kTableColumns}), table);
  load.run();

  expect_equal("embedding.weight", embedding,
               values<float>(0, 65536 * 64, [](int64_t i) { return static_cast<float>(i) / 2 - 7; }));
  expect_equal("head.bias", head, values<double>(0, 10, [](int64_t i) { return static_cast<double>(i) * 0.1; }));
  expect_equal("layer.weight", weight, values<float>(row * kColumns, (row + rows) * kColumns, [](int64_t i) {
                 return static_cast<float>(i) / 4;
               }));
  expect_equal("layer.weight.momentum", momentum,
               values<float>(low, high, [](int64_t i) { return 1 - static_cast<float>(i) / 8; }));
  expect_equal("table", table, values<uint8_t>(line * kTableColumns, (line + lines) * kTableColumns, [](int64_t i) {
                 return static_cast<uint8_t>(i);
               }));
}

// The objects, the attribute and the state tree.
void look_at_rest(const ckpt::Reader& reader) {
  const char* languages[] = {"Go", "Rust", "Python", "C"};
  for (uint32_t rank = 0; rank < 4; rank++) {
    const std::string text = reader.read_object("rng", rank);
    if (text != languages[rank]) throw std::runtime_error("rng of rank " + std::to_string(rank) + " is " + text);
  }
  if (reader.attr("trainer") != "four languages") throw std::runtime_error("attribute trainer");
  const std::string json =
      R"({"$":"dict","items":[["model",{"embedding.weight":{"$":"tensor","name":"embedding.weight"},)"
      R"("head.bias":{"$":"tensor","name":"head.bias"},"layer.weight":{"$":"tensor","name":"layer.weight"},)"
      R"("table":{"$":"tensor","name":"table"}}],["momentum",{"$":"tensor","name":"layer.weight.momentum"}],)"
      R"(["epoch",3],["lr",0.001],["betas",{"$":"tuple","items":[0.9,0.999]}],[7,"seven"]]})";
  const auto tree = reader.tree();
  if (tree.json() != json) throw std::runtime_error("the tree is " + std::string(tree.json()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: load_cpp STORE RANK WORLD\n"), 2;
  try {
    const auto store = ckpt::Store::open(argv[1]);
    const auto reader = ckpt::Reader::open(store, "latest");
    load_tensors(reader, std::atoi(argv[2]), std::atoi(argv[3]));
    look_at_rest(reader);
    std::printf("rank %s of %s (C++): %lld bytes of 5 tensors, each as it was saved\n", argv[2], argv[3],
                static_cast<long long>(loaded));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "load_cpp: rank %s: %s\n", argv[2], error.what());
    return 1;
  }
}

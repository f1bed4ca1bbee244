// save_many_program STORE RUN CHECKPOINTS TENSORS RANKS: saves so many checkpoints of so many small tensors, by ranks
// that are threads. Their attributes have numbers, each 50th is one that the trainer keeps, and some names are awkward.
// For the pages of large stores and checkpoints (ckpt report).
#include <cmath>
#include <cstdlib>
#include <thread>

#include <ckpt.hpp>

static std::string name_of(int64_t tensor) {
  static constexpr const char* kParts[] = {"attention.wq.weight", "attention.wo.weight", "mlp.up.weight", "norm.bias"};
  static constexpr const char* kGroups[] = {"model", "optimizer/exp_avg", "optimizer/exp_avg_sq"};
  if (tensor == 1) return "odd/</script><script>document.title='broken'</script>";
  if (tensor == 2) return "odd/\u202etxt.exe\u2028\u00e9 '\"&lt;";
  if (tensor == 3) return "odd/" + std::string(4000, 'x');
  return std::string(kGroups[tensor % 3]) + "/layers." + std::to_string(tensor / 12) + "." + kParts[tensor / 3 % 4];
}

static void save_one(const ckpt::Session& session, int64_t step, int64_t tensors, uint32_t rank, uint32_t ranks) {
  std::vector<float> values(4096);
  for (size_t i = 0; i < values.size(); i++)
    values[i] = static_cast<float>(std::sin(double(i) * 0.1 + double(step)) / (1.0 + double(step) / 100));
  values[7] = 0, values[8] = step % 2 ? NAN : 1, values[9] = step % 3 ? INFINITY : 1;
  auto save = ckpt::Save::create(session, "step-" + std::to_string(step), step);
  const int64_t rows = 8 / ranks;
  for (int64_t i = 0; i < tensors; i++) {
    const int64_t columns = i % 5 + 1;
    const auto box = ckpt::Tensor(CKPT_DTYPE_F32, {8, columns}).box({rank * rows, 0}, {rows, columns});
    save.add_tensor(name_of(i), box, ckpt::Memory(values.data(), uint64_t(rows * columns) * sizeof(float)));
  }
  save.set_attr("trainer.metrics", "{\"loss\": " + std::to_string(3.0 / std::sqrt(1.0 + double(step))) + "}");
  save.set_attr("save.seconds", "[" + std::to_string(2 + std::sin(double(step))) + ", 2.5, 2.25, 4]");
  if (step % 50 == 0) save.set_attr("trainer.kept", "1");
  std::vector<uint64_t> ids(1024u >> rank);  // the first rank has most of the rows
  for (uint64_t i = 0; i < ids.size(); i++) ids[i] = i * 64 + rank;
  ckpt::Rows table{ids.data(), ids.size(), {}};
  table.columns = {{"embedding", CKPT_DTYPE_F32, {4}, {ckpt::Memory(values.data(), ids.size() * 16)}}};
  save.add_table("odd/users", table);
  save.run();
}

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const auto ranks = static_cast<uint32_t>(std::atoi(argv[5]));
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; rank++)
    threads.emplace_back([=] {  // an error ends the program, and its text is on stderr
      const ckpt::Options options{{"run", argv[2]}, {"rendezvous", ranks > 1}};
      const auto session = ckpt::Session::open(ckpt::Store::open(argv[1]), rank, ranks, "", options);
      for (int64_t step = 0; step < std::atoll(argv[3]); step++)
        save_one(session, step, std::atoll(argv[4]), rank, ranks);
    });
  for (std::thread& thread : threads) thread.join();
}

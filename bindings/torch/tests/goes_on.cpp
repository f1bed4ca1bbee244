// A small training that goes on where the last one stopped, in this language or in Python (goes_on.py, which has the
// same training and compares): trains to STEPS, prints the parameters, what the checkpoint knows, the rows of sparse
// tables, and what is kept.
//
//   goes_on checkpointer|modules|recis|exact STORE STEPS [DEVICE]
//
// modules: an optimizer of two modules, whose parameters Python's has in another order. recis: under RecIS' manager.
// exact: by itself, says whether what it restored is there to the bit. DEVICE: "cuda", where model and optimizer are
// then (default: "cpu").
#include <ckpt_torch.h>
#include <ckpt_torch/checkpointer.h>
#include <ckpt_torch/recis.h>
#include <dlfcn.h>
#include <torch/torch.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <string>

namespace {

// Rows by id: an embedding of two numbers, and a slot of an optimizer.
class Rows : public ckpt_torch::recis::HashTable {
 public:
  std::vector<std::string> columns() const override { return {"embedding", "exp_avg"}; }
  ckpt_torch::SparseTable export_rows() const override {
    const auto count = static_cast<int64_t>(rows_.size());
    ckpt_torch::SparseTable out{torch::empty({count}, torch::kLong),
                                {{"embedding", torch::empty({count, 2})}, {"exp_avg", torch::empty({count})}}};
    int64_t i = 0;
    for (const auto& [id, row] : rows_) {
      out.ids[i] = id;
      out.columns.at("embedding")[i] = torch::tensor({row[0], row[1]});
      out.columns.at("exp_avg")[i++] = row[2];
    }
    return out;
  }
  void insert_rows(const ckpt_torch::SparseTable& rows) override {
    for (int64_t i = 0; i < rows.ids.numel(); i++) {
      const auto embedding = rows.columns.at("embedding")[i];
      rows_[rows.ids[i].item<int64_t>()] = {embedding[0].item<float>(), embedding[1].item<float>(),
                                            rows.columns.at("exp_avg")[i].item<float>()};
    }
  }
  void clear() override { rows_.clear(); }

  // What a step does: the rows change, and one is new.
  void learn(int64_t id) {
    for (auto& row : rows_)
      for (float& number : row.second) number += 0.25f;
    rows_[id] = {static_cast<float>(id), static_cast<float>(-id), 0.5f};
  }
  void print(const char* name) const {
    std::printf("%s:", name);
    for (const auto& [id, row] : rows_) std::printf(" %ld (%g %g %g)", static_cast<long>(id), row[0], row[1], row[2]);
    std::printf("\n");
  }

 private:
  std::map<int64_t, std::array<float, 3>> rows_;
};

struct Training {
  explicit Training(const torch::Device& device) : x(torch::arange(20, device).reshape({5, 4}) / 20.0) {
    torch::NoGradGuard guard;
    model->to(device);
    for (auto& parameter : model->parameters()) parameter.fill_(0.5);
  }
  double step(int64_t n) {
    optimizer.zero_grad();
    const auto loss = (model->forward(x) - 1).pow(2).sum();
    loss.backward();
    optimizer.step();
    samples += 5;
    items.learn(n);
    users.learn(-n);
    return loss.item<double>();
  }
  // Of the model and of the optimizer, where they are.
  std::vector<torch::Tensor> tensors() {
    std::vector<torch::Tensor> all = model->parameters();
    for (const auto& parameter : model->parameters()) {
      std::ostringstream name;  // LibTorch before 2.0 has it as text, later ones the address itself
      name << parameter.unsafeGetTensorImpl();
      for (const auto& [key, state] : optimizer.state()) {
        std::ostringstream known;
        known << key;
        if (known.str() != name.str()) continue;
        const auto& moments = static_cast<const torch::optim::AdamParamState&>(*state);
        all.insert(all.end(), {moments.exp_avg(), moments.exp_avg_sq()});
      }
    }
    return all;
  }
  void print() const {
    for (const auto& parameter : model->parameters()) {
      const auto flat = parameter.detach().reshape({-1});
      for (int64_t i = 0; i < flat.numel(); i++) std::printf("%.9g ", flat[i].item<double>());
    }
    std::printf("\nsamples %ld\n", static_cast<long>(samples));
    items.print("items");
    users.print("users");
  }

  torch::nn::Linear model{4, 3};
  torch::optim::Adam optimizer{model->parameters(), torch::optim::AdamOptions(0.1)};
  torch::Tensor x;
  Rows items, users;
  int64_t samples = 0;
};

void train(const std::string& store, int64_t steps, const torch::Device& device) {
  Training training(device);
  ckpt_torch::CheckpointerOptions options;
  options.every = 1;
  options.keep_last = 2;
  options.keep_best = ckpt_torch::KeepBest{"loss", "max", 1};  // the first step's
  ckpt_torch::Checkpointer keeper(store, options);
  auto state = [&] {
    return ckpt_torch::State{
        training.model,
        training.optimizer,
        {{"samples", training.samples}},
        {},
        {{"emb/items", training.items.export_rows()}, {"emb/users", training.users.export_rows()}}};
  };
  auto restored = state();
  const auto start = keeper.restore(restored);
  training.samples = restored.others.at("samples").toInt();
  if (start) {
    const auto reader = ckpt::Reader::open(ckpt::Store::open(store), start->id);
    training.items.insert_rows(ckpt_torch::load_table(reader, "emb/items"));
    training.users.insert_rows(ckpt_torch::load_table(reader, "emb/users"));
  }
  for (int64_t n = start ? start->step + 1 : 1; n <= steps; n++) {
    const double loss = training.step(n);
    keeper.step(n, state(), {{"loss", loss}}, {{"epoch", static_cast<double>(n / 2)}});
  }
  keeper.close();
  training.print();
  std::printf("went on from %ld with epoch %.0f\n", start ? static_cast<long>(start->step) : 0L,
              start ? start->counters.at("epoch") : -1);
}

void train_modules(const std::string& store, int64_t steps, const torch::Device& device) {
  const auto options = torch::nn::LinearOptions(4, 4).bias(false);
  torch::nn::Linear first(options), second(options);
  {
    torch::NoGradGuard guard;
    first->to(device), second->to(device);
    first->weight.fill_(0.5), second->weight.fill_(-0.25);
  }
  torch::optim::Adam optimizer({first->weight, second->weight}, torch::optim::AdamOptions(0.1));
  ckpt_torch::CheckpointerOptions every;
  every.every = 1;
  ckpt_torch::Checkpointer keeper(store, every);
  ckpt_torch::State state{{first, second}, optimizer, {}};
  const auto start = keeper.restore(state);
  const auto x = torch::arange(20, device).reshape({5, 4}) / 20.0;
  for (int64_t n = start ? start->step + 1 : 1; n <= steps; n++) {
    optimizer.zero_grad();
    (second->forward(first->forward(x)) - 1).pow(2).sum().backward();
    optimizer.step();
    keeper.step(n, state);
  }
  keeper.close();
  for (const auto& one : {first, second}) std::printf("%.9g ", one->weight.detach()[0][0].item<double>());
  std::printf("\nwent on from %ld\n", start ? static_cast<long>(start->step) : 0L);
}

void train_recis(const std::string& store, int64_t steps, const torch::Device& device) {
  Training training(device);
  ckpt_torch::recis::ManagerOptions options;
  options.models = training.model;
  options.optimizers = training.optimizer;
  options.tables = {{"items", &training.items}, {"users", &training.users}};
  options.save_interval = 1;
  options.max_keep = 2;
  ckpt_torch::recis::CheckpointManager manager(store, options);
  std::string note = "none";
  manager.register_for_checkpointing(
      "note", [&] { return c10::IValue(note); }, [&](const c10::IValue& value) { note = value.toStringRef(); });
  manager.register_io_state(
      "train_io",
      [&] {
        c10::Dict<std::string, int64_t> place;
        place.insert("samples", training.samples);
        return c10::IValue(place);
      },
      [&](const c10::IValue& value) { training.samples = value.toGenericDict().at("samples").toInt(); });
  const int64_t start = manager.restore();
  const std::string found = note;
  while (manager.global_step() < steps) {
    training.step(manager.global_step() + 1);
    note = "step " + std::to_string(manager.global_step() + 1);
    manager.step();
  }
  manager.close();
  training.print();
  std::printf("went on from %ld with note %s\n", static_cast<long>(start), found.c_str());
}

// Rows whose columns are on the device.
ckpt_torch::SparseTable rows_on(const torch::Device& device) {
  return {torch::arange(100, torch::kLong).flip(0) * 7,
          {{"embedding", torch::arange(200, device).reshape({100, 2}) / 3.0}, {"exp_avg", torch::ones({100}, device)}}};
}

// Whether the rows of `table` in the store's newest checkpoint come to the device, in any order of their ids.
bool rows_are(const ckpt_torch::SparseTable& table, const std::string& store, const torch::Device& device) {
  const auto reader = ckpt::Reader::open(ckpt::Store::open(store));
  auto found = ckpt_torch::load_table(reader, "emb", ckpt::Rowset::all(), {}, device);
  const auto order = [](const at::Tensor& ids) { return std::get<1>(ids.sort()); };
  const at::Tensor theirs = order(found.ids), ours = order(table.ids);
  bool same = torch::equal(found.ids.index_select(0, theirs), table.ids.index_select(0, ours)) &&
              found.columns.size() == table.columns.size();
  for (const auto& [name, column] : table.columns) {
    const at::Tensor& other = found.columns.at(name);
    same = same && other.device() == column.device() && other.device().type() == device.type() &&
           torch::equal(other.index_select(0, theirs.to(device)), column.index_select(0, ours.to(device)));
  }
  return same;
}

// Each step changes all of it while the one before is being written.
void train_exact(const std::string& store, int64_t steps, const torch::Device& device) {
  Training training(device), other(device);
  ckpt_torch::SparseTable table = rows_on(device);
  std::vector<torch::Tensor> wanted;
  ckpt_torch::CheckpointerOptions options;
  options.every = 1;
  {
    ckpt_torch::Checkpointer keeper(store, options);
    for (int64_t n = 1; n <= steps; n++) {
      training.step(n);
      wanted.clear();
      for (const auto& tensor : training.tensors()) wanted.push_back(tensor.detach().clone());
      table.columns.at("exp_avg") += 1;
      keeper.step(n, ckpt_torch::State{training.model, training.optimizer, {}, {}, {{"emb", table}}});
    }
    training.step(steps + 1);
    keeper.close();
  }
  other.step(7);  // makes the moments
  const void* place = other.model->weight.data_ptr();
  ckpt_torch::State state{other.model, other.optimizer};
  const auto start = ckpt_torch::Checkpointer(store, options).restore(state);
  const std::vector<torch::Tensor> found = other.tensors();
  bool same = start && start->step == steps && place == other.model->weight.data_ptr() && found.size() == wanted.size();
  for (size_t i = 0; same && i < wanted.size(); i++)
    same = torch::equal(found[i], wanted[i]) && found[i].device() == wanted[i].device() &&
           found[i].device().type() == device.type();
  std::printf("%zu tensors %s\n", found.size(), same ? "are there to the bit" : "DIFFER");
  std::printf("rows %s\n", rows_are(table, store, device) ? "are there to the bit" : "DIFFER");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  const std::string how = argv[1], device = argc == 5 ? argv[4] : "cpu";
  // What knows CUDA in LibTorch is a library that registers itself, and that nothing here names.
  if (device != "cpu" && !dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  torch::set_num_threads(1);
  const auto run = how == "exact"     ? train_exact
                   : how == "recis"   ? train_recis
                   : how == "modules" ? train_modules
                                      : train;
  run(argv[2], std::stoll(argv[3]), device);
  for (const auto& info : ckpt::Store::open(argv[2]).list()) std::printf("%s\n", info.label);
}

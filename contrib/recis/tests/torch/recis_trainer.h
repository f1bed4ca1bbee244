// What the tests of recis::CheckpointManager share: a hash table, and a trainer with two of them.
#pragma once

#include <ckpt_torch/recis.h>

#include <algorithm>
#include <fstream>

#include "util.h"

namespace recis_test {

namespace recis = ct::recis;

// The worked example of a hash table: rows of two columns, by id.
class MapTable : public recis::HashTable {
 public:
  std::vector<std::string> columns() const override { return {"embedding", "exp_avg"}; }
  ct::SparseTable export_rows() const override {
    exported++;
    std::vector<at::Tensor> ids, columns[2];
    for (const auto& [id, row] : rows) {
      ids.push_back(at::tensor({id}, at::kLong));
      for (int i = 0; i < 2; i++) columns[i].push_back(row.at(i));
    }
    if (ids.empty()) return no_rows();
    return {at::cat(ids), {{"embedding", at::stack(columns[0])}, {"exp_avg", at::stack(columns[1])}}};
  }
  void insert_rows(const ct::SparseTable& given) override {
    most = std::max(most, given.ids.numel());
    for (int64_t i = 0; i < given.ids.numel(); i++) {
      auto& row =
          rows.try_emplace(given.ids[i].item<int64_t>(), std::vector<at::Tensor>(2, at::zeros({2}))).first->second;
      for (const auto& [name, values] : given.columns) row.at(name == "exp_avg") = values[i].clone();
    }
  }
  void clear() override { rows.clear(); }
  ct::SparseTable no_rows() const override {
    return {at::empty({0}, at::kLong), {{"embedding", at::empty({0, 2})}, {"exp_avg", at::empty({0, 2})}}};
  }
  void fill(const std::vector<int64_t>& ids, double value) {
    for (const int64_t id : ids) rows[id] = std::vector<at::Tensor>(2, at::full({2}, value));
  }
  // The ids, and the value of each row's column.
  std::map<int64_t, double> has(int column = 0) const {
    std::map<int64_t, double> out;
    for (const auto& [id, row] : rows) out[id] = row.at(column)[0].item<double>();
    return out;
  }

  std::map<int64_t, std::vector<at::Tensor>> rows;
  mutable int exported = 0;
  int64_t most = 0;
};
using Rows = std::map<int64_t, double>;

struct Trainer {
  explicit Trainer(const std::string& uri, double value = 0, const std::vector<int64_t>& ids = {},
                   const std::function<void(recis::ManagerOptions&)>& change = {}, const ct::Ranks& ranks = {})
      : place(static_cast<int64_t>(value)), note(place) {
    torch::NoGradGuard guard;
    for (auto& one : model->named_parameters()) one.value().fill_(value);
    items.fill(ids, value);
    users.fill(ids, value);
    recis::ManagerOptions options;
    options.models = model;
    options.tables = {{"items", &items}, {"users", &users}};
    options.checkpointer.signals.emplace();
    options.checkpointer.rng = false;
    if (change) change(options);
    manager = std::make_unique<recis::CheckpointManager>(uri, options, ranks);
    manager->register_for_checkpointing(
        "note", [this] { return c10::IValue(note); }, [this](const c10::IValue& value) { note = value.toInt(); });
    manager->register_io_state(
        "train_io", [this] { return c10::IValue(place); }, [this](const c10::IValue& value) { place = value.toInt(); });
  }
  Trainer& saved() {
    manager->step();
    manager->save();
    manager->close();
    return *this;
  }
  double dense(const char* name = "0.weight") const {
    return model->named_parameters()[name].flatten()[0].item<double>();
  }

  torch::nn::Sequential model{torch::nn::Linear(3, 2), torch::nn::Linear(2, 1)};
  MapTable items, users;
  int64_t place, note;
  std::unique_ptr<recis::CheckpointManager> manager;
};

inline recis::Source source(const std::string& path, const std::vector<std::string>& load = {"*"},
                            const std::vector<std::string>& exclude = {}) {
  recis::Source out;
  out.path = path;
  out.load = load;
  out.exclude = exclude;
  return out;
}

// Breaks a byte of the data of the first tensor of a checkpoint whose name begins and goes on like that.
inline void damage(const std::string& uri, const std::string& label, const std::string& begin,
                   const std::string& more = "") {
  const auto reader = ckpt::Reader::open(ckpt::Store::open(uri), label);
  for (const auto& tensor : reader.tensors()) {
    const std::string name = tensor.name;
    if (name.rfind(begin, 0) != 0 || name.find(more) == name.npos) continue;
    const auto segment = reader.segment(name, 0);
    std::fstream file(uri + "/" + reader.info().id + "/" + reader.part(segment.part).name,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(segment.part_offset));
    file.put('\xff');
    ASSERT_TRUE(file.good());
    return;
  }
  FAIL() << "no tensor " << begin << more;
}

}  // namespace recis_test

// make_golden DIRECTORY: saves the catalogue's checkpoints through ckpt.h as DIRECTORY/<label>. Beside each it writes
// <label>.json: what a reader must find there, in the words of reference_reader.py. The committed goldens were made
// like this once and stay; tests make fresh ones to check today's writer.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden/catalogue.h"
#include "golden/sha256.h"

namespace {

using nlohmann::json;
using namespace ckpt_golden;

std::string sha256(const Bytes& bytes) { return Sha256::of(bytes.data(), bytes.size()); }

std::string dtype_text(int32_t dtype) {
  std::string name = ckpt_dtype_name(dtype);
  return name != "dtype" ? name : "opaque" + std::to_string(dtype >> 8) + "_" + std::to_string(ckpt_dtype_bits(dtype));
}

json tensor_json(int32_t dtype, const std::vector<int64_t>& shape, const Bytes& bytes, json attrs) {
  return {{"attrs", std::move(attrs)}, {"dtype", dtype_text(dtype)}, {"sha256", sha256(bytes)}, {"shape", shape}};
}

void append(Bytes* to, const Bytes& from, size_t row, size_t size) {
  to->insert(to->end(), from.begin() + static_cast<std::ptrdiff_t>(row * size),
             from.begin() + static_cast<std::ptrdiff_t>((row + 1) * size));
}

void put(Bytes& to, uint64_t number) {
  for (int i = 0; i < 8; i++) to.push_back(static_cast<unsigned char>(number >> 8 * i));
}

// What a save wrote of a rank's rows: their ids, and where they lay.
struct Written {
  std::vector<uint64_t> ids, rows;
  const Table* table;
};

// The tensors under `name`, by the ranks that have some, worked out the plain way.
void add_layer(const std::string& name, const Table& table, const std::vector<Written>& ranks, size_t column_count,
               json& out) {
  Bytes ids, starts;
  std::vector<Bytes> columns(column_count);
  for (size_t rank = 0; rank < ranks.size(); rank++) {
    const auto& [own, rows, from] = ranks[rank];
    std::vector<size_t> order(own.size());
    for (size_t i = 0; i < order.size(); i++) order[i] = i;
    std::ranges::sort(order, {}, [&](size_t i) { return std::pair(own[i] % table.buckets, own[i]); });
    const uint64_t most = std::min<uint64_t>(table.buckets, (own.size() + 15) / 16);
    const uint64_t width = most ? (table.buckets + most - 1) / most : 0;
    for (uint64_t first = 0; most && first < table.buckets; first += width)
      put(starts,
          static_cast<uint64_t>(std::ranges::count_if(own, [&](uint64_t id) { return id % table.buckets < first; })));
    for (size_t i : order) {
      put(ids, own[i]);
      for (size_t c = 0; c < columns.size(); c++)
        append(&columns[c], from->columns[c].rows[rank], rows[i],
               bytes_of(table.columns[c].row, table.columns[c].dtype));
    }
  }
  auto add = [&](const std::string& column, int32_t dtype, const std::vector<int64_t>& row, const Bytes& bytes) {
    std::vector<int64_t> shape{static_cast<int64_t>((column == "buckets" ? starts : ids).size() / 8)};
    shape.insert(shape.end(), row.begin(), row.end());
    out["tensors"][name + "/" + column] = tensor_json(dtype, shape, bytes, json::object());
  };
  for (size_t c = 0; c < columns.size(); c++)
    add(table.columns[c].name, table.columns[c].dtype, table.columns[c].row, columns[c]);
  add("ids", table.id_dtype, {}, ids);
  add("buckets", CKPT_DTYPE_U64, {}, starts);
}

// The runs of a rank after these saves: the rows of each, and the ids that it removes.
std::vector<std::pair<Written, Written>> runs_of(const std::vector<const Table*>& saves, size_t rank) {
  std::vector<std::pair<Written, Written>> runs;
  for (const Table* save : saves) {
    Written rows{{}, {}, save}, removed{{}, {}, save};
    const bool all = save->changed.empty() || save == saves.front();
    for (uint64_t row = 0; all && row < save->ids[rank].size(); row++) rows.rows.push_back(row);
    if (all) {
      runs.clear();
    } else {
      rows.rows = save->changed[rank];
      removed.ids = save->removed[rank];
      if (rows.rows.empty() && removed.ids.empty()) continue;
    }
    for (uint64_t row : rows.rows) rows.ids.push_back(save->ids[rank][row]);
    runs.emplace_back(std::move(rows), std::move(removed));
  }
  return runs;
}

// A table as FORMAT and TABLE_RUNS describe it: its tensors, the alias, and all rows in the order of ids.
void add_table(const std::vector<const Table*>& saves, json& out) {
  const Table& table = *saves.back();
  std::vector<std::vector<std::pair<Written, Written>>> runs;
  std::map<uint64_t, Bytes> sorted;
  Bytes live, all;
  size_t most = 1;
  for (size_t rank = 0; rank < table.ids.size(); rank++) {
    runs.push_back(runs_of(saves, rank));
    most = std::max(most, runs[rank].size());
    if (runs[rank].size() > 1) put(live, table.ids[rank].size());
    for (size_t row = 0; row < table.ids[rank].size(); row++) {
      Bytes& bytes = sorted[table.ids[rank][row]];
      put(bytes, table.ids[rank][row]);
      for (const Table::Column& column : table.columns)
        append(&bytes, column.rows[rank], row, bytes_of(column.row, column.dtype));
    }
  }
  for (size_t run = 0; run < most; run++) {
    std::vector<Written> rows, removed;
    for (const auto& own : runs) {
      rows.push_back(run < own.size() ? own[run].first : Written{{}, {}, &table});
      removed.push_back(run < own.size() ? own[run].second : Written{{}, {}, &table});
    }
    const std::string name = table.name + (run ? "/run-" + std::to_string(run) : "");
    add_layer(name, table, rows, table.columns.size(), out);
    if (run) add_layer(name + "-removed", table, removed, 0, out);
  }
  for (const auto& [id, row] : sorted) all.insert(all.end(), row.begin(), row.end());
  json& told = out["tables"][table.name] = {
      {"buckets", table.buckets}, {"columns", json::array()}, {"rows", sorted.size()}, {"sha256", sha256(all)}};
  std::string described = "mod " + std::to_string(table.buckets);
  for (const Table::Column& column : table.columns) {
    described += "\n" + column.name;
    told["columns"].push_back(column.name);
  }
  json& alias = out["aliases"][table.name] = out["tensors"][table.name + "/ids"];
  alias["attrs"]["ckpt.table"] = described;
  alias["target"] = table.name + "/ids";
  alias["view"] = nullptr;
  if (most == 1) return;
  alias["attrs"]["ckpt.table.runs"] = "newest";
  const auto counted = static_cast<int64_t>(live.size() / 8);
  out["tensors"][table.name + "/run-live"] = tensor_json(CKPT_DTYPE_U64, {counted}, live, json::object());
}

json expected(const Contents& contents) {
  json out;
  out["identity"] = {
      {"label", contents.label}, {"run", "main"}, {"step", contents.step}, {"world_size", contents.world}};
  out["attrs"] = contents.attrs;
  out["tensors"] = out["aliases"] = json::object();
  out["objects"] = json::array();
  for (const Tensor& tensor : contents.tensors)
    out["tensors"][tensor.name] = {{"attrs", tensor.attrs},
                                   {"dtype", dtype_text(tensor.dtype)},
                                   {"sha256", sha256(tensor.bytes)},
                                   {"shape", tensor.shape}};
  for (const Alias& alias : contents.aliases) {
    json& entry = out["aliases"][alias.name];
    entry = out["tensors"][alias.target];
    entry["attrs"] = json::object();
    entry["sha256"] = sha256(expected_alias(contents, alias));
    entry["target"] = alias.target;
    entry["view"] = nullptr;
    if (!alias.view) continue;
    entry["shape"] = alias.extents;
    entry["view"] = {{"extents", alias.extents}, {"offset", alias.offset}, {"strides", alias.strides}};
  }
  for (size_t i = 0; i < contents.tables.size(); i++) {
    std::vector<const Table*> saves;
    for (const Contents& before : contents.earlier) saves.push_back(&before.tables[i]);
    saves.push_back(&contents.tables[i]);
    add_table(saves, out);
  }
  for (const Object& object : contents.objects)
    for (size_t rank = 0; rank < object.bytes.size(); rank++)
      out["objects"].push_back({{"name", object.name},
                                {"rank", object.per_rank ? json(rank) : json(nullptr)},
                                {"size", object.bytes[rank].size()},
                                {"media_type", object.media_type},
                                {"sha256", sha256(object.bytes[rank])}});
  for (const RankTrees& trees : contents.trees) {
    auto add = [&](const std::string& name, const Stored& stored) {
      out["objects"].push_back({{"name", name},
                                {"rank", stored.rank},
                                {"size", stored.text.size()},
                                {"media_type", CKPT_TREE_MEDIA_TYPE},
                                {"sha256", Sha256::of(stored.text.data(), stored.text.size())}});
    };
    for (const Stored& stored : trees.different) add(trees.name, stored);
    for (const Stored& stored : trees.own) add(trees.name + ".per_rank", stored);
    out["trees"][trees.name] = json::parse(trees.merged);
  }
  return out;
}

int make(const ckpt_store* store, const std::string& directory, const Contents& contents) {
  std::string id, problem;
  if (save_contents(store, contents, &id, &problem) != CKPT_OK) {
    std::fprintf(stderr, "%s: %s\n", contents.label.c_str(), problem.c_str());
    return 1;
  }
  std::filesystem::rename(directory + "/" + id, directory + "/" + contents.label);
  for (const Contents& before : contents.earlier)
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      if (entry.path().filename().string().starts_with(before.label + ".")) std::filesystem::remove_all(entry);
  std::ofstream(directory + "/" + contents.label + ".json") << expected(contents).dump(1, ' ', false) << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_golden DIRECTORY\n");
    return 2;
  }
  ckpt_store* store = nullptr;
  ckpt_error* error = nullptr;
  if (ckpt_store_open(&store, argv[1], nullptr, &error) != CKPT_OK) {
    std::fprintf(stderr, "%s\n", ckpt_error_message(error));
    return 1;
  }
  int failed = 0;
  for (const Contents& contents : catalogue()) failed |= make(store, argv[1], contents);
  ckpt_store_free(store);
  return failed;
}

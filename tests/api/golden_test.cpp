// Checkpoints of every revision ever written open for ever and hold what they held. Hostile checkpoints are refused for
// the right reason.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/sample.h"
#include "ckpt_tree.h"
#include "golden/catalogue.h"
#include "golden/sha256.h"
#include "paths.h"

namespace ckpt_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kGolden = std::string(CKPT_SOURCE_DIR) + "/tests/golden/";

std::vector<std::string> stems_in(const std::string& directory, const std::string& ending) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    if (std::string name = entry.path().filename(); name.ends_with(ending))
      names.push_back(name.substr(0, name.size() - ending.size()));
  std::sort(names.begin(), names.end());
  return names;
}

Reader open(const Store& store, const std::string& id) {
  ckpt_reader* reader = nullptr;
  Error error;
  EXPECT_EQ(ckpt_reader_open(&reader, store.get(), id.c_str(), nullptr, error), CKPT_OK) << error.text();
  return Reader(reader);
}

json attrs_of(const ckpt_reader* reader, const char* tensor) {
  json attrs = json::object();
  for (uint64_t i = 0; i < ckpt_reader_attr_count(reader, tensor); i++) {
    const char *key = nullptr, *value = nullptr;
    EXPECT_EQ(ckpt_reader_attr_at(reader, tensor, i, &key, &value, nullptr), CKPT_OK);
    attrs[key] = value;
  }
  return attrs;
}

std::string dtype_text(int32_t dtype) {
  std::string name = ckpt_dtype_name(dtype);
  return name != "dtype" ? name : "opaque" + std::to_string(dtype >> 8) + "_" + std::to_string(ckpt_dtype_bits(dtype));
}

// A tensor with its bytes, in the form of the .json.
json loaded_tensor(const ckpt_reader* reader, const ckpt_tensor_info& info) {
  ckpt_tensor_desc desc = whole(info.dtype, {info.shape, info.shape + info.ndim});
  std::vector<unsigned char> bytes(info.bytes);
  ckpt_load* raw = nullptr;
  Error error;
  EXPECT_EQ(ckpt_load_new(&raw, reader, nullptr, error), CKPT_OK) << error.text();
  Load load(raw);
  EXPECT_EQ(ckpt_load_add_tensor(raw, info.name, &desc, bytes.data(), bytes.size(), CKPT_DEVICE_CPU, 0, error), CKPT_OK)
      << error.text();
  EXPECT_EQ(ckpt_load_run(raw, error), CKPT_OK) << info.name << ": " << error.text();
  return {{"attrs", attrs_of(reader, info.name)},
          {"dtype", dtype_text(info.dtype)},
          {"sha256", ckpt_golden::Sha256::of(bytes.data(), bytes.size())},
          {"shape", std::vector<int64_t>(info.shape, info.shape + info.ndim)}};
}

json loaded_object(const ckpt_reader* reader, const ckpt_object_info& info) {
  std::vector<unsigned char> bytes(info.size);
  ckpt_load* raw = nullptr;
  Error error;
  EXPECT_EQ(ckpt_load_new(&raw, reader, nullptr, error), CKPT_OK) << error.text();
  Load load(raw);
  EXPECT_EQ(ckpt_load_add_object(raw, info.name, info.rank, bytes.data(), bytes.size(), error), CKPT_OK)
      << error.text();
  EXPECT_EQ(ckpt_load_run(raw, error), CKPT_OK) << info.name << ": " << error.text();
  return {{"name", info.name},
          {"rank", info.scope == CKPT_OBJECT_SHARED ? json(nullptr) : json(info.rank)},
          {"size", info.size},
          {"media_type", info.media_type},
          {"sha256", ckpt_golden::Sha256::of(bytes.data(), bytes.size())}};
}

json merged_tree(const ckpt_reader* reader, const char* name) {
  ckpt_tree* tree = nullptr;
  Error error;
  const char* text = nullptr;
  uint64_t size = 0;
  EXPECT_EQ(ckpt_reader_tree(reader, name, &tree, error), CKPT_OK) << error.text();
  EXPECT_EQ(ckpt_tree_json(tree, &text, &size, error), CKPT_OK) << error.text();
  json out = json::parse(std::string(text, size));
  ckpt_tree_free(tree);
  return out;
}

// A table: its rows, each the id and all columns, in the order of ids.
json loaded_table(const ckpt_reader* reader, const ckpt_table_info& info) {
  json out = {{"buckets", info.bucket_count}, {"columns", json::array()}, {"rows", info.row_count}};
  std::vector<const char*> names;
  std::vector<std::vector<unsigned char>> columns;
  std::vector<size_t> widths;
  std::vector<void*> data;
  std::vector<uint64_t> sizes, ids(info.row_count);
  for (uint32_t i = 0; i < info.column_count; i++) {
    auto column = sized<ckpt_column_info>();
    EXPECT_EQ(ckpt_reader_table_column_at(reader, info.name, i, &column, nullptr), CKPT_OK);
    names.push_back(column.name);
    out["columns"].push_back(column.name);
    widths.push_back(column.row_bytes);
    columns.emplace_back(info.row_count * column.row_bytes);
  }
  for (auto& column : columns) {
    data.push_back(column.data());
    sizes.push_back(column.size());
  }
  auto all = sized<ckpt_share_desc>();
  ckpt_share* share = nullptr;
  ckpt_load* load = nullptr;
  Error error;
  EXPECT_EQ(ckpt_share_open(&share, reader, info.name, &all, nullptr, 0, nullptr, error), CKPT_OK) << error.text();
  EXPECT_EQ(ckpt_load_new(&load, reader, nullptr, error), CKPT_OK) << error.text();
  EXPECT_EQ(ckpt_load_add_table(load, share, 0, ids.data(), 8 * ids.size(), names.size(), names.data(), data.data(),
                                sizes.data(), CKPT_DEVICE_CPU, 0, 0, error),
            CKPT_OK)
      << error.text();
  EXPECT_EQ(ckpt_load_run(load, error), CKPT_OK) << error.text();
  ckpt_load_free(load);
  ckpt_share_free(share);
  std::map<uint64_t, std::string> rows;
  for (size_t i = 0; i < ids.size(); i++) {
    std::string& row = rows[ids[i]];
    row.assign(reinterpret_cast<const char*>(&ids[i]), 8);
    for (size_t c = 0; c < columns.size(); c++)
      row.append(reinterpret_cast<const char*>(columns[c].data()) + i * widths[c], widths[c]);
  }
  std::string sorted;
  for (const auto& [id, row] : rows) sorted += row;
  out["sha256"] = ckpt_golden::Sha256::of(sorted.data(), sorted.size());
  return out;
}

json contents_of(const ckpt_reader* reader) {
  auto about = sized<ckpt_checkpoint_info>();
  EXPECT_EQ(ckpt_reader_info(reader, &about, nullptr), CKPT_OK);
  json out = {{"identity",
               {{"label", about.label}, {"run", about.run}, {"step", about.step}, {"world_size", about.world_size}}},
              {"attrs", attrs_of(reader, nullptr)},
              {"tensors", json::object()},
              {"aliases", json::object()},
              {"objects", json::array()}};
  for (uint64_t i = 0; i < ckpt_reader_tensor_count(reader); i++) {
    auto info = sized<ckpt_tensor_info>();
    EXPECT_EQ(ckpt_reader_tensor_at(reader, i, &info, nullptr), CKPT_OK);
    json tensor = loaded_tensor(reader, info);
    if (info.alias_of) tensor["target"] = info.alias_of;
    out[info.alias_of ? "aliases" : "tensors"][info.name] = tensor;
  }
  for (uint64_t i = 0; i < ckpt_reader_table_count(reader); i++) {
    auto info = sized<ckpt_table_info>();
    EXPECT_EQ(ckpt_reader_table_at(reader, i, &info, nullptr), CKPT_OK);
    out["tables"][info.name] = loaded_table(reader, info);
  }
  for (uint64_t i = 0; i < ckpt_reader_object_count(reader); i++) {
    auto info = sized<ckpt_object_info>();
    EXPECT_EQ(ckpt_reader_object_at(reader, i, &info, nullptr), CKPT_OK);
    out["objects"].push_back(loaded_object(reader, info));
    if (info.scope == CKPT_OBJECT_TREE) out["trees"][info.name] = merged_tree(reader, info.name);
  }
  return out;
}

TEST(Golden, EveryCommittedCheckpointHoldsWhatItHeld) {
  size_t count = 0;
  for (const auto& revision : fs::directory_iterator(kGolden)) {
    const std::string folder = revision.path().filename();
    if (!revision.is_directory() || folder[0] != 'r') continue;
    Store store = open_store(revision.path());
    for (const std::string& name : stems_in(revision.path(), ".json")) {
      SCOPED_TRACE(revision.path().string() + "/" + name);
      json expected = json::parse(read_file(revision.path().string() + "/" + name + ".json"));
      for (auto& alias : expected["aliases"]) alias.erase("view");  // ckpt.h does not tell it
      Reader reader = open(store, name);
      ASSERT_TRUE(reader);
      EXPECT_EQ(contents_of(reader.get()), expected);
      auto found = verify(reader.get(), {});
      EXPECT_TRUE(found.empty()) << to_text(found);
      count++;
    }
  }
  EXPECT_GE(count, 4u);
}

TEST(Golden, CompressedOneHasEveryFilter) {
  Store store = open_store(kGolden + "r1");
  Reader reader = open(store, "compressed");
  std::vector<int> expected{0, 1, 2}, filters;
  for (const char* name : {"raw", "shuffled", "planes"}) {
    auto segment = sized<ckpt_segment_info>();
    ASSERT_EQ(ckpt_reader_segment_at(reader.get(), name, 0, &segment, nullptr), CKPT_OK);
    filters.push_back(segment.filter);
  }
  EXPECT_EQ(filters, expected);
}

// "column: parts in order of their numbers", of each box.
std::map<int64_t, std::string> parts_by_column(const ckpt_reader* reader, const char* tensor) {
  std::map<int64_t, std::string> parts;
  auto segment = sized<ckpt_segment_info>();
  for (uint32_t i = 0; ckpt_reader_segment_at(reader, tensor, i, &segment, nullptr) == CKPT_OK; i++)
    parts[segment.offset[1]] += std::to_string(segment.part) + " ";
  return parts;
}

TEST(Golden, HalvesHasCellsOfThreeAndOfTwoParts) {
  Store store = open_store(kGolden + "r1");
  Reader reader = open(store, "halves");
  EXPECT_EQ(parts_by_column(reader.get(), "cut"), (std::map<int64_t, std::string>{{0, "0 2 4 "}, {10000, "1 3 "}}));
  EXPECT_EQ(parts_by_column(reader.get(), "cut.f4"), (std::map<int64_t, std::string>{{0, "0 2 4 "}, {8000, "1 3 "}}));
}

TEST(Golden, ByHandHasSeveralSegmentsOfARegionInOnePart) {
  Store store = open_store(kGolden + "r1");
  Reader reader = open(store, "by-hand");
  EXPECT_EQ(parts_by_column(reader.get(), "grid"), (std::map<int64_t, std::string>{{0, "0 2 3 "}, {3, "0 1 4 4 "}}));
}

TEST(Golden, WritingTheCatalogueAgainGivesTheSameContents) {
  Store store = open_store("mem:golden");
  for (const auto& contents : ckpt_golden::catalogue()) {
    std::string id, problem;
    ASSERT_EQ(ckpt_golden::save_contents(store.get(), contents, &id, &problem), CKPT_OK) << problem;
    json expected = json::parse(read_file(kGolden + "r1/" + contents.label + ".json"));
    for (auto& alias : expected["aliases"]) alias.erase("view");
    EXPECT_EQ(contents_of(open(store, id).get()), expected) << contents.label;
  }
}

TEST(Golden, ATreeThatNamesWhatNobodyAddedIsIncompleteAndCanStillBeRepaired) {
  const Scratch scratch;
  const std::string id = "tree-of-absent.1.1", manifest = scratch / (id + "/MANIFEST");
  fs::copy(kGolden + "past", scratch.path(), fs::copy_options::recursive);
  const Store store = open_store(scratch.path());
  ckpt_tree* tree = nullptr;
  Error error;
  EXPECT_EQ(ckpt_reader_tree(open(store, id).get(), nullptr, &tree, error), CKPT_INCOMPLETE) << error.text();
  EXPECT_EQ(error.detail("tensor"), "gone");
  EXPECT_NE(error.text().find("at \"model/0\""), std::string::npos) << error.text();
  const std::string before = read_file(manifest);
  write_file(manifest, "damaged");
  const Options writes = options({{"dry_run", 0}, {"force", 1}});
  EXPECT_EQ(ckpt_store_repair(store.get(), id.c_str(), writes.get(), nullptr, error), CKPT_OK) << error.text();
  EXPECT_EQ(read_file(manifest), before);
}

TEST(Golden, EveryHostileCheckpointIsRefusedForItsReason) {
  Store store = open_store(kGolden + "bad");
  auto names = stems_in(kGolden + "bad", "");
  EXPECT_GE(names.size(), 15u);
  for (const std::string& name : names) {
    std::string expected = name.substr(0, name.find('-'));
    ckpt_reader* raw = nullptr;
    Error error;
    ckpt_status status = ckpt_reader_open(&raw, store.get(), name.c_str(), nullptr, error);
    Reader reader(raw);
    std::string said = error.text();
    if (status == CKPT_OK) {
      auto found = verify(raw, {});
      ASSERT_FALSE(found.empty()) << name;
      status = found[0].status;
      said = to_text(found);
    }
    EXPECT_EQ(ckpt_status_name(status), expected) << name << ": " << said;
  }
}

}  // namespace
}  // namespace ckpt_test

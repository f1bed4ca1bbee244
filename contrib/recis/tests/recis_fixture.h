// A checkpoint directory of RecIS, forged by what its sources say.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "safetensors_fixture.h"

namespace ckpt::interop {

namespace fs = std::filesystem;

struct Slot {
  std::string name, dtype, row_shape;
  size_t row_bytes;
};
struct ForgedTable {
  std::string name;
  std::vector<int64_t> ids;
  std::vector<Slot> slots;
};

// The bytes of a row, which only its id and slot decide.
inline std::string row(int64_t id, const Slot& slot) {
  std::string bytes = pattern(slot.row_bytes, static_cast<unsigned>(id * 131 + static_cast<int64_t>(slot.name.size())));
  if (slot.dtype == "bool") bytes[0] = static_cast<char>(id & 1);
  return bytes;
}

inline std::string two_digits(size_t number, int width) {
  std::string text = std::to_string(number);
  return std::string(static_cast<size_t>(width) - text.size(), '0') + text;
}

// A checkpoint directory as RecIS' savers of `shards` ranks make it, with two threads each.
struct Forge {
  std::vector<ForgedTable> tables;
  int shards = 2;
  std::map<std::string, std::string> keys = {};                   // tensorkey.json
  std::map<std::string, size_t> blocks = {};                      // of index
  std::vector<std::pair<std::string, std::string>> headers = {};  // of each file: header and data
  std::vector<std::string> names = {};
  std::function<void(int shard, std::vector<int64_t>& ids)> change = [](int, auto&) {};

  static constexpr int64_t kBuckets = 65536;

  std::pair<int64_t, int64_t> slice(int shard) const {
    int64_t begin = 0, size = 0;
    for (int i = 0; i <= shard; i++) {
      begin += size;
      size = kBuckets / shards + (i < kBuckets % shards ? 1 : 0);
    }
    return {begin, begin + size};
  }

  void add_block(size_t file, const std::string& name, const Slot& slot, const std::string& shape,
                 const std::string& data) {
    auto& [header, bytes] = headers[file];
    header += (header.empty() ? "{" : ",") + entry(name, slot.dtype, shape, bytes.size(), bytes.size() + data.size());
    bytes += data;
    blocks[name] = file;
  }

  void add_table(const ForgedTable& table, int shard, size_t& next) {
    const auto [begin, end] = slice(shard);
    std::vector<int64_t> ids;
    for (const int64_t id : table.ids)
      if (const auto bucket = static_cast<int64_t>(static_cast<uint64_t>(id) % kBuckets);
          bucket >= begin && bucket < end)
        ids.push_back(id);
    change(shard, ids);
    const std::string part = "/part_" + std::to_string(shard) + '_' + std::to_string(shards);
    const std::string range =
        '^' + two_digits(static_cast<size_t>(begin), 5) + '@' + two_digits(static_cast<size_t>(end), 5) + "@65536";
    std::vector<Slot> slots = table.slots;
    slots.insert(slots.begin(), Slot{"id", "I64", "", 8});
    for (const Slot& slot : slots) {
      std::string data;
      for (const int64_t id : ids)
        data += slot.name == "id" ? std::string(reinterpret_cast<const char*>(&id), 8) : row(id, slot);
      const std::string name = table.name + '.' + slot.name + part;
      keys[name] = table.name + '@' + slot.name + range;
      add_block(static_cast<size_t>(shard) * 2 + next++ % 2, name, slot,
                '[' + std::to_string(ids.size()) + slot.row_shape + ']', data);
    }
  }

  void make() {
    headers.resize(static_cast<size_t>(shards) * 2);
    for (size_t i = 0; i < headers.size(); i++)
      names.push_back("model-" + two_digits(i, 6) + "-of-" + two_digits(headers.size(), 6) + ".safetensors");
    for (int shard = 0; shard < shards; shard++) {
      size_t next = 0;
      for (const ForgedTable& table : tables) add_table(table, shard, next);
      if (shard == 0)
        add_block(next % 2, "sparse_adamw_step^ ", {"", "I64", "", 8}, "[]", std::string("\x07\0\0\0\0\0\0\0", 8));
    }
  }

  std::string index() const {
    std::string text = R"({"block_index":{)";
    for (const auto& [name, file] : blocks)
      text += (text.ends_with('{') ? "\"" : ",\"") + name + "\":" + std::to_string(file);
    text += R"(},"file_index":{)";
    for (size_t i = 0; i < names.size(); i++)
      text += (text.ends_with('{') ? "\"" : ",\"") + names[i] + "\":" + std::to_string(i);
    return text + "}}";
  }
  std::string tensorkey() const {
    std::string text = "{";
    for (const auto& [name, value] : keys)
      text += (text == "{" ? "\n    \"" : ",\n    \"") + name + "\": \"" + value + '"';
    return text + "\n}";
  }

  void write(const std::string& directory) const {
    fs::create_directories(directory);
    for (size_t i = 0; i < names.size(); i++) {
      // Between one space and eight, as RecIS pads.
      std::string header = (headers[i].first.empty() ? "{" : headers[i].first) + "}";
      header += std::string(8 - header.size() % 8, ' ');
      write_file(directory + '/' + names[i], file_of(header, headers[i].second));
    }
    write_file(directory + "/index", index());
    write_file(directory + "/tensorkey.json", tensorkey());
  }
};

inline const Slot kEmbedding{"embedding", "F32", ",4", 16}, kMoment{"sparse_adamw_exp_avg", "F32", ",4", 16},
    kSquare{"sparse_adamw_exp_avg_sq", "BF16", ",4", 8}, kSeen{"seen", "bool", ",1", 1};

inline std::vector<ForgedTable> sample_tables() {
  std::vector<int64_t> users = {-1, INT64_MIN, INT64_MAX, 0};
  for (int64_t i = 1; i < 400; i++) users.push_back(i * 7'777'777'777 - 90);
  return {{"user.emb", users, {kEmbedding, kMoment, kSquare, kSeen}},
          {"empty", {}, {kEmbedding}},
          {"item", {5, 65536 + 5, 40000, 2 * 65536 + 5}, {kEmbedding, kMoment}}};
}

}  // namespace ckpt::interop

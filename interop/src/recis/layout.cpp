#include "interop/src/recis/layout.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "interop/src/json.h"
#include "interop/src/safetensors/file_set.h"

namespace ckpt::interop {

namespace {

constexpr std::string_view kPart = "/part_", kDenseEnd = "^ ";
constexpr uint64_t kMaxRecisBuckets = UINT32_MAX;

using Numbers = std::vector<std::pair<std::string, uint64_t>>;

// {"block_index": {"name": 0}, "file_index": {"name": 0}}
class RecisIndexEvents final : public JsonEvents {
 public:
  Numbers blocks, files;

  Status begin_object() override { return depth_++ < 2 ? Ok() : unexpected("an object"); }
  Status end_object() override {
    depth_--;
    return Ok();
  }
  Status key(std::string text) override {
    if (depth_ == 2) {
      if (into_->size() == tree::kMaxMapEntries)
        return Status(CKPT_FORMAT, strformat("more than {} entries", tree::kMaxMapEntries));
      into_->emplace_back(std::move(text), 0);
      return Ok();
    }
    if (text != "block_index" && text != "file_index") return unexpected("key " + shown(text));
    into_ = text == "block_index" ? &blocks : &files;
    return into_->empty() ? Ok() : Status(CKPT_FORMAT, text + " comes twice");
  }
  Status number(uint64_t value) override {
    if (depth_ != 2) return unexpected("a number");
    into_->back().second = value;
    return Ok();
  }

 private:
  int depth_ = 0;
  Numbers* into_ = nullptr;
};

Status twice(std::string_view what, const std::string& name) {
  return Status(CKPT_FORMAT, std::string(what) + ' ' + shown(name) + " comes twice").with("found", name);
}

// Sorted by name, each once.
Status sort_names(Numbers& rows, std::string_view what) {
  std::ranges::sort(rows);
  const auto same =
      std::ranges::adjacent_find(rows, {}, [](const auto& row) -> const std::string& { return row.first; });
  return same == rows.end() ? Ok() : twice(what, same->first);
}

constexpr uint64_t kNoNumber = UINT64_MAX;

// Of decimal digits, all of them.
uint64_t number_of(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : kNoNumber;
}

// What the two names of a block say: "T.id/part_0_2", "T@id^00000@32768@65536".
struct RecisKey {
  std::string table, column;
  uint64_t shard = 0, shards = 0;
  RecisSlice slice;
};

std::optional<RecisSlice> slice_of(std::string_view text) {
  const size_t first = text.find('@'), second = text.rfind('@');
  if (first == text.npos || first == second) return std::nullopt;
  const RecisSlice slice{number_of(text.substr(0, first)), number_of(text.substr(first + 1, second - first - 1)),
                         number_of(text.substr(second + 1))};
  const bool fits = slice.begin <= slice.end && slice.end <= slice.count;
  return fits && slice.count != 0 && slice.count <= kMaxRecisBuckets ? std::optional(slice) : std::nullopt;
}

Result<RecisKey> key_of(const std::string& name, const std::string& text) {
  const auto wrong = [&](const char* what) {
    return Status(CKPT_FORMAT, std::string(kRecisKeys) + ": " + shown(name) + ": " + what + shown(text))
        .with("found", text);
  };
  const size_t caret = text.rfind('^'), at = text.rfind('@', caret);
  const std::string_view rest = text;
  if (caret == text.npos || at == text.npos || at == 0 || at + 1 == caret)
    return wrong("expected TABLE@SLOT^BEGIN@END@BUCKETS, found ");
  RecisKey key{text.substr(0, at), text.substr(at + 1, caret - at - 1), 0, 0, {}};
  const auto slice = slice_of(rest.substr(caret + 1));
  if (!slice) return wrong("no range of buckets in ");
  key.slice = *slice;
  const size_t part = name.rfind(kPart);
  const std::string_view numbers = part == name.npos ? "" : std::string_view(name).substr(part + kPart.size());
  const size_t line = numbers.find('_');
  key.shard = number_of(numbers.substr(0, line));
  key.shards = line == numbers.npos ? kNoNumber : number_of(numbers.substr(line + 1));
  std::string dotted = text.substr(0, caret);
  std::ranges::replace(dotted, '@', '.');  // as RecIS does
  if (key.shard >= key.shards || key.shards > kMaxRecisBuckets ||
      name != strformat("{}{}{}_{}", dotted, kPart, key.shard, key.shards))
    return wrong("expected TABLE.SLOT/part_SHARD_SHARDS for ");
  return key;
}

class LayoutMaker {
 public:
  Result<RecisLayout> run(std::string_view index, std::string_view keys) {
    RecisIndexEvents events;
    CKPT_TRY(parse_json(index, events).in(kRecisIndex));
    CKPT_TRY(sort_names(events.blocks, "index: block"));
    CKPT_TRY(put_files(std::move(events.files)));
    CKPT_ASSIGN(StringMap names, parse_keys(keys));
    std::ranges::sort(names);
    for (const auto& [block, file] : events.blocks) {
      if (file >= layout_.files.size())
        return Status(CKPT_FORMAT, strformat("index: {} is in file {} of {}", shown(block), file, layout_.files.size()))
            .with("found", file);
      const auto found = std::ranges::lower_bound(names, block, {}, [](const auto& row) -> auto& { return row.first; });
      const bool is_sparse = found != names.end() && found->first == block;
      CKPT_TRY(is_sparse ? put_sparse(block, found->second, file) : put_dense(block, file));
      sparse_ += is_sparse;
    }
    if (sparse_ != names.size()) return not_indexed(names, events.blocks);
    for (auto& [name, table] : tables_) CKPT_TRY(finish(table));
    return std::move(layout_);
  }

 private:
  struct Shard {
    RecisSlice slice;
    std::vector<std::pair<std::string, RecisBlock>> blocks;  // by column
  };
  struct Made {
    std::string name;
    uint64_t shards = 0;
    std::map<uint64_t, Shard> by_number;  // those that are there, so that a number alone costs nothing
  };

  static Result<StringMap> parse_keys(std::string_view text) {
    Result<StringMap> map = parse_string_map(text);
    if (!map.ok()) return std::move(map).status().in(kRecisKeys);
    return map;
  }

  static Status not_indexed(const StringMap& names, const Numbers& blocks) {
    for (const auto& [name, text] : names)
      if (!std::ranges::binary_search(blocks, name, {}, [](const auto& row) -> auto& { return row.first; }))
        return Status(CKPT_INCOMPLETE, "index has no " + shown(name) + ", which " + kRecisKeys + " names")
            .with("expected", name);
    return Status(CKPT_INTERNAL, "blocks of an index");
  }

  Status put_files(Numbers files) {
    layout_.files.resize(files.size());
    std::vector<bool> taken(files.size());
    for (auto& [name, number] : files) {
      if (name.ends_with(".bin"))
        return Status(CKPT_UNSUPPORTED, "an older layout of RecIS (v2), whose files are " + shown(name) +
                                            " and alike; load and save it with RecIS 1.0")
            .with("found", name);
      CKPT_TRY(check_file_name(name).in("index: file"));
      if (number >= taken.size() || taken[number])
        return Status(CKPT_FORMAT, strformat("index: files are not numbered from 0 to {}", taken.size() - 1))
            .with("found", number);
      taken[number] = true;
      layout_.files[number] = std::move(name);
    }
    std::vector<std::string> sorted = layout_.files;
    std::ranges::sort(sorted);
    const auto same = std::ranges::adjacent_find(sorted);
    return same == sorted.end() ? Ok() : twice("index: file", *same);
  }

  Status put_dense(const std::string& block, size_t file) {
    if (!block.ends_with(kDenseEnd) || block.find('^') != block.size() - kDenseEnd.size() || block.size() == 2)
      return Status(CKPT_INCOMPLETE,
                    "index: " + shown(block) + " is a block of a table, which " + kRecisKeys + " does not tell")
          .with("found", block);
    layout_.dense.push_back({block, file});
    return Ok();
  }

  Status put_sparse(const std::string& block, const std::string& text, size_t file) {
    CKPT_ASSIGN(RecisKey key, key_of(block, text));
    Made& table = tables_[key.table];
    if (table.shards == 0) table.shards = key.shards;
    table.name = key.table;
    if (table.shards != key.shards)
      return wrong(CKPT_MISMATCH, key.table, strformat("blocks of {} and of {} shards", table.shards, key.shards));
    const auto [found, is_new] = table.by_number.try_emplace(key.shard);
    Shard& shard = found->second;
    if (is_new) shard.slice = key.slice;
    if (!(shard.slice == key.slice))
      return wrong(CKPT_MISMATCH, key.table,
                   strformat("shard {}: buckets {} and {}", key.shard, recis_text(shard.slice), recis_text(key.slice)));
    shard.blocks.emplace_back(std::move(key.column), RecisBlock{block, file});
    return Ok();
  }

  static Status wrong(ckpt_status code, const std::string& table, const std::string& what) {
    return Status(code, "table " + shown(table) + ": " + what).with("tensor", table);
  }

  // "id", "embedding", then the slots by name.
  static std::pair<int, std::string_view> place_of(std::string_view column) {
    return {column == kRecisIds ? 0 : column == kRecisEmbedding ? 1 : 2, column};
  }
  static std::pair<int, std::string_view> place_of_block(const std::pair<std::string, RecisBlock>& block) {
    return place_of(block.first);
  }

  Status finish(Made& made) {
    RecisTable& table = layout_.tables.emplace_back();
    table.name = made.name;
    for (uint64_t i = 0; i < made.shards; i++) {
      const auto found = made.by_number.find(i);
      if (found == made.by_number.end())
        return wrong(CKPT_INCOMPLETE, made.name, strformat("shard {} of {} is missing", i, made.shards))
            .with("expected", strformat("part_{}_{}", i, made.shards));
      Shard& shard = found->second;
      std::ranges::sort(shard.blocks, {}, place_of_block);
      if (i == 0)
        for (const auto& [column, block] : shard.blocks) table.columns.push_back(column);
      CKPT_TRY(check_columns(table, shard, i));
      table.shards.push_back(shard.slice);
      auto& blocks = table.blocks.emplace_back();
      for (auto& [column, block] : shard.blocks) blocks.push_back(std::move(block));
    }
    return check_buckets(table);
  }

  // Both are in order.
  static Status check_columns(const RecisTable& table, const Shard& shard, uint64_t number) {
    const auto has = [&](std::string_view column) {
      return std::ranges::binary_search(shard.blocks, place_of(column), {}, place_of_block);
    };
    for (const char* needed : {kRecisIds, kRecisEmbedding})
      if (!has(needed))
        return wrong(CKPT_INCOMPLETE, table.name, strformat("shard {} has no {}", number, needed))
            .with("expected", needed);
    for (const std::string& column : table.columns)
      if (!has(column))
        return wrong(CKPT_INCOMPLETE, table.name, strformat("shard {} has no slot ", number) + shown(column))
            .with("expected", column);
    for (const auto& [column, block] : shard.blocks)
      if (!std::ranges::binary_search(table.columns, place_of(column), {}, place_of))
        return wrong(CKPT_INCOMPLETE, table.name, "shard 0 has no slot " + shown(column)).with("expected", column);
    return Ok();
  }

  // Each bucket is one shard's.
  static Status check_buckets(RecisTable& table) {
    table.buckets = table.shards[0].count;
    std::vector<RecisSlice> sorted = table.shards;
    std::ranges::sort(sorted, {}, [](const RecisSlice& slice) { return std::pair(slice.begin, slice.end); });
    uint64_t end = 0;
    for (const RecisSlice& slice : sorted) {
      if (slice.count != table.buckets)
        return wrong(CKPT_MISMATCH, table.name,
                     strformat("shards of {} and of {} buckets", table.buckets, slice.count));
      if (slice.begin != end)
        return wrong(slice.begin < end ? CKPT_FORMAT : CKPT_INCOMPLETE, table.name,
                     strformat("{}, expected buckets from {}, found {}",
                               slice.begin < end ? "shards overlap" : "no shard has some buckets", end,
                               recis_text(slice)))
            .with("expected", end)
            .with("found", slice.begin);
      end = slice.end;
    }
    if (end == table.buckets) return Ok();
    return wrong(CKPT_INCOMPLETE, table.name, strformat("no shard has buckets from {} to {}", end, table.buckets - 1))
        .with("expected", table.buckets)
        .with("found", end);
  }

  RecisLayout layout_;
  std::map<std::string, Made> tables_;
  size_t sparse_ = 0;
};

}  // namespace

RecisSlice recis_slice(uint64_t shard, uint64_t shards, uint64_t buckets) {
  const auto begin = [&](uint64_t i) { return i * (buckets / shards) + std::min(i, buckets % shards); };
  return {begin(shard), begin(shard + 1), buckets};
}

std::string recis_text(const RecisSlice& slice) {
  const std::string count = std::to_string(slice.count);
  const auto padded = [&](uint64_t number) {
    const std::string text = std::to_string(number);
    return std::string(count.size() - std::min(count.size(), text.size()), '0') + text;
  };
  return padded(slice.begin) + '@' + padded(slice.end) + '@' + count;
}

std::string recis_block(const std::string& table, const std::string& column, uint64_t shard, uint64_t shards) {
  return strformat("{}.{}{}{}_{}", table, column, kPart, shard, shards);
}

Result<RecisLayout> parse_recis_layout(std::string_view index, std::string_view keys) {
  return LayoutMaker().run(index, keys);
}

}  // namespace ckpt::interop

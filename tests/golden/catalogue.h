// The golden checkpoints of revision 1. A change here would make other goldens, not better ones: add, do not edit.
#pragma once

#include "golden/contents.h"

namespace ckpt_golden {

inline Tensor filled(std::string name, int32_t dtype, std::vector<int64_t> shape, Split split, uint64_t seed) {
  Bytes bytes = noise_for(shape, dtype, seed);
  return {std::move(name), dtype, std::move(shape), split, std::move(bytes)};
}

// Every dtype, the odd shapes, the odd names; one rank.
inline Contents dtypes() {
  Contents out{.label = "dtypes", .step = 7, .world = 1, .text_options = {}, .number_options = {{"chunk_bytes", 4096}}};
  const int32_t all[] = {CKPT_DTYPE_I4,         CKPT_DTYPE_I8,          CKPT_DTYPE_I16,       CKPT_DTYPE_I32,
                         CKPT_DTYPE_I64,        CKPT_DTYPE_U4,          CKPT_DTYPE_U8,        CKPT_DTYPE_U16,
                         CKPT_DTYPE_U32,        CKPT_DTYPE_U64,         CKPT_DTYPE_F16,       CKPT_DTYPE_F32,
                         CKPT_DTYPE_F64,        CKPT_DTYPE_BF16,        CKPT_DTYPE_C64,       CKPT_DTYPE_C128,
                         CKPT_DTYPE_BOOL,       CKPT_DTYPE_F8_E3M4,     CKPT_DTYPE_F8_E4M3,   CKPT_DTYPE_F8_E4M3B11FNUZ,
                         CKPT_DTYPE_F8_E4M3FN,  CKPT_DTYPE_F8_E4M3FNUZ, CKPT_DTYPE_F8_E5M2,   CKPT_DTYPE_F8_E5M2FNUZ,
                         CKPT_DTYPE_F8_E8M0FNU, CKPT_DTYPE_F6_E2M3FN,   CKPT_DTYPE_F6_E3M2FN, CKPT_DTYPE_F4_E2M1FN,
                         CKPT_DTYPE_C32};
  uint64_t seed = 1;
  for (int32_t dtype : all)
    out.tensors.push_back(
        filled("all." + std::string(ckpt_dtype_name(dtype)), dtype, {3, 5}, Split::kReplicated, seed++));
  out.tensors.push_back(filled("opaque.24", CKPT_DTYPE(200, 24), {7}, Split::kReplicated, seed++));
  out.tensors.push_back(filled("opaque.3", CKPT_DTYPE(201, 3), {2, 5}, Split::kReplicated, seed++));
  out.tensors.push_back(filled("scalar", CKPT_DTYPE_F64, {}, Split::kReplicated, seed++));
  out.tensors.push_back(filled("none", CKPT_DTYPE_BF16, {4, 0, 2}, Split::kReplicated, seed++));
  out.tensors.push_back(
      filled("deep", CKPT_DTYPE_U8, {1, 2, 1, 1, 2, 1, 1, 1, 3, 1, 1, 1, 1, 2, 1, 1}, Split::kReplicated, seed++));
  out.tensors.push_back(filled("näme/with \"quotes\" and …", CKPT_DTYPE_I16, {2}, Split::kReplicated, seed++));
  out.tensors[11].attrs = {{"note", "first\nsecond line"}, {"empty", ""}};
  out.attrs = {{"framework", "none"}, {"ünïcode", "値"}};
  out.objects = {{"empty", "", false, {{}}}, {"state.json", "application/json", false, {{'{', '}'}}}};
  return out;
}

// Every way to shard, three ranks; small chunks, replicated tensors that are cut.
inline Contents sharded() {
  Contents out{.label = "sharded",
               .step = -1,
               .world = 3,
               .text_options = {},
               .number_options = {{"chunk_bytes", 4096}, {"large_tensor_bytes", 8192}}};
  out.tensors = {filled("box.columns", CKPT_DTYPE_F32, {5, 14}, Split::kColumns, 41),
                 filled("box.rows", CKPT_DTYPE_BF16, {13, 6}, Split::kRows, 42),
                 filled("box.rows.f4", CKPT_DTYPE_F4_E2M1FN, {7, 4}, Split::kRows, 43),
                 filled("flat", CKPT_DTYPE_F32, {3, 11}, Split::kFlat, 44),
                 filled("flat.one", CKPT_DTYPE_I64, {2}, Split::kFlat, 45),
                 filled("last.rank", CKPT_DTYPE_U16, {9}, Split::kLast, 46),
                 filled("pair", CKPT_DTYPE_I8, {50}, Split::kPair, 47),
                 filled("replicated.large", CKPT_DTYPE_F16, {9, 555}, Split::kReplicated, 48),
                 filled("replicated.small", CKPT_DTYPE_I32, {6}, Split::kReplicated, 49),
                 filled("box.long", CKPT_DTYPE_U8, {2, 5000}, Split::kColumns, 50)};
  out.tensors[3].attrs = {{"fsdp", "flat"}};
  out.objects = {{"loader", "application/octet-stream", true, {noise(10, 1), noise(0, 2), noise(5000, 3)}},
                 {"optimizer.json", "application/json", false, {noise(9000, 4)}}};
  out.aliases = {{.name = "tied", .target = "box.rows"},
                 {.name = "tied.transposed",
                  .target = "box.columns",
                  .view = true,
                  .offset = 2,
                  .extents = {6, 5},
                  .strides = {2, 14}}};
  out.attrs = {{"run", "golden"}};
  return out;
}

// Compression chosen tensor by tensor, two ranks: raw, bit planes, byte shuffle.
inline Contents compressed() {
  Contents out{.label = "compressed",
               .step = 12,
               .world = 2,
               .text_options = {{"compression", "auto"}},
               .number_options = {{"chunk_bytes", 8192}}};
  out.tensors = {{"planes", CKPT_DTYPE_F32, {64, 48}, Split::kRows, slope(64 * 48, 1)},
                 {"shuffled", CKPT_DTYPE_I32, {4096}, Split::kLast, woven(4096)},
                 filled("raw", CKPT_DTYPE_F64, {30}, Split::kReplicated, 60),
                 {"zeros", CKPT_DTYPE_BF16, {10, 1001}, Split::kReplicated, Bytes(20020)}};
  return out;
}

// One codec for all tensors, one rank; packed elements, and a width that no filter fits.
inline Contents lz4() {
  Contents out{.label = "lz4",
               .step = 0,
               .world = 1,
               .text_options = {{"compression", "lz4"}},
               .number_options = {{"chunk_bytes", 4096}}};
  out.tensors = {{"counted", CKPT_DTYPE_F32, {40, 50}, Split::kReplicated, slope(2000, 3)},
                 {"opaque", CKPT_DTYPE(77, 24), {1000}, Split::kReplicated, Bytes(3000, 5)},
                 {"packed", CKPT_DTYPE_F6_E2M3FN, {1001}, Split::kReplicated, Bytes(751, 0)}};
  return out;
}

// Grids whose cells several ranks hold, three of them one and two the other; regions of packed elements that are cut.
inline Contents halves() {
  Contents out{.label = "halves",
               .step = 3,
               .world = 5,
               .text_options = {},
               .number_options = {{"chunk_bytes", 4096}, {"large_tensor_bytes", 8192}}};
  out.tensors = {filled("cut", CKPT_DTYPE_U8, {2, 20000}, Split::kHalves, 71),
                 filled("cut.f4", CKPT_DTYPE_F4_E2M1FN, {3, 16000}, Split::kHalves, 72),
                 filled("replicated.f6", CKPT_DTYPE_F6_E3M2FN, {5, 4001}, Split::kReplicated, 73),
                 filled("replicated.u4", CKPT_DTYPE_U4, {33001}, Split::kReplicated, 74),
                 filled("whole", CKPT_DTYPE_BF16, {3, 6}, Split::kHalves, 75),
                 filled("whole.again", CKPT_DTYPE_F32, {7, 2}, Split::kHalves, 76)};
  return out;
}

// A state that four ranks make together: stages of a pipeline (the last two are the same one), tensors that only some
// hold, what is each rank's own; replicas with digests, and one that is the first rank's.
inline Contents together() {
  Contents out{.label = "together",
               .step = 5,
               .world = 4,
               .text_options = {{"held_by", "some"}},
               .number_options = {{"chunk_bytes", 4096}, {"large_tensor_bytes", 8192}}};
  out.tensors = {filled("large", CKPT_DTYPE_F32, {50, 51}, Split::kReplicated, 91),
                 filled("mean", CKPT_DTYPE_F32, {6}, Split::kReplicated, 92),
                 filled("odd", CKPT_DTYPE_BF16, {7, 3}, Split::kOdd, 93),
                 filled("odd.large", CKPT_DTYPE_U8, {9001}, Split::kOdd, 94)};
  out.tensors[1].flags = CKPT_TENSOR_FIRST_REPLICA;
  const std::string head = R"({"step":5,"lr":[0.5,{"$":"float","value":"nan"}],"mean":{"$":"tensor","name":"mean"},)"
                           R"("by number":{"$":"dict","items":[[0,"a"],)",
                    rng = R"("a/b":{"~":{"$":"record","class":"ckpt.PerRank","items":{)";
  const std::string number[] = {R"([-3,{"$":"tensor","name":"large"}]]},)", R"([7,true]]},)", R"(["0",null]]},)"};
  const std::string stage[] = {R"("first":{"$":"tuple","items":[1,2]},)",
                               R"("middle":{"w":{"$":"tensor","name":"odd"}},)", R"("last":"é",)"};
  auto tree = [&](int at, const std::string& own) { return head + number[at] + stage[at] + rng + own + "}}}}"; };
  out.trees = {{"state",
                {tree(0, R"("rank0":[0])"), tree(1, R"("rank1":{"$":"tensor","name":"odd.large"})"),
                 tree(2, R"("rank2":"two")"), tree(2, R"("rank3":3.0)")},
                {{0, tree(0, "")}, {1, tree(1, "")}, {2, tree(2, "")}},
                {{0, R"({"a~1b/~0":[0]})"},
                 {1, R"({"a~1b/~0":{"$":"tensor","name":"odd.large"}})"},
                 {2, R"({"a~1b/~0":"two"})"},
                 {3, R"({"a~1b/~0":3.0})"}},
                head + R"([-3,{"$":"tensor","name":"large"}],[7,true],["0",null]]},)" + stage[0] + rng +
                    R"("rank0":[0],"rank1":{"$":"tensor","name":"odd.large"},"rank2":"two","rank3":3.0}}},)" +
                    stage[1] + R"("last":"é"})"}};
  return out;
}

// Rows that each rank counts for itself; one of three ranks has none.
inline Contents rows() {
  Contents out{.label = "rows",
               .step = 7,
               .world = 3,
               .text_options = {{"compression", "auto"}},
               .number_options = {{"chunk_bytes", 4096}}};
  out.tensors = {filled("embedding", CKPT_DTYPE_F32, {301, 16}, Split::kOwnRows, 101),
                 filled("embedding.u4", CKPT_DTYPE_U4, {9, 2, 3}, Split::kOwnRows, 102),
                 filled("ids", CKPT_DTYPE_I64, {301}, Split::kOwnRows, 103),
                 filled("none", CKPT_DTYPE_F32, {0, 5}, Split::kOwnRows, 104),
                 {"slot", CKPT_DTYPE_F32, {301, 4, 8}, Split::kOwnRows, slope(301 * 32, 2)},
                 filled("w", CKPT_DTYPE_F32, {5, 3}, Split::kRows, 105)};
  out.aliases = {{"tied", "embedding", false, 0, {}, {}}, {"third.column", "embedding", true, 2, {301}, {16}}};
  return out;
}

// Sparse tables of three ranks: of many buckets and of few, with a rank without rows, and one that nobody has rows of.
inline Contents tables() {
  Contents out{.label = "tables",
               .step = 8,
               .world = 3,
               .text_options = {{"compression", "auto"}},
               .number_options = {{"chunk_bytes", 4096}}};
  out.tables = {
      {"empty", CKPT_DTYPE_U64, 5, {{}, {}, {}}, {{"w", CKPT_DTYPE_F32, {2}}}},
      {"items",
       CKPT_DTYPE_I64,
       65536,
       {{}, {}, {}},
       {{"embedding", CKPT_DTYPE_F32, {8}}, {"adam/step", CKPT_DTYPE_I32, {}}, {"flags", CKPT_DTYPE_U4, {3, 2}}}},
      {"users", CKPT_DTYPE_U64, 5, {{}, {}, {}}, {{"w", CKPT_DTYPE_BF16, {2, 3}}}}};
  uint64_t state = 1;
  for (int i = 0; i < 700; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out.tables[1].ids[state >> 60 < 10 ? 0 : 2].push_back(i % 5 == 0 ? state : state >> 44 << 12);
    if (i < 60) out.tables[2].ids[state >> 62 & 1 ? 1 : 2].push_back(state >> 50);
  }
  for (Table& table : out.tables)
    for (size_t c = 0; c < table.columns.size(); c++)
      for (const auto& ids : table.ids) {
        Bytes& rows = table.columns[c].rows.emplace_back();
        for (uint64_t id : ids) {
          const Bytes row = noise(bytes_of(table.columns[c].row, table.columns[c].dtype), id + c);
          rows.insert(rows.end(), row.begin(), row.end());
        }
      }
  return out;
}

// The last of three incremental saves: of each tensor and object a chunk changed in the second or third one, so that
// each rank's chunks lie in three files.
inline Contents reused() {
  Contents last{.label = "reused",
                .step = 9,
                .world = 2,
                .text_options = {{"incremental", "on"}},
                .number_options = {{"chunk_bytes", 4096}, {"large_tensor_bytes", 8192}}};
  last.tensors = {filled("box", CKPT_DTYPE_F32, {40, 100}, Split::kRows, 111),
                  filled("columns", CKPT_DTYPE_BF16, {9, 2000}, Split::kColumns, 112),
                  filled("replicated", CKPT_DTYPE_I64, {3000}, Split::kReplicated, 113),
                  filled("new", CKPT_DTYPE_U8, {5000}, Split::kLast, 114),
                  {"planes", CKPT_DTYPE_F32, {64, 96}, Split::kRows, slope(64 * 96, 4)}};
  last.objects = {{"loader", "application/octet-stream", true, {noise(9000, 5), noise(9000, 6)}}};
  Contents second = last, first;
  second.label = "second", second.step = 8;
  second.tensors.erase(second.tensors.begin() + 3);
  for (Tensor& tensor : second.tensors) tensor.bytes[0] ^= 1;
  for (Bytes& bytes : second.objects[0].bytes) bytes[0] ^= 1;
  first = second;
  first.label = "first", first.step = 7;
  for (Tensor& tensor : first.tensors) tensor.bytes[tensor.bytes.size() / 2] ^= 1;
  for (Bytes& bytes : first.objects[0].bytes) bytes.back() ^= 1;
  last.earlier = {std::move(first), std::move(second)};
  return last;
}

// Rows of a table by what each id's row was changed to last.
inline void fill_rows(Table* table, const std::vector<std::map<uint64_t, uint64_t>>& ranks) {
  table->ids.assign(ranks.size(), {});
  for (Table::Column& column : table->columns) column.rows.assign(ranks.size(), {});
  for (size_t rank = 0; rank < ranks.size(); rank++)
    for (const auto& [id, version] : ranks[rank]) {
      table->ids[rank].push_back(id);
      for (size_t c = 0; c < table->columns.size(); c++) {
        const Bytes row = noise(bytes_of(table->columns[c].row, table->columns[c].dtype), id * 1000 + version * 10 + c);
        table->columns[c].rows[rank].insert(table->columns[c].rows[rank].end(), row.begin(), row.end());
      }
    }
}

// A table in runs, after four saves of three ranks. Ids are changed, added, removed, removed and added again, and move
// to another rank; a rank has fewer runs than another one, and one has none. Beside it a table that is in one run.
inline Contents runs() {
  Contents last{.label = "runs",
                .step = 4,
                .world = 3,
                .text_options = {{"compression", "auto"}, {"incremental", "on"}, {"most_dead", "1"}},
                .number_options = {{"chunk_bytes", 4096}}};
  const Table whole{"whole", CKPT_DTYPE_U64, 7, {}, {{"w", CKPT_DTYPE_U8, {3}}}};
  last.tables = {
      {"changed", CKPT_DTYPE_I64, 64, {}, {{"embedding", CKPT_DTYPE_F32, {4}}, {"step", CKPT_DTYPE_I32, {}}}}, whole};
  std::vector<std::map<uint64_t, uint64_t>> ranks(3);
  for (uint64_t id = 0; id < 120; id++) ranks[id % 3][id * 5 - (id % 4 == 0)] = 1;  // the first id is -1
  fill_rows(&last.tables[1], ranks);
  struct Change {
    std::vector<uint64_t> put, gone;
  };
  const std::vector<std::vector<Change>> changes = {{{{5001, 15, 30, 45}, {75}}, {{}, {}}, {{}, {}}},
                                                    {{{15, 90}, {30, 5001}}, {{35, 30}, {}}, {{}, {}}},
                                                    {{{75, 5001}, {45}}, {{}, {35}}, {{}, {}}}};
  for (uint64_t version = 1; version <= 4; version++) {
    Table& table = last.tables[0];
    table.changed.assign(3, {});
    table.removed.assign(3, {});
    for (size_t rank = 0; rank < 3 && version > 1; rank++) {
      const Change& change = changes[version - 2][rank];
      for (uint64_t id : change.put) ranks[rank][id] = version;
      for (uint64_t id : change.gone) ranks[rank].erase(id);
      for (uint64_t id : change.put)
        table.changed[rank].push_back(static_cast<uint64_t>(std::distance(ranks[rank].begin(), ranks[rank].find(id))));
      table.removed[rank] = change.gone;
    }
    fill_rows(&table, ranks);
    if (version == 4) break;
    Contents before = last;
    before.earlier.clear();
    before.label = "runs-" + std::to_string(version), before.step = static_cast<int64_t>(version);
    last.earlier.push_back(std::move(before));
  }
  return last;
}

inline std::vector<Contents> catalogue() {
  return {dtypes(), sharded(), compressed(), lz4(), halves(), together(), rows(), tables(), reused(), runs()};
}

}  // namespace ckpt_golden

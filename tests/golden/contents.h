// What test checkpoints hold, and how each of their ranks saves it: known bytes, so that readers can be checked. Header
// only; uses only ckpt.h. Shared by make_golden.cpp and the API tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ckpt.h"
#include "ckpt_tree.h"

namespace ckpt_golden {

using Bytes = std::vector<unsigned char>;

enum class Split {
  kReplicated,  // all ranks hold it; the engine assigns it
  kRows,        // box: each rank holds some rows, uneven
  kColumns,     // box: each rank holds some columns, strided in memory
  kFlat,        // flat ranges of uneven size; if there are two elements, the middle ranks hold none
  kLast,        // only the last rank
  kPair,        // the first two ranks are a replica group
  kOdd,         // whole, on odd ranks alone; needs held_by=some
  kOwnRows,     // rows that each rank counts for itself; of three ranks the middle one has none
  kHalves,      // box: the left half of the columns on even ranks, the right half on odd ones, each a replica group
};

struct Tensor {
  std::string name;
  int32_t dtype;
  std::vector<int64_t> shape;
  Split split;
  Bytes bytes;  // of the whole tensor, row-major
  std::map<std::string, std::string> attrs = {};
  int32_t flags = 0;
};
struct Object {
  std::string name, media_type;
  bool per_rank;
  std::vector<Bytes> bytes;  // for each rank; one if shared
};
struct Alias {
  std::string name, target;
  bool view = false;
  int64_t offset = 0;
  std::vector<int64_t> extents = {}, strides = {};
};
struct Stored {
  uint32_t rank;
  std::string text;
};
// A tree that ranks make together, as JSON.
struct RankTrees {
  std::string name;
  std::vector<std::string> of_rank;   // what each rank adds
  std::vector<Stored> different, own;  // what is stored: those of NAME that differ, and those of NAME.per_rank
  std::string merged;
};
// A sparse table: the ids of each rank, in the order in which it adds them, and the rows of each rank's columns.
struct Table {
  struct Column {
    std::string name;
    int32_t dtype;
    std::vector<int64_t> row;
    std::vector<Bytes> rows = {};  // by rank
  };
  std::string name;
  int32_t id_dtype;
  uint64_t buckets;
  std::vector<std::vector<uint64_t>> ids;
  std::vector<Column> columns;
  // By rank, since the save before: rows, and ids; empty: nobody says.
  std::vector<std::vector<uint64_t>> changed = {}, removed = {};
};
struct Contents {
  std::string label;
  int64_t step = -1;
  uint32_t world = 1;
  std::map<std::string, std::string> text_options = {};  // for the save
  std::map<std::string, int64_t> number_options = {};    // for the session
  std::vector<Tensor> tensors = {};
  std::vector<Object> objects = {};
  std::vector<RankTrees> trees = {};
  std::vector<Alias> aliases = {};
  std::map<std::string, std::string> attrs = {};
  std::vector<Table> tables = {};
  std::vector<Contents> earlier = {};  // saved before it by the same sessions, for text option "incremental"
};

// ---- bytes ----

// Bytes that no codec compresses.
inline Bytes noise(size_t count, uint64_t seed) {
  Bytes bytes(count);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (auto& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<unsigned char>(state >> 56);
  }
  return bytes;
}

inline int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

inline size_t bytes_of(const std::vector<int64_t>& shape, int32_t dtype) {
  return static_cast<size_t>((count_of(shape) * ckpt_dtype_bits(dtype) + 7) / 8);
}

// Noise for a tensor. Bits after the last element are zero; a bool is 0 or 1.
inline Bytes noise_for(const std::vector<int64_t>& shape, int32_t dtype, uint64_t seed) {
  Bytes bytes = noise(bytes_of(shape, dtype), seed);
  int64_t used = count_of(shape) * ckpt_dtype_bits(dtype) % 8;
  if (used != 0) bytes.back() &= static_cast<unsigned char>((1 << used) - 1);
  if (dtype == CKPT_DTYPE_BOOL)
    for (auto& byte : bytes) byte &= 1;
  return bytes;
}

// f32 values that rise slowly, so bit planes compress them well.
inline Bytes slope(size_t count, float start) {
  Bytes bytes(count * 4);
  for (size_t i = 0; i < count; i++) {
    float value = start + static_cast<float>(i) * 0x1p-6f;
    std::memcpy(&bytes[4 * i], &value, 4);
  }
  return bytes;
}

// i32 values whose bytes repeat with periods that have no common factor: only byte shuffle compresses them.
inline Bytes woven(size_t count) {
  const Bytes thread = noise(1024, 99);
  const size_t periods[4] = {251, 241, 239, 233};
  Bytes bytes(count * 4);
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = thread[i / 4 % periods[i % 4] + i % 4 * 256];
  return bytes;
}

// ---- saving ----

inline ckpt_tensor_desc whole_desc(const Tensor& tensor) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = tensor.dtype;
  desc.ndim = static_cast<int32_t>(tensor.shape.size());
  for (size_t i = 0; i < tensor.shape.size(); i++) desc.shape[i] = tensor.shape[i];
  return desc;
}

// Where the rank's share of `total` begins. Shares grow with the rank, so they are uneven.
inline int64_t share(int64_t total, uint32_t rank, uint32_t world) {
  int64_t all = int64_t{world} * (world + 1) / 2, before = int64_t{rank} * (rank + 1) / 2;
  return total * before / all;
}

struct Region {
  bool held;
  ckpt_tensor_desc desc;
  int64_t first;  // the element of the whole tensor at the start of the memory
};

inline Region region_of(const Tensor& tensor, uint32_t rank, uint32_t world) {
  Region region{true, whole_desc(tensor), 0};
  ckpt_tensor_desc& desc = region.desc;
  int64_t count = count_of(tensor.shape);
  switch (tensor.split) {
    case Split::kReplicated:
      break;
    case Split::kOdd:
      region.held = rank % 2 == 1;
      break;
    case Split::kLast:
      region.held = rank + 1 == world;
      desc.replica_count = 1;
      break;
    case Split::kPair:
      region.held = rank < 2 && rank < world;
      desc.replica_count = world < 2 ? 1 : 2;
      desc.replica_index = rank;
      desc.replica_group = 7;
      break;
    case Split::kOwnRows: {
      // The rank in the middle has none.
      const int64_t total = tensor.shape[0], half = world < 3 ? total : total / 3;
      const int64_t begin = rank == 0 ? 0 : half, end = rank == 0 || (rank == 1 && world > 2) ? half : total;
      desc.region_kind = CKPT_REGION_ROWS;
      desc.shape[0] = end - begin;
      region.first = total ? begin * (count / total) : 0;
      break;
    }
    case Split::kFlat:
      desc.region_kind = CKPT_REGION_FLAT;
      desc.flat_offset = region.first = share(count, rank, world);
      desc.flat_size = share(count, rank + 1, world) - desc.flat_offset;
      break;
    case Split::kHalves: {
      const size_t axis = tensor.shape.size() - 1;
      region.desc = region_of({tensor.name, tensor.dtype, tensor.shape, Split::kColumns, {}}, rank % 2, 2).desc;
      ckpt_tensor_desc& half = region.desc;
      half.extent[axis] = tensor.shape[axis] / 2;
      half.offset[axis] = region.first = rank % 2 * half.extent[axis];
      half.replica_group = 20 + rank % 2;
      half.replica_index = rank / 2;
      half.replica_count = (world + 1 - rank % 2) / 2;
      break;
    }
    case Split::kRows:
    case Split::kColumns: {
      size_t axis = tensor.split == Split::kRows ? 0 : tensor.shape.size() - 1;
      desc.region_kind = CKPT_REGION_BOX;
      int64_t stride = 1;
      for (size_t i = tensor.shape.size(); i-- > 0;) {
        desc.extent[i] = tensor.shape[i];
        desc.strides[i] = stride;
        stride *= tensor.shape[i];
      }
      desc.offset[axis] = share(tensor.shape[axis], rank, world);
      desc.extent[axis] = share(tensor.shape[axis], rank + 1, world) - desc.offset[axis];
      region.first = desc.offset[axis] * desc.strides[axis];
      if (tensor.split == Split::kColumns) desc.flags |= CKPT_TENSOR_STRIDED;
      break;
    }
  }
  return region;
}

#define CKPT_GOLDEN_TRY(call)                                     \
  do {                                                            \
    if (ckpt_status golden_status = (call)) return golden_status; \
  } while (0)

inline ckpt_status add_table(ckpt_save* save, const Table& table, uint32_t rank, ckpt_error** err) {
  ckpt_table_desc desc{};
  desc.struct_size = sizeof desc;
  desc.id_dtype = table.id_dtype;
  desc.row_count = table.ids[rank].size();
  desc.bucket_count = table.buckets;
  desc.column_count = static_cast<uint32_t>(table.columns.size());
  if (!table.changed.empty()) {
    desc.flags = CKPT_TABLE_CHANGES;
    desc.changed = table.changed[rank].data();
    desc.changed_count = table.changed[rank].size();
    desc.removed = table.removed[rank].data();
    desc.removed_count = table.removed[rank].size();
  }
  std::vector<const char*> names;
  std::vector<ckpt_column_desc> columns;
  std::vector<const void*> data;
  std::vector<uint64_t> sizes;
  for (const Table::Column& column : table.columns) {
    names.push_back(column.name.c_str());
    ckpt_column_desc& made = columns.emplace_back();
    made.struct_size = sizeof made;
    made.dtype = column.dtype;
    for (int64_t extent : column.row) made.shape[made.ndim++] = extent;
    data.push_back(column.rows[rank].data());
    sizes.push_back(column.rows[rank].size());
  }
  return ckpt_save_add_table(save, table.name.c_str(), &desc, table.ids[rank].data(), 8 * desc.row_count, names.data(),
                             columns.data(), data.data(), sizes.data(), nullptr, CKPT_DEVICE_CPU, 0, 0, err);
}

inline ckpt_status add_all(ckpt_save* save, const Contents& contents, uint32_t rank, ckpt_error** err) {
  for (const Tensor& tensor : contents.tensors) {
    Region region = region_of(tensor, rank, contents.world);
    if (!region.held) continue;
    region.desc.flags |= tensor.flags;
    size_t skip = static_cast<size_t>(region.first * ckpt_dtype_bits(tensor.dtype) / 8);
    CKPT_GOLDEN_TRY(ckpt_save_add_tensor(save, tensor.name.c_str(), &region.desc, tensor.bytes.data() + skip,
                                         tensor.bytes.size() - skip, CKPT_DEVICE_CPU, 0, err));
    for (const auto& [key, value] : tensor.attrs)
      CKPT_GOLDEN_TRY(ckpt_save_set_attr(save, tensor.name.c_str(), key.c_str(), value.c_str(), err));
  }
  for (const Object& object : contents.objects) {
    const Bytes& bytes = object.bytes[object.per_rank ? rank : 0];
    CKPT_GOLDEN_TRY(ckpt_save_add_object(save, object.name.c_str(), object.media_type.c_str(),
                                         object.per_rank ? CKPT_OBJECT_PER_RANK : CKPT_OBJECT_SHARED, bytes.data(),
                                         bytes.size(), err));
  }
  for (const RankTrees& trees : contents.trees) {
    ckpt_tree* tree = nullptr;
    ckpt_status status = ckpt_tree_parse(&tree, trees.of_rank[rank].data(), trees.of_rank[rank].size(), err);
    if (!status) status = ckpt_save_add_tree(save, trees.name.c_str(), tree, err);
    ckpt_tree_free(tree);
    CKPT_GOLDEN_TRY(status);
  }
  for (const Alias& alias : contents.aliases) {
    ckpt_tensor_desc view{};
    view.struct_size = sizeof view;
    view.ndim = static_cast<int32_t>(alias.extents.size());
    view.flags = CKPT_TENSOR_STRIDED;
    view.flat_offset = alias.offset;
    for (size_t i = 0; i < alias.extents.size(); i++) {
      view.shape[i] = alias.extents[i];
      view.strides[i] = alias.strides[i];
    }
    for (const Tensor& tensor : contents.tensors)
      if (tensor.name == alias.target) view.dtype = tensor.dtype;
    CKPT_GOLDEN_TRY(
        ckpt_save_add_alias(save, alias.name.c_str(), alias.target.c_str(), alias.view ? &view : nullptr, err));
  }
  for (const Table& table : contents.tables) CKPT_GOLDEN_TRY(add_table(save, table, rank, err));
  for (const auto& [key, value] : contents.attrs)
    CKPT_GOLDEN_TRY(ckpt_save_set_attr(save, nullptr, key.c_str(), value.c_str(), err));
  return CKPT_OK;
}

inline ckpt_status save_rank(const ckpt_session* session, const Contents& contents, uint32_t rank, std::string* id,
                             ckpt_error** err) {
  ckpt_options* options = nullptr;
  CKPT_GOLDEN_TRY(ckpt_options_new(&options, err));
  ckpt_status status = CKPT_OK;
  for (const auto& [key, value] : contents.text_options)
    if (!status) status = ckpt_options_set_str(options, key.c_str(), value.c_str(), err);
  ckpt_save* save = nullptr;
  if (!status) status = ckpt_save_new(&save, session, contents.label.c_str(), contents.step, options, err);
  ckpt_options_free(options);
  if (!status) status = add_all(save, contents, rank, err);
  if (!status) *id = ckpt_save_id(save);
  if (!status) status = ckpt_save_run(save, err);
  ckpt_save_free(save);
  return status;
}

// Saves with one thread for each rank. Returns the first error, and its text in `problem`.
inline ckpt_status save_by(const std::vector<ckpt_session*>& sessions, const Contents& contents, std::string* id,
                           std::string* problem) {
  std::vector<ckpt_status> results(contents.world);
  std::vector<std::string> texts(contents.world), ids(contents.world);
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < contents.world; rank++)
    ranks.emplace_back([&, rank] {
      ckpt_error* err = nullptr;
      results[rank] = save_rank(sessions[rank], contents, rank, &ids[rank], &err);
      texts[rank] = ckpt_error_message(err);
      ckpt_error_free(err);
    });
  for (auto& rank : ranks) rank.join();
  *id = ids[0];
  for (uint32_t rank = 0; rank < contents.world; rank++)
    if (results[rank]) {
      *problem = "rank " + std::to_string(rank) + ": " + texts[rank];
      return results[rank];
    }
  return CKPT_OK;
}

inline ckpt_status save_contents(const ckpt_store* store, const Contents& contents, std::string* id,
                                 std::string* problem) {
  ckpt_options* options = nullptr;
  ckpt_error* error = nullptr;
  ckpt_status status = ckpt_options_new(&options, &error);
  for (const auto& [key, value] : contents.number_options)
    if (!status) status = ckpt_options_set_int(options, key.c_str(), value, &error);
  std::vector<ckpt_session*> sessions(contents.world);
  for (uint32_t rank = 0; rank < contents.world && !status; rank++)
    status = ckpt_session_open(&sessions[rank], store, rank, contents.world,
                               rank ? ckpt_session_string(sessions[0]) : nullptr, options, &error);
  ckpt_options_free(options);
  if (status) *problem = ckpt_error_message(error);
  ckpt_error_free(error);
  for (const Contents& before : contents.earlier)
    if (!status) status = save_by(sessions, before, id, problem);
  if (!status) status = save_by(sessions, contents, id, problem);
  for (ckpt_session* session : sessions) ckpt_session_free(session);
  return status;
}

// ---- reading again ----

inline Bytes expected_alias(const Contents& contents, const Alias& alias) {
  for (const Tensor& tensor : contents.tensors) {
    if (tensor.name != alias.target) continue;
    if (!alias.view) return tensor.bytes;
    size_t width = static_cast<size_t>(ckpt_dtype_bits(tensor.dtype)) / 8, ndim = alias.extents.size();
    Bytes out;
    for (int64_t i = 0; i < count_of(alias.extents); i++) {
      int64_t rest = i, at = alias.offset;
      for (size_t d = ndim; d-- > 0;) {
        at += rest % alias.extents[d] * alias.strides[d];
        rest /= alias.extents[d];
      }
      out.insert(out.end(), &tensor.bytes[static_cast<size_t>(at) * width],
                 &tensor.bytes[static_cast<size_t>(at) * width] + width);
    }
    return out;
  }
  return {};
}

inline ckpt_tensor_desc alias_desc(const Contents& contents, const Alias& alias) {
  ckpt_tensor_desc desc{};
  for (const Tensor& tensor : contents.tensors)
    if (tensor.name == alias.target) desc = whole_desc(tensor);
  if (!alias.view) return desc;
  desc.ndim = static_cast<int32_t>(alias.extents.size());
  for (size_t i = 0; i < CKPT_MAX_NDIM; i++) desc.shape[i] = i < alias.extents.size() ? alias.extents[i] : 0;
  return desc;
}

}  // namespace ckpt_golden

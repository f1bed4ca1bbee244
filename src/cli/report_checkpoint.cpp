#include <algorithm>
#include <map>
#include <numeric>

#include "cli/numbers.h"
#include "cli/report.h"
#include "cli/rows.h"
#include "cli/table.h"
#include "cli/text.h"

namespace cli {
namespace {

constexpr uint64_t kMostSegments = 400'000;  // of a page: more would make it larger than a browser likes

using Tensors = std::vector<ckpt::TensorInfo>;

// [part, 0, offset and extent of each dimension], or [part, 1, offset and size in the flattened tensor]; a part of a
// box in its own order is [part, 2, as the box].
Json segment_json(const ckpt::SegmentInfo& segment) {
  if (segment.ndim < 0)
    return Json::array(ckpt::Extents{int64_t{segment.part}, 1, segment.flat_offset, segment.flat_size});
  int64_t elements = 1;
  ckpt::Extents numbers{int64_t{segment.part}, 0};
  for (int32_t d = 0; d < segment.ndim; d++) {
    numbers.insert(numbers.end(), {segment.offset[d], segment.extent[d]});
    elements *= segment.extent[d];
  }
  if (elements != segment.flat_size) numbers[1] = 2;
  return Json::array(numbers);
}

// Where the bytes of each tensor lie, the largest first; null for those that the page has no room for, or whose part
// cannot be read.
std::vector<Json> maps_of(const ckpt::Reader& reader, const Tensors& tensors) {
  std::vector<Json> maps(tensors.size(), Json(nullptr));
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return tensors[a].bytes > tensors[b].bytes; });
  uint64_t left = kMostSegments;
  for (const size_t i : order) {
    const ckpt::TensorInfo& tensor = tensors[i];
    if (tensor.alias_of != nullptr || tensor.segment_count > left) continue;
    left -= tensor.segment_count;
    try {
      std::vector<Json> segments;
      for (uint32_t s = 0; s < tensor.segment_count; s++)
        segments.push_back(segment_json(reader.segment(tensor.name, s)));
      maps[i] = Json::array(segments);
    } catch (const ckpt::Error&) {
      // Verify tells what is wrong with the part; the rest of the page does not need it.
    }
  }
  return maps;
}

Json parts_json(const Opened& opened) {
  std::vector<Json> parts;
  for (uint32_t i = 0; i < opened.info.part_count; i++) {
    const ckpt::PartInfo part = opened.reader.part(i);
    parts.push_back({{"name", part.name},
                     {"rank", part.rank},
                     {"bytes", part.bytes},
                     {"own", std::string_view(part.save_id) == opened.info.save_id}});
  }
  return Json::array(parts);
}

// How many rows each part has: by these the ranks that saved them are uneven.
Json table_json(const ckpt::Reader& reader, const SparseTable& table) {
  std::map<uint32_t, uint64_t> rows;
  try {
    const std::string ids = table.name() + "/ids";
    const uint32_t count = reader.tensor(ids).segment_count;
    for (uint32_t i = 0; i < count; i++) {
      const ckpt::SegmentInfo segment = reader.segment(ids, i);
      rows[segment.part] += static_cast<uint64_t>(segment.flat_size);
    }
  } catch (const ckpt::Error&) {
    rows.clear();
  }
  return {{"name", page_text(table.name())},
          {"row_count", table.info.row_count},
          {"bucket_count", table.info.bucket_count},
          {"bytes", table.info.bytes},
          {"columns", page_text(columns_text(table))},
          {"parts", Json::array(rows, [](const auto& one) { return Json(one.first); })},
          {"part_rows", Json::array(rows, [](const auto& one) { return Json(one.second); })}};
}

}  // namespace

std::string page_text(std::string_view text) {
  constexpr size_t kMost = 400;
  if (text.size() <= kMost) return cut_middle(escaped(text), kMost);
  return cut_middle(escaped(text.substr(0, kMost)) + escaped(text.substr(text.size() - kMost)), kMost);
}

Json page_info(const ckpt::CheckpointInfo& info) {
  return {{"id", page_text(info.id)},
          {"run", page_text(info.run)},
          {"label", page_text(info.label)},
          {"step", info.step < 0 ? Json(nullptr) : Json(info.step)},
          {"state", state_name(info.state)},
          {"flags", joined(flag_names(info.flags))},
          {"bytes", info.bytes},
          {"base_bytes", std::min(info.base_bytes, info.bytes)},
          {"freed_bytes", freed_bytes(info)},
          {"ranks", info.world_size},
          {"tensors", info.tensor_count},
          {"objects", info.object_count},
          {"token", info.token},
          {"sequence", info.sequence},
          {"created_unix_ms", info.created_unix_ms},
          {"writer", page_text(info.writer)}};
}

Json tensors_json(const Tensors& tensors) {
  std::map<int32_t, size_t> places;  // of a dtype among the names
  for (const ckpt::TensorInfo& tensor : tensors) places.emplace(tensor.dtype, 0);
  size_t next = 0;
  for (auto& [dtype, place] : places) place = next++;
  const auto column = [&](auto value) { return Json::array(tensors, value); };
  return {{"dtypes", Json::array(places, [](const auto& one) { return Json(dtype_text(one.first)); })},
          {"name", column([](const auto& tensor) { return Json(page_text(tensor.name)); })},
          {"dtype", column([&](const auto& tensor) { return Json(places[tensor.dtype]); })},
          {"shape", column([](const auto& tensor) { return Json::array(ckpt::shape_of(tensor)); })},
          {"bytes", column([](const auto& tensor) { return Json(tensor.bytes); })},
          {"stored_bytes", column([](const auto& tensor) { return Json(tensor.stored_bytes); })},
          {"alias_of", column([](const auto& tensor) {
             return tensor.alias_of == nullptr ? Json(nullptr) : Json(page_text(tensor.alias_of));
           })}};
}

Json checkpoint_report(const Opened& opened, bool stats, const ckpt::Options& options) {
  const ckpt::Reader& reader = opened.reader;
  Tensors tensors;
  for (const ckpt::TensorInfo& tensor : reader.tensors()) tensors.push_back(tensor);
  Json table = tensors_json(tensors);
  table.add("map", Json::array(maps_of(reader, tensors)));
  Json json = {{"kind", "checkpoint"},
               {"title", page_text(opened.info.id)},
               {"info", page_info(opened.info)},
               {"parts", parts_json(opened)},
               {"tensors", table}};
  json.add("tables", Json::array(tables_of(reader), [&](const SparseTable& one) { return table_json(reader, one); }));
  if (stats) json.add("stats", stats_json(reader, tensors, options));
  return json;
}

}  // namespace cli

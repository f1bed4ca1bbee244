// ckpt info: shows one checkpoint and what it holds. Reads the manifest and the state trees.
#include <fnmatch.h>

#include <ctime>
#include <map>

#include "cli/command.h"
#include "cli/foreign.h"
#include "cli/numbers.h"
#include "cli/rows.h"
#include "cli/table.h"
#include "cli/tree_text.h"

namespace cli {
namespace cmd_info {
namespace {

struct Args : Common {
  std::string checkpoint, pattern, at;
  bool segments = false, all = false, skew = false;
};

constexpr Words kWords = {
    "info", "show what a checkpoint holds",
    "Shows who wrote the checkpoint and when, its tensors, aliases, sparse tables, objects and attributes, "
    "and an outline of\n"
    "its state tree. A sparse table is one line, unless --tensors or --segments ask for its tensors; LARGEST RANK is\n"
    "how many of its rows the rank with most of them saved, and how many times the mean of all ranks that is; a note\n"
    "tells of a table whose slices would be uneven.\n"
    "Reads and checks the manifest, the tree, and the parts' sizes and indexes only; ckpt verify checks the data. With "
    "--skew it\n"
    "reads all ids of sparse tables, and tells how many buckets have rows, and of the fullest one what it tells of "
    "the\n"
    "largest rank. With --segments it also shows where each tensor's bytes are in the parts. It takes whatever ckpt "
    "import takes as well: a .pt or\n"
    ".safetensors file, a Hugging Face set, an hfai directory; also by its https:// address, of which it fetches the "
    "header\n"
    "only.",
    "  ckpt info /data/run7\n"
    "  ckpt info /data/run7/step-100.7.1 --tensors 'model.*.weight'\n"
    "  ckpt info /data/run7@label:step-100 --json\n"
    "  ckpt info model.pt\n"
    "  ckpt info https://huggingface.co/ORG/MODEL/resolve/main/model.safetensors\n",
    "0 shown, 1 shown, but a part is missing or damaged, 2 error"};

std::string time_text(uint64_t unix_ms) {
  if (unix_ms == 0) return "-";
  std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm utc{};
  char text[32] = "-";
  if (gmtime_r(&seconds, &utc) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text;
}

std::string identity_text(const ckpt::CheckpointInfo& info) {
  std::string out;
  auto line = [&](const char* key, const std::string& value) { out += padded(key, 12) + escaped(value) + "\n"; };
  std::vector<std::string> state = {state_name(info.state)};
  for (std::string& name : flag_names(info.flags)) state.push_back(std::move(name));
  line("checkpoint", info.id);
  line("label", info.label);
  line("run", info.run);
  line("step", info.step < 0 ? "-" : std::to_string(info.step));
  line("state", joined(state));
  line("written",
       strformat("{} by {}, {}", time_text(info.created_unix_ms), info.writer, counted(info.world_size, "rank")));
  line("size", strformat("{} in {}", human_bytes(info.bytes), counted(info.part_count, "part")));
  if (info.base_bytes != 0)
    line("bases", strformat("{} of these in parts of earlier checkpoints, of which {} are used",
                            human_bytes(info.base_bytes), human_bytes(info.used_bytes)));
  if (info.shared_bytes != 0)
    line("shared", strformat("{} with other checkpoints here: they stay when it is removed, which frees {}",
                             human_bytes(info.shared_bytes), human_bytes(info.bytes - info.shared_bytes)));
  line("order", strformat("token {}, attempt {}, sequence {}", info.token, info.attempt, info.sequence));
  line("save id", info.save_id);
  line("session id", info.session_id);
  line("store id", info.store_id);
  line("revision", std::to_string(info.revision));
  return out;
}

// Nobody but the store knows; of what was removed meanwhile it shares nothing.
uint64_t shared_bytes(const Opened& opened) try {
  return opened.store.find(opened.info.id).shared_bytes;
} catch (const ckpt::Error&) {
  return 0;
}

using Tensors = std::vector<ckpt::TensorInfo>;

Tensors read_tensors(const ckpt::Reader& reader, const std::string& pattern, const std::string& at) {
  Tensors tensors;
  for (const ckpt::TensorInfo& tensor : reader.tensors())
    if (is_under(at, tensor.name) && (pattern.empty() || fnmatch(pattern.c_str(), tensor.name, 0) == 0))
      tensors.push_back(tensor);
  return tensors;
}

std::vector<ckpt::SegmentInfo> read_segments(const ckpt::Reader& reader, const ckpt::TensorInfo& tensor) {
  std::vector<ckpt::SegmentInfo> segments;
  for (uint32_t i = 0; tensor.alias_of == nullptr && i < tensor.segment_count; ++i)
    segments.push_back(reader.segment(tensor.name, i));
  return segments;
}

std::string tensors_text(const Tensors& tensors) {
  Table table({{"TENSOR", Align::kLeft, true},
               {"DTYPE"},
               {"SHAPE"},
               {"BYTES", Align::kRight},
               {"STORED", Align::kRight},
               {"SEGMENTS", Align::kRight},
               {"ALIAS OF", Align::kLeft, true}});
  for (const ckpt::TensorInfo& tensor : tensors) {
    bool alias = tensor.alias_of != nullptr;
    table.add({escaped(tensor.name), dtype_text(tensor.dtype), shape_text(ckpt::shape_of(tensor)),
               human_bytes(tensor.bytes), alias ? "-" : human_bytes(tensor.stored_bytes),
               alias ? "-" : std::to_string(tensor.segment_count), alias ? escaped(tensor.alias_of) : ""});
  }
  return table.empty() ? "" : "\n" + table.render(terminal_width());
}

// ---- sparse tables ----

std::vector<SparseTable> read_tables(const ckpt::Reader& reader, const std::string& pattern, const std::string& at) {
  std::vector<SparseTable> tables;
  for (SparseTable& table : tables_of(reader))
    if (is_under(at, table.name()) && (pattern.empty() || fnmatch(pattern.c_str(), table.info.name, 0) == 0))
      tables.push_back(std::move(table));
  return tables;
}

// Rows that the rank with most of them saved; nothing if the index of a part cannot be read.
std::optional<uint64_t> rows_of_largest_rank(const ckpt::Reader& reader, const SparseTable& table) try {
  std::map<uint32_t, uint64_t> rows;
  uint64_t most = 0;
  for (const ckpt::SegmentInfo& segment : read_segments(reader, reader.tensor(table.name() + "/ids")))
    most = std::max(most, rows[segment.part] += static_cast<uint64_t>(segment.flat_size));
  return most;
} catch (const ckpt::Error&) {
  return std::nullopt;
}

// "12 rows, 1.6×": how many times the mean that is, of so many that have `all` rows together.
std::string against_mean(uint64_t most, uint64_t all, uint64_t holders) {
  if (all == 0 || holders == 0) return counted(most, "row");
  const double mean = static_cast<double>(all) / static_cast<double>(holders);
  return counted(most, "row") + print_format(", %.2g×", static_cast<double>(most) / mean);
}

std::string tables_text(const Opened& opened, const std::vector<SparseTable>& tables) {
  Table text({{"SPARSE TABLE", Align::kLeft, true},
              {"ROWS", Align::kRight},
              {"IDS"},
              {"BUCKETS", Align::kRight},
              {"BYTES", Align::kRight},
              {"STORED", Align::kRight},
              {"LARGEST RANK", Align::kRight},
              {"COLUMNS", Align::kLeft, true}});
  for (const SparseTable& table : tables) {
    const auto most = rows_of_largest_rank(opened.reader, table);
    text.add({escaped(table.info.name), std::to_string(table.info.row_count), dtype_text(table.info.id_dtype),
              std::to_string(table.info.bucket_count), human_bytes(table.info.bytes),
              human_bytes(table.info.stored_bytes),
              most ? against_mean(*most, table.info.row_count, opened.info.world_size) : "-", columns_text(table)});
  }
  return text.empty() ? "" : "\n" + text.render(terminal_width());
}

std::string skew_text(const std::vector<SparseTable>& tables, const ckpt::Options& options) {
  Table text(
      {{"SKEW OF", Align::kLeft, true}, {"BUCKETS WITH ROWS", Align::kRight}, {"FULLEST BUCKET", Align::kRight}});
  for (const SparseTable& table : tables) {
    const Skew skew = skew_of(table, options);
    text.add({escaped(table.info.name), strformat("{} of {}", skew.buckets_with_rows, table.info.bucket_count),
              against_mean(skew.rows_of_fullest, table.info.row_count, skew.buckets_with_rows)});
  }
  return text.empty() ? "" : "\n" + text.render(terminal_width());
}

// Ids from 0 to n, as a vocabulary has, fill the first buckets only: then the first slices have all the rows.
std::string uneven_text(const std::vector<SparseTable>& tables, const ckpt::Options& options) try {
  constexpr uint64_t kMany = 1024;  // of fewer rows it is the same who has them
  std::string out;
  for (const SparseTable& table : tables) {
    const uint64_t all = table.info.row_count;
    if (all < kMany) continue;
    const uint64_t first = with_columns(table, {}).open(ckpt::Rowset::slice(0, 2), options).info.row_count;
    const uint64_t most = std::max(first, all - first);
    if (most > all / 4 * 3)
      out += strformat(
          "\nnote: of {} one of two slices has {} of {} rows, since its ids do not spread over {} buckets: "
          "load shares by mod instead, or save it with a bucket_count near the number of its ids\n",
          escaped(table.info.name), most, all, table.info.bucket_count);
  }
  return out;
} catch (const ckpt::Error&) {
  return "";  // a part cannot be read, which verify tells
}

Json column_json(const ckpt::ColumnInfo& column) {
  return {{"name", column.name},
          {"dtype", dtype_text(column.dtype)},
          {"shape", Json::array(std::span(column.shape, static_cast<size_t>(column.ndim)))},
          {"row_bytes", column.row_bytes},
          {"stored_bytes", column.stored_bytes}};
}

Json table_json(const ckpt::Reader& reader, const SparseTable& table, const ckpt::Options* for_skew) {
  const auto most = rows_of_largest_rank(reader, table);
  Json json = {{"name", table.info.name},
               {"row_count", table.info.row_count},
               {"id_dtype", dtype_text(table.info.id_dtype)},
               {"bucket_count", table.info.bucket_count},
               {"bytes", table.info.bytes},
               {"stored_bytes", table.info.stored_bytes},
               {"rows_of_largest_rank", most ? Json(*most) : Json(nullptr)},
               {"columns", Json::array(table.columns, column_json)}};
  if (for_skew == nullptr) return json;
  const Skew skew = skew_of(table, *for_skew);
  json.add("buckets_with_rows", skew.buckets_with_rows);
  json.add("rows_of_fullest_bucket", skew.rows_of_fullest);
  return json;
}

std::string objects_text(const ckpt::Reader& reader) {
  Table table({{"OBJECT", Align::kLeft, true}, {"RANK", Align::kRight}, {"SIZE", Align::kRight}, {"TYPE"}});
  for (const ckpt::ObjectInfo& object : reader.objects()) {
    bool shared = object.scope == CKPT_OBJECT_SHARED;
    table.add({escaped(object.name), shared ? "shared" : std::to_string(object.rank), human_bytes(object.size),
               escaped(object.media_type)});
  }
  return table.empty() ? "" : "\n" + table.render(terminal_width());
}

std::string attrs_text(const ckpt::Reader& reader, const Tensors& tensors, const std::vector<SparseTable>& tables) {
  Table table({{"ATTRIBUTE", Align::kLeft, true}, {"OF", Align::kLeft, true}, {"VALUE", Align::kLeft, true}});
  auto add = [&](const std::string& owner, const ckpt::Attributes& attrs) {
    for (const auto& [key, value] : attrs) table.add({escaped(key), owner, escaped(value)});
  };
  add("-", reader.attrs());
  for (const ckpt::TensorInfo& tensor : tensors) add(escaped(tensor.name), reader.tensor_attrs(tensor.name));
  for (const SparseTable& sparse : tables) {
    ckpt::Attributes attrs = reader.tensor_attrs(sparse.name());
    for (const char* key : {"ckpt.table", "ckpt.table.runs"}) attrs.erase(key);  // the library's own
    add(escaped(sparse.name()), attrs);
  }
  return table.empty() ? "" : "\n" + table.render(terminal_width());
}

std::string tensor_text(const ckpt::Reader& reader, const std::string& name) {
  if (!reader.has_tensor(name)) return "";
  const ckpt::TensorInfo tensor = reader.tensor(name);
  return dtype_text(tensor.dtype) + " " + shape_text(ckpt::shape_of(tensor));
}

// A damaged tree is reported; the rest is shown all the same.
std::string trees_text(const ckpt::Reader& reader, uint64_t lines) {
  std::string out;
  auto tensor = [&](std::string_view name) { return tensor_text(reader, std::string(name)); };
  for (const std::string& name : tree_names(reader)) {
    out += "\n" + escaped(name) + ": ";
    try {
      out += outline(reader.tree(name).view(), tensor, lines);
    } catch (const ckpt::Error& error) {
      out += "cannot be read: " + escaped(error.what()) + "\n";
    }
  }
  return out;
}

std::string region_text(const ckpt::SegmentInfo& segment) {
  if (segment.ndim < 0) return strformat("flat {}:{}", segment.flat_offset, segment.flat_offset + segment.flat_size);
  std::vector<std::string> slices;
  int64_t elements = 1;
  for (int32_t d = 0; d < segment.ndim; ++d) {
    slices.push_back(strformat("{}:{}", segment.offset[d], segment.offset[d] + segment.extent[d]));
    elements *= segment.extent[d];
  }
  const std::string box = "[" + joined(slices) + "]";
  if (segment.flat_size == elements) return box;
  return strformat("elements {}:{} of {}", segment.flat_offset, segment.flat_offset + segment.flat_size, box);
}

std::string coding_text(const ckpt::SegmentInfo& segment) {
  std::string codec = segment.codec == 0 ? "raw" : segment.codec == 1 ? "lz4" : strformat("codec {}", segment.codec);
  switch (segment.filter) {
    case 0:
      return codec;
    case 1:
      return codec + ", bytes shuffled";
    case 2:
      return codec + ", bit planes";
    default:
      return strformat("{}, filter {}", codec, segment.filter);
  }
}

std::string segments_text(const ckpt::Reader& reader, const Tensors& tensors) {
  Table table({{"SEGMENTS OF", Align::kLeft, true},
               {"PART", Align::kRight},
               {"OFFSET", Align::kRight},
               {"STORED", Align::kRight},
               {"CHUNKS", Align::kRight},
               {"CODING"},
               {"ELEMENTS"}});
  for (const ckpt::TensorInfo& tensor : tensors) {
    for (const ckpt::SegmentInfo& segment : read_segments(reader, tensor)) {
      table.add({escaped(tensor.name), std::to_string(segment.part), std::to_string(segment.part_offset),
                 human_bytes(segment.stored_bytes), std::to_string(segment.chunk_count), coding_text(segment),
                 region_text(segment)});
    }
  }
  return table.empty() ? "" : "\n" + table.render(terminal_width());
}

Json segment_json(const ckpt::SegmentInfo& segment) {
  Json json = {{"part_index", segment.part},    {"offset", segment.part_offset}, {"stored_bytes", segment.stored_bytes},
               {"chunks", segment.chunk_count}, {"codec", segment.codec},        {"filter", segment.filter}};
  auto numbers = [&](const int64_t* values) { return Json::array(ckpt::Extents(values, values + segment.ndim)); };
  if (segment.ndim < 0) {
    json.add("flat", Json::array(ckpt::Extents{segment.flat_offset, segment.flat_size}));
  } else {
    json.add("box_offset", numbers(segment.offset));
    json.add("box_extent", numbers(segment.extent));
    json.add("elements", Json::array(ckpt::Extents{segment.flat_offset, segment.flat_size}));
  }
  return json;
}

Json attrs_json(const ckpt::Attributes& attrs) {
  Json json = Json::object();
  for (const auto& [key, value] : attrs) json.add(key, value);
  return json;
}

Json tensor_json(const ckpt::Reader& reader, const ckpt::TensorInfo& tensor, bool with_segments) {
  Json json = {{"name", tensor.name},
               {"dtype", dtype_text(tensor.dtype)},
               {"shape", Json::array(ckpt::shape_of(tensor))},
               {"bytes", tensor.bytes},
               {"stored_bytes", tensor.stored_bytes},
               {"segment_count", tensor.segment_count},
               {"alias_of", tensor.alias_of},
               {"attributes", attrs_json(reader.tensor_attrs(tensor.name))}};
  if (with_segments) json.add("segments", Json::array(read_segments(reader, tensor), segment_json));
  return json;
}

Json parts_json(const Opened& opened) {
  std::vector<Json> parts;
  for (uint32_t i = 0; i < opened.info.part_count; ++i) {
    const ckpt::PartInfo part = opened.reader.part(i);
    parts.push_back({{"name", part.name}, {"rank", part.rank}, {"bytes", part.bytes}, {"save_id", part.save_id}});
  }
  return Json::array(parts);
}

Json object_json(const ckpt::ObjectInfo& object) {
  return {{"name", object.name},
          {"rank", object.scope == CKPT_OBJECT_SHARED ? Json(nullptr) : Json(object.rank)},
          {"bytes", object.size},
          {"media_type", object.media_type}};
}

void print_as_json(const Args& args, const Opened& opened, const Tensors& tensors,
                   const std::vector<SparseTable>& tables, const ckpt::Options& options) {
  Json json = to_json(opened.info);
  json.add("passed_over", opened.info.passed_over);
  json.add("part_list", parts_json(opened));
  json.add("tensor_list", Json::array(tensors, [&](const ckpt::TensorInfo& tensor) {
             return tensor_json(opened.reader, tensor, args.segments);
           }));
  json.add("table_list", Json::array(tables, [&](const SparseTable& table) {
             return table_json(opened.reader, table, args.skew ? &options : nullptr);
           }));
  json.add("object_list", Json::array(opened.reader.objects(), object_json));
  json.add("attributes", attrs_json(opened.reader.attrs()));
  print_json(json);
}

// The manifest tells all that is shown; whoever sees it must not take that for parts that are there.
int tell_damages(const ckpt::Reader& reader, const ckpt::Options& options) {
  const std::vector<std::string> damages = damages_of_parts(reader, options);
  for (const std::string& line : damages) std::fprintf(stderr, "ckpt: damaged: %s\n", line.c_str());
  return damages.empty() ? kExitOk : kExitNo;
}

int run(const Args& args) {
  const uint64_t lines = args.all ? UINT64_MAX : kOutlineLines;
  if (is_foreign(args.checkpoint, make_options(args))) {
    if (args.segments) invalid("--segments is for checkpoints: " + shown(args.checkpoint) + " is none");
    if (args.skew) invalid("--skew is for checkpoints: " + shown(args.checkpoint) + " is none");
    if (!args.at.empty()) invalid("--at is for checkpoints: " + shown(args.checkpoint) + " is none");
    show_foreign({args.checkpoint, args.pattern, lines}, args);
    return kExitOk;
  }
  ckpt::Options options = make_options(args);
  Opened opened = open_checkpoint(args.checkpoint, args, options);
  opened.info.shared_bytes = shared_bytes(opened);
  const ckpt::Reader& reader = opened.reader;
  const Tensors tensors = read_tensors(reader, args.pattern, args.at);
  const std::vector<SparseTable> tables = read_tables(reader, args.pattern, args.at);
  const int code = tell_damages(reader, options);
  if (args.json) return print_as_json(args, opened, tensors, tables, options), code;
  const Tensors listed = args.segments || !args.pattern.empty() ? tensors : without_tables(tensors, tables);
  std::string text = identity_text(opened.info) + tensors_text(listed) + tables_text(opened, tables);
  text += uneven_text(tables, options);
  if (args.skew) text += skew_text(tables, options);
  if (args.segments) text += segments_text(reader, tensors);
  text += objects_text(reader);
  if (args.pattern.empty() && args.at.empty()) text += trees_text(reader, lines);
  print(text + attrs_text(reader, without_tables(tensors, tables), tables));
  return code;
}

}  // namespace
}  // namespace cmd_info

void add_info(CLI::App& app, Action& chosen) {
  using namespace cmd_info;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("CHECKPOINT", args->checkpoint, kCheckpointHelp).required();
  command.add("--tensors", args->pattern, "show only tensors whose names match: * ? [a-z]; * also matches '.' and '/'")
      .type("PATTERN");
  command.add("--at", args->at, kAtHelp).type("PLACE");
  command.add("--segments", args->segments, "show where the tensors' bytes are in the parts");
  command.add("--skew", args->skew, "read all ids of sparse tables, and show how they fill the buckets");
  command.add("--all", args->all, "show the whole state tree, however long");
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli

// ckpt info: what one checkpoint is and holds. Reads the manifest, and state trees.
#include <fnmatch.h>
#include <sys/stat.h>

#include <ctime>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/foreign.h"
#include "cli/numbers.h"
#include "cli/table.h"
#include "cli/tree_text.h"

namespace cli {
namespace {

struct Args : Common {
  std::string checkpoint, pattern;
  bool segments = false, all = false;
};

constexpr Words kWords = {
    "info", "show what a checkpoint holds",
    "Shows who wrote the checkpoint and when, its tensors, aliases, objects and attributes, and its state tree in\n"
    "outline. Only the manifest and the tree are read and checked; ckpt verify checks the data. With --segments also\n"
    "where each tensor's bytes lie in the parts. Of a file (.pt, .safetensors) it shows the same without a store.",
    "  ckpt info /data/run7\n"
    "  ckpt info /data/run7/step-100.7.1 --tensors 'model.*.weight'\n"
    "  ckpt info /data/run7@label:step-100 --json\n"
    "  ckpt info model.pt\n",
    "0 shown, 2 error"};

std::string time_text(uint64_t unix_ms) {
  if (unix_ms == 0) return "-";
  std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm utc{};
  char text[32] = "-";
  if (gmtime_r(&seconds, &utc) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text;
}

std::string identity_text(const ckpt_checkpoint_info& info) {
  std::string out;
  auto line = [&](const char* key, const std::string& value) { out += fmt::format("{:<12}{}\n", key, escaped(value)); };
  bool foreign = (info.flags & CKPT_CHECKPOINT_FOREIGN) != 0, rebuilt = (info.flags & CKPT_CHECKPOINT_REBUILT) != 0;
  line("checkpoint", info.id);
  line("label", info.label);
  line("run", info.run);
  line("step", info.step < 0 ? "-" : fmt::format("{}", info.step));
  line("state", fmt::format("{}{}{}", state_name(info.state), foreign ? ", foreign" : "", rebuilt ? ", rebuilt" : ""));
  line("written",
       fmt::format("{} by {}, {}", time_text(info.created_unix_ms), info.writer, counted(info.world_size, "rank")));
  line("size", fmt::format("{} in {}", human_bytes(info.bytes), counted(info.part_count, "part")));
  line("order", fmt::format("token {}, attempt {}, sequence {}", info.token, info.attempt, info.sequence));
  line("save id", info.save_id);
  line("session id", info.session_id);
  line("store id", info.store_id);
  line("revision", fmt::format("{}", info.revision));
  return out;
}

std::span<const int64_t> shape_of(const ckpt_tensor_info& tensor) {
  return {tensor.shape, static_cast<size_t>(tensor.ndim)};
}

Error read_tensors(const ckpt_reader* reader, const std::string& pattern, std::vector<ckpt_tensor_info>* out) {
  for (uint64_t i = 0; i < ckpt_reader_tensor_count(reader); ++i) {
    auto tensor = sized<ckpt_tensor_info>();
    CLI_TRY(call(ckpt_reader_tensor_at, reader, i, &tensor));
    if (pattern.empty() || fnmatch(pattern.c_str(), tensor.name, 0) == 0) out->push_back(tensor);
  }
  return {};
}

Error read_objects(const ckpt_reader* reader, std::vector<ckpt_object_info>* out) {
  for (uint64_t i = 0; i < ckpt_reader_object_count(reader); ++i) {
    out->push_back(sized<ckpt_object_info>());
    CLI_TRY(call(ckpt_reader_object_at, reader, i, &out->back()));
  }
  return {};
}

Error read_segments(const ckpt_reader* reader, const ckpt_tensor_info& tensor, std::vector<ckpt_segment_info>* out) {
  for (uint32_t i = 0; tensor.alias_of == nullptr && i < tensor.segment_count; ++i) {
    out->push_back(sized<ckpt_segment_info>());
    CLI_TRY(call(ckpt_reader_segment_at, reader, tensor.name, i, &out->back()));
  }
  return {};
}

// Visits the attributes of the checkpoint (`tensor` null) or of a tensor.
template <typename Visit>
Error each_attr(const ckpt_reader* reader, const char* tensor, Visit visit) {
  for (uint64_t i = 0; i < ckpt_reader_attr_count(reader, tensor); ++i) {
    const char *key = nullptr, *value = nullptr;
    CLI_TRY(call(ckpt_reader_attr_at, reader, tensor, i, &key, &value));
    visit(key, value);
  }
  return {};
}

std::string tensors_text(const std::vector<ckpt_tensor_info>& tensors) {
  Table table({{"TENSOR", Align::kLeft, true},
               {"DTYPE"},
               {"SHAPE"},
               {"BYTES", Align::kRight},
               {"STORED", Align::kRight},
               {"SEGMENTS", Align::kRight},
               {"ALIAS OF", Align::kLeft, true}});
  for (const ckpt_tensor_info& tensor : tensors) {
    bool alias = tensor.alias_of != nullptr;
    table.add({escaped(tensor.name), dtype_text(tensor.dtype), shape_text(shape_of(tensor)), human_bytes(tensor.bytes),
               alias ? "-" : human_bytes(tensor.stored_bytes), alias ? "-" : fmt::format("{}", tensor.segment_count),
               alias ? escaped(tensor.alias_of) : ""});
  }
  return table.empty() ? "" : "\n" + table.render(terminal_width());
}

std::string objects_text(const std::vector<ckpt_object_info>& objects) {
  Table table({{"OBJECT", Align::kLeft, true}, {"RANK", Align::kRight}, {"SIZE", Align::kRight}, {"TYPE"}});
  for (const ckpt_object_info& object : objects) {
    bool shared = object.scope == CKPT_OBJECT_SHARED;
    table.add({escaped(object.name), shared ? "shared" : fmt::format("{}", object.rank), human_bytes(object.size),
               escaped(object.media_type)});
  }
  return table.empty() ? "" : "\n" + table.render(terminal_width());
}

Error attrs_text(const ckpt_reader* reader, const std::vector<ckpt_tensor_info>& tensors, std::string* out) {
  Table table({{"ATTRIBUTE", Align::kLeft, true}, {"OF", Align::kLeft, true}, {"VALUE", Align::kLeft, true}});
  auto add = [&](const char* owner) {
    return each_attr(reader, owner, [&](const char* key, const char* value) {
      table.add({escaped(key), owner == nullptr ? "-" : escaped(owner), escaped(value)});
    });
  };
  CLI_TRY(add(nullptr));
  for (const ckpt_tensor_info& tensor : tensors) CLI_TRY(add(tensor.name));
  if (!table.empty()) *out += "\n" + table.render(terminal_width());
  return {};
}

std::string tensor_text(const ckpt_reader* reader, std::string_view name) {
  auto tensor = sized<ckpt_tensor_info>();
  if (call(ckpt_reader_tensor_find, reader, std::string(name).c_str(), &tensor)) return "";
  return dtype_text(tensor.dtype) + " " + shape_text(shape_of(tensor));
}

// A damaged tree is told of and takes nothing from the rest.
void trees_text(const ckpt_reader* reader, const std::vector<ckpt_object_info>& objects, uint64_t lines,
                std::string* out) {
  for (const ckpt_object_info& object : objects) {
    if (object.scope != CKPT_OBJECT_SHARED || std::string_view(object.media_type) != CKPT_TREE_MEDIA_TYPE) continue;
    *out += "\n" + escaped(object.name) + ": ";
    Tree tree;
    Error error = call(ckpt_reader_tree, reader, object.name, tree.out());
    if (!error) error = outline(tree, [&](std::string_view name) { return tensor_text(reader, name); }, lines, out);
    if (error) *out += "cannot be read: " + escaped(error.message()) + "\n";
  }
}

std::string region_text(const ckpt_segment_info& segment) {
  if (segment.ndim < 0) return fmt::format("flat {}:{}", segment.flat_offset, segment.flat_offset + segment.flat_size);
  std::vector<std::string> slices;
  for (int32_t d = 0; d < segment.ndim; ++d) {
    slices.push_back(fmt::format("{}:{}", segment.offset[d], segment.offset[d] + segment.extent[d]));
  }
  return fmt::format("[{}]", fmt::join(slices, ", "));
}

std::string coding_text(const ckpt_segment_info& segment) {
  std::string codec = segment.codec == 0 ? "raw" : segment.codec == 1 ? "lz4" : fmt::format("codec {}", segment.codec);
  switch (segment.filter) {
    case 0:
      return codec;
    case 1:
      return codec + ", bytes shuffled";
    case 2:
      return codec + ", bit planes";
    default:
      return fmt::format("{}, filter {}", codec, segment.filter);
  }
}

Error segments_text(const ckpt_reader* reader, const std::vector<ckpt_tensor_info>& tensors, std::string* out) {
  Table table({{"SEGMENTS OF", Align::kLeft, true},
               {"PART", Align::kRight},
               {"OFFSET", Align::kRight},
               {"STORED", Align::kRight},
               {"CHUNKS", Align::kRight},
               {"CODING"},
               {"ELEMENTS"}});
  for (const ckpt_tensor_info& tensor : tensors) {
    std::vector<ckpt_segment_info> segments;
    CLI_TRY(read_segments(reader, tensor, &segments));
    for (const ckpt_segment_info& segment : segments) {
      table.add({escaped(tensor.name), fmt::format("{}", segment.part), fmt::format("{}", segment.part_offset),
                 human_bytes(segment.stored_bytes), fmt::format("{}", segment.chunk_count), coding_text(segment),
                 region_text(segment)});
    }
  }
  if (!table.empty()) *out += "\n" + table.render(terminal_width());
  return {};
}

Json segment_json(const ckpt_segment_info& segment) {
  Json json = {{"part", segment.part},          {"offset", segment.part_offset}, {"stored_bytes", segment.stored_bytes},
               {"chunks", segment.chunk_count}, {"codec", segment.codec},        {"filter", segment.filter}};
  if (segment.ndim < 0) {
    json["flat"] = {segment.flat_offset, segment.flat_size};
  } else {
    json["box_offset"] = std::vector<int64_t>(segment.offset, segment.offset + segment.ndim);
    json["box_extent"] = std::vector<int64_t>(segment.extent, segment.extent + segment.ndim);
  }
  return json;
}

Error tensor_json(const ckpt_reader* reader, const ckpt_tensor_info& tensor, bool with_segments, Json* out) {
  auto shape = shape_of(tensor);
  *out = {{"name", tensor.name},
          {"dtype", dtype_text(tensor.dtype)},
          {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
          {"bytes", tensor.bytes},
          {"stored_bytes", tensor.stored_bytes},
          {"segment_count", tensor.segment_count},
          {"alias_of", text_or_null(tensor.alias_of)},
          {"attributes", Json::object()}};
  CLI_TRY(
      each_attr(reader, tensor.name, [&](const char* key, const char* value) { (*out)["attributes"][key] = value; }));
  if (!with_segments) return {};
  std::vector<ckpt_segment_info> segments;
  CLI_TRY(read_segments(reader, tensor, &segments));
  (*out)["segments"] = Json::array();
  for (const ckpt_segment_info& segment : segments) (*out)["segments"].push_back(segment_json(segment));
  return {};
}

Error parts_json(const Opened& opened, Json* out) {
  const ckpt_reader* reader = opened.reader;
  for (uint32_t i = 0; i < opened.info.part_count; ++i) {
    auto part = sized<ckpt_part_info>();
    CLI_TRY(call(ckpt_reader_part_at, reader, i, &part));
    out->push_back({{"name", part.name}, {"rank", part.rank}, {"bytes", part.bytes}, {"save_id", part.save_id}});
  }
  return {};
}

Error print_as_json(const Args& args, const Opened& opened, const std::vector<ckpt_tensor_info>& tensors,
                    const std::vector<ckpt_object_info>& objects) {
  Json json = to_json(opened.info);
  json["part_list"] = Json::array();
  CLI_TRY(parts_json(opened, &json["part_list"]));
  json["tensor_list"] = Json::array();
  for (const ckpt_tensor_info& tensor : tensors) {
    json["tensor_list"].emplace_back();
    CLI_TRY(tensor_json(opened.reader, tensor, args.segments, &json["tensor_list"].back()));
  }
  json["object_list"] = Json::array();
  for (const ckpt_object_info& object : objects) {
    Json rank = object.scope == CKPT_OBJECT_SHARED ? Json(nullptr) : Json(object.rank);
    json["object_list"].push_back({{"name", object.name},
                                   {"rank", rank},
                                   {"bytes", object.size},
                                   {"media_type", text_or_null(object.media_type)}});
  }
  json["attributes"] = Json::object();
  CLI_TRY(
      each_attr(opened.reader, nullptr, [&](const char* key, const char* value) { json["attributes"][key] = value; }));
  print_json(json);
  return {};
}

// Whether `argument` is one file, where a checkpoint would be a directory.
bool is_foreign_file(const std::string& argument) {
  struct stat info{};
  return stat(argument.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

Error run(const Args& args) {
  if (is_foreign_file(args.checkpoint)) {
    if (args.segments) return invalid("--segments is for checkpoints: " + args.checkpoint + " is a file");
    return show_foreign({args.checkpoint, args.pattern, args.all ? UINT64_MAX : kOutlineLines}, args);
  }
  Options options;
  CLI_TRY(make_options(args, &options));
  Opened opened;
  CLI_TRY(open_checkpoint(args.checkpoint, args, options, &opened));
  std::vector<ckpt_tensor_info> tensors;
  std::vector<ckpt_object_info> objects;
  CLI_TRY(read_tensors(opened.reader, args.pattern, &tensors));
  CLI_TRY(read_objects(opened.reader, &objects));
  if (args.json) return print_as_json(args, opened, tensors, objects);
  std::string text = identity_text(opened.info) + tensors_text(tensors);
  if (args.segments) CLI_TRY(segments_text(opened.reader, tensors, &text));
  text += objects_text(objects);
  if (args.pattern.empty()) trees_text(opened.reader, objects, args.all ? UINT64_MAX : kOutlineLines, &text);
  CLI_TRY(attrs_text(opened.reader, tensors, &text));
  print(text);
  return {};
}

}  // namespace

void add_info(CLI::App& app, Run& chosen) {
  auto args = std::make_shared<Args>();
  CLI::App* command = add_command(app, kWords, args.get(), true);
  command->add_option("CHECKPOINT", args->checkpoint, kCheckpointHelp)->required();
  command
      ->add_option("--tensors", args->pattern, "only tensors whose names match: * ? [a-z]; * also matches '.' and '/'")
      ->type_name("PATTERN");
  command->add_flag("--segments", args->segments, "where the tensors' bytes lie in the parts");
  command->add_flag("--all", args->all, "the whole state tree, however long");
  command->callback([args, &chosen] { chosen = [args](int*) { return run(*args); }; });
}

}  // namespace cli

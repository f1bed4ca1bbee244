#include "cli/foreign.h"

#include <fnmatch.h>

#include <algorithm>
#include <span>
#include <unordered_map>

#include <fmt/format.h>

#include "ckpt_file.h"
#include "cli/numbers.h"
#include "cli/table.h"
#include "cli/tree_text.h"

namespace cli {
namespace {

using File = Handle<ckpt_file, ckpt_file_free>;
using Tensors = std::vector<ckpt_file_tensor>;

std::span<const int64_t> shape_of(const ckpt_file_tensor& tensor) {
  return {tensor.shape, static_cast<size_t>(tensor.ndim)};
}

Error open_file(const ForeignQuery& query, const Common& common, File* file) {
  Options options;
  CLI_TRY(make_options(common, &options));
  const bool asked = std::any_of(common.settings.begin(), common.settings.end(),
                                 [](const std::string& setting) { return setting.starts_with("verify="); });
  if (!asked) CLI_TRY(call(ckpt_options_set_int, options, "verify", int64_t{0}));
  return call(ckpt_file_open, file->out(), query.path.c_str(), options);
}

Error read_tensors(const ckpt_file* file, Tensors* out) {
  for (uint64_t i = 0; i < ckpt_file_tensor_count(file); ++i) {
    out->push_back(sized<ckpt_file_tensor>());
    CLI_TRY(call(ckpt_file_tensor_at, file, i, &out->back()));
  }
  return {};
}

Tensors chosen(const Tensors& tensors, const std::string& pattern) {
  Tensors out;
  for (const ckpt_file_tensor& tensor : tensors) {
    if (pattern.empty() || fnmatch(pattern.c_str(), tensor.name, 0) == 0) out.push_back(tensor);
  }
  return out;
}

// Of the tensors that are no aliases.
uint64_t bytes_of(const Tensors& tensors) {
  uint64_t bytes = 0;
  for (const ckpt_file_tensor& tensor : tensors) bytes += tensor.alias_of == nullptr ? tensor.bytes : 0;
  return bytes;
}

std::string summary_text(const std::string& path, const ckpt_file* file, const Tensors& tensors) {
  auto is_alias = [](const ckpt_file_tensor& tensor) { return tensor.alias_of != nullptr; };
  const auto aliases = static_cast<uint64_t>(std::count_if(tensors.begin(), tensors.end(), is_alias));
  return fmt::format("{:<12}{}\n{:<12}{}\n{:<12}{}, {} aliases, {}\n", "file", escaped(path), "format",
                     ckpt_file_format(file), "tensors", tensors.size() - aliases, aliases,
                     human_bytes(bytes_of(tensors)));
}

std::string tensors_text(const Tensors& tensors) {
  Table table({{"TENSOR", Align::kLeft, true},
               {"DTYPE"},
               {"SHAPE"},
               {"BYTES", Align::kRight},
               {"ALIAS OF", Align::kLeft, true}});
  for (const ckpt_file_tensor& tensor : tensors) {
    table.add({escaped(tensor.name), dtype_text(tensor.dtype), shape_text(shape_of(tensor)), human_bytes(tensor.bytes),
               tensor.alias_of == nullptr ? "" : escaped(tensor.alias_of)});
  }
  return table.empty() ? "" : "\n" + table.render(terminal_width());
}

Error tree_text(const ckpt_file* file, const Tensors& tensors, uint64_t lines, std::string* out) {
  std::unordered_map<std::string_view, const ckpt_file_tensor*> by_name;
  for (const ckpt_file_tensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  const ckpt_tree* tree = nullptr;
  CLI_TRY(call(ckpt_file_tree, file, &tree));
  auto text_of = [&](std::string_view name) -> std::string {
    auto found = by_name.find(name);
    if (found == by_name.end()) return "";
    return dtype_text(found->second->dtype) + " " + shape_text(shape_of(*found->second));
  };
  *out += "\n";
  return outline(tree, text_of, lines, out);
}

Json tensor_json(const ckpt_file_tensor& tensor) {
  auto numbers = [&](const int64_t* values) { return std::vector<int64_t>(values, values + tensor.ndim); };
  Json json = {{"name", tensor.name},
               {"dtype", dtype_text(tensor.dtype)},
               {"shape", numbers(tensor.shape)},
               {"strides", numbers(tensor.strides)},
               {"bytes", tensor.bytes},
               {"alias_of", text_or_null(tensor.alias_of)}};
  if (tensor.alias_of != nullptr) json["alias_offset"] = tensor.alias_offset;
  return json;
}

Error print_as_json(const ForeignQuery& query, const ckpt_file* file, const Tensors& tensors) {
  const ckpt_tree* tree = nullptr;
  const char* text = nullptr;
  uint64_t size = 0;
  CLI_TRY(call(ckpt_file_tree, file, &tree));
  CLI_TRY(call(ckpt_tree_json, tree, &text, &size));
  Json list = Json::array();
  for (const ckpt_file_tensor& tensor : chosen(tensors, query.pattern)) list.push_back(tensor_json(tensor));
  print_json({{"file", query.path},
              {"format", ckpt_file_format(file)},
              {"tensors", tensors.size()},
              {"bytes", bytes_of(tensors)},
              {"tensor_list", std::move(list)},
              {"state", Json::parse(std::string_view(text, size), nullptr, false)}});
  return {};
}

}  // namespace

Error show_foreign(const ForeignQuery& query, const Common& common) {
  File file;
  CLI_TRY(open_file(query, common, &file));
  Tensors tensors;
  CLI_TRY(read_tensors(file, &tensors));
  if (common.json) return print_as_json(query, file, tensors);
  std::string text = summary_text(query.path, file, tensors);
  if (query.pattern.empty()) CLI_TRY(tree_text(file, tensors, query.tree_lines, &text));
  text += tensors_text(chosen(tensors, query.pattern));
  print(text);
  return {};
}

}  // namespace cli

#include "cli/foreign.h"

#include <fnmatch.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "cli/locate.h"
#include "cli/numbers.h"
#include "cli/table.h"
#include "cli/tree_text.h"

namespace cli {
namespace {

using Tensors = std::vector<ckpt::FileTensor>;

ckpt::File open_file(const std::string& path, const Common& common) {
  ckpt::Options options = make_options(common);
  if (!common.setting("verify")) options.set("verify", 0);
  options.set("tensor_data", 0);
  return ckpt::File::open(path, options);
}

Tensors chosen(const Tensors& tensors, const std::string& pattern) {
  Tensors out;
  for (const ckpt::FileTensor& tensor : tensors) {
    if (pattern.empty() || fnmatch(pattern.c_str(), tensor.name, 0) == 0) out.push_back(tensor);
  }
  return out;
}

// Aliases have no bytes of their own.
uint64_t bytes_of(const Tensors& tensors) {
  uint64_t bytes = 0;
  for (const ckpt::FileTensor& tensor : tensors) bytes += tensor.alias_of == nullptr ? tensor.bytes : 0;
  return bytes;
}

std::string summary_text(const std::string& path, const ckpt::File& file, const Tensors& tensors) {
  auto is_alias = [](const ckpt::FileTensor& tensor) { return tensor.alias_of != nullptr; };
  const auto aliases = static_cast<uint64_t>(std::count_if(tensors.begin(), tensors.end(), is_alias));
  const std::vector<std::string> left = file.left_out();
  return strformat("file        {}\nformat      {}\ntensors     {}, {} aliases, {}\n{}", escaped(shown(path)),
                   file.format(), tensors.size() - aliases, aliases, human_bytes(bytes_of(tensors)),
                   left.empty() ? "" : "left out    " + some_names(left) + "\n");
}

std::string tensors_text(const Tensors& tensors) {
  Table table({{"TENSOR", Align::kLeft, true},
               {"DTYPE"},
               {"SHAPE"},
               {"BYTES", Align::kRight},
               {"ALIAS OF", Align::kLeft, true}});
  for (const ckpt::FileTensor& tensor : tensors) {
    table.add({escaped(tensor.name), dtype_text(tensor.dtype), shape_text(ckpt::shape_of(tensor)),
               human_bytes(tensor.bytes), tensor.alias_of == nullptr ? "" : escaped(tensor.alias_of)});
  }
  return table.empty() ? "" : "\n" + table.render(terminal_width());
}

std::string tables_text(const std::vector<SparseTable>& tables) {
  Table text({{"SPARSE TABLE", Align::kLeft, true},
              {"ROWS", Align::kRight},
              {"IDS"},
              {"BYTES", Align::kRight},
              {"COLUMNS", Align::kLeft, true}});
  for (const SparseTable& table : tables)
    text.add({escaped(table.info.name), std::to_string(table.info.row_count), dtype_text(table.info.id_dtype),
              human_bytes(table.info.bytes), columns_text(table)});
  return text.empty() ? "" : "\n" + text.render(terminal_width());
}

Json table_json(const SparseTable& table) {
  return {{"name", table.info.name},
          {"row_count", table.info.row_count},
          {"id_dtype", dtype_text(table.info.id_dtype)},
          {"bytes", table.info.bytes},
          {"columns", Json::array(table.columns, [](const ckpt::ColumnInfo& column) {
             return Json{{"name", column.name}, {"dtype", dtype_text(column.dtype)}, {"row_bytes", column.row_bytes}};
           })}};
}

std::vector<SparseTable> tables_in(const std::shared_ptr<ckpt::File>& file) {
  std::vector<SparseTable> tables;
  for (const ckpt::FileTable& table : file->tables()) {
    auto open = [file, table](const ckpt::Rowset& rows, const ckpt::Options&) {
      const auto share = std::make_shared<const ckpt::FileShare>(table.share(rows));
      return TableRows{share->info(), share->missing(), [share](uint64_t window) { return share->window_rows(window); },
                       [file, share](uint64_t window, ckpt::MutableMemory ids, const auto& columns) {
                         share->read(window, ids, columns);
                       }};
    };
    tables.push_back({table.info(), table.columns(), open});
  }
  return tables;
}

std::string tree_text(const ckpt::File& file, const Tensors& tensors, uint64_t lines) {
  std::unordered_map<std::string_view, const ckpt::FileTensor*> by_name;
  for (const ckpt::FileTensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  auto text_of = [&](std::string_view name) -> std::string {
    auto found = by_name.find(name);
    if (found == by_name.end()) return "";
    return dtype_text(found->second->dtype) + " " + shape_text(ckpt::shape_of(*found->second));
  };
  return outline(file.tree(), text_of, lines);
}

}  // namespace

Json tensor_json(const ckpt::FileTensor& tensor) {
  Json json = {{"name", tensor.name},
               {"dtype", dtype_text(tensor.dtype)},
               {"shape", Json::array(ckpt::shape_of(tensor))},
               {"strides", Json::array(std::vector<int64_t>(tensor.strides, tensor.strides + tensor.ndim))},
               {"bytes", tensor.bytes},
               {"alias_of", tensor.alias_of}};
  if (tensor.alias_of != nullptr) json.add("alias_offset", tensor.alias_offset);
  return json;
}

namespace {

void print_as_json(const ForeignQuery& query, const ckpt::File& file, const Tensors& tensors,
                   const std::vector<SparseTable>& tables) {
  print_json({{"file", shown(query.path)},
              {"format", file.format()},
              {"tensors", tensors.size()},
              {"bytes", bytes_of(tensors)},
              {"left_out", Json::array(file.left_out())},
              {"tensor_list", Json::array(chosen(tensors, query.pattern), tensor_json)},
              {"table_list", Json::array(tables, table_json)},
              {"state_tree", Json::parsed(file.tree().json())}});
}

}  // namespace

std::string some_names(std::vector<std::string> names) {
  constexpr size_t kNamed = 12;
  const std::string more = names.size() > kNamed ? strformat(" and {} more", names.size() - kNamed) : "";
  names.resize(std::min(names.size(), kNamed));
  for (std::string& name : names) name = escaped(name);
  return joined(names) + more;
}

void show_foreign(const ForeignQuery& query, const Common& common) {
  const auto file = std::make_shared<ckpt::File>(open_file(query.path, common));
  const auto all = file->tensors();
  Tensors tensors(all.begin(), all.end());
  const std::vector<SparseTable> tables = tables_in(file);
  if (common.json) return print_as_json(query, *file, tensors, tables);
  std::string text = summary_text(query.path, *file, tensors);
  if (!query.pattern.empty()) return print(text + tensors_text(chosen(tensors, query.pattern)));
  text += "\n" + tree_text(*file, tensors, query.tree_lines);
  print(text + tensors_text(without_tables(std::move(tensors), tables)) + tables_text(tables));
}

// Keeps the file open as long as it lives.
static TensorSource source_of(const std::shared_ptr<ckpt::File>& file, uint64_t index, const std::string& as,
                              const MarkedTensors& marked) {
  const ckpt::FileTensor tensor = file->tensor(index);
  auto load = [file, index](const ckpt::Tensor& wanted, ckpt::MutableMemory memory) {
    file->read(index, wanted, memory);
  };
  TensorSource source(tensor.name, tensor.dtype, ckpt::shape_of(tensor), load, as);
  source.use_marks(marks_of(marked, tensor.name));
  if (tensor.alias_of != nullptr) source.use_strides({tensor.strides, tensor.strides + tensor.ndim});
  return source;
}

ForeignContent foreign_content(const std::string& path, const Common& common) {
  const auto file = std::make_shared<ckpt::File>(open_file(path, common));
  ForeignContent content;
  content.tree = file->tree().json();
  content.tables = tables_in(file);
  const MarkedTensors marked = marks_in(file->tree());
  for (uint64_t i = 0; i < file->tensor_count(); i++) content.tensors.push_back(source_of(file, i, "", marked));
  return content;
}

std::vector<SparseTable> foreign_tables(const std::string& path, const Common& common) {
  return tables_in(std::make_shared<ckpt::File>(open_file(path, common)));
}

TensorSource foreign_tensor(const std::string& path, const std::string& name, const std::string& as,
                            const Common& common) {
  const auto file = std::make_shared<ckpt::File>(open_file(path, common));
  for (uint64_t i = 0; i < file->tensor_count(); i++)
    if (name == file->tensor(i).name) return source_of(file, i, as, marks_in(file->tree()));
  fail(CKPT_NOT_FOUND, shown(path) + " has no tensor " + name + "; ckpt info lists them");
}

}  // namespace cli

// ckpt diff: do two checkpoints hold the same?
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "cli/command.h"
#include "cli/diff_tables.h"
#include "cli/foreign.h"
#include "cli/locate.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/text.h"

namespace cli {
namespace cmd_diff {
namespace {

struct Args : Common {
  std::string a, b, at;
  bool structure_only = false;
};

constexpr Words kWords = {
    "diff", "compare two checkpoints",
    "Compares the structure (names, dtypes, shapes, objects, attributes), "
    "then the values of the tensors that both have.\n"
    "For each tensor that differs it prints how many elements differ, and the largest difference; of a sparse table\n"
    "the ids that only one has, and the rows that differ, whatever ranks saved them. "
    "Two checkpoints may be\n"
    "equal though their world sizes differ. Either may be a file or directory that ckpt import takes: then names, "
    "shapes,\n"
    "the elements' bytes, rows of sparse tables and the state trees are compared.\n"
    "Chunks whose checksums, as saved, are equal are not read: ckpt verify finds what was damaged since.",
    "  ckpt diff /data/run7@step:100 /data/run7@step:200\n"
    "  ckpt diff /data/run7 /backup/run7 --structure-only\n"
    "  ckpt diff ./step-400-dcp /data/run7@step:400\n",
    "0 equal, 1 different, 2 error"};

std::string difference_text(double value) { return std::isnan(value) ? "-" : print_format("%.6g", value); }

// "tensor "w": only in the first".
std::string structure_text(const ckpt::Finding& finding) {
  return escaped(finding.text != nullptr ? finding.text : finding_name(finding.kind)) + "\n";
}

// The findings below --at, but for what is said of sparse tables; an object may have a tensor's name. A finding without
// a name is about the whole checkpoint.
std::vector<ckpt::Finding> chosen_findings(const ckpt::Report& report, const std::string& at,
                                           const TableDifferences& tables) {
  std::vector<ckpt::Finding> findings;
  for (const ckpt::Finding& finding : report)
    if (is_under(at, text_of(finding.name)) && (!tables.said.contains(text_of(finding.name)) ||
                                                std::string_view(text_of(finding.text)).starts_with("object ")))
      findings.push_back(finding);
  return findings;
}

void print_findings(std::span<const ckpt::Finding> findings) {
  Table values({{"VALUES OF", Align::kLeft, true},
                {"DIFFER", Align::kRight},
                {"MAX ABS", Align::kRight},
                {"MAX REL", Align::kRight},
                {"FIRST", Align::kRight}});
  for (const ckpt::Finding& finding : findings) {
    if (finding.count == 0) {
      print(structure_text(finding));
      continue;
    }
    values.add({escaped(text_of(finding.name)), std::to_string(finding.count), difference_text(finding.max_abs),
                difference_text(finding.max_rel),
                finding.first_element < 0 ? "-" : std::to_string(finding.first_element)});
  }
  if (!values.empty()) print(values.render(terminal_width()));
}

void print_tables(const TableDifferences& tables) {
  for (const TableDifference& table : tables.found)
    for (const std::string& text : table.texts) print(escaped(strformat("table {}: {}", table.name, text)) + "\n");
}

Json table_json(const TableDifference& table) {
  return {{"name", table.name},
          {"texts", Json::array(table.texts)},
          {"only_first", table.only_first},
          {"only_second", table.only_second},
          {"rows_that_differ", table.differing}};
}

// ---- where one of them is no checkpoint ----

struct Side {
  std::string name, tree;
  std::vector<TensorSource> tensors;
  std::vector<SparseTable> tables;
  std::unique_ptr<Opened> opened;  // of a checkpoint, whose reader the tensors use
};

Side side_of(const std::string& argument, bool foreign, const Args& args, const ckpt::Options& options) {
  Side side;
  if (foreign) {
    ForeignContent content = foreign_content(argument, args);
    side.name = shown(argument);
    side.tree = std::move(content.tree);
    side.tensors = std::move(content.tensors);
    side.tables = std::move(content.tables);
    return side;
  }
  side.opened = std::make_unique<Opened>(open_checkpoint(argument, args, options));
  const ckpt::Reader& reader = side.opened->reader;
  side.name = side.opened->info.id;
  const ckpt::Tree tree = reader.tree();
  side.tree = tree.json();
  const MarkedTensors marked = marks_in(tree.view());
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    TensorSource& source = side.tensors.emplace_back(reader, options, tensor.name, "");
    source.use_marks(marks_of(marked, tensor.name));
    if (tensor.alias_of == nullptr) continue;
    const ckpt_tensor_desc view = reader.alias(tensor.name).desc();
    source.use_strides({view.strides, view.strides + view.ndim});
  }
  side.tables = tables_of(reader);
  return side;
}

TableSide table_side(const Side& side) {
  std::set<std::string> names;
  for (const TensorSource& tensor : side.tensors) names.insert(tensor.name());
  return {side.tables, [names](const std::string& name) { return names.contains(name); }};
}

struct Difference {
  std::string name, text;
  uint64_t count = 0;  // of elements; of packed ones, of bytes
};

Json difference_json(const Difference& difference) {
  Json json = {{"kind", "different"}, {"text", difference.text}, {"name", difference.name}};
  if (difference.count != 0) json.add("differing_elements", difference.count);
  return json;
}

// Elements whose bytes differ, slab by slab. Those that both repeat are counted as often as they are there.
uint64_t count_unlike(const TensorSource& a, const TensorSource& b) {
  constexpr uint64_t kSlab = 16 << 20;
  (void)b.distinct(a);
  const Slice whole = a.distinct(b);
  uint64_t times = 1;
  for (size_t d = 0; d < whole.extent.size(); ++d)
    if (whole.extent[d] != 0) times *= static_cast<uint64_t>(a.shape()[d] / whole.extent[d]);
  const auto bits = static_cast<uint64_t>(a.dtype() % 256), width = std::max<uint64_t>(bits / 8, 1);
  uint64_t count = 0;
  for_each_slab(whole, bits % 8 == 0 ? kSlab / width : std::max<uint64_t>(whole.volume(), 1), [&](const Slice& slab) {
    const std::vector<std::byte> left = a.read(slab), right = b.read(slab);
    for (size_t at = 0; at < left.size(); at += width)
      count += std::memcmp(left.data() + at, right.data() + at, std::min<size_t>(width, left.size() - at)) != 0;
  });
  return count * times;
}

std::string kind_text(const TensorSource& tensor) {
  return dtype_text(tensor.stored_dtype()) + " " + shape_text(tensor.shape()) +
         (tensor.quantized().empty() ? "" : strformat(" ({})", tensor.quantized()));
}

bool same_value(const ckpt::Node& a, const ckpt::Node& b) {
  return a.kind == b.kind && a.text_view() == b.text_view() && a.bool_value == b.bool_value &&
         a.int_value == b.int_value && std::memcmp(&a.float_value, &b.float_value, sizeof a.float_value) == 0;
}

// Up to there both have the same nodes, so what is where tells the place.
std::string first_difference(const std::string& a, const std::string& b) {
  const ckpt::Tree first = ckpt::Tree::parse(a), second = ckpt::Tree::parse(b);
  const auto path = [](const ckpt::Node& node) { return node.path().empty() ? std::string("the root") : node.path(); };
  for (uint64_t i = 0; i < std::min(first.size(), second.size()); i++) {
    const ckpt::Node left = first.at(i), right = second.at(i);
    const bool same_place = left.parent == right.parent && left.key_kind == right.key_kind &&
                            left.key_view() == right.key_view() && left.key_int == right.key_int;
    if (!same_place) return strformat(", first where one has {} and the other {}", path(left), path(right));
    if (!same_value(left, right)) return ", first at " + path(left);
  }
  const bool more = first.size() > second.size();
  return strformat(": only the {} has {}", more ? "first" : "second",
                   path(more ? first.at(second.size()) : second.at(first.size())));
}

// Without what is said of tables.
std::vector<Difference> differences_of(const Side& a, const Side& b, const TableDifferences& tables, const Args& args) {
  std::map<std::string, std::pair<const TensorSource*, const TensorSource*>> pairs;
  for (const TensorSource& tensor : a.tensors) pairs[tensor.name()].first = &tensor;
  for (const TensorSource& tensor : b.tensors) pairs[tensor.name()].second = &tensor;
  std::vector<Difference> found;
  for (const auto& [name, pair] : pairs) {
    const auto& [left, right] = pair;
    if (!is_under(args.at, name) || tables.said.contains(name)) continue;
    if (!left || !right) {
      found.push_back({name, strformat("tensor {}: only in the {}", name, left ? "first" : "second")});
    } else if (kind_text(*left) != kind_text(*right)) {
      found.push_back({name, strformat("tensor {}: {} against {}", name, kind_text(*left), kind_text(*right))});
    } else if (const uint64_t count = args.structure_only ? 0 : count_unlike(*left, *right); count != 0) {
      found.push_back({name, strformat("tensor {}: {} elements differ", name, count), count});
    }
  }
  if (args.at.empty() && a.tree != b.tree)
    found.push_back({"", "the state trees differ" + first_difference(a.tree, b.tree)});
  return found;
}

int diff_foreign(const Side& a, const Side& b, const Args& args, const ckpt::Options& options) {
  const TableDifferences tables = diff_tables(table_side(a), table_side(b), args.at, !args.structure_only, options);
  const std::vector<Difference> found = differences_of(a, b, tables, args);
  const bool equal = found.empty() && tables.found.empty();
  if (args.json) {
    print_json({{"a", a.name},
                {"b", b.name},
                {"equal", equal},
                {"differences", Json::array(found, difference_json)},
                {"tables_that_differ", Json::array(tables.found, table_json)}});
  } else {
    for (const Difference& difference : found) print(escaped(difference.text) + "\n");
    print_tables(tables);
    if (equal) print(strformat("equal: {} and {}\n", escaped(a.name), escaped(b.name)));
  }
  return equal ? kExitOk : kExitNo;
}

// Of tensors that torch does not use in the same way the stored elements tell little: as torch has them they are
// compared here, and their names are noted in `said`.
std::vector<Difference> turned_differences(const Opened& a, const Opened& b, const Args& args,
                                           const ckpt::Options& options, std::set<std::string>* said) {
  MarkedTensors left = marks_in(a.reader), right = marks_in(b.reader), all = left;
  all.insert(right.begin(), right.end());
  Side first, second;
  for (const auto& [name, marks] : all) {
    if (left[name] == right[name] || !a.reader.has_tensor(name) || !b.reader.has_tensor(name)) continue;
    first.tensors.emplace_back(a.reader, options, name, "").use_marks(left[name]);
    second.tensors.emplace_back(b.reader, options, name, "").use_marks(right[name]);
    said->insert(name);
  }
  return differences_of(first, second, {}, args);
}

int run(const Args& args) {
  ckpt::Options options = make_options(args, args.a, args.b);
  const bool a_foreign = is_foreign(args.a, options), b_foreign = is_foreign(args.b, options);
  if (a_foreign || b_foreign) {
    const Side a = side_of(args.a, a_foreign, args, options), b = side_of(args.b, b_foreign, args, options);
    return diff_foreign(a, b, args, options);
  }
  if (args.structure_only) options.set("values", 0);
  Opened a = open_checkpoint(args.a, args, options), b = open_checkpoint(args.b, args, options);
  ckpt::Report report{nullptr};
  const Work work = watch(options, [&] { report = a.reader.diff(b.reader, options); });
  const ckpt::Options plain = make_options(args);
  TableDifferences tables =
      diff_tables(checkpoint_side(a.reader), checkpoint_side(b.reader), args.at, !args.structure_only, plain);
  const std::vector<Difference> turned = turned_differences(a, b, args, plain, &tables.said);
  const std::vector<ckpt::Finding> findings = chosen_findings(report, args.at, tables);
  const bool equal = findings.empty() && turned.empty() && tables.found.empty();
  if (args.json) {
    std::vector<Json> all;
    for (const ckpt::Finding& finding : findings) all.push_back(to_json(finding));
    for (const Difference& difference : turned) all.push_back(difference_json(difference));
    print_json({{"a", a.info.id},
                {"b", b.info.id},
                {"equal", equal},
                {"requests", requests_json(work.stats)},
                {"differences", Json::array(all)},
                {"tables_that_differ", Json::array(tables.found, table_json)}});
  } else {
    print_findings(findings);
    for (const Difference& difference : turned) print(escaped(difference.text) + "\n");
    print_tables(tables);
    if (equal) print(strformat("equal: {} and {}\n", escaped(a.info.id), escaped(b.info.id)));
    print(requests_line(work.stats));
  }
  return equal ? kExitOk : kExitNo;
}

}  // namespace
}  // namespace cmd_diff

void add_diff(CLI::App& app, Action& chosen) {
  using namespace cmd_diff;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("A", args->a, kCheckpointHelp).required();
  command.add("B", args->b, "the other checkpoint").required();
  command.add("--at", args->at, kAtHelp).type("PLACE");
  command.add("--structure-only", args->structure_only, "do not read tensor data");
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli

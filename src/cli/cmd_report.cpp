// ckpt report: one HTML page about a store, a checkpoint, or two of them. The page needs nothing else: report.html and
// the data after it, which have the same names there and here.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <numeric>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/listing.h"
#include "cli/numbers.h"
#include "cli/report.h"
#include "cli/rows.h"
#include "cli/table.h"
#include "cli/text.h"

namespace cli {

extern const std::string_view kReportPage;  // report.html, after which the data come; CMakeLists.txt makes it

namespace cmd_report {
namespace {

struct Args : Common {
  std::string place, other, output;
  bool stats = false;
};

constexpr Words kWords = {
    "report", "write a page that shows a store, a checkpoint, or a difference",
    "Writes one HTML file that any browser shows; it needs no network, so it can be sent to somebody.\n"
    "Of a STORE: its runs on a time line, what is there and why, sizes, and the numbers that trainers put into\n"
    "attributes (metrics, seconds that a save took; of a list of numbers each is one rank's).\n"
    "Of a CHECKPOINT (STORE@latest for a store's): the tensors by their bytes, what each rank holds, sparse tables.\n"
    "--stats also reads every element, and shows the least, the largest, norms, zeros, NaN, and histograms.\n"
    "Of two checkpoints: how far the values of each tensor have moved, the largest change first. That reads both.",
    "  ckpt report /data/run7 -o report.html\n"
    "  ckpt report /data/run7@latest --stats --output weights.html\n"
    "  ckpt report /data/run7@step:100 /data/run7@step:200\n"
    "  ckpt report /data/run7 --json | jq '.entries | length'\n",
    "0 written, 2 error"};

// Attributes that are short, as numbers are; null where it was not read: it is no checkpoint, or was removed meanwhile.
Json attrs_of(const ckpt::Store& store, const ckpt::CheckpointInfo& info, bool late, uint64_t* unread) try {
  constexpr size_t kMostValue = 16000;  // bytes: a number of each of 2,000 ranks
  if (info.state != CKPT_CHECKPOINT_COMMITTED) return nullptr;
  if (late) return (*unread)++, nullptr;
  Json json = Json::object();
  for (const auto& [key, value] : ckpt::Reader::open(store, info.id).attrs())
    if (value.size() <= kMostValue) json.add(key, value);
  return json;
} catch (const ckpt::Error&) {
  return (*unread)++, nullptr;
}

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
// cannot be read: verify tells what is wrong with it, and the rest of the page does not need it.
std::vector<Json> maps_of(const ckpt::Reader& reader, const TensorInfos& tensors) {
  uint64_t left = 400'000;  // more would make the page larger than a browser likes
  std::vector<Json> maps(tensors.size(), Json(nullptr));
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return tensors[a].bytes > tensors[b].bytes; });
  for (const size_t i : order) try {
      const ckpt::TensorInfo& tensor = tensors[i];
      if (tensor.alias_of != nullptr || tensor.segment_count > left) continue;
      left -= tensor.segment_count;
      std::vector<Json> segments;
      for (uint32_t s = 0; s < tensor.segment_count; s++)
        segments.push_back(segment_json(reader.segment(tensor.name, s)));
      maps[i] = Json::array(segments);
    } catch (const ckpt::Error&) {
    }
  return maps;
}

Json parts_json(const Opened& opened) {
  std::vector<Json> parts;
  for (uint32_t i = 0; i < opened.info.part_count; i++) {
    const ckpt::PartInfo part = opened.reader.part(i);
    const bool own = std::string_view(part.save_id) == opened.info.save_id;
    parts.push_back({{"name", part.name}, {"rank", part.rank}, {"bytes", part.bytes}, {"own", own}});
  }
  return Json::array(parts);
}

// How many rows each part has: by these the ranks that saved them are uneven. None if a part cannot be read.
std::vector<uint64_t> part_rows(const Opened& opened, const SparseTable& table) try {
  std::vector<uint64_t> rows(opened.info.part_count);
  const std::string ids = table.name() + "/ids";
  for (uint32_t i = 0, count = opened.reader.tensor(ids).segment_count; i < count; i++) {
    const ckpt::SegmentInfo segment = opened.reader.segment(ids, i);
    rows[segment.part] += static_cast<uint64_t>(segment.flat_size);
  }
  return rows;
} catch (const ckpt::Error&) {
  return {};
}

Json table_json(const Opened& opened, const SparseTable& table) {
  return {{"name", page_text(table.info.name)},
          {"row_count", table.info.row_count},
          {"bucket_count", table.info.bucket_count},
          {"bytes", table.info.bytes},
          {"columns", page_text(columns_text(table).c_str())},
          {"part_rows", Json::array(part_rows(opened, table))}};
}

Json store_report(const ckpt::Store& store, const std::string& path, const std::string& run) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(30);
  std::vector<Json> all;
  uint64_t unread = 0;
  std::vector<Entry> entries = read_entries(store, run);
  std::reverse(entries.begin(), entries.end());
  for (const Entry& entry : entries) {
    all.push_back(to_json(entry.info));
    all.back().add("flags", joined(flag_names(entry.info.flags)));
    all.back().add("freed_bytes", freed_bytes(entry.info));
    all.back().add("time", entry.time);
    all.back().add("latest", entry.latest);
    all.back().add("attrs", attrs_of(store, entry.info, Clock::now() > end, &unread));
  }
  std::reverse(all.begin(), all.end());
  const Json title = page_text(shown(path).c_str());
  return {{"kind", "store"}, {"title", title}, {"entries", Json::array(all)}, {"unread", unread}};
}

Json checkpoint_report(const Opened& opened, bool stats, const ckpt::Options& options) {
  const auto all = opened.reader.tensors();
  const TensorInfos tensors(all.begin(), all.end());
  Json table = tensors_json(tensors);
  table.add("map", Json::array(maps_of(opened.reader, tensors)));
  Json json = {{"kind", "checkpoint"},
               {"title", opened.info.id},
               {"info", to_json(opened.info)},
               {"parts", parts_json(opened)},
               {"tensors", table}};
  json.add("tables", Json::array(tables_of(opened.reader), [&](const auto& one) { return table_json(opened, one); }));
  if (stats) add_stats(opened.reader, tensors, options, &json);
  return json;
}

// -o sets options, as everywhere; but people write -o report.html, and no option is called so.
void take_output(Args* args) {
  std::erase_if(args->settings, [&](const std::string& setting) {
    if (setting.find('=') != setting.npos || !setting.ends_with(".html")) return false;
    args->output = setting;
    return true;
  });
}

Json report_of(const Args& args, const ckpt::Options& options) {
  if (!args.other.empty())
    return comparison_report(open_checkpoint(args.place, args, options), open_checkpoint(args.other, args, options),
                             options);
  const Target target = locate(args.place, options, args.setting("mirror").has_value());
  if (target.kind != Target::Kind::kStore)
    return checkpoint_report(open_checkpoint(args.place, args, options), args.stats, options);
  if (args.stats) invalid("--stats is for a checkpoint: " + shown(args.place) + "@latest is the store's latest");
  return store_report(ckpt::Store::open(target.store, options), target.store, args.run);
}

int run(Args args) {
  take_output(&args);
  if (args.json && !args.output.empty()) invalid("--json prints, and makes no page: leave out --output");
  if (args.output.empty()) args.output = "report.html";
  const ckpt::Options options = args.other.empty() ? make_options(args) : make_options(args, args.place, args.other);
  Json json = report_of(args, options);
  json.add("made_unix_ms", static_cast<uint64_t>(std::time(nullptr)) * 1000);
  json.add("version", ckpt::version());
  if (args.json) return print_json(json), kExitOk;
  std::string data;  // no tag and no comment of HTML begins inside of it
  for (const char c : json.text()) data += c == '<' ? std::string_view("\\u003c") : std::string_view(&c, 1);
  constexpr std::string_view kEnd = "</script></body></html>\n";
  replace_file(args.output, {kReportPage, data, kEnd});
  print(strformat("{}: {}\n", escaped(args.output), human_bytes(kReportPage.size() + data.size() + kEnd.size())));
  return kExitOk;
}

}  // namespace
}  // namespace cmd_report

Json page_text(const char* text) { return text == nullptr ? Json(nullptr) : Json(cut_middle(escaped(text), 400)); }

Json tensors_json(const TensorInfos& tensors) {
  const auto column = [&](auto value) { return Json::array(tensors, value); };
  return {{"name", column([](const auto& tensor) { return page_text(tensor.name); })},
          {"dtype", column([](const auto& tensor) { return Json(dtype_text(tensor.dtype)); })},
          {"shape", column([](const auto& tensor) { return Json::array(ckpt::shape_of(tensor)); })},
          {"bytes", column([](const auto& tensor) { return Json(tensor.bytes); })},
          {"stored_bytes", column([](const auto& tensor) { return Json(tensor.stored_bytes); })},
          {"alias_of", column([](const auto& tensor) { return page_text(tensor.alias_of); })}};
}

void add_report(CLI::App& app, Action& chosen) {
  using namespace cmd_report;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("PLACE", args->place, "a STORE, or a checkpoint: its directory, or STORE@SELECTOR").required();
  command.add("OTHER", args->other, "another checkpoint, to show how it differs from the first");
  command.add("--output", args->output, "the file to write (report.html); -o FILE.html is the same").type("FILE");
  command.add("--stats", args->stats, "of a checkpoint: read every element, for figures and histograms");
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli

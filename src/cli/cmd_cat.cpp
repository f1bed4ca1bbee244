// ckpt cat: prints a tensor's numbers, a state tree, or an object's bytes.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/array.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/foreign.h"
#include "cli/locate.h"
#include "cli/npy.h"
#include "cli/numbers.h"
#include "cli/rows.h"
#include "cli/table.h"
#include "cli/tensor_source.h"
#include "cli/text.h"
#include "cli/tree_text.h"

namespace cli {
namespace cmd_cat {
namespace {

struct Args : Common {
  std::string checkpoint, tensor, at, box, npy, as, object;
  std::optional<std::string> ids;
  std::vector<std::string> columns;
  uint32_t rank = 0;
  bool full = false, raw = false, csv = false;
};

constexpr Words kWords = {
    "cat", "print a tensor's numbers, rows of a sparse table, a state tree or an object's bytes",
    "Prints the elements of a tensor of any numeric dtype, bf16 and float8 included. Of more than "
    "1000 elements it reads\n"
    "and prints only the first and last 3 indices of each dimension, unless --full is given. "
    "--box takes slices as in Python:\n"
    "\"0:2,3:5\", \":\", \"-3:\" (write --box=-3: if it starts with a minus), \"7\" (only that index; "
    "the dimension stays).\n"
    "Dimensions not named are whole. Everything that is read is checked against its checksums. What torch conjugates "
    "or\n"
    "negates when it uses it is printed so; of a quantized tensor the stored integers are, and a note says that.\n"
    "Of a sparse table it prints the rows of --ids, or the first 10 (all with --full), of --columns or of all "
    "columns,\n"
    "and the ids that are not there. With --csv all rows (or those of --ids) come as CSV (RFC 4180): the id, and each\n"
    "element of a row in a column of its own; floats read back as the same bits.\n"
    "If no tensor but a state tree has the name, its JSON is printed: indented, or unchanged with --json.\n"
    "CHECKPOINT may also be a file or directory that ckpt import takes: only what is printed of it is read.",
    "  ckpt cat /data/run7 layer.0.weight\n"
    "  ckpt cat /data/run7 layer.0.weight --box 0:2,3:5 --full\n"
    "  ckpt cat /data/run7 --at model layer.0.weight\n"
    "  ckpt cat /data/run7@step:100 layer.0.weight --as f32 --npy weight.npy\n"
    "  ckpt cat /data/run7 layer.0.weight --raw > weight.bin\n"
    "  ckpt cat /data/run7 emb --ids 5,7,-1 --columns embedding,adam/step\n"
    "  ckpt cat /data/run7 emb --csv > emb.csv\n"
    "  ckpt cat /data/run7 state --json | jq .epoch\n"
    "  ckpt cat /data/run7 --object rng --rank 3 > rng.bin\n"
    "  ckpt cat ./step-400-dcp model/layer.0.weight\n",
    "0 printed, 1 some of the ids are not there, 2 error"};

[[noreturn]] void write_failed(const std::string& path) {
  fail(CKPT_IO, "cannot write " + path + ": " + std::strerror(errno));
}

// A file that appears when finish() is called. Until then it has no name, so nothing is to be removed; where the file
// system cannot do that, it is removed from the directory that was opened.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path), name_(path.substr(path.rfind('/') + 1)) {
    const std::string folder = path.substr(0, path.size() - name_.size());
    folder_ = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_ >= 0 && ::faccessat(folder_, name_.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
      errno = EEXIST;
    else if (folder_ >= 0 && (fd_ = ::openat(folder_, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666)) < 0) {
      constexpr int kAnew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
      fd_ = ::openat(folder_, name_.c_str(), kAnew, 0666);
      is_named_ = fd_ >= 0;
    }
    if (fd_ < 0) refuse();
  }
  ~NewFile() {
    if (is_named_) ::unlinkat(folder_, name_.c_str(), 0);
    if (fd_ >= 0) ::close(fd_);
    if (folder_ >= 0) ::close(folder_);
  }
  NewFile(const NewFile&) = delete;

  void write(const void* data, size_t size) {
    if (!write_whole(fd_, {static_cast<const char*>(data), size})) write_failed(path_);
  }

  void finish() {
    const std::string link = "/proc/self/fd/" + std::to_string(fd_);
    if (!is_named_ && ::linkat(AT_FDCWD, link.c_str(), folder_, name_.c_str(), AT_SYMLINK_FOLLOW) != 0) refuse();
    is_named_ = true;
    if (::close(std::exchange(fd_, -1)) != 0) write_failed(path_);
    is_named_ = false;
  }

 private:
  [[noreturn]] void refuse() const {
    if (errno == EEXIST) fail(CKPT_EXISTS, path_ + " exists; remove it first");
    write_failed(path_);
  }

  std::string path_, name_;
  int folder_ = -1, fd_ = -1;
  bool is_named_ = false;
};

void write_npy(const TensorSource& source, const Slice& slice, const std::string& path) {
  auto descr = npy_descr(source.dtype());
  if (!descr) {
    const char* hint = has_f32(source.dtype()) ? "; add --as f32" : "; use --raw";
    fail(CKPT_UNSUPPORTED,
         "NumPy has no dtype for " + dtype_text(source.dtype()) + " of tensor " + source.name() + hint);
  }
  NewFile file(path);
  std::string header = npy_header(*descr, slice.extent);
  file.write(header.data(), header.size());
  source.read_slabs(slice, [&](const std::vector<std::byte>& data) { file.write(data.data(), data.size()); });
  file.finish();
}

void write_raw(const TensorSource& source, const Slice& slice) {
  if (is_terminal(stdout)) invalid("--raw writes bytes: send them to a file or a pipe");
  source.read_slabs(slice, [](const std::vector<std::byte>& data) {
    if (std::fwrite(data.data(), 1, data.size(), stdout) != data.size()) write_failed("standard output");
  });
}

// Few numbers: aligned in columns.
void print_some(const TensorSource& source, const Slice& slice, bool summary) {
  const std::vector<std::byte> data = summary ? source.read_summary(slice) : source.read(slice);
  uint64_t count = 1;
  for (int64_t extent : slice.extent) count *= static_cast<uint64_t>(summary ? shown(extent) : extent);
  std::vector<std::string> numbers;
  size_t width = 0;
  for (uint64_t i = 0; i < count; ++i) {
    numbers.push_back(number_text(source.dtype(), data, i));
    width = std::max(width, numbers.back().size());
  }
  ArrayWriter writer(slice.extent, summary, width, stdout);
  for (const std::string& number : numbers) writer.add(number);
  writer.finish();
}

// Any number of them, in bounded memory, so not aligned.
void print_all(const TensorSource& source, const Slice& slice) {
  ArrayWriter writer(slice.extent, false, 0, stdout);
  uint64_t left = slice.volume();
  source.read_slabs(slice, [&](const std::vector<std::byte>& data) {
    uint64_t bits = static_cast<uint64_t>(source.dtype() % 256);
    uint64_t count = std::min<uint64_t>(left, data.size() * 8 / bits);
    for (uint64_t i = 0; i < count; ++i) writer.add(number_text(source.dtype(), data, i));
    left -= count;
  });
  writer.finish();
}

void note_quantized(const TensorSource& source) {
  if (source.quantized().empty()) return;
  std::fputs(strformat("ckpt: note: {} is quantized ({}): these are its stored integers\n", escaped(source.name()),
                       escaped(source.quantized()))
                 .c_str(),
             stderr);
}

void cat_tensor(const Args& args, const TensorSource& source) {
  note_quantized(source);
  Slice slice = args.box.empty() ? Slice::whole(source.shape()) : parse_slice(args.box, source.shape());
  if (!args.npy.empty()) return write_npy(source, slice, args.npy);
  if (args.raw) return write_raw(source, slice);
  if (slice.volume() >= kSummaryFrom && args.full) return print_all(source, slice);
  print_some(source, slice, slice.volume() >= kSummaryFrom);
}

// Whether `name` names a state tree and no tensor.
bool names_tree(const ckpt::Reader& reader, const std::string& name) {
  if (reader.has_tensor(name)) return false;
  const std::vector<std::string> trees = tree_names(reader);
  return std::find(trees.begin(), trees.end(), name) != trees.end();
}

void cat_tree(const Args& args, const ckpt::Reader& reader) {
  if (!args.box.empty() || !args.npy.empty() || !args.as.empty() || args.raw || args.full)
    invalid(args.tensor + " is a state tree: --box, --full, --npy, --as and --raw are for tensors");
  const ckpt::Tree tree = reader.tree(args.tensor);
  print(args.json ? json_shown(tree.json()) : indented_json(tree.json()));
}

// ---- sparse tables ----

constexpr uint64_t kFirstRows = 10;

// "a,b" is two columns, unless there is one of that name.
SparseTable chosen_columns(const SparseTable& table, const std::vector<std::string>& given) {
  if (given.empty()) return table;
  std::vector<std::string> names;
  for (const std::string& text : given) {
    const bool whole = std::any_of(table.columns.begin(), table.columns.end(),
                                   [&](const ckpt::ColumnInfo& column) { return column.name == text; });
    for (size_t at = 0; at <= text.size();) {
      const size_t end = whole ? text.size() : std::min(text.find(',', at), text.size());
      names.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  return with_columns(table, names);
}

void print_rows(const SparseTable& table, const LoadedRows& rows, size_t count, bool cut) {
  std::vector<Column> header{{"ID", Align::kRight}};
  for (const ckpt::ColumnInfo& column : table.columns) header.push_back({escaped(column.name), Align::kRight});
  Table text(header);
  for (size_t row = 0; row < count; row++) {
    std::vector<Cell> cells{id_text(table, rows.ids[row])};
    for (size_t column = 0; column < table.columns.size(); column++)
      cells.push_back(row_text(table, rows, column, row, cut));
    text.add(std::move(cells));
  }
  if (!text.empty()) print(text.render(0));
}

// "not there: 8, 9"; nothing if all are there.
std::string missing_text(const SparseTable& table, const std::vector<uint64_t>& missing) {
  std::vector<std::string> texts;
  for (const uint64_t id : missing) texts.push_back(id_text(table, id));
  return texts.empty() ? "" : "not there: " + joined(texts) + "\n";
}

// As the table's ids are: of i64 with their sign.
Json id_json(const SparseTable& table, uint64_t id) { return Json::parsed(id_text(table, id)); }

Json rows_json(const SparseTable& table, const LoadedRows& rows, size_t row) {
  Json columns = Json::object();
  for (size_t column = 0; column < table.columns.size(); column++)
    columns.add(table.columns[column].name, row_json(table, rows, column, row));
  return {{"row_id", id_json(table, rows.ids[row])}, {"row", columns}};
}

int print_csv(const SparseTable& table, const RowReader& reading) {
  write_csv(table, reading, print);
  const std::string missing = missing_text(table, reading.missing());
  std::fputs(missing.empty() ? "" : ("ckpt: note: " + missing).c_str(), stderr);
  return missing.empty() ? kExitOk : kExitNo;
}

int cat_table(const Args& args, const ckpt::Options& options, const SparseTable& whole) {
  if (!args.box.empty() || !args.npy.empty() || !args.as.empty() || args.raw)
    invalid(args.tensor + " is a sparse table: --box, --npy, --as and --raw are for tensors, such as " + args.tensor +
            "/ids");
  const SparseTable table = chosen_columns(whole, args.columns);
  const RowReader reading(
      table, (args.ids ? ckpt::Rowset::ids(parse_ids(*args.ids)) : ckpt::Rowset::all()).window(window_rows(table)),
      options);
  if (args.csv) return print_csv(table, reading);
  const uint64_t most = args.ids || args.full ? reading.row_count() : std::min(reading.row_count(), kFirstRows);
  const std::vector<uint64_t> missing = reading.missing();
  std::vector<Json> listed;
  uint64_t done = 0;
  for (uint64_t window = 0; window < reading.window_count() && done < most; window++) {
    const LoadedRows rows = reading.read(window);
    const size_t count = std::min<uint64_t>(rows.ids.size(), most - done);
    if (!args.json) print_rows(table, rows, count, !args.full);
    for (size_t row = 0; args.json && row < count; row++) listed.push_back(rows_json(table, rows, row));
    done += count;
  }
  if (args.json) {
    print_json({{"table", table.name()},
                {"row_count", table.info.row_count},
                {"rows", Json::array(listed)},
                {"missing_ids", Json::array(missing, [&](uint64_t id) { return id_json(table, id); })}});
  } else {
    print(missing_text(table, missing));
    if (done < reading.row_count())
      print(strformat("… {} more of {} rows; --full prints all, --ids some\n", reading.row_count() - done,
                      reading.row_count()));
    if (table.info.row_count == 0 && !args.ids) print("no rows\n");
  }
  return missing.empty() ? kExitOk : kExitNo;
}

bool is_plain_text(std::string text) {
  std::erase_if(text, [](char c) { return c == '\n' || c == '\t' || c == '\r'; });
  return escaped(text) == text;
}

void cat_object(const Args& args, const ckpt::Reader& reader, const ckpt::Options& options) {
  const std::string data = reader.read_object(args.object, args.rank, options);
  if (is_terminal(stdout) && !is_plain_text(data))
    invalid("object " + args.object + " is not text: send it to a file or a pipe");
  print(data);
}

int run(const Args& args) {
  if (args.tensor.empty() == args.object.empty()) invalid("cat needs either a tensor's name or --object NAME");
  if (is_foreign(args.checkpoint, make_options(args))) {
    if (args.tensor.empty()) invalid("--object is for checkpoints: " + shown(args.checkpoint) + " is none");
    for (const SparseTable& table : foreign_tables(args.checkpoint, args))
      if (table.name() == args.tensor) return cat_table(args, make_options(args), table);
    if (args.json || args.ids || !args.columns.empty() || args.csv)
      invalid(args.tensor +
              " is not a sparse table, and of a file --json, --ids, --columns and --csv are only for those");
    cat_tensor(args, foreign_tensor(args.checkpoint, args.tensor, args.as, args));
    return kExitOk;
  }
  ckpt::Options options = make_options(args);
  const Opened opened = open_checkpoint(args.checkpoint, args, options);
  if (!args.object.empty()) {
    cat_object(args, opened.reader, options);
  } else if (names_tree(opened.reader, args.tensor)) {
    cat_tree(args, opened.reader);
  } else if (const auto table = find_table(opened.reader, args.tensor)) {
    return cat_table(args, options, *table);
  } else {
    if (args.ids || !args.columns.empty() || args.csv)
      invalid(args.tensor + " is not a sparse table, and --ids, --columns and --csv are only for those");
    if (args.json) invalid(args.tensor + " is not a state tree or sparse table, and --json is only for those");
    TensorSource source(opened.reader, options, args.tensor, args.as);
    source.use_marks(marks_of(marks_in(opened.reader), args.tensor));
    cat_tensor(args, source);
  }
  return kExitOk;
}

}  // namespace
}  // namespace cmd_cat

void add_cat(CLI::App& app, Action& chosen) {
  using namespace cmd_cat;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kNo);
  command.add("CHECKPOINT", args->checkpoint, kCheckpointHelp).required();
  Option tensor = command.add("TENSOR", args->tensor, "the name of a tensor, an alias, a sparse table or a state tree");
  command.add("--at", args->at, "the tensor's place in the state: --at model w is model/w").type("PLACE").needs(tensor);
  command.add("--box", args->box, "slices, one for each dimension").type("SLICES").needs(tensor);
  Option full = command.add("--full", args->full, "print every element, or every row").needs(tensor);
  Option npy = command.add("--npy", args->npy, "write them to a new NumPy file").type("FILE").needs(tensor);
  command.add("--as", args->as, "convert to this dtype, for example f32").type("DTYPE").needs(tensor);
  command.add("--raw", args->raw, "write the elements' bytes to standard output")
      .needs(tensor)
      .excludes(npy)
      .excludes(full);
  Option object = command.add("--object", args->object, "an object instead of a tensor").type("NAME");
  Option json = command.add("--json", args->json, "print a state tree's JSON unchanged, rows of a sparse table as JSON")
                    .needs(tensor);
  command.add("--ids", args->ids, "a sparse table's rows of these ids, such as 5,7").type("IDS").needs(tensor);
  command.add("--columns", args->columns, "only these columns of a sparse table")
      .type("NAMES")
      .one_value()
      .needs(tensor);
  command.add("--csv", args->csv, "print a sparse table as CSV").needs(tensor).excludes(json).excludes(full);
  command.add("--rank", args->rank, "whose object, if each rank has its own").needs(object);
  command.add_run(*args);
  command.run(chosen, [args] {
    if (!args->at.empty()) args->tensor = args->at + (args->at.ends_with('/') ? "" : "/") + args->tensor;
    return run(*args);
  });
}

}  // namespace cli

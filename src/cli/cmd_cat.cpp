// ckpt cat: prints a tensor's numbers, a state tree, or an object's bytes.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/array.h"
#include "cli/command.h"
#include "cli/foreign.h"
#include "cli/locate.h"
#include "cli/npy.h"
#include "cli/numbers.h"
#include "cli/tensor_source.h"
#include "cli/text.h"
#include "cli/tree_text.h"

namespace cli {
namespace {

struct Args : Common {
  std::string checkpoint, tensor, at, box, npy, as, object;
  uint32_t rank = 0;
  bool full = false, raw = false;
};

constexpr Words kWords = {
    "cat", "print a tensor's numbers, a state tree or an object's bytes",
    "Prints the elements of a tensor of any numeric dtype, bf16 and float8 included. Of more than "
    "1000 elements it reads\n"
    "and prints only the first and last 3 indices of each dimension, unless --full is given. "
    "--box takes slices as in Python:\n"
    "\"0:2,3:5\", \":\", \"-3:\" (write --box=-3: if it starts with a minus), \"7\" (only that index; "
    "the dimension stays).\n"
    "Dimensions not named are whole. Everything that is read is checked against its checksums.\n"
    "If no tensor but a state tree has the name, its JSON is printed: indented, or unchanged with --json.\n"
    "CHECKPOINT may also be a file or directory that ckpt import takes: only what is printed of it is read.",
    "  ckpt cat /data/run7 layer.0.weight\n"
    "  ckpt cat /data/run7 layer.0.weight --box 0:2,3:5 --full\n"
    "  ckpt cat /data/run7 --at model layer.0.weight\n"
    "  ckpt cat /data/run7@step:100 layer.0.weight --as f32 --npy weight.npy\n"
    "  ckpt cat /data/run7 layer.0.weight --raw > weight.bin\n"
    "  ckpt cat /data/run7 state --json | jq .epoch\n"
    "  ckpt cat /data/run7 --object rng --rank 3 > rng.bin\n"
    "  ckpt cat ./step-400-dcp model/layer.0.weight\n",
    "0 printed, 2 error"};

[[noreturn]] void write_failed(const std::string& path) {
  fail(CKPT_IO, "cannot write " + path + ": " + std::strerror(errno));
}

// Creates a file; removes it again unless finish() is called.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)), path_(path) {
    if (fd_ < 0 && errno == EEXIST) fail(CKPT_EXISTS, path + " exists; remove it first");
    if (fd_ < 0) write_failed(path);
  }
  ~NewFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(path_.c_str());
  }

  void write(const void* data, size_t size) {
    auto* at = static_cast<const char*>(data);
    while (size > 0) {
      ssize_t written = ::write(fd_, at, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) write_failed(path_);
      at += written;
      size -= static_cast<size_t>(written);
    }
  }

  void finish() {
    if (::close(std::exchange(fd_, -1)) == 0) return;
    int reason = errno;
    ::unlink(path_.c_str());
    errno = reason;
    write_failed(path_);
  }

 private:
  int fd_;
  std::string path_;
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

void cat_tensor(const Args& args, const TensorSource& source) {
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
  print(args.json ? std::string(tree.json()) : indented_json(tree.json()));
}

bool is_plain_text(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f;
  });
}

void cat_object(const Args& args, const ckpt::Reader& reader, const ckpt::Options& options) {
  const std::string data = reader.read_object(args.object, args.rank, options);
  if (is_terminal(stdout) && !is_plain_text(data))
    invalid("object " + args.object + " is not text: send it to a file or a pipe");
  print(data);
}

int run(const Args& args) {
  if (args.tensor.empty() == args.object.empty()) invalid("cat needs either a tensor's name or --object NAME");
  if (is_foreign(args.checkpoint)) {
    if (args.tensor.empty() || args.json)
      invalid("--object and --json are for checkpoints: " + shown(args.checkpoint) + " is none");
    cat_tensor(args, foreign_tensor(args.checkpoint, args.tensor, args.as, args));
    return kExitOk;
  }
  ckpt::Options options = make_options(args);
  const Opened opened = open_checkpoint(args.checkpoint, args, options);
  if (!args.object.empty()) {
    cat_object(args, opened.reader, options);
  } else if (names_tree(opened.reader, args.tensor)) {
    cat_tree(args, opened.reader);
  } else {
    if (args.json) invalid(args.tensor + " is not a state tree, and --json is only for those");
    cat_tensor(args, TensorSource(opened.reader, options, args.tensor, args.as));
  }
  return kExitOk;
}

}  // namespace

void add_cat(CLI::App& app, Action& chosen) {
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kNo);
  command.add("CHECKPOINT", args->checkpoint, kCheckpointHelp).required();
  Option tensor = command.add("TENSOR", args->tensor, "the name of a tensor, an alias or a state tree");
  command.add("--at", args->at, "the tensor's place in the state: --at model w is model/w").type("PLACE").needs(tensor);
  command.add("--box", args->box, "slices, one for each dimension").type("SLICES").needs(tensor);
  Option full = command.add("--full", args->full, "print every element").needs(tensor);
  Option npy = command.add("--npy", args->npy, "write them to a new NumPy file").type("FILE").needs(tensor);
  command.add("--as", args->as, "convert to this dtype, for example f32").type("DTYPE").needs(tensor);
  command.add("--raw", args->raw, "write the elements' bytes to standard output")
      .needs(tensor)
      .excludes(npy)
      .excludes(full);
  Option object = command.add("--object", args->object, "an object instead of a tensor").type("NAME");
  command.add("--json", args->json, "print a state tree's JSON unchanged").needs(tensor);
  command.add("--rank", args->rank, "whose object, if each rank has its own").needs(object);
  command.add_run(*args);
  command.run(chosen, [args] {
    if (!args->at.empty()) args->tensor = args->at + (args->at.ends_with('/') ? "" : "/") + args->tensor;
    return run(*args);
  });
}

}  // namespace cli

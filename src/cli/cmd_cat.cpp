// ckpt cat: the numbers of a tensor, a state tree, or the bytes of an object.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "cli/array.h"
#include "cli/command.h"
#include "cli/npy.h"
#include "cli/numbers.h"
#include "cli/tensor_source.h"
#include "cli/text.h"
#include "cli/tree_text.h"

namespace cli {
namespace {

struct Args : Common {
  std::string checkpoint, tensor, box, npy, as, object;
  uint32_t rank = 0;
  bool full = false, raw = false;
};

constexpr Words kWords = {
    "cat", "print a tensor's numbers, a state tree or an object's bytes",
    "Prints the elements of a tensor, every numeric dtype decoded, bf16 and float8 included. "
    "More than 1000 elements are\n"
    "summarised by the edges of each dimension, and only those are read, unless --full is given. "
    "--box takes slices as in\n"
    "Python: \"0:2,3:5\", \":\", \"-3:\" (write --box=-3: when it starts with a minus), \"7\" "
    "(that index, the dimension stays);\n"
    "dimensions not named are whole. What is read is checked against its checksums.\n"
    "Where a state tree has the name, and no tensor, its JSON is printed: laid out for people, or "
    "as it is with --json.",
    "  ckpt cat /data/run7 layer.0.weight\n"
    "  ckpt cat /data/run7 layer.0.weight --box 0:2,3:5 --full\n"
    "  ckpt cat /data/run7@step:100 layer.0.weight --as f32 --npy weight.npy\n"
    "  ckpt cat /data/run7 layer.0.weight --raw > weight.bin\n"
    "  ckpt cat /data/run7 state --json | jq .epoch\n"
    "  ckpt cat /data/run7 --object rng --rank 3 > rng.bin\n",
    "0 printed, 2 error"};

Error write_failed(const std::string& path) { return {CKPT_IO, "cannot write " + path + ": " + std::strerror(errno)}; }

// A new file that is removed again unless it was finished.
class NewFile {
 public:
  ~NewFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(path_.c_str());
  }

  Error create(const std::string& path) {
    path_ = path;
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno == EEXIST) return {CKPT_EXISTS, path + " exists; remove it first"};
    return fd_ < 0 ? write_failed(path) : Error();
  }

  Error write(const void* data, size_t size) {
    auto* at = static_cast<const char*>(data);
    while (size > 0) {
      ssize_t written = ::write(fd_, at, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return write_failed(path_);
      at += written;
      size -= static_cast<size_t>(written);
    }
    return {};
  }

  Error finish() {
    if (::close(std::exchange(fd_, -1)) == 0) return {};
    Error error = write_failed(path_);
    ::unlink(path_.c_str());
    return error;
  }

 private:
  int fd_ = -1;
  std::string path_;
};

Error write_npy(const TensorSource& source, const Box& box, const std::string& path) {
  auto descr = npy_descr(source.dtype());
  if (!descr) {
    const char* hint = has_f32(source.dtype()) ? "; add --as f32" : "; use --raw";
    return {CKPT_UNSUPPORTED,
            "NumPy has no dtype for " + dtype_text(source.dtype()) + " of tensor " + source.name() + hint};
  }
  NewFile file;
  CLI_TRY(file.create(path));
  std::string header = npy_header(*descr, box.extent);
  CLI_TRY(file.write(header.data(), header.size()));
  CLI_TRY(
      source.read_slabs(box, [&](const std::vector<std::byte>& data) { return file.write(data.data(), data.size()); }));
  return file.finish();
}

Error write_raw(const TensorSource& source, const Box& box) {
  if (is_terminal(stdout)) return invalid("--raw writes bytes: send them to a file or a pipe");
  return source.read_slabs(box, [](const std::vector<std::byte>& data) {
    bool whole = std::fwrite(data.data(), 1, data.size(), stdout) == data.size();
    return whole ? Error() : write_failed("standard output");
  });
}

// A few numbers, in columns.
Error print_some(const TensorSource& source, const Box& box, bool summary) {
  std::vector<std::byte> data;
  CLI_TRY(summary ? source.read_summary(box, &data) : source.read(box, &data));
  uint64_t count = 1;
  for (int64_t extent : box.extent) count *= static_cast<uint64_t>(summary ? shown(extent) : extent);
  std::vector<std::string> numbers;
  size_t width = 0;
  for (uint64_t i = 0; i < count; ++i) {
    numbers.push_back(number_text(source.dtype(), data, i));
    width = std::max(width, numbers.back().size());
  }
  ArrayWriter writer(box.extent, summary, width, stdout);
  for (const std::string& number : numbers) writer.add(number);
  writer.finish();
  return {};
}

// All of them, in bounded memory, so without columns.
Error print_all(const TensorSource& source, const Box& box) {
  ArrayWriter writer(box.extent, false, 0, stdout);
  uint64_t left = box.volume();
  CLI_TRY(source.read_slabs(box, [&](const std::vector<std::byte>& data) {
    uint64_t bits = static_cast<uint64_t>(source.dtype() % 256);
    uint64_t count = std::min<uint64_t>(left, data.size() * 8 / bits);
    for (uint64_t i = 0; i < count; ++i) writer.add(number_text(source.dtype(), data, i));
    left -= count;
    return Error();
  }));
  writer.finish();
  return {};
}

Error cat_tensor(const Args& args, const ckpt_reader* reader, const ckpt_options* options) {
  TensorSource source;
  CLI_TRY(source.open(reader, options, args.tensor, args.as));
  Box box = Box::whole(source.shape());
  if (!args.box.empty()) CLI_TRY(parse_box(args.box, source.shape(), &box));
  if (!args.npy.empty()) return write_npy(source, box, args.npy);
  if (args.raw) return write_raw(source, box);
  if (box.volume() < kSummaryFrom) return print_some(source, box, false);
  return args.full ? print_all(source, box) : print_some(source, box, true);
}

// Whether `name` is that of a state tree and not that of a tensor.
bool names_tree(const ckpt_reader* reader, const std::string& name) {
  auto tensor = sized<ckpt_tensor_info>();
  if (!call(ckpt_reader_tensor_find, reader, name.c_str(), &tensor)) return false;
  auto object = sized<ckpt_object_info>();
  if (call(ckpt_reader_object_find, reader, name.c_str(), 0u, &object)) return false;
  return object.scope == CKPT_OBJECT_SHARED && std::string_view(object.media_type) == CKPT_TREE_MEDIA_TYPE;
}

Error cat_tree(const Args& args, const ckpt_reader* reader) {
  if (!args.box.empty() || !args.npy.empty() || !args.as.empty() || args.raw || args.full)
    return invalid(args.tensor + " is a state tree: --box, --full, --npy, --as and --raw are for tensors");
  Tree tree;
  CLI_TRY(call(ckpt_reader_tree, reader, args.tensor.c_str(), tree.out()));
  const char* json = nullptr;
  uint64_t size = 0;
  CLI_TRY(call(ckpt_tree_json, tree, &json, &size));
  print(args.json ? std::string(json, size) : indented_json({json, size}));
  return {};
}

bool is_plain_text(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f;
  });
}

Error cat_object(const Args& args, const ckpt_reader* reader, const ckpt_options* options) {
  auto info = sized<ckpt_object_info>();
  CLI_TRY(call(ckpt_reader_object_find, reader, args.object.c_str(), args.rank, &info));
  std::string data(info.size, '\0');
  Load load;
  CLI_TRY(call(ckpt_load_new, load.out(), reader, options));
  CLI_TRY(call(ckpt_load_add_object, load, args.object.c_str(), args.rank, data.data(), info.size));
  CLI_TRY(call(ckpt_load_run, load));
  if (is_terminal(stdout) && !is_plain_text(data)) {
    return invalid("object " + args.object + " is not text: send it to a file or a pipe");
  }
  print(data);
  return {};
}

Error run(const Args& args) {
  if (args.tensor.empty() == args.object.empty())
    return invalid("cat wants either the name of a tensor or --object NAME");
  Options options;
  CLI_TRY(make_options(args, &options));
  Opened opened;
  CLI_TRY(open_checkpoint(args.checkpoint, args, options, &opened));
  if (!args.object.empty()) return cat_object(args, opened.reader, options);
  if (names_tree(opened.reader, args.tensor)) return cat_tree(args, opened.reader);
  if (args.json) return invalid(args.tensor + " is no state tree, and only that is JSON");
  return cat_tensor(args, opened.reader, options);
}

}  // namespace

void add_cat(CLI::App& app, Run& chosen) {
  auto args = std::make_shared<Args>();
  CLI::App* command = add_command(app, kWords, args.get(), false);
  command->add_option("CHECKPOINT", args->checkpoint, kCheckpointHelp)->required();
  auto* tensor = command->add_option("TENSOR", args->tensor, "the name of a tensor, an alias or a state tree");
  command->add_option("--box", args->box, "slices, one for each dimension")->type_name("SLICES")->needs(tensor);
  auto* full = command->add_flag("--full", args->full, "print every element")->needs(tensor);
  auto* npy =
      command->add_option("--npy", args->npy, "write a new NumPy file instead")->type_name("FILE")->needs(tensor);
  command->add_option("--as", args->as, "convert, for instance bf16 to f32")->type_name("DTYPE")->needs(tensor);
  command->add_flag("--raw", args->raw, "write the elements' bytes to standard output")
      ->needs(tensor)
      ->excludes(npy)
      ->excludes(full);
  auto* object = command->add_option("--object", args->object, "an object instead of a tensor")->type_name("NAME");
  command->add_flag("--json", args->json, "print a state tree's JSON as it is")->needs(tensor);
  command->add_option("--rank", args->rank, "whose object, where each rank has its own")->needs(object);
  command->callback([args, &chosen] { chosen = [args](int*) { return run(*args); }; });
}

}  // namespace cli

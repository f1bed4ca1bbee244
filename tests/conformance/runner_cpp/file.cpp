// file.*: other people's files, opened in place.
#include "runner.hpp"

namespace conformance {
namespace {

const ckpt::File& file_of(Runner& runner, const Line& line) { return runner.get<ckpt::File>(line.words[0]); }

void run_open(Runner& runner, Line& line) {
  runner.put(line.words[0], ckpt::File::open(runner.path(line.words[1]), line.bag()));
}

void run_format(Runner& runner, Line& line) {
  const std::string found = file_of(runner, line).format();
  if (found != line.words[1]) fail("expected ", line.words[1], ", found ", found);
}

void run_tensors(Runner& runner, Line& line) {
  const ckpt::File& file = file_of(runner, line);
  std::vector<std::string> found;
  for (uint64_t i = 0; i < file.tensor_count(); i++) found.push_back(file.tensor(i).name);
  line.expect_words(1, found);
}

void run_tensor(Runner& runner, Line& line) {
  const ckpt::FileTensor found = file_of(runner, line).tensor(parse_count(line.words[1]));
  line.expect("name", text_of(found.name));
  line.expect_dtype("dtype", found.dtype);
  line.expect("shape", shape_text(found.ndim, found.shape));
  line.expect("strides", shape_text(found.ndim, found.strides));
  line.expect_count("bytes", found.bytes);
  line.expect_count("data_bytes", found.data_bytes);
  line.expect("alias_of", text_of(found.alias_of));
  line.expect_number("alias_offset", found.alias_offset);
}

void run_read(Runner& runner, Line& line) {
  const ckpt::FileTensor found = file_of(runner, line).tensor(parse_count(line.words[1]));
  const auto* first = static_cast<const unsigned char*>(found.data);
  runner.put(line.words[2], first ? Bytes(first, first + found.data_bytes) : Bytes());
}

void run_tree(Runner& runner, Line& line) {
  runner.put_borrowed(line.words[1], file_of(runner, line).tree(), line.words[0]);
}

}  // namespace

void add_file_commands(Commands& commands) {
  commands["file.open"] = {2, kOptions, run_open};
  commands["file.format"] = {2, 0, run_format};
  commands["file.tensors"] = {1, kMore, run_tensors};
  commands["file.tensor"] = {2, kPairs, run_tensor};
  commands["file.read"] = {3, 0, run_read};
  commands["file.tree"] = {2, 0, run_tree};
}

}  // namespace conformance

// file.*: files of other formats, opened in place.
#include "runner.hpp"

namespace conformance {
namespace {

const ckpt::File& file_of(Runner& runner, const Call& call) { return runner.get<ckpt::File>(call[0]); }

void run_format(Runner& runner, const Call& call) {
  std::vector<std::string> words = file_of(runner, call).left_out();  // nothing lies beside a file
  words.insert(words.begin(), file_of(runner, call).format());
  call.expect_words(1, words);
}

void run_tensors(Runner& runner, const Call& call) {
  const ckpt::File& file = file_of(runner, call);
  std::vector<std::string> found;
  for (uint64_t i = 0; i < file.tensor_count(); i++) found.push_back(file.tensor(i).name);
  call.expect_words(1, found);
}

void run_tensor(Runner& runner, const Call& call) {
  const ckpt::FileTensor found = file_of(runner, call).tensor(call.count(1));
  call.expect("name", found.name);
  call.expect("dtype", dtype_text(found.dtype));
  call.expect("shape", shape_text(found.ndim, found.shape));
  call.expect("strides", shape_text(found.ndim, found.strides));
  call.expect("bytes", found.bytes);
  call.expect("data_bytes", found.data_bytes);
  call.expect("alias_of", found.alias_of);
  call.expect("alias_offset", found.alias_offset);
}

void run_data(Runner& runner, const Call& call) {
  const ckpt::FileTensor found = file_of(runner, call).tensor(call.count(1));
  runner.put_copy(call[2], {found.data, found.data_bytes});
}

void run_read(Runner& runner, const Call& call) {
  const ckpt::MutableMemory memory =
      call[4].empty() ? ckpt::MutableMemory() : ckpt::MutableMemory(runner.get<Bytes>(call[4]));
  runner.get<ckpt::File>(call[0]).read(call.count(1), call.tensor(2), memory);
}

}  // namespace

const Commands kFile = {
    {"file.open", [](Runner& r, const Call& c) { r.put(c[0], ckpt::File::open(c[1], c.options)); }},
    {"file.format", run_format},
    {"file.tensors", run_tensors},
    {"file.tensor", run_tensor},
    {"file.data", run_data},
    {"file.read", run_read},
    {"file.tree", [](Runner& r, const Call& c) { r.put_borrowed(c[1], file_of(r, c).tree(), c[0]); }}};

}  // namespace conformance

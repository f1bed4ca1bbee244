// Numbers, shapes, names and regions as scenarios write them.
#include <cerrno>
#include <cstdlib>

#include "runner.hpp"

namespace conformance {

const Names kJobStates = {{CKPT_JOB_RUNNING, "RUNNING"},     {CKPT_JOB_STAGED, "STAGED"}, {CKPT_JOB_WRITTEN, "WRITTEN"},
                          {CKPT_JOB_COMMITTED, "COMMITTED"}, {CKPT_JOB_DONE, "DONE"},     {CKPT_JOB_FAILED, "FAILED"},
                          {CKPT_JOB_CANCELLED, "CANCELLED"}};
const Names kFindingKinds = {{CKPT_FINDING_DAMAGED, "DAMAGED"},  {CKPT_FINDING_MISSING, "MISSING"},
                             {CKPT_FINDING_EXTRA, "EXTRA"},      {CKPT_FINDING_DIFFERENT, "DIFFERENT"},
                             {CKPT_FINDING_REMOVED, "REMOVED"},  {CKPT_FINDING_KEPT, "KEPT"},
                             {CKPT_FINDING_REPAIRED, "REPAIRED"}};
const Names kNodeKinds = {{CKPT_NODE_NULL, "null"},     {CKPT_NODE_BOOL, "bool"},     {CKPT_NODE_INT, "int"},
                          {CKPT_NODE_BIGINT, "bigint"}, {CKPT_NODE_FLOAT, "float"},   {CKPT_NODE_TEXT, "text"},
                          {CKPT_NODE_BYTES, "bytes"},   {CKPT_NODE_TENSOR, "tensor"}, {CKPT_NODE_LIST, "list"},
                          {CKPT_NODE_TUPLE, "tuple"},   {CKPT_NODE_SET, "set"},       {CKPT_NODE_DICT, "dict"},
                          {CKPT_NODE_RECORD, "record"}};
const Names kCheckpointStates = {{CKPT_CHECKPOINT_COMMITTED, "COMMITTED"},
                                 {CKPT_CHECKPOINT_OPEN, "OPEN"},
                                 {CKPT_CHECKPOINT_ABORTED, "ABORTED"},
                                 {CKPT_CHECKPOINT_DAMAGED, "DAMAGED"}};

int32_t number_of(const Names& names, const std::string& name) {
  for (const auto& [number, known] : names)
    if (known == name) return number;
  fail("expected a name such as '", names.begin()->second, "', found '", name, "'");
}

std::string name_of(const Names& names, int32_t number) {
  const auto found = names.find(number);
  return found == names.end() ? std::to_string(number) : found->second;
}

int64_t parse_int(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end || errno) fail("expected a number, found '", text, "'");
  return value;
}

uint64_t parse_count(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0])) || *end || errno)
    fail("expected a number >= 0, found '", text, "'");
  return value;
}

uint32_t parse_rank(const std::string& text) { return static_cast<uint32_t>(parse_count(text)); }

double parse_float(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end) fail("expected a number, found '", text, "'");
  return value;
}

int32_t parse_dtype(const std::string& text) {
  if (!text.empty() && std::isdigit(static_cast<unsigned char>(text[0]))) return static_cast<int32_t>(parse_int(text));
  const auto found = ckpt::dtype_find(text);
  if (!found) fail("expected a dtype, found '", text, "'");
  return *found;
}

std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> shape;
  if (text == "-") return shape;
  std::istringstream pieces(text + "x");
  for (std::string piece; std::getline(pieces, piece, 'x');) shape.push_back(parse_int(piece));
  return shape;
}

std::string parse_hex(const std::string& text) {
  std::string out;
  if (text.size() % 2 || text.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
    fail("expected pairs of hexadecimal digits, found '", text, "'");
  for (size_t i = 0; i < text.size(); i += 2) out += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return out;
}

std::pair<std::string, std::string> parse_divided(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) fail("expected A:B, found '", text, "'");
  return {text.substr(0, colon), text.substr(colon + 1)};
}

std::string shape_text(int32_t ndim, const int64_t* shape) {
  std::string text;
  for (int32_t i = 0; i < ndim; i++) text += (i ? "x" : "") + std::to_string(shape[i]);
  return text.empty() ? "-" : text;
}

ckpt::Tensor parse_region(Line& line, const std::string& dtype, const std::string& shape) {
  ckpt::Tensor tensor(parse_dtype(dtype), parse_shape(shape));
  if (const auto text = line.find("box")) {
    const auto [offset, extent] = parse_divided(*text);
    tensor.box(parse_shape(offset), parse_shape(extent));
  }
  if (const auto text = line.find("flat")) {
    const auto [offset, size] = parse_divided(*text);
    tensor.flat(parse_int(offset), parse_int(size));
  }
  if (const auto text = line.find("strides")) tensor.strides(parse_shape(*text));
  if (const auto text = line.find("replica")) {
    const auto [group, rest] = parse_divided(*text);
    const auto [index, count] = parse_divided(rest);
    tensor.replica(parse_count(group), parse_rank(index), parse_rank(count));
  }
  return tensor;
}

ckpt::Device parse_device(Line& line) {
  const auto text = line.find("device");
  if (!text) return {};
  const auto [type, id] = parse_divided(*text);
  return {static_cast<int32_t>(parse_int(type)), static_cast<int32_t>(parse_int(id))};
}

void expect_checkpoint(Line& line, const ckpt::CheckpointInfo& info) {
  line.expect("id", info.id);
  line.expect("label", info.label);
  line.expect("run", info.run);
  line.expect_number("step", info.step);
  line.expect_count("world_size", info.world_size);
  line.expect_count("part_count", info.part_count);
  line.expect_count("tensor_count", info.tensor_count);
  line.expect_count("object_count", info.object_count);
  line.expect("state", name_of(kCheckpointStates, info.state));
  line.expect_count("flags", info.flags);
  line.expect_count("revision", info.revision);
  line.expect_count("attempt", info.attempt);
  line.expect_count("token", info.token);
  line.expect_count("sequence", info.sequence);
  line.expect_count("bytes", info.bytes);
}

}  // namespace conformance

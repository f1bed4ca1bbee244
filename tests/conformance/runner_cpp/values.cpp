// Reads a command's words and keys, and checks its expectations.
#include <algorithm>
#include <cmath>

#include "runner.hpp"

namespace conformance {

const Names kJobStates = {
    {CKPT_JOB_NEW, "NEW"},         {CKPT_JOB_RUNNING, "RUNNING"},     {CKPT_JOB_STAGED, "STAGED"},
    {CKPT_JOB_WRITTEN, "WRITTEN"}, {CKPT_JOB_COMMITTED, "COMMITTED"}, {CKPT_JOB_DONE, "DONE"},
    {CKPT_JOB_FAILED, "FAILED"},   {CKPT_JOB_CANCELLED, "CANCELLED"}, {CKPT_JOB_DELIVERED, "DELIVERED"}};
const Names kFindingKinds = {{CKPT_FINDING_DAMAGED, "DAMAGED"},   {CKPT_FINDING_MISSING, "MISSING"},
                             {CKPT_FINDING_EXTRA, "EXTRA"},       {CKPT_FINDING_DIFFERENT, "DIFFERENT"},
                             {CKPT_FINDING_REMOVED, "REMOVED"},   {CKPT_FINDING_KEPT, "KEPT"},
                             {CKPT_FINDING_REPAIRED, "REPAIRED"}, {CKPT_FINDING_PASSED_OVER, "PASSED_OVER"},
                             {CKPT_FINDING_ANEW, "ANEW"},         {CKPT_FINDING_NO_CACHE, "NO_CACHE"}};
const Names kNodeKinds = {{CKPT_NODE_NULL, "null"},     {CKPT_NODE_BOOL, "bool"},     {CKPT_NODE_INT, "int"},
                          {CKPT_NODE_BIGINT, "bigint"}, {CKPT_NODE_FLOAT, "float"},   {CKPT_NODE_TEXT, "text"},
                          {CKPT_NODE_BYTES, "bytes"},   {CKPT_NODE_TENSOR, "tensor"}, {CKPT_NODE_LIST, "list"},
                          {CKPT_NODE_TUPLE, "tuple"},   {CKPT_NODE_SET, "set"},       {CKPT_NODE_DICT, "dict"},
                          {CKPT_NODE_RECORD, "record"}};
const Names kCheckpointStates = {{CKPT_CHECKPOINT_COMMITTED, "COMMITTED"}, {CKPT_CHECKPOINT_OPEN, "OPEN"},
                                 {CKPT_CHECKPOINT_ABORTED, "ABORTED"},     {CKPT_CHECKPOINT_DAMAGED, "DAMAGED"},
                                 {CKPT_CHECKPOINT_REVISION, "REVISION"},   {CKPT_CHECKPOINT_UNREADABLE, "UNREADABLE"}};
const Names kScopes = {{CKPT_OBJECT_SHARED, "shared"}, {CKPT_OBJECT_PER_RANK, "per-rank"}, {CKPT_OBJECT_TREE, "tree"}};

int32_t number_of(const Names& names, const std::string& name) {
  for (const auto& [number, known] : names)
    if (known == name) return number;
  fail("expected a name such as '", names.begin()->second, "', found '", name, "'");
}

std::string shape_text(int32_t ndim, const int64_t* shape) {
  std::string text;
  for (int32_t i = 0; i < ndim; i++) text += (i ? " " : "") + std::to_string(shape[i]);
  return text;
}

std::string dtype_text(int32_t dtype) {
  const std::string name = ckpt::dtype_name(dtype);
  return name == "dtype" ? std::to_string(dtype) : name;
}

int32_t parse_dtype(const std::string& text) {
  if (std::isdigit(static_cast<unsigned char>(text[0]))) return std::stoi(text);
  const auto found = ckpt::dtype_find(text);
  if (!found) fail("expected a dtype, found '", text, "'");
  return *found;
}

namespace {

std::vector<int64_t> numbers_in(std::string text) {
  std::replace(text.begin(), text.end(), ':', ' ');
  std::istringstream pieces(text);
  std::vector<int64_t> made;
  for (int64_t number = 0; pieces >> number;) made.push_back(number);
  return made;
}

}  // namespace

const Token* Call::find(const std::string& key) const {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const Token& token) { return token.key == key; });
  return found == keys.end() ? nullptr : &*found;
}

std::optional<std::string> Call::text(const std::string& key) const {
  const Token* found = find(key);
  return found ? std::optional(found->value) : std::nullopt;
}

std::optional<std::vector<int64_t>> Call::numbers(const std::string& key) const {
  const Token* found = find(key);
  return found ? std::optional(numbers_in(found->value)) : std::nullopt;
}

ckpt::Tensor Call::tensor(size_t first) const {
  ckpt::Tensor tensor(parse_dtype(words[first]), numbers_in(words[first + 1]));
  if (const auto box = numbers("box")) {
    const auto half = box->begin() + static_cast<std::ptrdiff_t>(box->size() / 2);
    tensor.box(std::vector(box->begin(), half), std::vector(half, box->end()));
  }
  if (const auto flat = numbers("flat")) tensor.flat(flat->at(0), flat->at(1));
  if (const auto strides = numbers("strides")) tensor.strides(*strides);
  if (const auto first = numbers("first_replica"); first && first->at(0)) tensor.first_replica();
  if (const auto replica = numbers("replica"))
    tensor.replica(static_cast<uint64_t>(replica->at(0)), static_cast<uint32_t>(replica->at(1)),
                   static_cast<uint32_t>(replica->at(2)));
  return tensor;
}

ckpt::Device Call::device() const {
  const auto given = numbers("device");
  return given ? ckpt::Device{static_cast<int32_t>(given->at(0)), static_cast<int32_t>(given->at(1))} : ckpt::Device{};
}

void Call::expect(const std::string& key, const std::string& found) const {
  const Token* wanted = find(key);
  if (wanted && wanted->value != found) fail("expected ", key, "=", wanted->value, ", found '", found, "'");
}

void Call::expect(const std::string& key, double found) const {
  const Token* token = find(key);
  if (!token) return;
  const double wanted = std::strtod(token->value.c_str(), nullptr);
  const bool same =
      std::isnan(wanted) ? std::isnan(found) : wanted == found && std::signbit(wanted) == std::signbit(found);
  if (!same) fail("expected ", key, "=", token->value, ", found ", found);
}

void Call::expect_checkpoint(const ckpt::CheckpointInfo& info) const {
  expect("id", info.id);
  expect("label", info.label);
  expect("run", info.run);
  expect("step", info.step);
  expect("world_size", info.world_size);
  expect("part_count", info.part_count);
  expect("tensor_count", info.tensor_count);
  expect("object_count", info.object_count);
  expect("state", kCheckpointStates.at(info.state));
  expect("flags", info.flags);
  expect("revision", info.revision);
  expect("attempt", info.attempt);
  expect("token", info.token);
  expect("sequence", info.sequence);
  expect("bytes", info.bytes);
  expect("passed_over", info.passed_over);
}

void Call::expect_words(size_t first, const std::vector<std::string>& found) const {
  for (size_t i = 0; first + i < words.size() || i < found.size(); i++) {
    const std::string wanted = first + i < words.size() ? "'" + words[first + i] + "'" : "no more";
    const std::string got = i < found.size() ? "'" + found[i] + "'" : "no more";
    if (wanted != got) fail("expected ", wanted, " at place ", i, ", found ", got);
  }
}

}  // namespace conformance

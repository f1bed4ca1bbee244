// reader.*: the tensors, objects, parts and attributes of a checkpoint.
#include "runner.hpp"

namespace conformance {
namespace {

const ckpt::Reader& reader_of(Runner& runner, const Line& line) { return runner.get<ckpt::Reader>(line.words[0]); }

void run_tensors(Runner& runner, Line& line) {
  const auto& reader = reader_of(runner, line);
  std::vector<std::string> found;
  for (uint64_t i = 0; i < reader.tensor_count(); i++) found.push_back(reader.tensor(i).name);
  line.expect_words(1, found);
}

void run_tensor(Runner& runner, Line& line) {
  const ckpt::TensorInfo info = reader_of(runner, line).tensor(line.words[1]);
  if (line.words[1] != info.name) fail("expected ", line.words[1], ", found ", info.name);
  line.expect_dtype("dtype", info.dtype);
  line.expect("shape", shape_text(info.ndim, info.shape));
  line.expect_count("bytes", info.bytes);
  line.expect_count("stored_bytes", info.stored_bytes);
  line.expect_count("segment_count", info.segment_count);
  line.expect("alias_of", text_of(info.alias_of));
}

void run_alias(Runner& runner, Line& line) {
  const ckpt::Tensor view = reader_of(runner, line).alias(line.words[1]);
  line.expect("shape", shape_text(view.desc().ndim, view.desc().shape));
  line.expect("strides", shape_text(view.desc().ndim, view.desc().strides));
  line.expect_number("offset", view.desc().flat_offset);
  line.expect_dtype("dtype", view.desc().dtype);
}

void run_segment(Runner& runner, Line& line) {
  const ckpt::SegmentInfo info = reader_of(runner, line).segment(line.words[1], parse_rank(line.words[2]));
  const bool flat = info.ndim < 0;
  line.expect("flat", flat ? std::to_string(info.flat_offset) + ":" + std::to_string(info.flat_size) : "");
  line.expect("box", flat ? "" : shape_text(info.ndim, info.offset) + ":" + shape_text(info.ndim, info.extent));
  line.expect_count("part", info.part);
  line.expect_number("codec", info.codec);
  line.expect_number("filter", info.filter);
  line.expect_count("chunk_count", info.chunk_count);
  line.expect_count("stored_bytes", info.stored_bytes);
}

void run_objects(Runner& runner, Line& line) {
  const auto& reader = reader_of(runner, line);
  std::vector<std::string> found;
  for (uint64_t i = 0; i < reader.object_count(); i++) {
    const ckpt::ObjectInfo info = reader.object(i);
    const std::string rank = info.scope == CKPT_OBJECT_SHARED ? "-" : std::to_string(info.rank);
    found.push_back(info.name + (":" + rank));
  }
  line.expect_words(1, found);
}

void run_object(Runner& runner, Line& line) {
  const ckpt::ObjectInfo info = reader_of(runner, line).object(line.words[1], parse_rank(line.words[2]));
  line.expect("scope", info.scope == CKPT_OBJECT_SHARED ? "shared" : "per-rank");
  line.expect_count("rank", info.rank);
  line.expect_count("size", info.size);
  line.expect("media_type", text_of(info.media_type));
}

void run_part(Runner& runner, Line& line) {
  const ckpt::PartInfo info = reader_of(runner, line).part(parse_rank(line.words[1]));
  line.expect("name", info.name);
  line.expect_count("rank", info.rank);
}

void run_attrs(Runner& runner, Line& line) {
  const auto& reader = reader_of(runner, line);
  const bool of_tensor = line.words.size() > 1 && line.words[1].rfind("tensor:", 0) == 0;
  std::vector<std::string> found;
  for (const auto& [key, value] : of_tensor ? reader.tensor_attrs(line.words[1].substr(7)) : reader.attrs())
    found.push_back(key + "=" + value);
  line.expect_words(of_tensor ? 2 : 1, found);
}

void run_attr(Runner& runner, Line& line) {
  const auto& reader = reader_of(runner, line);
  const auto tensor = line.find("tensor");
  const auto found = tensor ? reader.tensor_attr(*tensor, line.words[1]) : reader.attr(line.words[1]);
  if (found.value_or("") != line.words[2]) fail("expected '", line.words[2], "', found '", found.value_or(""), "'");
}

}  // namespace

void add_content_commands(Commands& commands) {
  commands["reader.tensors"] = {1, kMore, run_tensors};
  commands["reader.tensor"] = {2, kPairs, run_tensor};
  commands["reader.alias"] = {2, kPairs, run_alias};
  commands["reader.segment"] = {3, kPairs, run_segment};
  commands["reader.objects"] = {1, kMore, run_objects};
  commands["reader.object"] = {3, kPairs, run_object};
  commands["reader.part"] = {2, kPairs, run_part};
  commands["reader.attrs"] = {1, kMore, run_attrs};
  commands["reader.attr"] = {3, kPairs, run_attr};
}

}  // namespace conformance

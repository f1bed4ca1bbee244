// reader.*: a committed checkpoint: operations on the whole checkpoint, and what it holds.
#include "runner.hpp"

namespace conformance {
namespace {

ckpt::Reader& reader_of(Runner& runner, const Call& call) { return runner.get<ckpt::Reader>(call[0]); }

void run_open(Runner& runner, const Call& call) {
  const auto& store = runner.get<ckpt::Store>(call[1]);
  runner.put(call[0], ckpt::Reader::open(store, call[2], call.options));
}

void run_diff(Runner& runner, const Call& call) {
  const auto& other = runner.get<ckpt::Reader>(call[1]);
  runner.put(call[2], reader_of(runner, call).diff(other, call.options));
}

void run_copy(Runner& runner, const Call& call) {
  const auto& store = runner.get<ckpt::Store>(call[1]);
  runner.put(call[2], reader_of(runner, call).copy(store, call.options));
}

void run_tree(Runner& runner, const Call& call) {
  const auto name = call.text("name");
  const auto rank = call.numbers("rank");
  const auto& reader = reader_of(runner, call);
  if (!rank) return runner.put(call[1], name ? reader.tree(*name) : reader.tree());
  const auto number = static_cast<uint32_t>(rank->at(0));
  runner.put(call[1], name ? reader.tree_of_rank(number, *name) : reader.tree_of_rank(number));
}

// ---- what it holds ----

void run_tensors(Runner& runner, const Call& call) {
  const auto& reader = reader_of(runner, call);
  std::vector<std::string> found;
  for (uint64_t i = 0; i < reader.tensor_count(); i++) found.push_back(reader.tensor(i).name);
  call.expect_words(1, found);
}

void run_tensor(Runner& runner, const Call& call) {
  const ckpt::TensorInfo info = reader_of(runner, call).tensor(call[1]);
  if (call[1] != info.name) fail("expected ", call[1], ", found ", info.name);
  call.expect("dtype", dtype_text(info.dtype));
  call.expect("shape", shape_text(info.ndim, info.shape));
  call.expect("bytes", info.bytes);
  call.expect("stored_bytes", info.stored_bytes);
  call.expect("segment_count", info.segment_count);
  call.expect("alias_of", info.alias_of);
}

void run_alias(Runner& runner, const Call& call) {
  const ckpt::Tensor view = reader_of(runner, call).alias(call[1]);
  call.expect("shape", shape_text(view.desc().ndim, view.desc().shape));
  call.expect("strides", shape_text(view.desc().ndim, view.desc().strides));
  call.expect("offset", view.desc().flat_offset);
  call.expect("dtype", dtype_text(view.desc().dtype));
}

void run_segment(Runner& runner, const Call& call) {
  const ckpt::SegmentInfo info = reader_of(runner, call).segment(call[1], call.rank(2));
  const bool flat = info.ndim < 0;
  call.expect("flat", flat ? std::to_string(info.flat_offset) + ":" + std::to_string(info.flat_size) : "");
  call.expect("box", flat ? "" : shape_text(info.ndim, info.offset) + ":" + shape_text(info.ndim, info.extent));
  call.expect("part", info.part);
  call.expect("codec", info.codec);
  call.expect("filter", info.filter);
  call.expect("chunk_count", info.chunk_count);
  call.expect("stored_bytes", info.stored_bytes);
}

void run_objects(Runner& runner, const Call& call) {
  const auto& reader = reader_of(runner, call);
  std::vector<std::string> found;
  for (uint64_t i = 0; i < reader.object_count(); i++) {
    const ckpt::ObjectInfo info = reader.object(i);
    const std::string rank = info.scope == CKPT_OBJECT_SHARED ? "-" : std::to_string(info.rank);
    found.push_back(info.name + (":" + rank));
  }
  call.expect_words(1, found);
}

void run_object(Runner& runner, const Call& call) {
  const ckpt::ObjectInfo info = reader_of(runner, call).object(call[1], call.rank(2));
  call.expect("scope", kScopes.at(info.scope));
  call.expect("rank", info.rank);
  call.expect("size", info.size);
  call.expect("media_type", info.media_type);
}

void run_part(Runner& runner, const Call& call) {
  const ckpt::PartInfo info = reader_of(runner, call).part(call.rank(1));
  call.expect("name", info.name);
  call.expect("rank", info.rank);
}

void run_attrs(Runner& runner, const Call& call) {
  const auto& reader = reader_of(runner, call);
  std::vector<std::string> found;
  for (const auto& [key, value] : call[1].empty() ? reader.attrs() : reader.tensor_attrs(call[1]))
    found.push_back(key + "=" + value);
  call.expect_words(2, found);
}

void run_attr(Runner& runner, const Call& call) {
  const auto& reader = reader_of(runner, call);
  const auto tensor = call.text("tensor");
  const auto found = tensor ? reader.tensor_attr(*tensor, call[1]) : reader.attr(call[1]);
  call.expect_words(2, {found.value_or("")});
}

}  // namespace

const Commands kReader = {
    {"reader.open", run_open},
    {"reader.info", [](Runner& r, const Call& c) { c.expect_checkpoint(reader_of(r, c).info()); }},
    {"reader.report", [](Runner& r, const Call& c) { r.put(c[1], reader_of(r, c).report()); }},
    {"reader.map", [](Runner& r, const Call& c) { r.put_copy(c[2], reader_of(r, c).map(c[1], c.options)); }},
    {"reader.verify", [](Runner& r, const Call& c) { r.put(c[1], reader_of(r, c).verify(c.options)); }},
    {"reader.copy", run_copy},
    {"reader.diff", run_diff},
    {"reader.tree", run_tree},
    {"reader.export", [](Runner& r, const Call& c) { reader_of(r, c).export_to(c[1], c.options); }},
    {"reader.tensors", run_tensors},
    {"reader.tensor", run_tensor},
    {"reader.alias", run_alias},
    {"reader.segment", run_segment},
    {"reader.objects", run_objects},
    {"reader.object", run_object},
    {"reader.part", run_part},
    {"reader.attrs", run_attrs},
    {"reader.attr", run_attr}};

}  // namespace conformance

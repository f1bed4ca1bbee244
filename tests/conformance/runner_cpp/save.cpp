// save.*: one rank's share of a checkpoint.
#include "runner.hpp"

namespace conformance {
namespace {

ckpt::Save& save_of(Runner& runner, const Line& line) { return runner.get<ckpt::Save>(line.words[0]); }

void run_new(Runner& runner, Line& line) {
  const auto& session = runner.get<ckpt::Session>(line.words[1]);
  runner.put(line.words[0], ckpt::Save::create(session, line.words[2], parse_int(line.words[3]), line.bag()));
}

void run_tensor(Runner& runner, Line& line) {
  const ckpt::Memory memory = line.words[4].empty() ? ckpt::Memory() : ckpt::Memory(runner.get<Bytes>(line.words[4]));
  const ckpt::Tensor tensor = parse_region(line, line.words[2], line.words[3]);
  save_of(runner, line).add_tensor(line.words[1], tensor, memory, parse_device(line));
}

void run_tensors(Runner& runner, Line& line) {
  const Bytes& memory = runner.get<Bytes>(line.words[5]);
  const ckpt::Tensor tensor = parse_region(line, line.words[3], line.words[4]);
  const uint64_t count = parse_count(line.words[1]);
  for (uint64_t i = 0; i < count; i++)
    save_of(runner, line).add_tensor(line.words[2] + std::to_string(i), tensor, memory);
}

void run_object(Runner& runner, Line& line) {
  static const Names scopes = {{CKPT_OBJECT_SHARED, "shared"}, {CKPT_OBJECT_PER_RANK, "per-rank"}};
  save_of(runner, line)
      .add_object(line.words[1], line.words[2], number_of(scopes, line.words[3]), runner.get<Bytes>(line.words[4]));
}

void run_alias(Runner& runner, Line& line) {
  const auto shape = line.find("shape"), strides = line.find("strides"), offset = line.find("offset");
  if (!shape) return save_of(runner, line).add_alias(line.words[1], line.words[2]);
  ckpt::Tensor view(0, parse_shape(*shape));
  if (strides) view.strides(parse_shape(*strides));
  if (offset) view.view_offset(parse_int(*offset));
  save_of(runner, line).add_alias(line.words[1], line.words[2], view);
}

void run_attr(Runner& runner, Line& line) {
  if (const auto tensor = line.find("tensor"))
    save_of(runner, line).set_tensor_attr(*tensor, line.words[1], line.words[2]);
  else
    save_of(runner, line).set_attr(line.words[1], line.words[2]);
}

void run_tree(Runner& runner, Line& line) {
  const ckpt::TreeView tree = runner.tree(line.words[1]);
  if (const auto name = line.find("name"))
    save_of(runner, line).add_tree(tree, *name);
  else
    save_of(runner, line).add_tree(tree);
}

void run_id(Runner& runner, Line& line) {
  const std::string found = save_of(runner, line).id();
  if (found != line.words[1]) fail("expected ", line.words[1], ", found ", found);
}

void run_run(Runner& runner, Line& line) { save_of(runner, line).run(); }
void run_start(Runner& runner, Line& line) { runner.put(line.words[1], save_of(runner, line).start()); }
void run_start_in_place(Runner& runner, Line& line) {
  runner.put(line.words[1], save_of(runner, line).start_in_place());
}

}  // namespace

void add_save_commands(Commands& commands) {
  commands["save.new"] = {4, kOptions, run_new};
  commands["save.tensor"] = {5, kPairs, run_tensor};
  commands["save.tensors"] = {6, 0, run_tensors};
  commands["save.object"] = {5, 0, run_object};
  commands["save.alias"] = {3, kPairs, run_alias};
  commands["save.attr"] = {3, kPairs, run_attr};
  commands["save.tree"] = {2, kPairs, run_tree};
  commands["save.id"] = {2, 0, run_id};
  commands["save.run"] = {1, 0, run_run};
  commands["save.start"] = {2, 0, run_start};
  commands["save.start_in_place"] = {2, 0, run_start_in_place};
}

}  // namespace conformance

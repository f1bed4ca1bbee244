// save.*: one rank's share of a checkpoint.
#include "runner.hpp"

namespace conformance {
namespace {

ckpt::Save& save_of(Runner& runner, const Call& call) { return runner.get<ckpt::Save>(call[0]); }

void run_new(Runner& runner, const Call& call) {
  const auto& session = runner.get<ckpt::Session>(call[1]);
  runner.put(call[0], ckpt::Save::create(session, call[2], call.integer(3), call.options));
}

void run_tensor(Runner& runner, const Call& call) {
  const ckpt::Memory memory = call[4].empty() ? ckpt::Memory() : ckpt::Memory(runner.get<Bytes>(call[4]));
  const ckpt::Tensor tensor = call.tensor(2);
  save_of(runner, call).add_tensor(call[1], tensor, memory, call.device());
}

void run_tensors(Runner& runner, const Call& call) {
  const Bytes& memory = runner.get<Bytes>(call[5]);
  const ckpt::Tensor tensor = call.tensor(3);
  for (uint64_t i = 0, count = call.count(1); i < count; i++)
    save_of(runner, call).add_tensor(call[2] + std::to_string(i), tensor, memory);
}

void run_object(Runner& runner, const Call& call) {
  save_of(runner, call).add_object(call[1], call[2], number_of(kScopes, call[3]), runner.get<Bytes>(call[4]));
}

void run_alias(Runner& runner, const Call& call) {
  const auto shape = call.numbers("shape"), strides = call.numbers("strides"), offset = call.numbers("offset");
  if (!shape) return save_of(runner, call).add_alias(call[1], call[2]);
  ckpt::Tensor view(0, *shape);
  if (strides) view.strides(*strides);
  if (offset) view.view_offset(offset->at(0));
  save_of(runner, call).add_alias(call[1], call[2], view);
}

void run_attr(Runner& runner, const Call& call) {
  if (const auto tensor = call.text("tensor"))
    save_of(runner, call).set_tensor_attr(*tensor, call[1], call[2]);
  else
    save_of(runner, call).set_attr(call[1], call[2]);
}

void run_tree(Runner& runner, const Call& call) {
  const ckpt::TreeView tree = runner.tree(call[1]);
  if (const auto name = call.text("name"))
    save_of(runner, call).add_tree(tree, *name);
  else
    save_of(runner, call).add_tree(tree);
}

void run_id(Runner& runner, const Call& call) { call.expect_words(1, {save_of(runner, call).id()}); }

}  // namespace

const Commands kSave = {
    {"save.new", run_new},
    {"save.tensor", run_tensor},
    {"save.tensors", run_tensors},
    {"save.object", run_object},
    {"save.alias", run_alias},
    {"save.attr", run_attr},
    {"save.tree", run_tree},
    {"save.id", run_id},
    {"save.run", [](Runner& r, const Call& c) { save_of(r, c).run(); }},
    {"save.start", [](Runner& r, const Call& c) { r.put(c[1], save_of(r, c).start()); }},
    {"save.start_in_place", [](Runner& r, const Call& c) { r.put(c[1], save_of(r, c).start_in_place()); }},
    {"save.give_up", [](Runner& r, const Call& c) { save_of(r, c).give_up(c[1]); }},
    {"save.report", [](Runner& r, const Call& c) { r.put(c[1], save_of(r, c).report()); }}};

}  // namespace conformance

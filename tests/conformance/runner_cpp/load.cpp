// load.*: requests that are planned and read together.
#include "runner.hpp"

namespace conformance {
namespace {

ckpt::Load& load_of(Runner& runner, const Call& call) { return runner.get<ckpt::Load>(call[0]); }

void run_new(Runner& runner, const Call& call) {
  runner.put(call[0], ckpt::Load::create(runner.get<ckpt::Reader>(call[1]), call.options));
}

void run_tensor(Runner& runner, const Call& call) {
  ckpt::Tensor tensor = call.tensor(2);
  const auto convert = call.numbers("convert");
  if (convert && convert->at(0)) tensor.convert();
  const ckpt::MutableMemory memory =
      call[4].empty() ? ckpt::MutableMemory() : ckpt::MutableMemory(runner.get<Bytes>(call[4]));
  load_of(runner, call).add_tensor(call[1], tensor, memory, call.device());
}

void run_tensors(Runner& runner, const Call& call) {
  Bytes& memory = runner.get<Bytes>(call[5]);
  const ckpt::Tensor tensor = call.tensor(3);
  for (uint64_t i = 0, count = call.count(1); i < count; i++)
    load_of(runner, call).add_tensor(call[2] + std::to_string(i), tensor, memory);
}

}  // namespace

const Commands kLoad = {
    {"load.new", run_new},
    {"load.tensor", run_tensor},
    {"load.tensors", run_tensors},
    {"load.object", [](Runner& r, const Call& c) { load_of(r, c).add_object(c[1], c.rank(2), r.get<Bytes>(c[3])); }},
    {"load.run", [](Runner& r, const Call& c) { load_of(r, c).run(); }},
    {"load.start", [](Runner& r, const Call& c) { r.put(c[1], load_of(r, c).start()); }},
    {"load.report", [](Runner& r, const Call& c) { r.put(c[1], load_of(r, c).report()); }}};

}  // namespace conformance

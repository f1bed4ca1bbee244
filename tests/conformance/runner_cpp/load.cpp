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
  for (uint64_t i = 0; i < call.count(1); i++)
    load_of(runner, call).add_tensor(call[2] + std::to_string(i), tensor, memory);
}

void run_object(Runner& runner, const Call& call) {
  load_of(runner, call).add_object(call[1], call.rank(2), runner.get<Bytes>(call[3]));
}

void run_run(Runner& runner, const Call& call) { load_of(runner, call).run(); }
void run_start(Runner& runner, const Call& call) { runner.put(call[1], load_of(runner, call).start()); }
void run_report(Runner& runner, const Call& call) { runner.put(call[1], load_of(runner, call).report()); }

}  // namespace

const Commands kLoad = {{"load.new", run_new},       {"load.tensor", run_tensor}, {"load.tensors", run_tensors},
                        {"load.object", run_object}, {"load.run", run_run},       {"load.start", run_start},
                        {"load.report", run_report}};

}  // namespace conformance

// load.*: requests that are planned and read together.
#include "runner.hpp"

namespace conformance {
namespace {

ckpt::Load& load_of(Runner& runner, const Line& line) { return runner.get<ckpt::Load>(line.words[0]); }

void run_new(Runner& runner, Line& line) {
  runner.put(line.words[0], ckpt::Load::create(runner.get<ckpt::Reader>(line.words[1]), line.bag()));
}

void run_tensor(Runner& runner, Line& line) {
  ckpt::Tensor tensor = parse_region(line, line.words[2], line.words[3]);
  const auto convert = line.find("convert");
  if (convert && parse_int(*convert)) tensor.convert();
  const ckpt::MutableMemory memory =
      line.words[4].empty() ? ckpt::MutableMemory() : ckpt::MutableMemory(runner.get<Bytes>(line.words[4]));
  load_of(runner, line).add_tensor(line.words[1], tensor, memory, parse_device(line));
}

void run_tensors(Runner& runner, Line& line) {
  Bytes& memory = runner.get<Bytes>(line.words[5]);
  const ckpt::Tensor tensor = parse_region(line, line.words[3], line.words[4]);
  const uint64_t count = parse_count(line.words[1]);
  for (uint64_t i = 0; i < count; i++)
    load_of(runner, line).add_tensor(line.words[2] + std::to_string(i), tensor, memory);
}

void run_object(Runner& runner, Line& line) {
  load_of(runner, line).add_object(line.words[1], parse_rank(line.words[2]), runner.get<Bytes>(line.words[3]));
}

void run_run(Runner& runner, Line& line) { load_of(runner, line).run(); }
void run_start(Runner& runner, Line& line) { runner.put(line.words[1], load_of(runner, line).start()); }
void run_report(Runner& runner, Line& line) { runner.put(line.words[1], load_of(runner, line).report()); }

}  // namespace

void add_load_commands(Commands& commands) {
  commands["load.new"] = {2, kOptions, run_new};
  commands["load.tensor"] = {5, kPairs, run_tensor};
  commands["load.tensors"] = {6, 0, run_tensors};
  commands["load.object"] = {4, 0, run_object};
  commands["load.run"] = {1, 0, run_run};
  commands["load.start"] = {2, 0, run_start};
  commands["load.report"] = {2, 0, run_report};
}

}  // namespace conformance

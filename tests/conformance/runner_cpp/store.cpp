// store.* and session.*: what a store holds, and how ranks find each other.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runner.hpp"

namespace conformance {
namespace {

void run_open(Runner& runner, Line& line) { runner.put(line.words[0], ckpt::Store::open(line.words[1], line.bag())); }

void run_list(Runner& runner, Line& line) {
  std::vector<std::string> found;
  for (const auto& info : runner.get<ckpt::Store>(line.words[0]).list())
    if (info.state == CKPT_CHECKPOINT_COMMITTED) found.push_back(info.id);
  line.expect_words(1, found);
}

void run_states(Runner& runner, Line& line) {
  std::vector<std::string> found;
  for (const auto& info : runner.get<ckpt::Store>(line.words[0]).list())
    found.push_back(std::string(info.id) + ":" + name_of(kCheckpointStates, info.state));
  line.expect_words(1, found);
}

void run_find(Runner& runner, Line& line) {
  expect_checkpoint(line, runner.get<ckpt::Store>(line.words[0]).find(line.words[1], line.bag()));
}

void run_remove(Runner& runner, Line& line) { runner.get<ckpt::Store>(line.words[0]).remove(line.words[1]); }

void run_prune(Runner& runner, Line& line) {
  runner.put(line.words[1], runner.get<ckpt::Store>(line.words[0]).prune(line.bag()));
}

void run_repair(Runner& runner, Line& line) {
  runner.put(line.words[2], runner.get<ckpt::Store>(line.words[0]).repair(line.words[1], line.bag()));
}

void run_import(Runner& runner, Line& line) {
  const auto& store = runner.get<ckpt::Store>(line.words[0]);
  const std::string path = runner.path(line.words[1]);
  expect_checkpoint(line, store.import(path, line.words[2], parse_int(line.words[3]), line.bag()));
}

// ---- session ----

// The file appears complete (see run_string), so what is there is all of it.
std::string read_string(const std::string& path) {
  for (int tries = 0; tries < 6000; tries++) {
    std::ifstream file(path);
    if (file) return std::string(std::istreambuf_iterator<char>(file), {});
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  fail("expected a file ", path, " within 60 s, found none");
}

void run_session_open(Runner& runner, Line& line) {
  const auto& store = runner.get<ckpt::Store>(line.words[1]);
  std::string string;
  if (const auto other = line.find("string")) string = runner.get<ckpt::Session>(*other).string();
  if (const auto file = line.find("file")) string = read_string(runner.path(*file));
  runner.put(line.words[0],
             ckpt::Session::open(store, parse_rank(line.words[2]), parse_rank(line.words[3]), string, line.bag()));
}

void run_session_string(Runner& runner, Line& line) {
  const std::string path = runner.path(line.words[1]);
  std::ofstream(path + ".aside") << runner.get<ckpt::Session>(line.words[0]).string();
  std::filesystem::rename(path + ".aside", path);
}

}  // namespace

void add_store_commands(Commands& commands) {
  commands["store.open"] = {2, kOptions, run_open};
  commands["store.list"] = {1, kMore, run_list};
  commands["store.states"] = {1, kMore, run_states};
  commands["store.find"] = {2, kPairs | kOptions, run_find};
  commands["store.remove"] = {2, 0, run_remove};
  commands["store.prune"] = {2, kOptions, run_prune};
  commands["store.repair"] = {3, kOptions, run_repair};
  commands["store.import"] = {4, kPairs | kOptions, run_import};
  commands["session.open"] = {4, kPairs | kOptions, run_session_open};
  commands["session.string"] = {2, 0, run_session_string};
}

}  // namespace conformance

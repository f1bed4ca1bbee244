// store.* and session.*: what a store holds, and how ranks find each other.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runner.hpp"

namespace conformance {
namespace {

void run_list(Runner& runner, const Call& call) {
  std::vector<std::string> found;
  for (const auto& info : runner.get<ckpt::Store>(call[0]).list())
    if (info.state == CKPT_CHECKPOINT_COMMITTED) found.push_back(info.id);
  call.expect_words(1, found);
}

void run_states(Runner& runner, const Call& call) {
  std::vector<std::string> found;
  for (const auto& info : runner.get<ckpt::Store>(call[0]).list())
    found.push_back(std::string(info.id) + ":" + kCheckpointStates.at(info.state));
  call.expect_words(1, found);
}

void run_runs(Runner& runner, const Call& call) {
  std::vector<std::string> found;
  for (const ckpt::RunInfo& run : runner.get<ckpt::Store>(call[0]).runs())
    found.push_back(std::string(run.name) + ":" + std::to_string(run.token) + ":" +
                    std::to_string(run.checkpoint_count) + ":" + std::to_string(run.newest_step) + ":" + run.newest_id +
                    ":" + run.newest_label);
  call.expect_words(1, found);
}

void run_find(Runner& runner, const Call& call) {
  call.expect_checkpoint(runner.get<ckpt::Store>(call[0]).find(call[1], call.options));
}

void run_import(Runner& runner, const Call& call) {
  const auto& store = runner.get<ckpt::Store>(call[0]);
  call.expect_checkpoint(store.import(call[1], call[2], call.integer(3), call.options));
}

// ---- session ----

// The file is complete when it appears (see run_string).
std::string read_string(const std::string& path) {
  for (int tries = 0; tries < 6000; tries++) {
    std::ifstream file(path);
    if (file) return std::string(std::istreambuf_iterator<char>(file), {});
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  fail("expected a file ", path, " within 60 s, found none");
}

void run_session_open(Runner& runner, const Call& call) {
  const auto& store = runner.get<ckpt::Store>(call[1]);
  std::string string;
  if (const auto other = call.text("string")) string = runner.get<ckpt::Session>(*other).string();
  if (const auto file = call.text("file")) string = read_string(*file);
  runner.put(call[0], ckpt::Session::open(store, call.rank(2), call.rank(3), string, call.options));
}

void run_session_string(Runner& runner, const Call& call) {
  const std::string& path = call[1];
  std::ofstream(path + ".aside") << runner.get<ckpt::Session>(call[0]).string();
  std::filesystem::rename(path + ".aside", path);
}

}  // namespace

const Commands kStore = {
    {"store.open", [](Runner& r, const Call& c) { r.put(c[0], ckpt::Store::open(c[1], c.options)); }},
    {"store.list", run_list},
    {"store.states", run_states},
    {"store.runs", run_runs},
    {"store.find", run_find},
    {"store.remove", [](Runner& r, const Call& c) { r.get<ckpt::Store>(c[0]).remove(c[1]); }},
    {"store.prune", [](Runner& r, const Call& c) { r.put(c[1], r.get<ckpt::Store>(c[0]).prune(c.options)); }},
    {"store.repair", [](Runner& r, const Call& c) { r.put(c[2], r.get<ckpt::Store>(c[0]).repair(c[1], c.options)); }},
    {"store.import", run_import},
    {"session.open", run_session_open},
    {"session.mirror", [](Runner& r, const Call& c) { r.put(c[1], r.get<ckpt::Session>(c[0]).mirror()); }},
    {"session.string", run_session_string}};

}  // namespace conformance

// RUNNER SCENARIO DIR [NAME=VALUE…] | RUNNER --commands: see ../README.md.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "runner.hpp"

namespace conformance {

const Commands& all_commands() {
  static const Commands commands = [] {
    Commands all;
    all["timed"] = {1, kMore, nullptr};
    for (auto add : {add_library_commands, add_memory_commands, add_store_commands, add_save_commands, add_job_commands,
                     add_reader_commands, add_content_commands, add_load_commands, add_tree_commands, add_node_commands,
                     add_file_commands})
      add(all);
    return all;
  }();
  return commands;
}

namespace {

void check_details(const Line& line, const ckpt::Error& error) {
  for (const Pair& detail : line.details) {
    const auto fact = error.details().find(detail.key);
    const std::string found = detail.key == "message"         ? error.what()
                              : fact != error.details().end() ? fact->second
                                                              : "";
    const bool right = detail.sign == '=' ? found == detail.value : found.find(detail.value) != std::string::npos;
    if (!right) fail("expected ", detail.key, detail.sign, detail.value, ", found '", found, "'");
  }
}

void carry_out(Runner& runner, Line& line) {
  try {
    line.command->run(runner, line);
  } catch (const ckpt::Error& error) {
    if (!line.status) fail("expected OK, found ", error.status_name(), ": ", error.what());
    if (*line.status != error.status_name())
      fail("expected ", *line.status, ", found ", error.status_name(), ": ", error.what());
    return check_details(line, error);
  }
  if (line.status) fail("expected ", *line.status, ", found OK");
  for (const Pair& pair : line.pairs)
    if (!pair.used) fail("expected a key of this command, found ", pair.key);
}

}  // namespace

bool Runner::run(const std::string& text, std::string* command) {
  Line line;
  const bool held = [&] {
    try {
      return parse_line(*this, text, &line);
    } catch (const Failure&) {
      *command = line.name.empty() ? "line" : line.name;
      throw;
    }
  }();
  if (!held) return false;
  *command = line.name;
  const auto start = std::chrono::steady_clock::now();
  carry_out(*this, line);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (line.timed) std::printf("%.6f %s\n", seconds.count(), line.raw.c_str());
  return true;
}

// Jobs first: until they have ended, memory is the engine's.
Runner::~Runner() {
  for (auto at = objects_.begin(); at != objects_.end();)
    at = std::holds_alternative<ckpt::Job>(at->second) ? objects_.erase(at) : std::next(at);
}

void Runner::free(const std::string& name) {
  if (!objects_.erase(name)) fail("expected an object ", name, ", found none");
  owners_.erase(name);
  for (auto at = owners_.begin(); at != owners_.end();) {
    if (at->second != name) {
      ++at;
      continue;
    }
    objects_.erase(at->first);
    at = owners_.erase(at);
  }
}

void Runner::put_borrowed(const std::string& name, ckpt::TreeView tree, const std::string& owner) {
  put(name, tree);
  owners_[name] = owner;
}

ckpt::TreeView Runner::tree(const std::string& name) {
  const auto found = objects_.find(name);
  if (found != objects_.end() && std::holds_alternative<ckpt::TreeView>(found->second))
    return std::get<ckpt::TreeView>(found->second);
  return get<ckpt::Tree>(name).view();
}

}  // namespace conformance

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--commands") {
    for (const auto& command : conformance::all_commands()) std::cout << command.first << "\n";
    return 0;
  }
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " SCENARIO DIR [NAME=VALUE...] | --commands\n";
    return 2;
  }
  int number = 0;
  std::string command = "scenario";
  try {
    std::map<std::string, std::string> variables;
    for (int i = 3; i < argc; i++) {
      const std::string text = argv[i];
      const size_t sign = text.find('=');
      if (sign == std::string::npos) conformance::fail("expected NAME=VALUE, found '", text, "'");
      variables[text.substr(0, sign)] = text.substr(sign + 1);
    }
    std::ifstream file(argv[1]);
    if (!file) conformance::fail("expected a readable file, found none");
    conformance::Runner runner(argv[2], variables);
    size_t count = 0;
    for (std::string text; std::getline(file, text);) {
      number++;
      count += runner.run(text, &command);
    }
    std::cout << "ok " << count << "\n";
  } catch (const std::exception& failure) {
    std::cerr << argv[1] << ":" << number << ": " << command << ": " << failure.what() << "\n";
    return 1;
  }
  return 0;
}

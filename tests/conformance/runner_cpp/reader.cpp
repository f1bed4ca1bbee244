// reader.*: what is done with a committed checkpoint as a whole; content.cpp looks at what is in it.
#include "runner.hpp"

namespace conformance {
namespace {

ckpt::Reader& reader_of(Runner& runner, const Line& line) { return runner.get<ckpt::Reader>(line.words[0]); }

void run_open(Runner& runner, Line& line) {
  const auto& store = runner.get<ckpt::Store>(line.words[1]);
  runner.put(line.words[0], ckpt::Reader::open(store, line.words[2], line.bag()));
}

void run_info(Runner& runner, Line& line) { expect_checkpoint(line, reader_of(runner, line).info()); }

void run_map(Runner& runner, Line& line) {
  const ckpt::Memory view = reader_of(runner, line).map(line.words[1], line.bag());
  const auto* first = static_cast<const unsigned char*>(view.data);
  runner.put(line.words[2], first ? Bytes(first, first + view.bytes) : Bytes());
}

void run_verify(Runner& runner, Line& line) { runner.put(line.words[1], reader_of(runner, line).verify(line.bag())); }

void run_diff(Runner& runner, Line& line) {
  const auto& other = runner.get<ckpt::Reader>(line.words[1]);
  runner.put(line.words[2], reader_of(runner, line).diff(other, line.bag()));
}

void run_tree(Runner& runner, Line& line) {
  const auto name = line.find("name");
  const auto& reader = reader_of(runner, line);
  runner.put(line.words[1], name ? reader.tree(*name) : reader.tree());
}

void run_export(Runner& runner, Line& line) {
  reader_of(runner, line).export_to(runner.path(line.words[1]), line.bag());
}

}  // namespace

void add_reader_commands(Commands& commands) {
  commands["reader.open"] = {3, kOptions, run_open};
  commands["reader.info"] = {1, kPairs, run_info};
  commands["reader.map"] = {3, kOptions, run_map};
  commands["reader.verify"] = {2, kOptions, run_verify};
  commands["reader.diff"] = {3, kOptions, run_diff};
  commands["reader.tree"] = {2, kPairs, run_tree};
  commands["reader.export"] = {2, kOptions, run_export};
}

}  // namespace conformance

// Cuts the power at every call of an operation. The calls of a real process are traced with all their bytes; a model of
// a disk, which keeps only what was synced and any part of the rest, gives the trees that may be found afterwards. Each
// is made and opened: what was acknowledged is there and sound, nothing half done is taken for a checkpoint, and the
// next start works. And each sync is left out of the model in turn: then something must be lost, or nobody needs it.
// The model allows more than any journal does: changes of names, sizes and halves of writes last in any order, but for
// a rename, which lasts whole. Without CKPT_CRASH_ALL=1 a sample of the trees.
#include <gtest/gtest-spi.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>
#include <sstream>

#include "api/crash_points.h"

using namespace ckpt_test;

namespace {

// ---- the disk ----

struct Node {
  bool directory = false;
  std::string bytes;
  std::map<std::string, size_t> names;  // of a directory, to other nodes
};

// One change that a cut may take, or leave.
struct Change {
  struct Name {
    size_t directory;
    std::string name;
    size_t node;  // kGone: it has none
  };
  static constexpr size_t kGone = SIZE_MAX;
  std::vector<Name> names;  // all or none
  size_t node = kGone;      // whose bytes or size change
  uint64_t offset = 0, size = 0;
  bool resizes = false;
  std::string bytes{};

  bool concerns(size_t other) const {
    return node == other || std::ranges::any_of(names, [&](const Name& name) { return name.directory == other; });
  }
};

using Nodes = std::vector<Node>;  // the first is the store's directory

void carry_out(const Change& change, Nodes& nodes) {
  for (const Change::Name& name : change.names)
    if (name.node == Change::kGone)
      nodes[name.directory].names.erase(name.name);
    else
      nodes[name.directory].names[name.name] = name.node;
  if (change.node == Change::kGone) return;
  std::string& bytes = nodes[change.node].bytes;
  if (change.resizes) return bytes.resize(change.size);
  bytes.resize(std::max<size_t>(bytes.size(), change.offset + change.bytes.size()));
  std::copy(change.bytes.begin(), change.bytes.end(), bytes.begin() + static_cast<ptrdiff_t>(change.offset));
}

size_t read_tree(const std::string& path, Nodes& nodes) {
  const size_t at = nodes.size();
  nodes.push_back({.directory = std::filesystem::is_directory(path), .bytes = {}, .names = {}});
  if (!nodes[at].directory) {
    std::ifstream in(path, std::ios::binary);
    nodes[at].bytes.assign(std::istreambuf_iterator<char>(in), {});
    return at;
  }
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const size_t child = read_tree(entry.path(), nodes);
    nodes[at].names[entry.path().filename()] = child;
  }
  return at;
}

void make_tree(const Nodes& nodes, size_t at, const std::string& path, std::map<size_t, std::string>& made) {
  if (const auto [first, is_new] = made.try_emplace(at, path); !is_new)
    return std::filesystem::create_hard_link(first->second, path);
  if (!nodes[at].directory) {
    std::ofstream(path, std::ios::binary) << nodes[at].bytes;
    return;
  }
  std::filesystem::create_directories(path);
  for (const auto& [name, node] : nodes[at].names) make_tree(nodes, node, path + "/" + name, made);
}

// ---- the trace ----

struct Call {
  std::string name, arguments, result;
};

// The calls in the order of their ends. strace cuts one in two where another thread's comes between.
std::vector<Call> calls_of(const std::string& log) {
  std::vector<Call> calls;
  std::map<std::string, std::string> begun;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    const std::string thread = line.substr(0, space);
    std::string text = line.substr(line.find_first_not_of(' ', space));
    if (const size_t cut = text.find(" <unfinished ...>"); cut != text.npos) {
      begun[thread] = text.substr(0, cut);
      continue;
    }
    if (const size_t resumed = text.find(" resumed>"); text.starts_with("<... ") && resumed != text.npos)
      text = begun[thread] + text.substr(resumed + std::strlen(" resumed>"));
    const size_t open = text.find('('), equals = text.rfind(" = "), close = text.rfind(')', equals);
    if (open == text.npos || equals == text.npos || close == text.npos || close < open) continue;
    calls.push_back({text.substr(0, open), text.substr(open + 1, close - open - 1), text.substr(equals + 3)});
  }
  return calls;
}

std::string unquote(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '\\') {
      bytes += text[i];
    } else if (text[++i] == 'x') {
      bytes += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      static const std::map<char, char> kEscapes{{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'v', '\v'}, {'f', '\f'}};
      const auto known = kEscapes.find(text[i]);
      bytes += known == kEscapes.end() ? text[i] : known->second;
    }
  }
  return bytes;
}

// A descriptor's path, a quoted text or a bare word each.
struct Arguments {
  std::vector<std::string> words;
  explicit Arguments(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      if (text[at] == '"') {
        size_t end = at + 1;
        while (text[end] != '"') end += text[end] == '\\' ? 2 : 1;
        words.push_back(unquote(std::string_view(text).substr(at + 1, end - at - 1)));
        at = end + 1;
      } else {
        const size_t end = std::min({text.find(", ", at), text.size()});
        const std::string word = text.substr(at, end - at);
        const size_t open = word.find('<');
        words.push_back(open == word.npos ? word : word.substr(open + 1, word.rfind('>') - open - 1));
        at = end;
      }
      at = std::min(text.size(), text.find_first_not_of(", ", at));
    }
  }
  const std::string& operator[](size_t i) const { return words.at(i); }
  uint64_t number(size_t i) const { return std::stoull(words.at(i)); }
  // A name in the directory of the descriptor before it.
  std::string path(size_t i) const { return words.at(i)[0] == '/' ? words[i] : words.at(i - 1) + "/" + words[i]; }
};

// What a traced process did to its store, in order.
struct Event {
  Change change{};
  size_t sync = Change::kGone;  // the node that was synced
  bool answered = false;        // the caller was told that it is done
  std::string text{};           // for people

  bool changes() const { return sync == Change::kGone && !answered; }
};

class Recorder {
 public:
  Recorder(Nodes nodes, std::string root) : nodes_(std::move(nodes)), root_(std::move(root)) {}
  std::vector<Event> events;
  std::vector<size_t> directories;  // that were made
  size_t node_count() const { return nodes_.size(); }

  void take(const Call& call) {
    const Arguments args(call.arguments);
    text_ = call.name + " " + call.arguments.substr(0, 150);
    if (call.result.starts_with("-1")) return;
    if (call.name == "write" && !find(args[0])) {
      if (args[1].find('\t') != std::string::npos) events.push_back({.answered = true});
    } else if (call.name == "openat" || call.name == "openat2") {
      if (call.arguments.find("O_CREAT") != std::string::npos) make(args.path(1), false);
    } else if (call.name == "mkdirat") {
      make(args.path(1), true);
    } else if (call.name == "mkdir") {
      make(args[0], true);
    } else if (call.name == "pwrite64") {
      const auto wrote = static_cast<size_t>(std::stoull(call.result));
      write(args[0], args.number(3), args[1].substr(0, wrote));
    } else if (call.name == "ftruncate") {
      resize(args[0], args.number(1));
    } else if (call.name == "fallocate") {
      if (const auto node = find(args[0]); node && args[1] == "0")
        resize(args[0], std::max<uint64_t>(nodes_[*node].bytes.size(), args.number(2) + args.number(3)));
    } else if (call.name == "fsync" || call.name == "fdatasync") {
      if (const auto node = find(args[0])) events.push_back({.sync = *node, .text = text_});
    } else if (call.name == "linkat") {
      if (const auto node = find(args.path(1))) rename({{args.path(3), *node}});
    } else if (call.name == "renameat2" || call.name == "renameat") {
      const auto node = find(args.path(1)), other = find(args.path(3));
      const bool swaps = call.arguments.find("EXCHANGE") != std::string::npos;
      if (node) rename({{args.path(3), *node}, {args.path(1), swaps ? *other : Change::kGone}});
    } else if (call.name == "unlinkat" || call.name == "unlink" || call.name == "rmdir") {
      const std::string path = call.name == "unlinkat" ? args.path(1) : args[0];
      if (find(path)) rename({{path, Change::kGone}});
    } else {
      ADD_FAILURE() << "the model does not know " << call.name << "(" << call.arguments.substr(0, 200);
    }
  }

 private:
  std::optional<size_t> find(const std::string& path) const {
    if (!path.starts_with(root_)) return {};
    size_t at = 0;
    std::istringstream elements(path.substr(root_.size()));
    for (std::string element; std::getline(elements, element, '/');) {
      if (element.empty()) continue;
      const auto found = nodes_[at].names.find(element);
      if (found == nodes_[at].names.end()) return {};
      at = found->second;
    }
    return at;
  }
  void note(Change change) {
    carry_out(change, nodes_);
    events.push_back({.change = std::move(change), .text = text_});
  }
  void resize(const std::string& path, uint64_t size) {
    if (const auto node = find(path)) note({.names = {}, .node = *node, .size = size, .resizes = true});
  }
  // A cut may come between its halves, and between the size and the bytes.
  void write(const std::string& path, uint64_t offset, const std::string& bytes) {
    const auto node = find(path);
    if (!node) return;
    const size_t half = bytes.size() / 2 / 512 * 512;
    if (offset + bytes.size() > nodes_[*node].bytes.size()) resize(path, offset + bytes.size());
    if (half != 0) note({.names = {}, .node = *node, .offset = offset, .bytes = bytes.substr(0, half)});
    note({.names = {}, .node = *node, .offset = offset + half, .bytes = bytes.substr(half)});
  }
  void rename(const std::vector<std::pair<std::string, size_t>>& names) {
    Change change;
    for (const auto& [path, node] : names) {
      const size_t slash = path.rfind('/');
      if (const auto directory = find(path.substr(0, slash)))
        change.names.push_back({*directory, path.substr(slash + 1), node});
    }
    if (!change.names.empty()) note(std::move(change));
  }
  void make(const std::string& path, bool directory) {
    if (!path.starts_with(root_) || find(path)) return;
    nodes_.push_back({.directory = directory, .bytes = {}, .names = {}});
    if (directory) directories.push_back(nodes_.size() - 1);
    rename({{path, nodes_.size() - 1}});
  }

  Nodes nodes_;  // as a process sees them
  const std::string root_;
  std::string text_;  // of the call that is taken
};

// ---- the cuts ----

// What may be found after a cut.
struct Remains {
  std::vector<bool> kept;  // of the events, those whose change lasts
  size_t answers = 0;
};

// The subsets of what was not synced: all of up to 10, else none, all, each alone, all but each, and some by chance.
std::vector<std::vector<bool>> subsets_of(size_t count) {
  std::vector<std::vector<bool>> kept;
  if (count <= 10) {
    for (size_t bits = 0; bits < size_t{1} << count; bits++) {
      kept.emplace_back(count);
      for (size_t i = 0; i < count; i++) kept.back()[i] = (bits >> i & 1) != 0;
    }
    return kept;
  }
  std::mt19937_64 random(count);
  for (const bool all : {false, true}) {
    kept.emplace_back(count, all);
    for (size_t i = 0; i < count; i++) kept.emplace_back(count, all)[i] = !all;
  }
  for (int i = 0; i < 64; i++) {
    kept.emplace_back(count);
    for (size_t at = 0; at < count; at++) kept.back()[at] = random() % 2 == 0;
  }
  return kept;
}

// Visits each tree once that may be found, until `visit` says that it is enough. The sync of event `without` is none.
void for_each_cut(const std::vector<Event>& events, size_t without, const std::function<bool(const Remains&)>& visit) {
  std::set<std::pair<size_t, std::vector<bool>>> seen;
  Remains lasting{std::vector<bool>(events.size())};
  std::vector<size_t> open;
  for (size_t at = 0; at < events.size(); at++) {
    const Event& event = events[at];
    lasting.answers += event.answered ? 1 : 0;
    if (event.changes()) open.push_back(at);
    std::erase_if(open, [&](size_t change) {
      const bool lasts = at != without && event.sync != Change::kGone && events[change].change.concerns(event.sync);
      if (lasts) lasting.kept[change] = true;
      return lasts;
    });
    for (const auto& subset : subsets_of(open.size())) {
      Remains found = lasting;
      for (size_t i = 0; i < open.size(); i++) found.kept[open[i]] = subset[i];
      if (seen.emplace(found.answers, found.kept).second && !visit(found)) return;
    }
  }
}

// ---- the tests ----

struct Cut {
  std::vector<std::string> commands;
  std::vector<int64_t> latest;  // the latest step after so many answers
  bool opens = true;            // a session, before the trace
  std::string before{};         // what the session does before the trace
  std::string finish{};         // what another process does after the cut
};

class PowerLoss : public Faults {
 protected:
  void record(const Cut& cut);
  // The tree that a cut leaves.
  std::string make(const Remains& found);
  static std::set<int64_t> allowed(const Cut& cut, const Remains& found) {
    const size_t last = cut.latest.size() - 1;
    return {cut.latest[std::min(found.answers, last)], cut.latest[std::min(found.answers + 1, last)]};
  }
  std::string text_of(const Remains& found) const;
  void cut_everywhere(const Cut& cut, size_t stride);
  void check(const Cut& cut, const Remains& found);
  bool is_wrong(const Cut& cut, const Remains& found);
  // `least`: how many syncs there are at the least.
  void leave_out_each_sync(const Cut& cut, size_t least);

  Nodes base_nodes_;           // before the run, and empty ones for what it made
  std::vector<Event> events_;  // of a run
  int cuts_ = 0;
};

// Runs the operation on a copy of the base.
void PowerLoss::record(const Cut& cut) {
  const std::string uri = fresh_copy();
  Program program(uri);
  if (cut.opens) {
    ASSERT_EQ(program.call(opening(0, 1)).status, "OK");
  }
  if (!cut.before.empty()) {
    ASSERT_EQ(program.call(cut.before).status, "OK");
  }
  base_nodes_.clear();
  read_tree(uri, base_nodes_);
  ASSERT_TRUE(program.trace({"-x", "-s", "100000000", "-e",
                             "trace=openat,openat2,mkdir,mkdirat,pwrite64,pwritev,pwritev2,write,ftruncate,fallocate,"
                             "fsync,fdatasync,linkat,renameat,renameat2,unlink,unlinkat,rmdir,copy_file_range,"
                             "io_uring_setup,msync,sync_file_range",
                             "-e", "inject=io_uring_setup:error=ENOSYS"}));
  for (const std::string& command : cut.commands) {
    const Reply reply = program.call(command);
    ASSERT_EQ(reply.status, "OK") << reply;
  }
  Recorder recorder(base_nodes_, uri);
  for (const Call& call : calls_of(program.trace_log())) recorder.take(call);
  events_ = std::move(recorder.events);
  base_nodes_.resize(recorder.node_count());
  for (size_t node : recorder.directories) base_nodes_[node].directory = true;
  remove_tree(uri);
}

std::string PowerLoss::make(const Remains& found) {
  Nodes nodes = base_nodes_;
  for (size_t i = 0; i < events_.size(); i++)
    if (found.kept[i]) carry_out(events_[i].change, nodes);
  const std::string uri = scratch_ / ("cut" + std::to_string(cuts_++));
  std::map<size_t, std::string> made;
  make_tree(nodes, 0, uri, made);
  return uri;
}

std::string PowerLoss::text_of(const Remains& found) const {
  std::string text = "after " + std::to_string(found.answers) + " answers; lost:";
  for (size_t i = 0; i < events_.size(); i++)
    if (events_[i].changes() && !found.kept[i]) text += " [" + std::to_string(i) + " " + events_[i].text + "]";
  return text;
}

void PowerLoss::check(const Cut& cut, const Remains& found) {
  const std::string uri = make(found);
  const Operation after{.start = {}, .commands = {}, .latest = allowed(cut, found), .stays = {}, .finish = cut.finish};
  check_store(uri, after);
  finish(uri, after);
  // Of the checkpoint that was retired last the cut may have undone that a small file was unlinked. It has two.
  check_next_start(uri, 2);
  remove_tree(uri);
}

// Of each sync that has something to sync, some tree that only its absence allows is wrong. (Those of removals are not
// tried: they keep words for those who ask what became of a checkpoint, and give space back.)
void PowerLoss::leave_out_each_sync(const Cut& cut, size_t least) {
  ASSERT_NO_FATAL_FAILURE(record(cut));
  std::set<std::pair<size_t, std::vector<bool>>> legal;
  for_each_cut(events_, Change::kGone,
               [&](const Remains& found) { return legal.emplace(found.answers, found.kept).second; });
  size_t needed = 0;
  for (size_t at = 0; at < events_.size(); at++) {
    std::vector<Remains> trees;
    if (events_[at].sync != Change::kGone)
      for_each_cut(events_, at, [&](const Remains& found) {
        if (!legal.contains({found.answers, found.kept})) trees.push_back(found);
        return true;
      });
    if (trees.empty()) continue;
    needed++;
    // What was lost late is wrong most often.
    EXPECT_TRUE(std::any_of(trees.rbegin(), trees.rend(), [&](const Remains& found) { return is_wrong(cut, found); }))
        << "nothing is lost without " << events_[at].text << ", in " << trees.size() << " trees";
  }
  EXPECT_GE(needed, least);
}

bool PowerLoss::is_wrong(const Cut& cut, const Remains& found) {
  using Reporter = testing::ScopedFakeTestPartResultReporter;
  testing::TestPartResultArray failures;
  const Reporter heard(Reporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
  check(cut, found);
  return failures.size() != 0;
}

void PowerLoss::cut_everywhere(const Cut& cut, size_t stride) {
  ASSERT_NO_FATAL_FAILURE(record(cut));
  size_t trees = 0, tried = 0;
  for_each_cut(events_, Change::kGone, [&](const Remains& found) {
    if (trees++ % (all_points() ? 1 : stride) != 0) return true;
    SCOPED_TRACE(text_of(found));
    tried++;
    check(cut, found);
    return !HasFailure();
  });
  std::cout << "opened " << tried << " of " << trees << " trees\n";
}

TEST_F(PowerLoss, OfASaveLeavesTheEarlierCheckpointOrTheNewOne) {
  prepare(1);
  cut_everywhere({.commands = {"save new 2 threads=1"}, .latest = {1, 2}}, 11);
}

TEST_F(PowerLoss, OfASaveThatReplacesLeavesTheOldOneOrTheNewOne) {
  prepare(1);
  cut_everywhere({.commands = {"save s1 2 threads=1 on_existing=replace"}, .latest = {1, 2}}, 11);
}

// The second writes into the file that the first one retired.
TEST_F(PowerLoss, OfSavesThatRetireAndReuseLeavesTheNewest) {
  prepare(2, 1, " large=1 keep_last=1");
  cut_everywhere({.commands = {"save s3 3 threads=1 keep_last=1 large=1", "save s4 4 threads=1 keep_last=1 large=1"},
                  .latest = {2, 3, 4}},
                 97);
}

TEST_F(PowerLoss, OfIncrementalSavesThatRetireLeavesTheNewest) {
  prepare(2, 1, " frozen=1 incremental=on keep_last=1");
  cut_everywhere({.commands = {"save s3 3 threads=1 keep_last=1 incremental=on frozen=1",
                               "save s4 4 threads=1 keep_last=1 incremental=on frozen=1"},
                  .latest = {2, 3, 4}},
                 97);
}

TEST_F(PowerLoss, OfAPruneLeavesTheNewest) {
  prepare(4, 1, " frozen=1 incremental=on");
  cut_everywhere({.commands = {"prune keep_last=1"}, .latest = {4}, .opens = false}, 11);
}

TEST_F(PowerLoss, OfARemovalLeavesTheOthers) {
  prepare(3);
  cut_everywhere({.commands = {"remove s3.1.1"}, .latest = {3, 2}, .opens = false}, 1);
}

TEST_F(PowerLoss, OfACopyLeavesTheEarlierCheckpointOrTheNewOne) {
  const std::string source = prepare_copies();
  const std::string copy = "copy " + source + " s2";
  cut_everywhere({.commands = {copy + " threads=1"}, .latest = {1, 2}, .opens = false, .finish = copy}, 97);
}

TEST_F(PowerLoss, OfTheFirstSessionOfAStoreLeavesAStoreThatCanBeOpened) {
  std::filesystem::create_directories(base_);
  cut_everywhere({.commands = {"open 0 1 -", "save new 2"}, .latest = {-1, -1, 2}, .opens = false}, 97);
}

TEST_F(PowerLoss, TakesSomethingWhereverASyncOfASaveIsLeftOut) {
  prepare(1);
  leave_out_each_sync({.commands = {"save new 2 threads=1"}, .latest = {1, 2}}, 7);
}

TEST_F(PowerLoss, TakesSomethingWhereverASyncOfAnIncrementalSaveIsLeftOut) {
  prepare(1, 1, " frozen=1");
  leave_out_each_sync({.commands = {"save s3 3 threads=1 incremental=on frozen=1"},
                       .latest = {2, 3},
                       .before = "save s2 2 incremental=on frozen=1"},
                      7);
}

}  // namespace

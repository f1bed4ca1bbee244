// What claims.py runs on the mounts of a network file system. Every byte of the state is a function of the rank that
// saved it, the step and the place, so whoever loads it knows whether it is right.
//
//   netfs_program save STORE [KEY=VALUE...]     saves steps; prints "ACK STEP", or "FAILED STEP STATUS why"
//   netfs_program load STORE [KEY=VALUE...]     loads one rank's share of `select`, checks it, prints "LOADED STEP ID"
//   netfs_program follow STORE [KEY=VALUE...]   loads the latest again and again, prints "SEEN STEP" of each new one,
//                                               until it has loaded step `until`
//   netfs_program hold STORE [KEY=VALUE...]     maps a part of the latest, prints "HELD ID", waits for the file `go`,
//                                               and then checks the map and loads all: "RIGHT"
//   netfs_program speed STORE mib=N [what=load] [io_engine=threads] [direct_io=off]
//                saves or loads that much; prints "TOOK SECONDS"
//
// Exit status: 0, or 4 after "FAILED …" (a status of ckpt), 5 after "WRONG …" (bytes, or a follower's order), 2 usage.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <ckpt.hpp>

static constexpr int64_t kElements = 100'000;  // of each of a rank's two tensors: 800 KB for a rank
static constexpr uint32_t kAll = 1'000'000;    // the "rank" of the tensor that all ranks hold together

using Clock = std::chrono::steady_clock;

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Settings {
 public:
  Settings(int argc, char** argv) {
    for (int i = 3; i < argc; i++) {
      const std::string word = argv[i];
      const size_t at = word.find('=');
      if (at == std::string::npos) throw std::invalid_argument("KEY=VALUE expected, found " + word);
      values_[word.substr(0, at)] = word.substr(at + 1);
    }
  }
  std::string text(const std::string& key, const std::string& fallback = {}) const {
    const auto found = values_.find(key);
    return found == values_.end() ? fallback : found->second;
  }
  int64_t number(const std::string& key, int64_t fallback) const {
    const auto found = values_.find(key);
    return found == values_.end() ? fallback : std::stoll(found->second);
  }

 private:
  std::map<std::string, std::string> values_;
};

static void pause(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

static void await_file(const std::string& path) {
  for (int tries = 0; access(path.c_str(), F_OK) != 0; tries++, pause(20))
    if (tries == 15'000) throw std::runtime_error("nobody made " + path + " in 300 s");
}

static uint32_t value(uint32_t rank, int64_t step, int64_t element) {
  uint64_t x = (uint64_t{rank} << 44) ^ (static_cast<uint64_t>(step) << 24) ^ static_cast<uint64_t>(element);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>(x >> 32);
}

static void fill(std::vector<uint32_t>& data, uint32_t rank, int64_t step, int64_t first) {
  for (size_t i = 0; i < data.size(); i++) data[i] = value(rank, step, first + static_cast<int64_t>(i));
}

static void check(const uint32_t* data, size_t count, uint32_t rank, int64_t step, int64_t first) {
  for (size_t i = 0; i < count; i++) {
    const uint32_t expected = value(rank, step, first + static_cast<int64_t>(i));
    if (data[i] != expected)
      throw Wrong("step " + std::to_string(step) + ", rank " + std::to_string(rank) + ", element " +
                  std::to_string(first + static_cast<int64_t>(i)) + ": expected " + std::to_string(expected) +
                  ", found " + std::to_string(data[i]));
  }
}

// ---- save ----

// Rank 0's session string comes to the others by a file of this machine. It is given its name when it is whole.
static std::string await_string(const std::string& path) {
  for (int tries = 0; tries < 6000; tries++, pause(10)) {
    std::ifstream in(path);
    if (in) return {std::istreambuf_iterator<char>(in), {}};
  }
  throw std::runtime_error("rank 0 gave no session string in 60 s");
}

static ckpt::Session open_session(const ckpt::Store& store, uint32_t rank, uint32_t world, const Settings& settings) {
  const std::string path = settings.text("string");
  ckpt::Options options{{"timeout_ms", settings.number("timeout_ms", 20'000)}};
  if (path.empty() && world > 1) options.set("rendezvous", 1);
  auto session = ckpt::Session::open(store, rank, world, rank && !path.empty() ? await_string(path) : "", options);
  if (rank == 0 && !path.empty()) {
    std::ofstream(path + ".new") << session.string();
    std::rename((path + ".new").c_str(), path.c_str());
  }
  std::printf("SESSION\n");
  return session;
}

static void save_step(const ckpt::Session& session, uint32_t rank, uint32_t world, int64_t step,
                      const Settings& settings) {
  std::vector<uint32_t> own(kElements), all(kElements);
  fill(own, rank, step, 0);
  fill(all, kAll, step, rank * kElements);
  ckpt::Options options{{"timeout_ms", settings.number("timeout_ms", 20'000)}};
  if (const int64_t keep = settings.number("keep_last", 0)) options.set("keep_last", keep);
  auto save = ckpt::Save::create(session, "step-" + std::to_string(step), step, options);
  save.add_tensor("own." + std::to_string(rank), ckpt::Tensor::of<uint32_t>({kElements}).box({0}, {kElements}),
                  ckpt::Memory(own));
  save.add_tensor("all", ckpt::Tensor::of<uint32_t>({world * kElements}).flat(rank * kElements, kElements),
                  ckpt::Memory(all));
  save.run();
  for (const ckpt::Finding& finding : save.report())
    if (finding.kind == CKPT_FINDING_KEPT && *finding.name == 0) std::printf("KEPT %s\n", finding.text);
}

// A failed save ends it, unless `on`=1: then the next step follows, five seconds later. `go`: the second step waits for
// that file.
static int save_steps(const ckpt::Store& store, const Settings& settings) {
  const auto rank = static_cast<uint32_t>(settings.number("rank", 0));
  const auto world = static_cast<uint32_t>(settings.number("world", 1));
  const int64_t first = settings.number("first", 1), count = settings.number("count", 1);
  int64_t step = first;
  int failed = 0;
  try {
    const ckpt::Session session = open_session(store, rank, world, settings);
    for (; step < first + count; step++) {
      if (step == first + 1 && !settings.text("go").empty()) await_file(settings.text("go"));
      pause(settings.number("late_ms", 0));
      const auto began = Clock::now();
      try {
        save_step(session, rank, world, step, settings);
        std::printf("ACK %lld\n", static_cast<long long>(step));
      } catch (const ckpt::Error& error) {
        if (settings.number("on", 0) == 0 || error.status() == CKPT_FENCED) throw;
        const std::chrono::duration<double> took = Clock::now() - began;
        std::printf("FAILED %lld %s after %.1f s: %s\n", static_cast<long long>(step), error.status_name(),
                    took.count(), error.what());
        failed = 4;
        pause(5000);  // a server that is away has time to come back
      }
      pause(settings.number("pace_ms", 0));
    }
  } catch (const ckpt::Error& error) {
    std::printf("FAILED %lld %s %s\n", static_cast<long long>(step), error.status_name(), error.what());
    return 4;
  }
  return failed;
}

// ---- load ----

// One rank's share: the tensors of some ranks, and a piece of the one of all.
static void load_share(const ckpt::Reader& reader, uint32_t rank, uint32_t world) {
  const ckpt::CheckpointInfo info = reader.info();
  const int64_t elements = info.world_size * kElements;
  const int64_t first = elements * rank / world, end = elements * (rank + 1) / world;
  std::vector<uint32_t> all(static_cast<size_t>(end - first));
  std::map<uint32_t, std::vector<uint32_t>> own;
  auto load = ckpt::Load::create(reader, {{"timeout_ms", 20'000}});
  load.add_tensor("all", ckpt::Tensor::of<uint32_t>({elements}).flat(first, end - first), ckpt::MutableMemory(all));
  for (uint32_t of = rank; of < info.world_size; of += world) {
    own[of].resize(kElements);
    load.add_tensor("own." + std::to_string(of), {kElements}, own[of]);
  }
  load.run();
  check(all.data(), all.size(), kAll, info.step, first);
  for (const auto& [of, data] : own) check(data.data(), data.size(), of, info.step, 0);
}

// `at_least`: the step that must be found, at once or within `within_ms`.
static int load_once(const ckpt::Store& store, const Settings& settings) {
  const auto until = Clock::now() + std::chrono::milliseconds(settings.number("within_ms", 0));
  for (;; pause(20)) {
    try {
      auto reader = ckpt::Reader::open(store, settings.text("select", "latest"), {{"timeout_ms", 20'000}});
      const ckpt::CheckpointInfo info = reader.info();
      if (info.step >= settings.number("at_least", 0)) {
        load_share(reader, static_cast<uint32_t>(settings.number("rank", 0)),
                   static_cast<uint32_t>(settings.number("world", 1)));
        std::printf("LOADED %lld %s\n", static_cast<long long>(info.step), info.id);
        return 0;
      }
      if (Clock::now() > until) throw Wrong("the newest is " + std::string(info.id));
    } catch (const ckpt::Error& error) {
      if (error.status() != CKPT_NOT_FOUND || Clock::now() > until) throw;
    }
  }
}

// Nothing but GONE may happen to who follows a trainer, and NOT_FOUND before its first checkpoint.
static int follow(const ckpt::Store& store, const Settings& settings) {
  const int64_t until = settings.number("until", 0);
  int64_t best = -1;
  int odd = 0, loads = 0, gone = 0;
  while (best < until) {
    try {
      auto reader = ckpt::Reader::open(store, "latest", {{"timeout_ms", 20'000}});
      const ckpt::CheckpointInfo info = reader.info();
      if (info.step < best) throw Wrong("went back from " + std::to_string(best) + " to " + std::to_string(info.step));
      for (const ckpt::Finding& finding : reader.report()) std::printf("ODD passed over: %s\n", finding.text), odd++;
      load_share(reader, 0, 1);
      loads++;
      if (info.step > best) std::printf("SEEN %lld\n", static_cast<long long>(best = info.step));
    } catch (const ckpt::Error& error) {
      const bool expected = error.status() == CKPT_GONE || (error.status() == CKPT_NOT_FOUND && best < 0);
      if (expected) gone++;
      if (!expected && odd++ < 10) std::printf("ODD %s %s\n", error.status_name(), error.what());
    }
    pause(10);
  }
  std::printf("FOLLOWED %d loads, %d times gone or not there yet, %d odd\n", loads, gone, odd);
  return odd ? 5 : 0;
}

// ---- hold ----

static void on_bus(int) {
  static const char kSaid[] = "WRONG SIGBUS\n";
  if (write(1, kSaid, sizeof kSaid - 1) < 0) _exit(6);
  _exit(5);
}

static int hold(const ckpt::Store& store, const Settings& settings) {
  auto reader = ckpt::Reader::open(store, "latest");
  const ckpt::CheckpointInfo info = reader.info();
  const ckpt::Memory map = reader.map("own.0", {{"verify", settings.number("verify", 1)}});
  std::printf("HELD %s\n", info.id);
  signal(SIGBUS, on_bus);
  await_file(settings.text("go"));
  check(static_cast<const uint32_t*>(map.data), map.bytes / sizeof(uint32_t), 0, info.step, 0);
  load_share(reader, 0, 1);
  std::printf("RIGHT\n");
  return 0;
}

// ---- speed ----

// One rank with eight tensors. Memory, session and reader are there before.
static int speed(const ckpt::Store& store, const Settings& settings) {
  const int64_t elements = settings.number("mib", 1024) * (1 << 20) / 8 / int64_t{sizeof(uint32_t)};
  std::vector<std::vector<uint32_t>> tensors(8);
  for (uint32_t i = 0; i < 8; i++) fill(tensors[i] = std::vector<uint32_t>(static_cast<size_t>(elements)), i, 1, 0);
  auto began = Clock::now();
  const auto name = [](uint32_t i) { return "t" + std::to_string(i); };
  if (settings.text("what") == "load") {
    auto reader = ckpt::Reader::open(store, "latest");
    auto load = ckpt::Load::create(reader);
    for (uint32_t i = 0; i < 8; i++) load.add_tensor(name(i), {elements}, tensors[i]);
    began = Clock::now();
    load.run();
  } else {
    const auto session = ckpt::Session::open(store, 0, 1);
    auto save = ckpt::Save::create(session, "speed", 1);
    for (uint32_t i = 0; i < 8; i++)
      save.add_tensor(name(i), ckpt::Tensor::of<uint32_t>({elements}), ckpt::Memory(tensors[i]));
    began = Clock::now();
    save.run();
  }
  std::printf("TOOK %.3f\n", std::chrono::duration<double>(Clock::now() - began).count());
  return 0;
}

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    const std::map<std::string, int (*)(const ckpt::Store&, const Settings&)> verbs = {
        {"save", save_steps}, {"load", load_once}, {"follow", follow}, {"hold", hold}, {"speed", speed}};
    const auto verb = verbs.find(argc > 2 ? argv[1] : "");
    if (verb == verbs.end()) return std::fputs("see the head of netfs_program.cpp\n", stderr), 2;
    const Settings settings(argc, argv);
    const ckpt::Options options{{"io_engine", settings.text("io_engine", "auto")},
                                {"direct_io", settings.text("direct_io", "auto")}};
    return verb->second(ckpt::Store::open(argv[2], options), settings);
  } catch (const ckpt::Error& error) {
    std::printf("FAILED %s %s\n", error.status_name(), error.what());
    return 4;
  } catch (const Wrong& wrong) {
    std::printf("WRONG %s\n", wrong.what());
    return 5;
  } catch (const std::exception& error) {
    std::printf("FAILED %s\n", error.what());
    return 2;
  }
}

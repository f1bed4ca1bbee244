// Each request of an operation for memory, a thread or a descriptor is refused, one in a run, or from that one on. The
// call must end in time and say so by its status, or do all that it was asked; nothing that was committed is lost;
// nothing is left; the next save works.
//
//   shortage_program [STRIDE]                      one request of so many: 1, the default, is each
//   shortage_program OPERATION STRIDE              the same of one operation
//   shortage_program OPERATION KIND MODE NUMBER    one of them; KIND: memory, threads, descriptors; MODE: once, on
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "api/small_state.h"
#include "api/support.h"
#include "ckpt_file.h"
#include "shortage/refuse.h"

using namespace ckpt_test;
using namespace shortage;
namespace fs = std::filesystem;

namespace {

constexpr const char* kKindNames[] = {"memory", "threads", "descriptors"};

using Share = std::unique_ptr<ckpt_share, Freer<ckpt_share_free>>;
using Runs = std::unique_ptr<ckpt_runs, Freer<ckpt_runs_free>>;
using File = std::unique_ptr<ckpt_file, Freer<ckpt_file_free>>;

// ---- what an operation has ----

// The address of a pointer that a call sets, of a handle that frees itself.
template <typename Handle>
struct Out {
  explicit Out(Handle& to) : handle(to) {}
  ~Out() { handle.reset(raw); }
  operator typename Handle::pointer *() { return &raw; }
  Handle& handle;
  typename Handle::pointer raw = nullptr;
};

struct World {
  std::string store_at, other_at, file, out;
  Options options;
  Store store, other;
  Session sessions[2];
  Reader reader;
  ckpt_error* error = nullptr;
  ckpt_status rank_1 = CKPT_OK;
  bool wrong = false;    // OK without its effect
  bool excused = false;  // its report says why
  small_state::Bytes weight = small_state::Bytes(small_state::weight(0).size()), moment = weight;
};

#define TRY(call)                                                   \
  do {                                                              \
    if (const ckpt_status failed_with = (call)) return failed_with; \
  } while (0)

void must(ckpt_status status, const char* what) {
  if (status == CKPT_OK) return;
  std::printf("   %s: %s\n", what, ckpt_status_name(status));
  std::exit(1);
}

struct Operation {
  const char* name;
  ckpt_status (*act)(World&);
  void (*ready)(World&) = nullptr;       // before anything is refused
  int64_t saves = 0;                     // the step that it saves
  bool removes = false;                  // may remove step 1
  ckpt_status own = CKPT_OK;             // what it ends with although nothing is refused
  bool (*done)(const World&) = nullptr;  // whether it is, as far as it does not say so itself
  bool imports = false;
};

uint32_t world_size(const World& world) { return world.sessions[1] ? 2 : 1; }

// A session for each rank.
void open_sessions(World& world, uint32_t ranks = 1) {
  for (uint32_t rank = 0; rank < ranks; rank++) {
    const char* string = rank == 0 ? nullptr : ckpt_session_string(world.sessions[0].get());
    must(ckpt_session_open(Out(world.sessions[rank]), world.store.get(), rank, ranks, string, world.options.get(),
                           nullptr),
         "a session");
  }
}
void set(World& world, const char* key, const char* value) {
  must(ckpt_options_set_str(world.options.get(), key, value, nullptr), key);
}

ckpt_status make_save(World& world, uint32_t rank, const char* label, int64_t step, Save* save) {
  TRY(ckpt_save_new(Out(*save), world.sessions[rank].get(), label, step, world.options.get(), &world.error));
  TRY(small_state::add(save->get(), rank, world_size(world), step, false, &world.error));
  if (world_size(world) == 1) TRY(small_state::add_frozen(save->get(), &world.error));
  return small_state::add_table(save->get(), rank, world_size(world), step, &world.error);
}
ckpt_status save(World& world, const char* label, int64_t step) {
  Save made, others;
  Job job;
  if (world.sessions[1]) {
    TRY(make_save(world, 1, label, step, &others));
    TRY(ckpt_save_start(others.get(), Out(job), &world.error));
  }
  ckpt_status status = make_save(world, 0, label, step, &made);
  if (status == CKPT_OK) status = ckpt_save_run(made.get(), &world.error);
  if (job) world.rank_1 = ckpt_job_wait(job.get(), CKPT_JOB_COMMITTED, -1, nullptr);
  return status;
}

// ---- operations ----

ckpt_status load(World& world) {
  Reader reader;
  Load load;
  TRY(ckpt_reader_open(Out(reader), world.store.get(), "latest", world.options.get(), &world.error));
  TRY(ckpt_load_new(Out(load), reader.get(), nullptr, &world.error));
  const ckpt_tensor_desc desc = small_state::matrix();
  for (auto& [name, to] : {std::pair("weight", &world.weight), std::pair("moment", &world.moment)})
    TRY(ckpt_load_add_tensor(load.get(), name, &desc, to->data(), to->size(), CKPT_DEVICE_CPU, 0, &world.error));
  TRY(ckpt_load_run(load.get(), &world.error));
  world.wrong = world.weight != small_state::weight(2) || world.moment != small_state::moment(2);
  return CKPT_OK;
}

ckpt_status load_table(World& world) {
  Share share;
  Load load;
  const auto all = sized<ckpt_share_desc>();
  auto found = sized<ckpt_share_info>();
  TRY(ckpt_share_open(Out(share), world.reader.get(), "table", &all, nullptr, 0, nullptr, &world.error));
  TRY(ckpt_share_get(share.get(), &found, &world.error));
  std::vector<uint64_t> ids(found.row_count);
  small_state::Bytes rows(found.row_count * small_state::kRowBytes);
  const char* column = "row";
  void* const data = rows.data();
  const uint64_t size = rows.size();
  TRY(ckpt_load_new(Out(load), world.reader.get(), nullptr, &world.error));
  TRY(ckpt_load_add_table(load.get(), share.get(), 0, ids.data(), 8 * ids.size(), 1, &column, &data, &size,
                          CKPT_DEVICE_CPU, 0, 0, &world.error));
  TRY(ckpt_load_run(load.get(), &world.error));
  world.wrong = ids.size() != small_state::table(2, 0, 1).ids.size();
  return CKPT_OK;
}

ckpt_status verify(World& world) {
  Job job;
  Report report;
  TRY(ckpt_reader_verify(world.reader.get(), nullptr, Out(job), &world.error));
  TRY(ckpt_job_wait(job.get(), CKPT_JOB_DONE, -1, &world.error));
  TRY(ckpt_job_report(job.get(), Out(report), &world.error));
  world.wrong = ckpt_report_count(report.get()) != 0;
  return CKPT_OK;
}

ckpt_status look(World& world) {
  List list;
  Runs runs;
  auto info = sized<ckpt_checkpoint_info>();
  TRY(ckpt_store_list(world.store.get(), Out(list), &world.error));
  TRY(ckpt_store_runs(world.store.get(), Out(runs), &world.error));
  TRY(ckpt_store_find(world.store.get(), "latest", nullptr, &info, &world.error));
  world.wrong = ckpt_list_count(list.get()) != 2 || info.step != 2 || ckpt_runs_count(runs.get()) != 1;
  return CKPT_OK;
}

ckpt_status open_and_close(World& world) {
  Store store;
  Session session;
  TRY(ckpt_store_open(Out(store), world.store_at.c_str(), nullptr, &world.error));
  return ckpt_session_open(Out(session), store.get(), 0, 1, nullptr, nullptr, &world.error);
}

void open_reader(World& world) {
  must(ckpt_reader_open(Out(world.reader), world.store.get(), "latest", nullptr, nullptr), "a reader");
}
ckpt_status copy(World& world) {
  return ckpt_reader_copy(world.reader.get(), world.other.get(), nullptr, nullptr, &world.error);
}

ckpt_status save_in_background(World& world) {
  Save made;
  Job job;
  TRY(make_save(world, 0, "s3", 3, &made));
  TRY(ckpt_save_start(made.get(), Out(job), &world.error));
  made.reset();
  return ckpt_job_wait(job.get(), CKPT_JOB_COMMITTED, -1, &world.error);
}

ckpt_status save_and_mirror(World& world) {
  Job job;
  TRY(save(world, "s3", 3));
  if (ckpt_session_mirror(world.sessions[0].get(), Out(job), nullptr) == CKPT_OK)
    (void)ckpt_job_wait(job.get(), CKPT_JOB_DONE, -1, nullptr);
  world.sessions[0].reset();
  return CKPT_OK;
}

ckpt_status prune(World& world) {
  Report report;
  auto finding = sized<ckpt_finding>();
  TRY(ckpt_store_prune(world.store.get(), world.options.get(), Out(report), &world.error));
  for (size_t i = 0; i < ckpt_report_count(report.get()); i++)
    if (ckpt_report_at(report.get(), i, &finding, nullptr) == CKPT_OK)
      world.excused |= finding.kind == CKPT_FINDING_KEPT;
  return CKPT_OK;
}

std::string manifest(const World& world) { return world.store_at + "/s2.1.1/MANIFEST"; }

const Operation kOperations[] = {
    {.name = "open", .act = open_and_close},
    {.name = "save",
     .act = [](World& w) { return save(w, "s3", 3); },
     .ready = [](World& w) { open_sessions(w); },
     .saves = 3},
    {.name = "save by two ranks",
     .act = [](World& w) { return save(w, "s3", 3); },
     .ready = [](World& w) { open_sessions(w, 2); },
     .saves = 3},
    {.name = "incremental save",
     .act = [](World& w) { return save(w, "s4", 4); },
     .ready =
         [](World& w) {
           set(w, "incremental", "on");
           open_sessions(w);
           must(save(w, "s3", 3), "a save");
         },
     .saves = 4},
    {.name = "compressed save",
     .act = [](World& w) { return save(w, "s3", 3); },
     .ready =
         [](World& w) {
           set(w, "compression", "lz4");
           open_sessions(w);
         },
     .saves = 3},
    {.name = "save in the background",
     .act = save_in_background,
     .ready = [](World& w) { open_sessions(w); },
     .saves = 3},
    {.name = "save with a mirror",
     .act = save_and_mirror,
     .ready =
         [](World& w) {
           set(w, "mirror", w.other_at.c_str());
           must(ckpt_store_open(Out(w.store), w.store_at.c_str(), w.options.get(), nullptr), "a store");
           open_sessions(w);
         },
     .saves = 3},
    {.name = "load", .act = load},
    {.name = "load a table", .act = load_table, .ready = open_reader},
    {.name = "verify", .act = verify, .ready = open_reader},
    {.name = "list", .act = look},
    {.name = "copy", .act = copy, .ready = open_reader},
    {.name = "prune",
     .act = prune,
     .ready = [](World& w) { must(ckpt_options_set_int(w.options.get(), "keep_last", 1, nullptr), "keep_last"); },
     .removes = true,
     .done = [](const World& w) { return !fs::exists(w.store_at + "/s1.1.1"); }},
    {.name = "repair",
     .act = [](World& w) { return ckpt_store_repair(w.store.get(), "s2.1.1", w.options.get(), nullptr, &w.error); },
     .ready =
         [](World& w) {
           must(ckpt_options_set_int(w.options.get(), "dry_run", 0, nullptr), "dry_run");
           fs::remove(manifest(w));
         },
     .done = [](const World& w) { return fs::exists(manifest(w)); }},
    {.name = "open a damaged one",
     .act = load,
     .ready =
         [](World& w) {
           set(w, "on_damaged", "error");
           fs::resize_file(manifest(w), 100);
         },
     .own = CKPT_FORMAT},
    {.name = "import",
     .act = [](World& w) { return ckpt_import(w.store.get(), w.file.c_str(), "s3", 3, nullptr, nullptr, &w.error); },
     .saves = 3,
     .imports = true},
    {.name = "export",
     .act = [](World& w) { return ckpt_export(w.reader.get(), w.out.c_str(), w.options.get(), &w.error); },
     .ready = open_reader,
     .done = [](const World& w) { return fs::file_size(w.out) > 1000; }},
};

// ---- one run ----

struct Told : Account {
  char text[4000];
  bool refused;  // it ended in an error
  long blocks_left;
};
Told* told = nullptr;  // shared by parent and child

void complain(const std::string& what) {
  const size_t used = std::strlen(told->text);
  std::snprintf(told->text + used, sizeof told->text - used, "   %s\n", what.c_str());
}

std::string shown(ckpt_status status, const ckpt_error* error) {
  return ckpt_status_name(status) + std::string(": ") + ckpt_error_message(error);
}

// Opens a checkpoint and compares it with what its step implies. False if there is none.
bool check(const Store& store, const char* selector, const char* run, bool wanted) {
  Reader reader;
  ckpt_error* error = nullptr;
  const ckpt_status status =
      ckpt_reader_open(Out(reader), store.get(), selector, options({{"run", run}}).get(), &error);
  if (status != CKPT_OK && (wanted || status != CKPT_NOT_FOUND)) complain(selector + (": " + shown(status, error)));
  ckpt_error_free(error);
  if (status != CKPT_OK) return false;
  const small_state::Verdict verdict =
      std::strcmp(run, "import") ? small_state::check(reader.get()) : small_state::Verdict{};
  if (verdict.status != CKPT_OK) complain(selector + (": " + verdict.text));
  return true;
}

// A status says what there was too little of, and nothing that is not so.
void check_status(const Operation& operation, Kind kind, ckpt_status status, const World& world) {
  if (status == operation.own) return;
  const char* number = ckpt_error_detail(world.error, "errno");
  const bool named =
      kind != kDescriptors ? status == CKPT_NOMEM : status == CKPT_IO && number && std::atoi(number) == EMFILE;
  const bool others = world.sessions[1] && (status == CKPT_ABORTED || status == CKPT_TIMEOUT);
  if (!named && !others && status != CKPT_COMMIT_UNKNOWN) complain("told " + shown(status, world.error));
  if (!*ckpt_error_message(world.error) || ckpt_error_status(world.error) != status)
    complain("the error says " + shown(ckpt_error_status(world.error), world.error));
}

void check_store(const Operation& operation, ckpt_status status, World& world) {
  if (!operation.removes) check(world.store, "label:s1", "main", true);
  if (operation.own == CKPT_OK && (status == CKPT_OK || std::strcmp(operation.name, "repair")))
    check(world.store, "label:s2", "main", true);
  if (status == CKPT_OK && !world.excused && (world.wrong || (operation.done && !operation.done(world))))
    complain("OK without its effect");
  if (operation.saves == 0) return;
  const std::string step = "step:" + std::to_string(operation.saves);
  const bool there = check(world.store, step.c_str(), operation.imports ? "import" : "main", status == CKPT_OK);
  if (there && status != CKPT_OK && status != CKPT_COMMIT_UNKNOWN) complain("told no commit, and it is committed");
  if (there && world.rank_1 != CKPT_OK && world.rank_1 != CKPT_COMMIT_UNKNOWN)
    complain("rank 1 was told " + std::string(ckpt_status_name(world.rank_1)) + ", and it is committed");
  if (!there && world.rank_1 == CKPT_OK && world.sessions[1] && status == CKPT_OK) complain("rank 1 was told OK");
}

size_t entries(const char* directory) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(directory)) count++;
  return count;
}

void run_once(const Operation& operation, const Plan& plan, const std::string& place, long leaves) {
  const size_t files = entries("/proc/self/fd");
  {
    World world;
    world.store_at = place + "/store", world.other_at = place + "/other";
    world.file = place + "/file", world.out = place + "/out.safetensors";
    world.options = options({{"timeout_ms", 1500}, {"threads", 2}});
    must(ckpt_store_open(Out(world.store), world.store_at.c_str(), nullptr, nullptr), "a store");
    must(ckpt_store_open(Out(world.other), world.other_at.c_str(), nullptr, nullptr), "a store");
    if (operation.ready) operation.ready(world);
    begin(plan, told);
    const ckpt_status status = operation.act(world);
    end();
    told->refused = status != operation.own;
    if (told->refused && !told->hits) complain("ended without reason: " + shown(status, world.error));
    check_status(operation, plan.kind, status, world);
    check_store(operation, status, world);
    ckpt_error_free(std::exchange(world.error, nullptr));
    if (!world.sessions[0]) open_sessions(world);
    set(world, "incremental", "off");  // the rows that changed are those since step 89
    const ckpt_status next = save(world, "s90", 90);
    if (next != CKPT_OK) complain("the next save: " + shown(next, world.error));
    ckpt_error_free(world.error);
    if (next == CKPT_OK) check(world.store, "latest", "main", true);
  }
  for (int tries = 0; tries < 500 && entries("/proc/self/task") > 1; tries++) usleep(10000);
  if (const size_t left = entries("/proc/self/fd"); left != files)
    complain("descriptors left: " + std::to_string(left - files));
  if (entries("/proc/self/task") > 1) complain("a thread is left");
  size_t size = 0;
  void* asked_by = nullptr;
  told->blocks_left = blocks_left(&asked_by, &size);
  if (plan.first == 0 || told->blocks_left <= leaves) return;
  complain("memory left: " + std::to_string(told->blocks_left) + " blocks, one of " + std::to_string(size) + " bytes");
  told->stack[told->depth++ % 24] = asked_by;
}

// ---- all runs ----

// Says where it is, and ends.
void stop(int signal) {
  void* frames[64];
  std::fprintf(stderr, "   signal %d:\n", signal);
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  _exit(2);
}

// Whether all was right. The run is a process of its own, on a copy of `base`.
bool run(const Operation& operation, const Plan& plan, const Scratch& scratch, long leaves) {
  std::memset(static_cast<void*>(told), 0, sizeof *told);
  const std::string place = scratch / "run";
  fs::copy(scratch / "base", place, fs::copy_options::recursive);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    for (int signal : {SIGALRM, SIGABRT, SIGSEGV}) ::signal(signal, stop);
    alarm(30);
    run_once(operation, plan, place, leaves);
    std::fflush(nullptr);
    _exit(*told->text ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  fs::remove_all(place);
  if (status == 0) return true;
  std::printf("FAILED: shortage_program '%s' %s %s %ld\n%s", operation.name, kKindNames[plan.kind],
              plan.once ? "once" : "on", plan.first, told->text);
  std::fflush(nullptr);
  if (told->depth > 0) backtrace_symbols_fd(told->stack, told->depth, STDOUT_FILENO);
  return false;
}

// Steps 1 and 2, and a file to import.
void prepare(const Scratch& scratch) {
  fs::create_directories(scratch / "base");
  if (const pid_t child = fork(); child != 0) {
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) std::exit(1);
    return;
  }
  World world;
  world.options = options({{"incremental", "on"}});
  must(ckpt_store_open(Out(world.store), (scratch / "base/store").c_str(), nullptr, nullptr), "a store");
  open_sessions(world);
  must(save(world, "s1", 1), "a save");
  must(save(world, "s2", 2), "a save");
  open_reader(world);
  const Options as = options({{"format", "safetensors"}});
  must(ckpt_export(world.reader.get(), (scratch / "base/file").c_str(), as.get(), nullptr), "an export");
  _exit(0);
}

long all_tried = 0, all_failed = 0;

bool prove(const Operation& operation, const Scratch& scratch, long stride) {
  bool good = run(operation, {}, scratch, 0);
  const Told clean = *told;
  for (int kind = 0; kind < kKinds && good; kind++) {
    long tried = 0, refused = 0, failed = 0;
    const long step = std::clamp(clean.asked[kind] / 4, 1L, stride);
    for (const bool once : {true, false}) {
      bool hit = true;
      for (long number = 1; hit; number += step) {
        const bool right = run(operation, {static_cast<Kind>(kind), number, once}, scratch, clean.blocks_left);
        hit = told->hits != 0;
        tried += hit ? 1 : 0;
        refused += hit && told->refused ? 1 : 0;
        failed += right ? 0 : 1;
      }
    }
    std::printf("%-24s %-12s asked %6ld, tried %6ld, an error %6ld, failed %4ld\n", operation.name, kKindNames[kind],
                clean.asked[kind], tried, refused, failed);
    good = failed == 0;
    all_tried += tried, all_failed += failed;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  told = static_cast<Told*>(mmap(nullptr, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const Scratch scratch(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : nullptr);
  prepare(scratch);
  bool good = true;
  for (const Operation& operation : kOperations) {
    if (argc > 2 && std::strcmp(argv[1], operation.name) != 0) continue;
    if (argc < 5) {
      good = prove(operation, scratch, argc == 2 || argc == 3 ? std::max(std::atol(argv[argc - 1]), 1L) : 1) && good;
      continue;
    }
    const auto kind =
        std::find_if(kKindNames, kKindNames + kKinds, [&](auto name) { return !std::strcmp(name, argv[2]); });
    good = run(operation, {static_cast<Kind>(kind - kKindNames), std::atol(argv[4]), !std::strcmp(argv[3], "once")},
               scratch, 1 << 20);
  }
  std::printf("all: tried %ld, failed %ld\n", all_tried, all_failed);
  return good ? 0 : 1;
}

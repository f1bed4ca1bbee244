// One rank of a training job at a checkpoint. Every rank holds the weights; Adam's first moment is sharded by rows, the
// second by flat ranges (as FSDP's flat parameters are); each rank has its own generator and data loader.
//
//   demo_save --store S --source F --table T --label L --step N --rank R --world W
//             [--lead FILE]      rank 0 writes the session string to FILE; the others find it in $CKPT_SESSION
//             [--rendezvous 1]   no string: the ranks meet through the store
//             [--timeout MS]     deadline for the other ranks
//             [--die 1]          kills itself (SIGKILL) while it writes its part
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "demo.h"

using namespace demo;

// The save reads this memory until it is staged.
static std::vector<std::vector<char>> held;

static void add_tensor(ckpt::Save& save, const Tensor& tensor, uint32_t rank, uint32_t world) {
  uint64_t bytes = static_cast<uint64_t>(tensor.elements) * tensor.element_bytes;
  save.add_tensor(tensor.name, describe(tensor), {tensor.data, bytes});
  if (!has_moments(tensor)) return;

  Box rows = share(tensor, 0, rank, world);
  held.push_back(box_values(tensor, Kind::kExpAvg, rows));
  save.add_tensor(state_name(tensor, Kind::kExpAvg), describe(tensor).box(rows.offset, rows.extent), held.back());

  int64_t first = tensor.elements * rank / world, count = tensor.elements * (rank + 1) / world - first;
  held.push_back(state_values(tensor, Kind::kExpAvgSq, first, count));
  save.add_tensor(state_name(tensor, Kind::kExpAvgSq), describe(tensor).flat(first, count), held.back());
}

static ckpt::Session open_session(const Arguments& arguments, const ckpt::Options& options) {
  uint32_t rank = arguments.number("rank");
  const char* string = rank == 0 || arguments.has("rendezvous") ? nullptr : std::getenv("CKPT_SESSION");
  auto session =
      ckpt::Session::open(open_store(arguments), rank, arguments.number("world"), string ? string : "", options);
  if (!arguments.has("lead")) return session;
  // Under its final name the file is complete.
  std::string path = arguments.text("lead"), draft = path + ".draft";
  if (FILE* file = std::fopen(draft.c_str(), "w")) {
    std::fputs(session.string().c_str(), file);
    std::fclose(file);
    if (std::rename(draft.c_str(), path.c_str()) == 0) return session;
  }
  std::fprintf(stderr, "cannot write %s\n", path.c_str());
  std::exit(2);
}

// Ends this process as the kernel or a lost machine would, while its part is half written.
static void die_while_writing(const ckpt::Job& job) {
  ckpt::JobStats stats;
  do {
    stats = job.stats();
  } while (stats.bytes_written == 0 && stats.bytes_done == 0 && stats.state < CKPT_JOB_STAGED);
  raise(SIGKILL);
}

static int save_one_rank(const Arguments& arguments) {
  const uint32_t rank = arguments.number("rank"), world = arguments.number("world", 1), step = arguments.number("step");
  Source source(arguments.text("source"), arguments.text("table"));
  const ckpt::Options options = {{"timeout_ms", arguments.number("timeout", 60000)},
                                 {"rendezvous", arguments.number("rendezvous")}};
  auto session = open_session(arguments, options);
  auto save = ckpt::Save::create(session, arguments.text("label"), step, options);
  for (const Tensor& tensor : source.tensors()) add_tensor(save, tensor, rank, world);
  save.add_object("trainer", "application/json", CKPT_OBJECT_SHARED, trainer_state(step));
  save.add_object("rng", "text/plain", CKPT_OBJECT_PER_RANK, rng_state(rank));
  save.add_object("loader", "application/json", CKPT_OBJECT_PER_RANK, loader_state(rank));

  std::printf("rank %u: ", rank);
  ckpt::Job job = arguments.has("die") ? save.start_in_place() : save.start();
  if (arguments.has("die")) die_while_writing(job);
  job.wait_committed();
  if (arguments.has("mirror") && rank == 0) session.mirror().wait_done();
  const ckpt::JobStats stats = job.stats();
  std::printf("wrote %s; staged after %.2f s, committed after %.2f s\n",
              rate_text(stats.bytes_written, static_cast<double>(stats.write_us) / 1e6).c_str(),
              static_cast<double>(stats.stage_us) / 1e6, static_cast<double>(stats.total_us) / 1e6);
  return 0;
}

int main(int argc, char** argv) { return run(argc, argv, save_one_rank); }

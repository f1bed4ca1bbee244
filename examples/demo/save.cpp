// One rank of a training job at a checkpoint. Every rank holds the weights; Adam's first moment is sharded by rows, the
// second by flat ranges (as FSDP's flat parameters are); each rank has its own generator and data loader.
//
//   demo_save --store S --source F --table T --label L --step N --rank R --world W
//             [--lead FILE]      rank 0: writes the session string there; the others find it in $CKPT_SESSION
//             [--rendezvous 1]   no string: the ranks meet through the store
//             [--timeout MS]     deadline for the other ranks
//             [--die 1]          is killed (SIGKILL, by itself) once its part is being written
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "demo.h"

using namespace demo;

// Memory that the save reads until it is staged.
static std::vector<std::vector<char>> held;

static void add(ckpt_save* save, const std::string& name, const ckpt_tensor_desc& desc, const void* data,
                uint64_t bytes) {
  CKPT_MUST(ckpt_save_add_tensor, save, name.c_str(), &desc, data, bytes, CKPT_DEVICE_CPU, 0);
}

static void add_tensor(ckpt_save* save, const Tensor& tensor, uint32_t rank, uint32_t world) {
  uint64_t bytes = static_cast<uint64_t>(tensor.elements) * tensor.element_bytes;
  add(save, tensor.name, describe(tensor), tensor.data, bytes);
  if (!has_moments(tensor)) return;

  Box rows = share(tensor, 0, rank, world);
  held.push_back(box_values(tensor, Kind::kExpAvg, rows));
  add(save, state_name(tensor, Kind::kExpAvg), describe(tensor, rows), held.back().data(), held.back().size());

  int64_t first = tensor.elements * rank / world, count = tensor.elements * (rank + 1) / world - first;
  held.push_back(state_values(tensor, Kind::kExpAvgSq, first, count));
  add(save, state_name(tensor, Kind::kExpAvgSq), describe_flat(tensor, first, count), held.back().data(),
      held.back().size());
}

static void add_object(ckpt_save* save, const char* name, const char* type, int32_t scope, const std::string& bytes) {
  CKPT_MUST(ckpt_save_add_object, save, name, type, scope, bytes.data(), bytes.size());
}

static ckpt_session* open_session(const Arguments& arguments, ckpt_store* store, const ckpt_options* options) {
  uint32_t rank = arguments.number("rank");
  const char* string = rank == 0 || arguments.has("rendezvous") ? nullptr : std::getenv("CKPT_SESSION");
  ckpt_session* session = nullptr;
  CKPT_MUST(ckpt_session_open, &session, store, rank, arguments.number("world"), string, options);
  if (!arguments.has("lead")) return session;
  // Under its final name the file is complete.
  std::string path = arguments.text("lead"), draft = path + ".draft";
  if (FILE* file = std::fopen(draft.c_str(), "w")) {
    std::fputs(ckpt_session_string(session), file);
    std::fclose(file);
    if (std::rename(draft.c_str(), path.c_str()) == 0) return session;
  }
  std::fprintf(stderr, "cannot write %s\n", path.c_str());
  std::exit(2);
}

// Ends this process as the kernel or a lost machine would, while its part is only half there.
static void die_while_writing(const ckpt_job* job) {
  ckpt_job_stats stats = {};
  stats.struct_size = sizeof stats;
  do {
    CKPT_MUST(ckpt_job_stats_get, job, &stats);
  } while (stats.bytes_written == 0 && stats.bytes_done == 0 && stats.state < CKPT_JOB_STAGED);
  raise(SIGKILL);
}

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  const uint32_t rank = arguments.number("rank"), world = arguments.number("world", 1), step = arguments.number("step");
  Source source(arguments.text("source"), arguments.text("table"));

  ckpt_options* options = nullptr;
  ckpt_store* store = nullptr;
  ckpt_save* save = nullptr;
  ckpt_job* job = nullptr;
  CKPT_MUST(ckpt_options_new, &options);
  CKPT_MUST(ckpt_options_set_int, options, "timeout_ms", arguments.number("timeout", 60000));
  CKPT_MUST(ckpt_options_set_int, options, "rendezvous", arguments.number("rendezvous"));
  CKPT_MUST(ckpt_store_open, &store, arguments.text("store").c_str(), nullptr);
  ckpt_session* session = open_session(arguments, store, options);

  CKPT_MUST(ckpt_save_new, &save, session, arguments.text("label").c_str(), step, options);
  for (const Tensor& tensor : source.tensors()) add_tensor(save, tensor, rank, world);
  add_object(save, "trainer", "application/json", CKPT_OBJECT_SHARED, trainer_state(step));
  add_object(save, "rng", "text/plain", CKPT_OBJECT_PER_RANK, rng_state(rank));
  add_object(save, "loader", "application/json", CKPT_OBJECT_PER_RANK, loader_state(rank));

  std::printf("rank %u: ", rank);
  CKPT_MUST(ckpt_save_start, save, &job);
  if (arguments.has("die")) die_while_writing(job);
  CKPT_MUST(ckpt_job_wait, job, CKPT_JOB_COMMITTED, -1);

  ckpt_job_stats stats = {};
  stats.struct_size = sizeof stats;
  CKPT_MUST(ckpt_job_stats_get, job, &stats);
  std::printf("wrote %s; staged after %.2f s, committed after %.2f s\n",
              rate_text(stats.bytes_written, static_cast<double>(stats.write_us) / 1e6).c_str(),
              static_cast<double>(stats.stage_us) / 1e6, static_cast<double>(stats.total_us) / 1e6);
  ckpt_job_free(job);
  ckpt_save_free(save);
  ckpt_session_free(session);
  ckpt_store_free(store);
  ckpt_options_free(options);
  return 0;
}

// One rank of a job of another size: loads its share of a checkpoint and compares every byte with the source.
//
//   demo_load --store S --source F --table T --id ID --step N --rank R --world W --saved-by V
//
// Loads weights and second moments by rows, first moments by columns: no rank saved these boxes. A world of one loads
// everything, with the objects of all V ranks that saved.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "demo.h"

using namespace demo;

namespace {

struct Request {
  const Tensor* tensor;
  Kind kind;
  Box box;
  std::vector<char> loaded;
};

struct ObjectRequest {
  std::string name;
  uint32_t rank;
  std::string expected, loaded;
};

std::vector<Request> plan(const Source& source, uint32_t rank, uint32_t world) {
  std::vector<Request> requests;
  for (const Tensor& tensor : source.tensors()) {
    for (Kind kind : kKinds) {
      if (kind != Kind::kWeight && !has_moments(tensor)) continue;
      size_t dim = kind == Kind::kExpAvg && !tensor.shape.empty() ? tensor.shape.size() - 1 : 0;
      Box box = share(tensor, dim, rank, world);
      // A value that few bytes have by chance.
      std::vector<char> room(static_cast<uint64_t>(box.elements()) * tensor.element_bytes, '\x5a');
      requests.push_back({&tensor, kind, std::move(box), std::move(room)});
    }
  }
  return requests;
}

std::vector<ObjectRequest> plan_objects(uint32_t rank, uint32_t world, uint32_t saved_by, int64_t step) {
  std::vector<ObjectRequest> requests = {{"trainer", 0, trainer_state(step), ""}};
  for (uint32_t from = rank; from < (world == 1 ? saved_by : rank + 1); ++from) {
    requests.push_back({"rng", from, rng_state(from), ""});
    requests.push_back({"loader", from, loader_state(from), ""});
  }
  return requests;
}

// The number of tensors and objects that are wrong; prints the name of each.
int count_wrong(const std::vector<Request>& requests, const std::vector<ObjectRequest>& objects) {
  int wrong = 0;
  for (const Request& request : requests) {
    if (request.loaded == box_values(*request.tensor, request.kind, request.box)) continue;
    std::printf("differs: %s\n", state_name(*request.tensor, request.kind).c_str());
    ++wrong;
  }
  for (const ObjectRequest& request : objects) {
    if (request.loaded == request.expected) continue;
    std::printf("differs: object %s of rank %u\n", request.name.c_str(), request.rank);
    ++wrong;
  }
  return wrong;
}

int load_and_compare(const Arguments& arguments) {
  const uint32_t rank = arguments.number("rank"), world = arguments.number("world", 1);
  Source source(arguments.text("source"), arguments.text("table"));
  std::vector<Request> requests = plan(source, rank, world);
  std::vector<ObjectRequest> objects =
      plan_objects(rank, world, arguments.number("saved-by"), arguments.number("step"));

  auto reader = ckpt::Reader::open(open_store(arguments), arguments.text("id"));
  auto load = ckpt::Load::create(reader);
  for (Request& request : requests)
    load.add_tensor(state_name(*request.tensor, request.kind),
                    describe(*request.tensor).box(request.box.offset, request.box.extent), request.loaded);
  for (ObjectRequest& request : objects) {
    request.loaded.resize(reader.object(request.name, request.rank).size);
    load.add_object(request.name, request.rank, request.loaded);
  }
  ckpt::Job job = load.start();
  job.wait_done();

  const ckpt::JobStats stats = job.stats();
  int wrong = count_wrong(requests, objects);
  std::printf("rank %u: loaded %s, %s read from the store; of %zu tensors and %zu objects %d differ from the source\n",
              rank, rate_text(stats.bytes_requested, static_cast<double>(stats.total_us) / 1e6).c_str(),
              size_text(stats.bytes_read).c_str(), requests.size(), objects.size(), wrong);
  if (stats.get_count != 0)
    std::printf("rank %u: %s from the server, by %llu requests\n", rank, size_text(stats.bytes_received).c_str(),
                static_cast<unsigned long long>(stats.get_count));
  return wrong != 0;
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, load_and_compare); }

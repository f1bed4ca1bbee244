// Answers two questions of the demo's driver, one line each.
//
//   demo_locate --store S --find SELECTOR [--run R]      the id that the selector means
//   demo_locate --store S --find ID --tensor NAME        the part, and the offset in it of the tensor's data
#include <cinttypes>
#include <cstdio>

#include "demo.h"

static int locate(const demo::Arguments& arguments) {
  auto store = open_store(arguments);
  const ckpt::CheckpointInfo info = store.find(arguments.text("find"), {{"run", arguments.text("run", "main")}});
  if (!arguments.has("tensor")) {
    std::printf("%s\n", info.id);
    return 0;
  }
  auto reader = ckpt::Reader::open(store, info.id);
  const ckpt::SegmentInfo segment = reader.segment(arguments.text("tensor"), 0);
  std::printf("%s %" PRIu64 "\n", reader.part(segment.part).name, segment.part_offset);
  return 0;
}

int main(int argc, char** argv) { return demo::run(argc, argv, locate); }

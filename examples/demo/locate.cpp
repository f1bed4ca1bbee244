// Answers two questions of the demo's driver, one line each.
//
//   demo_locate --store S --find SELECTOR [--run R]      the id that the selector means
//   demo_locate --store S --find ID --tensor NAME        the part and the byte in it where the tensor's data starts
#include <cinttypes>
#include <cstdio>

#include "demo.h"

using namespace demo;

static void print_place(const ckpt_store* store, const char* id, const char* tensor) {
  ckpt_reader* reader = nullptr;
  ckpt_segment_info segment = {};
  ckpt_part_info part = {};
  segment.struct_size = sizeof segment;
  part.struct_size = sizeof part;
  CKPT_MUST(ckpt_reader_open, &reader, store, id, nullptr);
  CKPT_MUST(ckpt_reader_segment_at, reader, tensor, 0, &segment);
  CKPT_MUST(ckpt_reader_part_at, reader, segment.part, &part);
  std::printf("%s %" PRIu64 "\n", part.name, segment.part_offset);
  ckpt_reader_free(reader);
}

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  ckpt_options* options = nullptr;
  ckpt_store* store = nullptr;
  ckpt_checkpoint_info info = {};
  info.struct_size = sizeof info;
  CKPT_MUST(ckpt_options_new, &options);
  CKPT_MUST(ckpt_options_set_str, options, "run", arguments.text("run", "main").c_str());
  CKPT_MUST(ckpt_store_open, &store, arguments.text("store").c_str(), nullptr);
  CKPT_MUST(ckpt_store_find, store, arguments.text("find").c_str(), options, &info);
  if (arguments.has("tensor")) {
    print_place(store, info.id, arguments.text("tensor").c_str());
  } else {
    std::printf("%s\n", info.id);
  }
  ckpt_store_free(store);
  ckpt_options_free(options);
  return 0;
}

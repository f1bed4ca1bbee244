// The flags by which import, export and map choose and change tensors. One for each option; see options.def.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"

namespace cli {

struct Mapped {
  std::optional<std::string> map, map_at, config, only, exclude, cast, strict;
  bool back = false, verify_after = false;
};

inline void add_mapped(Command& command, Mapped& to) {
  command.add("--map", to.map, "a mapping: a JSON file or a shipped one, such as llama-hf-to-tune").type("MAP");
  command.add("--map-at", to.map_at, "the place of the state that the mapping is for, such as model").type("PLACE");
  command.add("--map-back", to.back, "run the mapping backwards");
  command.add("--config", to.config, "the config.json that tells the mapping sizes").type("FILE");
  command.add("--only", to.only, "only tensors that these globs name, or places above them").type("GLOBS");
  command.add("--exclude", to.exclude, "without these, such as optimizer").type("GLOBS");
  command.add("--strict", to.strict, "none: a mapping may leave tensors as they are; exact: it may not")
      .type("none|missing|exact");
  command.add("--cast", to.cast, "what all of f32, f16 and bf16 become").type("f32|f16|bf16");
}

inline void set_mapped(ckpt::Options& options, const Mapped& from) {
  auto set = [&](const char* key, const std::optional<std::string>& value) {
    if (value) options.set(key, *value);
  };
  set("map", from.map);
  set("map_at", from.map_at);
  set("config", from.config);
  set("only", from.only);
  set("exclude", from.exclude);
  set("cast", from.cast);
  set("strict", from.strict);
  if (from.back) options.set("map_back", 1);
  if (from.verify_after) options.set("verify_after", 1);
}

}  // namespace cli

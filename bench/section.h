// Contenders that do the same work, run in turns, and the table of what they took.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ckpt_bench {

struct Contender {
  std::string name;
  std::function<double()> run;                          // the seconds that count
  std::function<void()> before = [] {}, after = [] {};  // not timed
};

struct Row {
  std::string name;
  std::vector<double> seconds, cpu;
  uint64_t peak = 0;  // resident bytes beyond those before, at most in any round
};

struct Section {
  std::string title, limit;  // the row that the others are compared with
  uint64_t bytes = 0;        // that every contender moves; 0: no rate
  std::vector<Row> rows;
};

// Each round runs every contender once, in an order of its own: a slow minute of the machine hits all alike, and so
// does what a predecessor leaves behind (a rotation would keep the neighbours: whoever follows the buffered writer
// looked 10 % slower).
Section run_section(std::string title, std::string limit, uint64_t bytes, unsigned rounds,
                    const std::vector<Contender>& contenders);

double median(std::vector<double> values);
std::string to_markdown(const Section& section);
nlohmann::json to_json(const Section& section);

}  // namespace ckpt_bench

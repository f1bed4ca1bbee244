#include "section.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "machine.h"

namespace ckpt_bench {

Section run_section(std::string title, std::string limit, uint64_t bytes, unsigned rounds,
                    const std::vector<Contender>& contenders) {
  Section section{.title = std::move(title), .limit = std::move(limit), .bytes = bytes, .rows = {}};
  for (const auto& contender : contenders) section.rows.push_back({.name = contender.name, .seconds = {}, .cpu = {}});
  std::vector<size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(1);
  for (unsigned round = 0; round < rounds; round++) {
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i : order) {
      contenders[i].before();
      {
        PeakMemory memory;
        double cpu = cpu_seconds();
        section.rows[i].seconds.push_back(contenders[i].run());
        section.rows[i].cpu.push_back(cpu_seconds() - cpu);
        section.rows[i].peak = std::max(section.rows[i].peak, memory.beyond());
      }
      contenders[i].after();
      std::fprintf(stderr, "  %s, round %u: %s %.4f s\n", section.title.c_str(), round + 1, contenders[i].name.c_str(),
                   section.rows[i].seconds.back());
    }
  }
  return section;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t n = values.size();
  return n == 0 ? 0 : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static const Row* limit_of(const Section& section) {
  for (const auto& row : section.rows)
    if (row.name == section.limit) return &row;
  return nullptr;
}

static std::string format_row(const Section& section, const Row& row) {
  auto [low, high] = std::minmax_element(row.seconds.begin(), row.seconds.end());
  double middle = median(row.seconds);
  char line[320], rate[32] = "", ratio[32] = "";
  if (section.bytes) std::snprintf(rate, sizeof rate, "%.2f", static_cast<double>(section.bytes) / middle / 1e9);
  if (const Row* limit = limit_of(section)) std::snprintf(ratio, sizeof ratio, "%.2f", median(limit->seconds) / middle);
  std::snprintf(line, sizeof line, "| %s | %.4f | %.4f | %.4f | %s | %s | %.2f | %.1f |\n", row.name.c_str(), middle,
                *low, *high, rate, ratio, median(row.cpu), static_cast<double>(row.peak) / (1 << 20));
  return line;
}

std::string to_markdown(const Section& section) {
  std::string text =
      "### " + section.title +
      "\n\n| | median s | min | max | GB/s | of the limit | CPU s | memory MiB |\n|---|---|---|---|---|---|---|---|\n";
  for (const auto& row : section.rows) text += format_row(section, row);
  return text + "\n";
}

nlohmann::json to_json(const Section& section) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& row : section.rows)
    rows.push_back(
        {{"name", row.name}, {"seconds", row.seconds}, {"cpu_seconds", row.cpu}, {"peak_bytes_beyond", row.peak}});
  return {{"title", section.title}, {"limit", section.limit}, {"bytes", section.bytes}, {"rows", rows}};
}

}  // namespace ckpt_bench

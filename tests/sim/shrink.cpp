#include "sim/shrink.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace sim {
namespace {

constexpr int kMostRuns = 2000;
constexpr unsigned kMostSeconds = 60;  // of one run
constexpr size_t kWords = 30;          // bytes of a failure's text that must stay; behind them is what differs
constexpr std::string_view kInOrder = "in-order";

std::string said_by(const std::function<void()>& run) {
  int pipes[2];
  if (pipe(pipes) != 0) std::abort();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipes[1], STDOUT_FILENO);
    close(pipes[0]), close(pipes[1]);
    alarm(kMostSeconds);
    run();
    _exit(0);
  }
  close(pipes[1]);
  std::string said;
  char block[4096];
  for (ssize_t got; (got = read(pipes[0], block, sizeof block)) > 0;) said.append(block, static_cast<size_t>(got));
  close(pipes[0]);
  waitpid(child, nullptr, 0);
  return said;
}

struct Failure {
  std::string words;  // without numbers; "" if all was well
  std::string events;
};

Failure failure_of(const std::function<void()>& run) {
  const std::string said = said_by(run);
  const size_t at = said.rfind("\nFAILED "), before = at == said.npos ? at : said.rfind('\n', at - 1);
  if (before == said.npos) return {};
  Failure failure{said.substr(at + 1), said.substr(before + 1, at - before - 1)};
  std::erase_if(failure.words, [](unsigned char c) { return std::isdigit(c) != 0; });
  failure.words.resize(std::min(failure.words.size(), kWords));
  return failure;
}

}  // namespace

Smaller read_smaller(const std::string& text) {
  Smaller smaller{.events = std::set<Event>(), .in_order = false};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == kInOrder) smaller.in_order = true;
    if (const size_t colon = word.find(':'); colon != word.npos)
      smaller.events->emplace(std::atoi(word.c_str()), std::strtoull(word.c_str() + colon + 1, nullptr, 10));
  }
  return smaller;
}

bool shrink(uint64_t seed, const std::function<void(const Smaller&)>& run) {
  const Failure first = failure_of([&] { run({}); });
  if (first.words.empty()) return false;
  int runs = 0;
  const auto still_fails = [&](const Smaller& smaller) {
    runs++;
    return failure_of([&] { run(smaller); }).words == first.words;
  };
  Smaller smallest = read_smaller(first.events);
  const size_t had = smallest.events->size();
  if (Smaller ordered = smallest; ordered.in_order = true, still_fails(ordered)) smallest = ordered;
  std::vector<Event> left(smallest.events->begin(), smallest.events->end());
  for (size_t size = (left.size() + 1) / 2; size > 0 && runs < kMostRuns; size /= 2)
    for (size_t end = left.size(); end > 0 && runs < kMostRuns;) {
      const auto begin = left.begin() + static_cast<ptrdiff_t>(end - std::min(size, end));
      std::vector<Event> fewer(left.begin(), begin);
      fewer.insert(fewer.end(), left.begin() + static_cast<ptrdiff_t>(end), left.end());
      end = static_cast<size_t>(begin - left.begin());
      if (still_fails({std::set(fewer.begin(), fewer.end()), smallest.in_order})) left = std::move(fewer);
    }
  std::printf("%zu of %zu events, after %d runs:\nsim_program %llu '%s", left.size(), had, runs,
              static_cast<unsigned long long>(seed), smallest.in_order ? std::string(kInOrder).c_str() : "");
  for (const auto& [process, number] : left) std::printf(" %d:%llu", process, static_cast<unsigned long long>(number));
  std::printf("'\n");
  return true;
}

}  // namespace sim

// Runs threads one at a time, in an order that a seed decides, and time passes only while all of them wait. So a run of
// the engine's own code, with all its threads, is the same each time, and an hour of waiting takes no time. It takes
// the place of pthreads, clocks and getrandom in this program (schedule.cpp); what the engine is made of is untouched.
// Model: FoundationDB's simulation (apple.github.io/foundationdb/testing.html), with threads for its actors.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace sim {

inline constexpr int64_t kMs = 1'000'000, kSecond = 1'000 * kMs;

// Something that happens once in so many times, and happened: the process and the number of its draw.
using Event = std::pair<int, uint64_t>;
// What a smaller world leaves of that of a seed.
struct Smaller {
  std::optional<std::set<Event>> events{};  // all others do not happen
  bool in_order = false;                    // of threads that can go on, always the first does
};
// The calling thread becomes the first; what it starts from now on is scheduled, too.
void begin(uint64_t seed, Smaller smaller = {});
int64_t now();  // nanoseconds since then

uint64_t random(uint64_t below);
bool once_in(uint64_t times);

// Others go on, for so long.
void pause(int64_t nanoseconds);

// ---- processes: groups of threads that end together ----
// A thread belongs to the process of the thread that started it.
int process();
void set_process(int id);
// None of its threads goes on from here: those that run end at the next place where they would wait.
void kill(int process);
bool killed(int process);
// Ends this thread if its process was killed.
void live_or_die();

// ---- what went on, for a person ----
void note(const std::string& line);
void detail(const std::string& line);  // what a person needs only for one part of it
void keep_details();                   // else nobody is told
void tell();                           // prints it all
// The same, and ends this process of the system with status 1.
[[noreturn]] void fail(const std::string& why);

}  // namespace sim

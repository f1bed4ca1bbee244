#include "preemption.h"

#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "errors.h"

namespace ckpt_torch {
namespace internal {

namespace {

constexpr int kSignals = 65;  // Linux has 64

// What the handler uses: lock-free, and written before the handler is there.
std::atomic<int> signal_count[kSignals];
struct sigaction signal_before[kSignals];

std::mutex signal_lock;
int signal_users[kSignals];

std::string signal_name(int number) {
  static const std::map<int, const char*> names{{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"},
                                                {SIGUSR2, "SIGUSR2"}, {SIGHUP, "SIGHUP"}, {SIGXCPU, "SIGXCPU"}};
  const auto found = names.find(number);
  return found == names.end() ? "signal " + std::to_string(number) : found->second;
}

void on_signal(int number, siginfo_t* info, void* context) {
  const bool second = signal_count[number].fetch_add(1) > 0;
  const struct sigaction& before = signal_before[number];
  if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(number, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(number);
  if (number != SIGINT || before.sa_handler != SIG_DFL || !second) return;
  signal(number, SIG_DFL);
  raise(number);  // comes once this handler returns
}

void catch_signal(int number) {
  if (number <= 0 || number >= kSignals)
    fail(CKPT_INVALID, "signals: expected numbers such as SIGTERM, found " + std::to_string(number));
  if (signal_users[number] > 0) return;
  struct sigaction ours{};
  ours.sa_sigaction = on_signal;
  ours.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&ours.sa_mask);
  signal_count[number] = 0;
  if (sigaction(number, nullptr, &signal_before[number]) != 0 || sigaction(number, &ours, nullptr) != 0)
    fail(CKPT_INVALID, "signals: " + signal_name(number) + " cannot be caught");
}

}  // namespace

std::vector<int> default_signals() {
  if (std::getenv("SLURM_JOB_ID") != nullptr) return {SIGTERM, SIGINT, SIGUSR1};
  return {SIGTERM, SIGINT};
}

Signals::Signals(const std::vector<int>& numbers) {
  const std::lock_guard<std::mutex> lock(signal_lock);
  try {
    for (const int number : numbers) {
      catch_signal(number);
      signal_users[number]++;
      taken_.push_back({number, signal_count[number]});
    }
  } catch (...) {
    close();
    throw;
  }
}

Signals::~Signals() {
  const std::lock_guard<std::mutex> lock(signal_lock);
  close();
}

// A handler that somebody else has set since stays.
void Signals::close() {
  for (const Taken& taken : taken_) {
    if (--signal_users[taken.number] > 0) continue;
    struct sigaction now{};
    sigaction(taken.number, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal)
      sigaction(taken.number, &signal_before[taken.number], nullptr);
  }
}

std::string Signals::received() const {
  for (const Taken& taken : taken_)
    if (signal_count[taken.number] > taken.before) return signal_name(taken.number);
  return "";
}

}  // namespace internal
}  // namespace ckpt_torch

#include "keeper/signals.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/strformat.h"

namespace ckpt::keeper {

namespace {

constexpr int kSignals = 65;  // Linux has 64

// What the handler reads: lock-free, and written before the handler is there.
std::atomic<uint32_t> counts[kSignals];
struct sigaction before[kSignals];
std::atomic<pid_t> owner[kSignals];  // the process that caught it last
std::mutex mutex;
int users[kSignals];

struct Name {
  int number;
  const char* text;
};
constexpr Name kNames[] = {{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"},   {SIGUSR1, "SIGUSR1"},
                           {SIGUSR2, "SIGUSR2"}, {SIGHUP, "SIGHUP"},   {SIGXCPU, "SIGXCPU"},
                           {SIGALRM, "SIGALRM"}, {SIGQUIT, "SIGQUIT"}, {SIGCONT, "SIGCONT"}};

// Whether the handler before is being called: one that another library has put before ours, while nobody wanted the
// signal, calls ours in turn.
std::atomic<bool> calling[kSignals];

void call_before(int number, siginfo_t* info, void* context) {
  const struct sigaction& earlier = before[number];
  if (calling[number].exchange(true)) return;
  if (earlier.sa_flags & SA_SIGINFO)
    earlier.sa_sigaction(number, info, context);
  else
    earlier.sa_handler(number);
  calling[number] = false;
}

void on_signal(int number, siginfo_t* info, void* context) {
  const bool second = counts[number].fetch_add(1) > 0;
  const struct sigaction& earlier = before[number];
  const auto plain = earlier.sa_flags & SA_SIGINFO ? nullptr : earlier.sa_handler;
  if (plain == SIG_IGN) return;
  if (plain != SIG_DFL || earlier.sa_flags & SA_SIGINFO) return call_before(number, info, context);
  // A worker that was forked since ends as it would: nobody asks for its signals.
  if (owner[number] == getpid() && !(number == SIGINT && second)) return;
  signal(number, SIG_DFL);
  raise(number);  // comes once this handler returns
}

Status cannot(int number) {
  return Status(CKPT_INVALID, strformat("{} cannot be caught", signal_name(number)))
      .with("found", std::to_string(number));
}

Status install(int number) {
  struct sigaction ours{};
  ours.sa_sigaction = on_signal;
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;  // Go and others need their own stack for handlers
  sigemptyset(&ours.sa_mask);
  counts[number] = 0;
  if (sigaction(number, nullptr, &before[number]) != 0 || sigaction(number, &ours, nullptr) != 0) return cannot(number);
  return Ok();
}

}  // namespace

std::string signal_name(int number) {
  for (const Name& name : kNames)
    if (name.number == number) return name.text;
  return strformat("signal {}", number);
}

Status Signals::add(int number) {
  if (std::ranges::any_of(taken_, [&](const Taken& one) { return one.number == number; })) return Ok();
  // After a fault there is nothing to go on with.
  constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  if (number <= 0 || number >= kSignals || std::ranges::count(kFaults, number)) return cannot(number);
  taken_.reserve(taken_.size() + 1);  // nothing fails once it is counted
  const std::lock_guard lock(mutex);
  owner[number] = getpid();
  if (users[number] == 0) CKPT_TRY(install(number));
  users[number]++;
  taken_.push_back({number, counts[number]});
  return Ok();
}

// A handler that somebody else has set since stays.
Signals::~Signals() {
  const std::lock_guard lock(mutex);
  for (const Taken& taken : taken_) {
    if (--users[taken.number] > 0) continue;
    struct sigaction now{};
    sigaction(taken.number, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal)
      sigaction(taken.number, &before[taken.number], nullptr);
  }
}

int Signals::received() const {
  for (const Taken& taken : taken_)
    if (counts[taken.number] > taken.before) return taken.number;
  return 0;
}

}  // namespace ckpt::keeper

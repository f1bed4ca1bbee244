// How: a thread runs only while it has the baton, a futex of its own. Wherever it would wait, and at some mutexes, it
// gives it to another one, chosen by the seed. Mutexes, condition variables and sleeps are entries of tables here,
// which need no locks. Nothing here calls what it replaces, but by dlsym.
#include "sim/schedule.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace sim {
namespace {

constexpr int64_t kNever = INT64_MAX, kEpoch = 1'800'000'000 * kSecond, kEnd = 3 * 3600 * kSecond;
constexpr int64_t kClockStep = 200;  // of each look at a clock: who only looks at it comes to an end
constexpr uint64_t kPreempt = 6;     // one of so many mutexes is a place to change threads
constexpr uint64_t kMostTurns = 20'000'000;

struct Thread {
  int number, process;
  std::atomic<uint32_t> baton{0};
  enum { kReady, kMutex, kCondition, kSleep, kJoin, kDead, kDone } wait = kReady;
  const void* on = nullptr;
  int64_t until = kNever;
  bool timed_out = false;
  pthread_t handle{};
  void* (*body)(void*) = nullptr;
  void* argument = nullptr;
};

struct ReadWrite {
  int readers = 0;
  Thread* writer = nullptr;
};

// Draws of one thing after the other; those of processes do not change where another process makes more or fewer.
struct Stream {
  uint64_t at = 0, number = 0;
  uint64_t next() {  // splitmix64
    number++;
    uint64_t x = at += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
};

struct State {
  uint64_t seed = 0, turns = 0;
  Stream order, names;            // of the next thread; of ids
  std::map<int, Stream> streams;  // by process
  Smaller smaller;
  int64_t now = 0;
  std::vector<Thread*> threads;
  std::map<const void*, Thread*> mutexes;  // those that are locked
  std::map<const void*, ReadWrite> locks;
  std::set<int> killed;
  std::vector<std::string> notes;
  bool details = false;  // are in the notes
  std::vector<Event> came;
};
State* state = nullptr;               // null: threads are those of the system
thread_local Thread* self = nullptr;  // null: not one of ours, or no more

template <typename Function>
Function* real(const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define CKPT_REAL(function) static auto* const real_##function = real(#function, &function)

// Which of so many goes on.
uint64_t turn(size_t of) {
  const uint64_t drawn = state->order.next();
  return state->smaller.in_order ? 0 : drawn % of;
}

Stream& stream() {
  const auto number = static_cast<uint64_t>(process() + 3);
  return state->streams.try_emplace(process(), Stream{state->seed + number * 0x9fb21c651e98df25}).first->second;
}

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

bool can_go_on(const Thread& thread) {
  switch (thread.wait) {
    case Thread::kReady:
      return true;
    case Thread::kMutex:
      return !state->mutexes.contains(thread.on);
    case Thread::kCondition:
    case Thread::kSleep:
      return thread.until <= state->now;
    case Thread::kJoin:
      return static_cast<const Thread*>(thread.on)->wait >= Thread::kDead;
    default:
      return false;
  }
}

std::string waits_for(const Thread& thread) {
  static const char* const kWaits[] = {"ready", "a mutex", "a condition", "time", "another thread", "dead", "done"};
  return "thread " + std::to_string(thread.number) + " of process " + std::to_string(thread.process) + ": " +
         kWaits[thread.wait];
}

[[noreturn]] void fail_stuck(const std::string& why) {
  for (const Thread* thread : state->threads)
    if (thread->wait < Thread::kDead) note(waits_for(*thread));
  fail(why);
}

Thread* choose() {
  if (++state->turns > kMostTurns) fail_stuck("it does not end: too many turns");
  static auto& ready = *new std::vector<Thread*>;
  for (;;) {
    ready.clear();
    int64_t next = kNever;
    for (Thread* thread : state->threads) {
      if (can_go_on(*thread)) ready.push_back(thread);
      if (thread->wait == Thread::kCondition || thread->wait == Thread::kSleep) next = std::min(next, thread->until);
    }
    if (!ready.empty()) return ready[turn(ready.size())];
    if (next == kNever) fail_stuck("all threads wait for each other");
    state->now = std::max(state->now, next);
    if (state->now > kEnd) fail_stuck("it does not end: three hours are over");
  }
}

// Gives the baton to whoever is chosen, and waits for it, unless this thread is at its end.
void change() {
  Thread* next = choose();
  if (next == self) return;
  next->baton = 1;
  futex(next->baton, FUTEX_WAKE, 1);
  if (self->wait == Thread::kDone) return;
  while (self->baton.exchange(0) == 0) futex(self->baton, FUTEX_WAIT, 0);
}

// False if its time was over first.
bool wait_for(decltype(Thread::wait) kind, const void* on, int64_t until) {
  self->wait = kind;
  self->on = on;
  self->until = until;
  self->timed_out = false;
  change();
  const bool came = self->wait == Thread::kReady || kind == Thread::kMutex || kind == Thread::kJoin;
  self->wait = Thread::kReady;
  self->until = kNever;
  return came;
}

bool ours() { return state && self; }

void lock(const void* mutex) {
  if (turn(kPreempt) + 1 == kPreempt) change();
  while (state->mutexes.contains(mutex)) {
    if (state->mutexes[mutex] == self) fail_stuck("a thread locks a mutex twice");
    wait_for(Thread::kMutex, mutex, kNever);
  }
  state->mutexes[mutex] = self;
}

void* run(void* argument) {
  self = static_cast<Thread*>(argument);
  while (self->baton.exchange(0) == 0) futex(self->baton, FUTEX_WAIT, 0);
  void* result = self->body(self->argument);
  self->wait = Thread::kDone;
  change();
  self = nullptr;  // what is destroyed with the thread is its own
  return result;
}

int64_t in_ns(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

// The time of a clock, as ours; a later start of the system's clocks is ours, too.
int64_t until_of(clockid_t clock, const timespec& time) { return in_ns(time) - (clock == CLOCK_REALTIME ? kEpoch : 0); }

int wait_condition(pthread_cond_t* condition, pthread_mutex_t* mutex, int64_t until) {
  live_or_die();
  state->mutexes.erase(mutex);
  const bool came = wait_for(Thread::kCondition, condition, until);
  lock(mutex);
  return came ? 0 : ETIMEDOUT;
}

void wake(const void* condition, bool all) {
  std::vector<Thread*> waiting;
  for (Thread* thread : state->threads)
    if (thread->wait == Thread::kCondition && thread->on == condition) waiting.push_back(thread);
  while (!waiting.empty()) {
    const size_t at = turn(waiting.size());
    waiting[at]->wait = Thread::kReady;
    if (!all) return;
    waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(at));
  }
}

int sleep_until(int64_t until) {
  live_or_die();
  wait_for(Thread::kSleep, nullptr, until);
  live_or_die();
  return 0;
}

}  // namespace

void begin(uint64_t seed, Smaller smaller) {
  const uint64_t mixed = Stream{seed}.next();
  static State made;
  made.seed = mixed;
  made.order = {mixed + 1}, made.names = {mixed + 2};
  made.smaller = std::move(smaller);
  self = new Thread{.number = 0, .process = 0};
  made.threads.push_back(self);
  state = &made;
}

int64_t now() { return state->now; }
uint64_t random(uint64_t below) { return stream().next() % below; }
bool once_in(uint64_t times) {
  Stream& from = stream();
  if (from.next() % times != 0) return false;
  const Event event{process(), from.number};
  if (state->smaller.events && !state->smaller.events->contains(event)) return false;
  state->came.push_back(event);
  return true;
}
void pause(int64_t nanoseconds) { sleep_until(state->now + nanoseconds); }
int process() { return self->process; }
void set_process(int id) { self->process = id; }
bool killed(int process) { return state->killed.contains(process); }

void kill(int process) {
  state->killed.insert(process);
  for (Thread* thread : state->threads)
    if (thread->process == process &&
        (thread->wait == Thread::kCondition || thread->wait == Thread::kSleep || thread->wait == Thread::kJoin))
      thread->wait = Thread::kDead;
}

void live_or_die() {
  if (!killed(self->process)) return;
  self->wait = Thread::kDead;
  change();
  fail("the dead go on");
}

void note(const std::string& line) {
  char time[32];
  std::snprintf(time, sizeof time, "%9.3f ", static_cast<double>(state->now) / 1e9);
  state->notes.push_back(time + (self ? std::to_string(self->process) : "?") + " " + line);
}

void detail(const std::string& line) {
  if (state->details) note(line);
}
void keep_details() { state->details = true; }

void tell() {
  for (const std::string& line : state->notes) std::fprintf(stdout, "%s\n", line.c_str());
}

void fail(const std::string& why) {
  tell();
  for (const auto& [process, number] : state->came)
    std::fprintf(stdout, "%d:%llu ", process, static_cast<unsigned long long>(number));
  std::fprintf(stdout, "\nFAILED %s\n", why.c_str());
  std::fflush(stdout);
  _exit(1);
}

}  // namespace sim

// ---- in place of the system's ----
using namespace sim;

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  CKPT_REAL(pthread_mutex_lock);
  if (!ours()) return real_pthread_mutex_lock(mutex);
  lock(mutex);
  return 0;
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  CKPT_REAL(pthread_mutex_trylock);
  if (!ours()) return real_pthread_mutex_trylock(mutex);
  if (state->mutexes.contains(mutex)) return EBUSY;
  state->mutexes[mutex] = self;
  return 0;
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  CKPT_REAL(pthread_mutex_unlock);
  if (!ours()) return real_pthread_mutex_unlock(mutex);
  state->mutexes.erase(mutex);
  return 0;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  CKPT_REAL(pthread_cond_wait);
  if (!ours()) return real_pthread_cond_wait(condition, mutex);
  return wait_condition(condition, mutex, kNever);
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  CKPT_REAL(pthread_cond_timedwait);
  if (!ours()) return real_pthread_cond_timedwait(condition, mutex, until);
  return wait_condition(condition, mutex, until_of(CLOCK_REALTIME, *until));
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  CKPT_REAL(pthread_cond_clockwait);
  if (!ours()) return real_pthread_cond_clockwait(condition, mutex, clock, until);
  return wait_condition(condition, mutex, until_of(clock, *until));
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  CKPT_REAL(pthread_cond_signal);
  if (!ours()) return real_pthread_cond_signal(condition);
  wake(condition, false);
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  CKPT_REAL(pthread_cond_broadcast);
  if (!ours()) return real_pthread_cond_broadcast(condition);
  wake(condition, true);
  return 0;
}
int pthread_cond_destroy(pthread_cond_t* condition) noexcept {
  CKPT_REAL(pthread_cond_destroy);
  return ours() ? 0 : real_pthread_cond_destroy(condition);
}

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  CKPT_REAL(pthread_rwlock_rdlock);
  if (!ours()) return real_pthread_rwlock_rdlock(lock);
  while (state->locks[lock].writer) wait_for(Thread::kSleep, lock, state->now);
  state->locks[lock].readers++;
  return 0;
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  CKPT_REAL(pthread_rwlock_wrlock);
  if (!ours()) return real_pthread_rwlock_wrlock(lock);
  while (state->locks[lock].writer || state->locks[lock].readers) wait_for(Thread::kSleep, lock, state->now + 1000);
  state->locks[lock].writer = self;
  return 0;
}
int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  CKPT_REAL(pthread_rwlock_unlock);
  if (!ours()) return real_pthread_rwlock_unlock(lock);
  ReadWrite& of = state->locks[lock];
  if (of.writer)
    of.writer = nullptr;
  else
    of.readers--;
  if (!of.readers) state->locks.erase(lock);
  return 0;
}

int pthread_create(pthread_t* handle, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) noexcept {
  CKPT_REAL(pthread_create);
  if (!ours()) return real_pthread_create(handle, attributes, body, argument);
  live_or_die();
  auto* thread = new Thread{.number = static_cast<int>(state->threads.size()), .process = self->process};
  thread->body = body;
  thread->argument = argument;
  const int error = real_pthread_create(handle, attributes, run, thread);
  if (error) return error;
  thread->handle = *handle;
  state->threads.push_back(thread);
  return 0;
}
int pthread_join(pthread_t handle, void** result) {
  CKPT_REAL(pthread_join);
  if (!ours()) return real_pthread_join(handle, result);
  for (size_t i = state->threads.size(); i-- > 0;) {  // handles come again; the latest is meant
    Thread* thread = state->threads[i];
    if (thread->handle != handle) continue;
    live_or_die();
    if (thread->wait != Thread::kDone) wait_for(Thread::kJoin, thread, kNever);
    if (thread->wait == Thread::kDead) fail("a dead thread is joined");
    break;
  }
  return real_pthread_join(handle, result);
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  CKPT_REAL(clock_nanosleep);
  if (!ours()) return real_clock_nanosleep(clock, flags, time, left);
  return sleep_until(flags & TIMER_ABSTIME ? until_of(clock, *time) : state->now + in_ns(*time));
}
int nanosleep(const timespec* time, timespec* left) {
  CKPT_REAL(nanosleep);
  if (!ours()) return real_nanosleep(time, left);
  return sleep_until(state->now + in_ns(*time));
}
int sched_yield() noexcept {
  CKPT_REAL(sched_yield);
  if (!ours()) return real_sched_yield();
  change();
  return 0;
}
int clock_gettime(clockid_t clock, timespec* time) noexcept {
  CKPT_REAL(clock_gettime);
  if (!ours()) return real_clock_gettime(clock, time);
  state->now += kClockStep;
  const int64_t found = state->now + (clock == CLOCK_REALTIME ? kEpoch : 0);
  *time = {found / kSecond, found % kSecond};
  return 0;
}
ssize_t getrandom(void* buffer, size_t size, unsigned flags) {
  CKPT_REAL(getrandom);
  if (!ours()) return real_getrandom(buffer, size, flags);
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    const uint64_t bits = state->names.next();
    std::memcpy(static_cast<char*>(buffer) + at, &bits, std::min(sizeof bits, size - at));
  }
  return static_cast<ssize_t>(size);
}
}

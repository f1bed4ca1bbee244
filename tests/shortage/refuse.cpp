#include "shortage/refuse.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

extern "C" {
extern char __executable_start, etext;
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace shortage {
namespace {

std::atomic<bool> counts{false};
std::atomic<long> asked[kKinds];
Plan plan;
Account* account = nullptr;

// ---- live blocks ----

struct Block {
  void* at;
  size_t size;
  void* asked_by;
};
constexpr size_t kSlots = size_t{1} << 18;
Block blocks[kSlots];
std::mutex mutex;  // of the blocks
char gone;         // the address of a block that was freed

Block* slot_of(void* at, bool fresh) {
  for (size_t i = (reinterpret_cast<uintptr_t>(at) >> 4) * 0x9e3779b97f4a7c15u % kSlots;; i = (i + 1) % kSlots) {
    if (blocks[i].at == at || (fresh && blocks[i].at == &gone)) return &blocks[i];
    if (!blocks[i].at) return fresh ? &blocks[i] : nullptr;
  }
}

void* keep(void* at, size_t size, void* asked_by) {
  if (!at) return at;
  const std::lock_guard lock(mutex);
  *slot_of(at, true) = {at, size, asked_by};
  return at;
}

void drop(void* at) {
  if (!at || !account) return;
  const std::lock_guard lock(mutex);
  if (Block* const block = slot_of(at, false)) block->at = &gone;
}

// ---- requests ----

bool is_ours(void* caller) { return caller >= &__executable_start && caller < &etext; }

bool counted(void* caller) { return counts && !is_ours(caller); }

bool refused(Kind kind, void* caller) {
  if (!counted(caller)) return false;
  const long number = ++asked[kind];
  if (kind != plan.kind || plan.first == 0 || number < plan.first || (plan.once && number > plan.first)) return false;
  if (number == plan.first) {
    account->hits = 1;
    account->depth = backtrace(account->stack, 24);
  }
  return true;
}

// Memory of `get`, which the library asked for at `caller`.
template <typename Get>
void* memory(size_t size, void* caller, Get&& get) {
  if (!counted(caller)) return get();
  if (!refused(kMemory, caller)) return keep(get(), size, caller);
  errno = ENOMEM;
  return nullptr;
}

void* memory(size_t size, void* caller) {
  return memory(size, caller, [=] { return __libc_malloc(size); });
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

void begin(const Plan& what, Account* where) {
  plan = what;
  account = where;
  for (auto& count : asked) count = 0;
  (void)backtrace(account->stack, 24);  // its first call needs memory
  counts = true;
}

void end() {
  counts = false;
  for (int kind = 0; kind < kKinds; kind++) account->asked[kind] = asked[kind];
}

long blocks_left(void** asked_by, size_t* size) {
  long count = 0;
  for (const Block& block : blocks) {
    Dl_info from;
    if (!block.at || block.at == &gone || (dladdr(block.asked_by, &from) && std::strstr(from.dli_fname, "/ld-")))
      continue;
    *asked_by = block.asked_by, *size = block.size;
    count++;
  }
  return count;
}

}  // namespace shortage

using namespace shortage;

#define CALLER __builtin_return_address(0)

void* operator new(size_t size) {
  if (void* const made = memory(size, CALLER)) return made;
  throw std::bad_alloc();
}
void operator delete(void* at) noexcept { free(at); }
void operator delete(void* at, size_t) noexcept { free(at); }

extern "C" {

void* malloc(size_t size) { return memory(size, CALLER); }
void* calloc(size_t count, size_t size) {
  return memory(count * size, CALLER, [=] { return __libc_calloc(count, size); });
}
void* memalign(size_t align, size_t size) {
  return memory(size, CALLER, [=] { return __libc_memalign(align, size); });
}
void* aligned_alloc(size_t align, size_t size) {
  return memory(size, CALLER, [=] { return __libc_memalign(align, size); });
}
int posix_memalign(void** out, size_t align, size_t size) {
  *out = memory(size, CALLER, [=] { return __libc_memalign(align, size); });
  return *out ? 0 : ENOMEM;
}
void* realloc(void* at, size_t size) {
  if (refused(kMemory, CALLER)) return errno = ENOMEM, nullptr;
  drop(at);
  void* const made = __libc_realloc(at, size);
  return counted(CALLER) ? keep(made, size, CALLER) : made;
}
void free(void* at) {
  drop(at);
  __libc_free(at);
}

void* mmap(void* at, size_t size, int allowed, int flags, int fd, off_t offset) noexcept {
  if (refused(kMemory, CALLER)) return errno = ENOMEM, MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, size, allowed, flags, fd, offset));
}
void* mmap64(void* at, size_t size, int allowed, int flags, int fd, off_t offset) noexcept
    __attribute__((alias("mmap")));

int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*body)(void*), void* given) noexcept {
  static const auto create = real<decltype(pthread_create)>("pthread_create");
  return refused(kThreads, CALLER) ? EAGAIN : create(thread, how, body, given);
}

// A call that makes a descriptor, with its arguments.
#define DESCRIPTOR(name, parameters, ...)                                          \
  int name parameters {                                                            \
    static const auto make = real<int parameters>(#name);                          \
    return refused(kDescriptors, CALLER) ? errno = EMFILE, -1 : make(__VA_ARGS__); \
  }
DESCRIPTOR(eventfd, (unsigned count, int flags), count, flags)
DESCRIPTOR(socket, (int domain, int type, int protocol) noexcept, domain, type, protocol)
DESCRIPTOR(socketpair, (int domain, int type, int protocol, int* made) noexcept, domain, type, protocol, made)
DESCRIPTOR(pipe, (int* made) noexcept, made)
DESCRIPTOR(pipe2, (int* made, int flags) noexcept, made, flags)
DESCRIPTOR(dup, (int fd) noexcept, fd)
DESCRIPTOR(epoll_create1, (int flags) noexcept, flags)
DESCRIPTOR(memfd_create, (const char* name, unsigned flags) noexcept, name, flags)
DESCRIPTOR(__open_2, (const char* path, int flags), path, flags)
DESCRIPTOR(__openat_2, (int at, const char* path, int flags), at, path, flags)
#define OPEN(name, parameters, ...)                                         \
  int name parameters {                                                     \
    va_list more;                                                           \
    va_start(more, flags);                                                  \
    const unsigned mode = va_arg(more, unsigned);                           \
    va_end(more);                                                           \
    if (refused(kDescriptors, CALLER)) return errno = EMFILE, -1;           \
    return static_cast<int>(syscall(SYS_openat, __VA_ARGS__, flags, mode)); \
  }
OPEN(open, (const char* path, int flags, ...), AT_FDCWD, path)
OPEN(open64, (const char* path, int flags, ...), AT_FDCWD, path)
OPEN(openat, (int at, const char* path, int flags, ...), at, path)
OPEN(openat64, (int at, const char* path, int flags, ...), at, path)
#define FILES(name)                                                                    \
  FILE* name(const char* path, const char* mode) {                                     \
    static const auto make = real<decltype(name)>(#name);                              \
    return refused(kDescriptors, CALLER) ? errno = EMFILE, nullptr : make(path, mode); \
  }
FILES(fopen)
FILES(fopen64)
// What libc has no function for.
long syscall(long number, ...) noexcept {
  static const auto call = real<long(long, long, long, long, long, long, long)>("syscall");
  va_list more;
  va_start(more, number);
  long a[6];
  for (long& argument : a) argument = va_arg(more, long);
  va_end(more);
  const bool makes = number == SYS_openat2 || number == SYS_io_uring_setup;
  if (makes && refused(kDescriptors, CALLER)) return errno = EMFILE, -1;
  return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

}  // extern "C"

// One build holds every mutant of the engine: tests/mutate/sites.py puts CKPT_MUTANT(n) at each place, and the process
// is mutant n if CKPT_MUTANT=n is in its environment. If CKPT_MUTANT_SEEN names a file, its byte n says that place n
// was reached; it is mapped, so a process that is killed has told, too.
#pragma once
#ifdef __cplusplus

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdlib>

namespace ckpt_mutant {

inline unsigned chosen() {
  const char* number = getenv("CKPT_MUTANT");
  return number ? unsigned(atoi(number)) : 0;
}
inline char* reached() {
  const char* path = getenv("CKPT_MUTANT_SEEN");
  const int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return nullptr;
  void* bytes = mmap(nullptr, size_t(lseek(file, 0, SEEK_END)), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return bytes == MAP_FAILED ? nullptr : static_cast<char*>(bytes);
}
inline const unsigned now = chosen();
inline char* const seen = reached();

constexpr bool is(unsigned number) {
  if (__builtin_is_constant_evaluated()) return false;
  if (seen) seen[number] = 1;
  return now == number;
}

}  // namespace ckpt_mutant

#define CKPT_MUTANT(number) ckpt_mutant::is(number)
#endif

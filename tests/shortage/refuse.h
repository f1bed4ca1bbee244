// Refuses what the library asks the system for: memory, threads, descriptors. Its functions take the place of libc's
// and of operator new in the whole program; what the program itself asks for is given, and not counted.
#pragma once

#include <cstddef>

namespace shortage {

enum Kind { kMemory, kThreads, kDescriptors, kKinds };

// Refuses request number `first` of a kind, counted from 1; and, unless `once`, all that follow it.
struct Plan {
  Kind kind = kMemory;
  long first = 0;  // 0: none
  bool once = true;
};

// What one process tells another.
struct Account {
  long asked[kKinds];
  long hits;
  void* stack[24];  // of the first request that was refused
  int depth;
};

void begin(const Plan& plan, Account* account);
void end();
// How many blocks are left that the library asked for between begin and end, and one of them: who asked for it, how
// many bytes. Not those of the dynamic linker, which keeps what belongs to stacks of threads for the next ones.
long blocks_left(void** asked_by, size_t* size);

}  // namespace shortage

// What the kernel has that headers of Linux 4.18 do not describe: whoever builds there gets it, too, and the kernel is
// asked when the program runs. Names and layouts are those of <linux/io_uring.h>, <linux/openat2.h> and <linux/stat.h>,
// which are fixed for ever; tests/store/kernel_test.cpp compares them with the headers of the machine.
#pragma once

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace ckpt::store::kernel {

// Numbers of system calls: the same for all processors since 5.1.
constexpr long kIoUringSetup = 425, kIoUringEnter = 426, kOpenat2 = 437;

// ---- <linux/openat2.h> ----
struct OpenHow {
  uint64_t flags, mode, resolve;
};
constexpr uint64_t kResolveNoSymlinks = 0x04, kResolveBeneath = 0x08;

// ---- <linux/stat.h> ----
constexpr unsigned kStatxMntId = 0x1000;     // since 5.8
constexpr unsigned kStatxDioAlign = 0x2000;  // since 6.1
struct Statx {
  uint32_t mask, before[33], dev_major, dev_minor;
  uint64_t mnt_id;
  uint32_t dio_mem_align, dio_offset_align;
  uint64_t after[12];
};
// Of an open file. The musl of Debian 12 (1.2.3) has neither the function nor the structure.
inline bool get_statx(int fd, int flags, unsigned mask, Statx* found) {
  return syscall(SYS_statx, fd, "", AT_EMPTY_PATH | flags, mask, found) == 0;
}

// ---- <linux/io_uring.h> ----
struct Sqe {
  uint8_t opcode, flags;
  uint16_t ioprio;
  int32_t fd;
  uint64_t off, addr;
  uint32_t len, rw_flags;
  uint64_t user_data;
  uint64_t more[3];
};
struct Cqe {
  uint64_t user_data;
  int32_t res;
  uint32_t flags;
};
struct SqOffsets {
  uint32_t head, tail, ring_mask, ring_entries, flags, dropped, array, resv1;
  uint64_t resv2;
};
struct CqOffsets {
  uint32_t head, tail, ring_mask, ring_entries, overflow, cqes, flags, resv1;
  uint64_t resv2;
};
struct UringParams {
  uint32_t sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, features, wq_fd, resv[3];
  SqOffsets sq_off;
  CqOffsets cq_off;
};
constexpr uint8_t kOpRead = 22, kOpWrite = 23;
constexpr unsigned kEnterGetEvents = 1;
constexpr uint64_t kOffSqRing = 0, kOffSqes = 0x10000000;

}  // namespace ckpt::store::kernel

#ifndef __GLIBC__
namespace ckpt::store {

// musl lacks it before 1.2.6.
inline int renameat2(int from_parent, const char* from, int to_parent, const char* to, unsigned flags) {
  return static_cast<int>(syscall(SYS_renameat2, from_parent, from, to_parent, to, flags));
}

}  // namespace ckpt::store
#endif

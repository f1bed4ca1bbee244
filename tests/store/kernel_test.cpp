// store/kernel.h says what the headers of this machine say, as far as they know it.
#include "store/kernel.h"

#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <sys/syscall.h>

namespace kernel = ckpt::store::kernel;

#define SAME(ours, member, theirs, their_member)                             \
  EXPECT_EQ(offsetof(kernel::ours, member), offsetof(theirs, their_member)); \
  EXPECT_EQ(sizeof(kernel::ours::member), sizeof(theirs::their_member)) << #member

TEST(Kernel, LayoutsOfIoUringAreThoseOfItsHeader) {
  EXPECT_EQ(sizeof(kernel::Sqe), sizeof(io_uring_sqe));
  EXPECT_EQ(sizeof(kernel::Cqe), sizeof(io_uring_cqe));
  EXPECT_EQ(sizeof(kernel::UringParams), sizeof(io_uring_params));
  SAME(Sqe, opcode, io_uring_sqe, opcode);
  SAME(Sqe, fd, io_uring_sqe, fd);
  SAME(Sqe, off, io_uring_sqe, off);
  SAME(Sqe, addr, io_uring_sqe, addr);
  SAME(Sqe, len, io_uring_sqe, len);
  SAME(Sqe, user_data, io_uring_sqe, user_data);
  SAME(Cqe, res, io_uring_cqe, res);
  SAME(UringParams, features, io_uring_params, features);
  SAME(UringParams, sq_off, io_uring_params, sq_off);
  SAME(UringParams, cq_off, io_uring_params, cq_off);
  SAME(SqOffsets, tail, io_sqring_offsets, tail);
  SAME(CqOffsets, tail, io_cqring_offsets, tail);
  SAME(CqOffsets, cqes, io_cqring_offsets, cqes);
}

TEST(Kernel, NumbersAreThoseOfTheHeaders) {
  EXPECT_EQ(kernel::kIoUringSetup, SYS_io_uring_setup);
  EXPECT_EQ(kernel::kIoUringEnter, SYS_io_uring_enter);
  EXPECT_EQ(kernel::kOpenat2, SYS_openat2);
  EXPECT_EQ(kernel::kOpRead, IORING_OP_READ);
  EXPECT_EQ(kernel::kOpWrite, IORING_OP_WRITE);
  EXPECT_EQ(kernel::kEnterGetEvents, IORING_ENTER_GETEVENTS);
  EXPECT_EQ(kernel::kOffSqRing, IORING_OFF_SQ_RING);
  EXPECT_EQ(kernel::kOffSqes, IORING_OFF_SQES);
  EXPECT_EQ(kernel::kResolveBeneath, RESOLVE_BENEATH);
  EXPECT_EQ(kernel::kResolveNoSymlinks, RESOLVE_NO_SYMLINKS);
  EXPECT_EQ(sizeof(kernel::OpenHow), sizeof(open_how));
}

TEST(Kernel, WhatStatTellsIsWhereTheHeaderHasIt) {
  using Theirs = struct statx;
  EXPECT_EQ(sizeof(kernel::Statx), sizeof(Theirs));
  SAME(Statx, mask, Theirs, stx_mask);
  SAME(Statx, dev_major, Theirs, stx_dev_major);
  SAME(Statx, dev_minor, Theirs, stx_dev_minor);
  SAME(Statx, mnt_id, Theirs, stx_mnt_id);
  EXPECT_EQ(kernel::kStatxMntId, STATX_MNT_ID);
#ifdef STATX_DIOALIGN  // headers of 6.1
  SAME(Statx, dio_mem_align, Theirs, stx_dio_mem_align);
  SAME(Statx, dio_offset_align, Theirs, stx_dio_offset_align);
  EXPECT_EQ(kernel::kStatxDioAlign, STATX_DIOALIGN);
#endif
}

#include "base/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ckpt {
namespace {

TEST(CurrentProcess, IsAnotherInEveryChildAndGrandchild) {
  ASSERT_EQ(current_process(), getpid());
  pid_t child = fork();
  if (child == 0) {
    bool right = current_process() == getpid() && current_process() == getpid();
    pid_t grandchild = fork();
    if (grandchild == 0) _exit(current_process() == getpid() ? 0 : 1);
    int result = -1;
    waitpid(grandchild, &result, 0);
    _exit(right && result == 0 ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
  EXPECT_EQ(current_process(), getpid());
}

}  // namespace
}  // namespace ckpt

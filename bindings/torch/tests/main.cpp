#include <gtest/gtest.h>

#include <string>

#include "c10d_test.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--rank") return run_rank(argc, argv);
  if (argc > 1 && std::string(argv[1]) == "--trainer") return run_trainer(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

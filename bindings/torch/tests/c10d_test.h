#pragma once

// What this binary does as a rank of a job; its exit status.
int run_rank(int argc, char** argv);     // c10d_test.cpp
int run_trainer(int argc, char** argv);  // checkpointer_ranks_test.cpp

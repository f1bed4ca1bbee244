#pragma once

// What this binary does as a rank of a job; its exit status.
int run_rank(int argc, char** argv);

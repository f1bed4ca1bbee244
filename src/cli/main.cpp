// The ckpt command: reads the command line, runs one command, prints its error. Exit codes: 0 done or yes, 1 no
// (damaged, different), 2 error.
#include <cstdio>
#include <exception>
#include <new>

#include "cli/command.h"
#include "cli/text.h"

static int stop(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "ckpt: %s\n", text.c_str());
  return cli::kExitError;
}

static int run(int argc, char** argv) {
  cli::Action action;
  try {
    action = cli::parse_command_line(argc, argv);
  } catch (const ckpt::Error& error) {
    return stop(error.what());
  }
  int exit_code = action();
  bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written ? exit_code : stop("cannot write to standard output");
}

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const ckpt::Error& error) {
    return stop(cli::error_text(error));
  } catch (const std::bad_alloc&) {
    return stop("out of memory");
  } catch (const std::exception& error) {
    return stop(ckpt::cut_line(cli::escaped(error.what())));
  }
}

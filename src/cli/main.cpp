// The ckpt command: reads the command line, runs one command, prints its error. Exit codes: 0 done or yes, 1 no
// (damaged, different), 2 error.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>

#include "cli/command.h"
#include "cli/text.h"

static int stop(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "ckpt: %s\n", text.c_str());
  return cli::kExitError;
}

static int stop(const ckpt::Error& error, const std::string& text, bool json) {
  if (json) cli::print_json({{"error", cli::error_json(error)}});
  return stop(text);
}

static int run(int argc, char** argv, bool json) {
  cli::Action action;
  try {
    action = cli::parse_command_line(argc, argv);
  } catch (const ckpt::Error& error) {
    return stop(error, error.what(), json);
  }
  int exit_code = action();
  bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written ? exit_code : stop("cannot write to standard output");
}

int main(int argc, char** argv) {
  const bool json = std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  try {
    return run(argc, argv, json);
  } catch (const ckpt::Error& error) {
    return stop(error, cli::error_text(error), json);
  } catch (const std::bad_alloc&) {
    return stop(ckpt::Error(CKPT_NOMEM, "out of memory"), "out of memory", json);
  } catch (const std::exception& error) {
    return stop(ckpt::cut_line(cli::escaped(error.what())));
  }
}

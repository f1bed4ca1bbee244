// Signals that ask a trainer to stop. Process-wide; a handler is there while anybody wants its signal.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ckpt::keeper {

// "SIGTERM", or "signal 64" of one without a name that is known everywhere.
std::string signal_name(int number);

// Notes signals, and passes them on to the handlers that were there before. The default of SIGINT, which ends the
// process, gets the second one only. One thread; others may have their own.
class Signals {
 public:
  Signals() = default;
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();
  // INVALID for one that cannot be caught. Catching one twice does nothing.
  Status add(int number);
  bool any() const { return !taken_.empty(); }
  // One that came since it was added; 0 for none.
  int received() const;

 private:
  struct Taken {
    int number;
    uint32_t before;  // how often it had come
  };
  std::vector<Taken> taken_;
};

}  // namespace ckpt::keeper

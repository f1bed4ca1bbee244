// Signals that ask a trainer to stop. Process-wide; a handler is there while anybody wants its signal.
#ifndef CKPT_TORCH_PREEMPTION_H
#define CKPT_TORCH_PREEMPTION_H

#include <string>
#include <vector>

namespace ckpt_torch {
namespace internal {

// SIGTERM and SIGINT; in a job of SLURM SIGUSR1 too, which `sbatch --signal=USR1@120` sends before the end.
std::vector<int> default_signals();

// Notes signals, and passes them on to the handlers that were there before. The default of SIGINT, which ends the
// process, gets the second one only. Not thread-safe in itself; several may exist in several threads.
class Signals {
 public:
  // INVALID for a signal that cannot be caught.
  explicit Signals(const std::vector<int>& numbers);
  ~Signals();
  Signals(const Signals&) = delete;
  bool caught() const { return !taken_.empty(); }
  // The name of one that came since this object was made; "" for none.
  std::string received() const;

 private:
  struct Taken {
    int number;
    int before;  // how often it had come
  };
  void close();
  std::vector<Taken> taken_;
};

}  // namespace internal
}  // namespace ckpt_torch
#endif

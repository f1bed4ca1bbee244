// How what the sources of a model bank give gets into the model. One thread.
#ifndef CKPT_TORCH_RECIS_LOADING_H
#define CKPT_TORCH_RECIS_LOADING_H

#include "bank.h"
#include "src/session.h"

namespace ckpt_torch {
namespace recis {

// COLLECTIVE. Loads what the sources give: the model's tensors, then tables, then what was registered. All that the
// sources say of shapes, dtypes and numbers of workers is checked before anything changes. `own`: it is the run's own
// checkpoint, which has this rank's random generators. Returns where each variable came from.
Names load(Parts& parts, Session::Impl& session, const std::deque<Opened>& sources, bool own);

}  // namespace recis
}  // namespace ckpt_torch
#endif

// ckpt_session: one start of all ranks of a run.
#include "api/handles.h"

using namespace ckpt;
using namespace ckpt::api;

ckpt_status ckpt_session_open(ckpt_session** out, const ckpt_store* store, uint32_t rank, uint32_t world_size,
                              const char* session_string, const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out || !store) return null_status("out or store");
    if (store->forked()) return forked_status();
    return run_under(options, [&](Job& job) -> Status {
      CKPT_ASSIGN(auto session,
                  session::Session::open(store->store, rank, world_size, session_string, options_of(options), job));
      *out = new ckpt_session{{}, std::move(session)};
      return Ok();
    });
  });
}

const char* ckpt_session_string(const ckpt_session* session) {
  return session ? session->session->string().c_str() : "";
}
void ckpt_session_free(ckpt_session* session) { release(session); }

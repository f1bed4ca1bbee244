// ckpt_session: one start of all ranks of a run.
#include "api/handles.h"

using namespace ckpt;
using namespace ckpt::api;

// Rank 0's, which copies for all; null if the store has no mirror.
static Result<std::shared_ptr<maintain::Mirror>> start_mirror(const ckpt_store& store,
                                                              const std::shared_ptr<session::Session>& session,
                                                              const SessionOptions& options) {
  if (!store.mirror || session->rank() != 0) return std::shared_ptr<maintain::Mirror>();
  auto fenced = [session, mirror = store.mirror] { return session::check_fence(*mirror, session->plan()); };
  auto holds = [session](const format::Summary& summary) { return session->continuation().holds(summary); };
  return maintain::Mirror::start({store.store, store.mirror, session->plan().run, options.mirror_keep_last,
                                  std::move(fenced), std::move(holds), options.timeout_ms});
}

ckpt_status ckpt_session_open(ckpt_session** out, const ckpt_store* store, uint32_t rank, uint32_t world_size,
                              const char* session_string, const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out || !store) return null_status("out or store");
    if (store->forked()) return forked_status();
    const SessionOptions asked = session_options(options_of(options));
    if (asked.mirror_keep_last != 0 && !store->mirror)
      return Status(CKPT_INVALID, "option mirror_keep_last has no effect: the store was opened without option mirror");
    std::optional<std::string> given;
    if (session_string) given = session_string;
    const auto open = [kept = ckpt_store(*store), rank, world_size, given, asked](Job& job) -> Result<ckpt_session> {
      CKPT_ASSIGN(auto session, session::Session::open(kept.store, rank, world_size, given ? given->c_str() : nullptr,
                                                       asked, job, kept.mirror));
      CKPT_ASSIGN(auto mirror, start_mirror(kept, session, asked));
      std::shared_ptr<store::Lock> turn = session->take_turn();
      return ckpt_session{{}, std::move(session), std::move(mirror), std::move(turn)};
    };
    CKPT_ASSIGN(const std::shared_ptr<Job> job, job_for(options));
    CKPT_ASSIGN(ckpt_session session, make_apart<ckpt_session>(job, asked.timeout_ms, open));
    *out = new ckpt_session(std::move(session));
    return Ok();
  });
}

const char* ckpt_session_string(const ckpt_session* session) {
  return session ? session->session->string().c_str() : "";
}
void ckpt_session_free(ckpt_session* session) { release_apart(session); }

ckpt_status ckpt_session_mirror(const ckpt_session* session, ckpt_job** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(session, "session"));
    if (!out) return null_status("out");
    if (!session->mirror)
      return Status(CKPT_INVALID, session->session->rank() != 0 ? "rank 0 copies into the mirror; ask it"
                                                                : "the store was opened without option mirror");
    auto handle = new_job(true);
    CKPT_TRY(handle->job->start(
        CKPT_JOB_DONE, [mirror = session->mirror](Job& running) { return mirror->follow(running, &running.report); }));
    *out = handle.release();
    return Ok();
  });
}

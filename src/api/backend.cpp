// ckpt_backend.h: stores from outside. What is done with their calls is in store/backend.h.
#include "ckpt_backend.h"

#include "api/handles.h"
#include "maintain/check_store.h"
#include "store/backend.h"

using namespace ckpt;
using namespace ckpt::api;

static Status take(ckpt_status code, ckpt_error* error) {
  const std::unique_ptr<ckpt_error, decltype(&ckpt_error_free)> owned(error, &ckpt_error_free);
  if (code == CKPT_OK) return Ok();
  return error && !error->status.ok() ? error->status : Status(code, "");
}

ckpt_status ckpt_backend_register(const char* scheme, const ckpt_backend* backend, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!scheme) return null_status("scheme");
    store::Backend given{.take = take};
    CKPT_TRY(get_struct(backend, &given.calls, offsetof(ckpt_backend, open), sizeof given.calls));
    CKPT_TRY(check_reserved(given.calls.reserved));
    return store::register_backend(scheme, given);
  });
}

int64_t ckpt_backend_left_ms(void) {
  const int64_t left = CallContext::current().left_ms();
  return left == Call::kNever ? -1 : left;
}

ckpt_status ckpt_backend_check(const ckpt_store* store, ckpt_backend_tell tell, void* user, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(store, "store"));
    if (!tell) return null_status("tell");
    using Promises = std::vector<maintain::Promise>;
    CKPT_ASSIGN(const Promises promises,
                make_apart<Promises>(std::make_shared<Job>(), store->patience_ms,
                                     [kept = store->store](Job&) { return maintain::check_store(*kept); }));
    for (const auto& [name, state, found] : promises) tell(user, name.c_str(), state, found.c_str());
    return Ok();
  });
}

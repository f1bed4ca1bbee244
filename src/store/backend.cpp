#include "store/backend.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <set>

#include "base/address.h"
#include "base/text.h"
#include "store/keys.h"

namespace ckpt::store {

// ---- schemes ----

static constexpr size_t kMostScheme = 32;
static constexpr std::string_view kOwnSchemes[] = {"abfs", "abfss", "az", "file", "gs", "http", "https", "mem", "s3"};

namespace {

struct Schemes {
  std::mutex mutex;
  std::map<std::string, Backend, std::less<>> backends;
};

}  // namespace

// Never destroyed, since a store may outlive the static objects of the program.
static Schemes& schemes() {
  static auto& all = *new Schemes;
  return all;
}

static Status check_scheme(std::string_view scheme) {
  const bool plain = scheme.size() > 1 && scheme.size() <= kMostScheme && scheme[0] >= 'a' && scheme[0] <= 'z' &&
                     scheme.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789+-.") == scheme.npos;
  if (!plain)
    return Status(CKPT_INVALID, strformat("scheme {}: expected a letter, then letters, digits, '+', '-' or '.', in "
                                          "lower case, 2 to {} in all",
                                          in_quotes(scheme), kMostScheme));
  if (std::ranges::find(kOwnSchemes, scheme) == std::end(kOwnSchemes)) return Ok();
  return Status(CKPT_INVALID, strformat("scheme {} is one of ckpt's own; choose another", in_quotes(scheme)));
}

Status register_backend(std::string_view scheme, const Backend& backend) {
  CKPT_TRY(check_scheme(scheme));
  const ckpt_backend& calls = backend.calls;
  const bool reads = calls.open && calls.release && calls.look && calls.read && calls.list;
  const bool writes = calls.append && calls.publish && calls.discard && calls.remove;
  if (!reads || (calls.create && !writes))
    return Status(CKPT_INVALID, strformat("scheme {}: expected open, release, look, read and list, and with create all "
                                          "calls that write; found NULL for one",
                                          in_quotes(scheme)));
  std::lock_guard lock(schemes().mutex);
  if (schemes().backends.try_emplace(std::string(scheme), backend).second) return Ok();
  return Status(CKPT_EXISTS, strformat("scheme {} is registered already", in_quotes(scheme)));
}

std::optional<Backend> find_backend(std::string_view scheme) {
  std::lock_guard lock(schemes().mutex);
  const auto found = schemes().backends.find(scheme);
  if (found == schemes().backends.end()) return {};
  return found->second;
}

// ---- calls ----

// An exception of the other side goes no further, unless it is none of C++: by such a one a thread ends (pthread_exit).
template <typename Call>
static ckpt_status caught(Call&& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return CKPT_NOMEM;
  } catch (...) {
    if (!std::current_exception()) throw;
    return CKPT_INTERNAL;
  }
}

Status BackendCalls::stranger(std::string_view key, std::string_view what) const {
  return Status(CKPT_IO, strformat("{}: the backend does not answer as ckpt_backend.h says: {}", path(key), what))
      .with("path", path(key));
}

static bool may_be(ckpt_status code) {
  return code == CKPT_INVALID || code == CKPT_UNSUPPORTED || code == CKPT_CORRUPT || code == CKPT_NO_SPACE ||
         code == CKPT_NOMEM;
}

// `meant`: the one status that says more than that the call failed; OK if there is none.
Status BackendCalls::answer(const char* verb, std::string_view key, ckpt_status code, ckpt_error* error,
                            ckpt_status meant) const {
  Status told = backend_.take(code, error);
  if (told.ok()) return told;
  const bool is_answer = code == meant || may_be(code);
  if (const Status over = CallContext::current().check(); !is_answer && !over.ok()) return over;
  const std::string text =
      strformat("{}: {}: {}{}", path(key), verb, status_name(code), told.message().empty() ? "" : ": ") +
      told.message();
  Status status(is_answer ? code : CKPT_IO, text);
  for (const auto& [name, value] : told.details()) status = std::move(status).with(name, value);
  return std::move(status).with("path", path(key));
}

template <typename Call>
Status BackendCalls::call(const char* verb, std::string_view key, ckpt_status meant, Call&& call) const {
  Busy busy(verb, shown_, key);
  const ContextScope asking(CallContext::current().of(busy));
  CKPT_TRY(CallContext::current().check());
  ckpt_error* error = nullptr;
  const ckpt_status code = caught([&] { return call(&error); });
  Status told = answer(verb, key, code, error, meant);
  busy.ended(told);
  return told;
}

// Each append as one put, since for a small file its end is no other request.
void BackendCalls::count(RequestKind kind, uint64_t sent, uint64_t received) const {
  if (promises(CKPT_BACKEND_REMOTE)) count_request(kind, false, sent, received);
}

static constexpr int64_t kMostListDelayMs = 60000;

Status BackendCalls::check_traits() const {
  if (traits_.list_delay_ms < 0 || traits_.list_delay_ms > kMostListDelayMs)
    return stranger("",
                    strformat("list_delay_ms: expected 0 to {}, found {}", kMostListDelayMs, traits_.list_delay_ms));
  return Ok();
}

static std::string_view without_last_slashes(std::string_view text) {
  while (text.ends_with('/') && !text.ends_with("://")) text.remove_suffix(1);
  return text;
}

BackendCalls::BackendCalls(std::string_view uri, const Backend& backend)
    : uri_(without_last_slashes(uri)), shown_(shown_url(uri_)), backend_(backend) {}

Result<std::shared_ptr<BackendCalls>> BackendCalls::open(std::string_view uri, const Backend& backend) {
  if (uri.find('\0') != uri.npos) return Status(CKPT_INVALID, "store " + in_quotes(shown_url(uri)) + ": it has a NUL");
  std::shared_ptr<BackendCalls> opened(new BackendCalls(uri, backend));
  opened->traits_.struct_size = sizeof(ckpt_backend_traits);
  CKPT_TRY(opened->call("open", "", CKPT_NOT_FOUND, [&](ckpt_error** error) {
    return backend.calls.open(opened->uri_.c_str(), &opened->context_, &opened->traits_, error);
  }));
  opened->open_ = true;
  CKPT_TRY(opened->check_traits());
  return opened;
}

// On this thread, which may hold what the other side wants.
BackendCalls::~BackendCalls() {
  if (open_) (void)caught([&] { return backend_.calls.release(context_), CKPT_OK; });
}

std::string BackendCalls::path(std::string_view key) const {
  return key.empty() ? shown_ : strformat("{}{}{}", shown_, shown_.ends_with('/') ? "" : "/", key);
}

static constexpr ckpt_backend_file kUnknown = {sizeof(ckpt_backend_file), 0, -1, -1, {}};

Result<ckpt_backend_file> BackendCalls::look(std::string_view key) const {
  ckpt_backend_file file = kUnknown;
  count(RequestKind::kGet, 0, 0);
  CKPT_TRY(call("look", key, CKPT_NOT_FOUND, [&](ckpt_error** error) {
    return backend_.calls.look(context_, std::string(key).c_str(), &file, error);
  }));
  if (file.is_directory) return not_found(path(key));
  CKPT_TRY(check_file(key, file));
  return file;
}

Status BackendCalls::check_file(std::string_view key, const ckpt_backend_file& file) const {
  if (!file.is_directory && file.size < 0) return stranger(key, strformat("a file of {} bytes", file.size));
  const bool ends = std::memchr(file.version, 0, sizeof file.version) != nullptr;
  return ends ? Ok() : stranger(key, "a version without an end");
}

Status BackendCalls::read(std::string_view key, const std::string& version, uint64_t offset, MutableBytes out) const {
  const std::string name(key);
  while (!out.empty()) {
    uint64_t done = 0;
    CKPT_TRY(call("read", key, CKPT_GONE, [&](ckpt_error** error) {
      return backend_.calls.read(context_, name.c_str(), version.c_str(), offset, out.data(), out.size(), &done, error);
    }));
    count(RequestKind::kGet, 0, done);
    if (done == 0 || done > out.size())
      return stranger(key, strformat("{} bytes of the {} at {}", done, out.size(), offset));
    out = out.subspan(done);
    offset += done;
  }
  return Ok();
}

namespace {

// What a list tells, as long as it is wanted.
struct Listener {
  static constexpr uint64_t kMostCalls = 1 << 22, kLook = 1024;
  const BackendCalls& backend;
  const std::string_view directory;
  const BackendCalls::Found& found;
  uint64_t calls = 0;
  bool enough = false;
  Status failure{};

  Result<bool> hear(const char* name, const ckpt_backend_file* file) {
    if (++calls > kMostCalls) return backend.stranger(directory, "a list that does not end");
    if (calls % kLook == 0) CKPT_TRY(CallContext::current().check());
    if (!name || !file) return backend.stranger(directory, "a list with NULL");
    if (!check_element(std::string_view(name, strnlen(name, kMaxElement + 1))).ok()) return false;
    ckpt_backend_file known = kUnknown;
    std::memcpy(&known, file, std::min<size_t>(file->struct_size, sizeof known));
    CKPT_TRY(backend.check_file(directory, known));
    return found(name, known);
  }
  static ckpt_status of_table(void* self, const char* name, const ckpt_backend_file* file) {
    auto& me = *static_cast<Listener*>(self);
    if (me.enough) return CKPT_CANCELLED;
    auto enough = me.hear(name, file);
    me.failure = enough.status();
    me.enough = !enough.ok() || *enough;
    return me.enough ? CKPT_CANCELLED : CKPT_OK;
  }
};

}  // namespace

Status BackendCalls::list(std::string_view directory, const Found& found) const {
  Listener listener{*this, directory, found};
  count(RequestKind::kList, 0, 0);
  Status told = call("list", directory, CKPT_OK, [&](ckpt_error** error) {
    const std::string name(directory);
    return backend_.calls.list(context_, name.c_str(), &Listener::of_table, &listener, error);
  });
  return listener.enough ? listener.failure : told;
}

Status BackendCalls::may_write(std::string_view key) const {
  if (backend_.calls.create) return Ok();
  return Status(CKPT_UNSUPPORTED, path(key) + ": this store is only read").with("path", path(key));
}

Result<void*> BackendCalls::create(std::string_view key, uint64_t expected_size, int32_t how) const {
  CKPT_TRY(may_write(key));
  void* file = nullptr;
  CKPT_TRY(call("create", key, CKPT_OK, [&](ckpt_error** error) {
    return backend_.calls.create(context_, std::string(key).c_str(), expected_size, how, &file, error);
  }));
  return file;
}

Status BackendCalls::append(std::string_view key, void* file, Bytes data) const {
  count(RequestKind::kPut, data.size(), 0);
  return call("append", key, CKPT_OK, [&](ckpt_error** error) {
    return backend_.calls.append(context_, file, data.data(), data.size(), error);
  });
}

// Where a put is no single step of the store's (it looks, and then puts), whatever changes a key in this process does
// so one after another. So one that was left behind never replaces what came later: that does not come.
class BackendCalls::Turn {
 public:
  Turn(const BackendCalls& calls, std::string_view key) : calls_(calls), key_(key) {}
  ~Turn() {
    if (taken_.empty()) return;
    const std::lock_guard lock(taken().mutex);
    taken().keys.erase(taken_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Status take() {
    if (calls_.promises(CKPT_BACKEND_EXCLUSIVE)) return Ok();
    const Busy busy("a wait for an earlier put", calls_.shown_, key_);
    const CallContext waiting = CallContext::current().of(busy);
    std::string full = strformat("{}\n{}", calls_.uri_, key_);
    for (;;) {
      {
        const std::lock_guard lock(taken().mutex);
        if (taken().keys.insert(full).second) {
          taken_ = std::move(full);
          return Ok();
        }
      }
      const Status over = waiting.pause(10);
      if (!over.ok())
        return Status(over.code(), strformat("{}: an earlier put has not ended, and may still replace what is there; "
                                             "start a new process: {}",
                                             calls_.path(key_), over.message()));
    }
  }

 private:
  struct Taken {
    std::mutex mutex;
    std::set<std::string> keys;
  };
  // Never destroyed, since a thread that was left behind may outlive the static objects of the program.
  static Taken& taken() {
    static auto& all = *new Taken;
    return all;
  }

  const BackendCalls& calls_;
  const std::string_view key_;
  std::string taken_;  // what is in that set until the end; "" without it
};

Status BackendCalls::publish(std::string_view key, void* file) const {
  Turn turn(*this, key);
  Status waited = turn.take();
  if (waited.ok()) return publish_now(key, file);
  discard(key, file);
  return waited;
}

Status BackendCalls::publish_now(std::string_view key, void* file) const {
  const CancelShield until_it_is_known;
  bool asked = false;
  Status told = call("publish", key, CKPT_EXISTS, [&](ckpt_error** error) {
    asked = true;
    return backend_.calls.publish(context_, file, error);
  });
  if (!asked) discard(key, file);
  return told;
}

Status BackendCalls::put(std::string_view key, Bytes data, int32_t how) const {
  Turn turn(*this, key);
  CKPT_TRY(turn.take());
  const CancelShield until_it_is_known;
  CKPT_ASSIGN(void* const file, create(key, data.size(), how));
  Status appended = data.empty() ? Ok() : append(key, file, data);
  if (appended.ok()) return publish_now(key, file);
  discard(key, file);
  return appended;
}

void BackendCalls::discard(std::string_view key, void* file) const {
  const Busy busy("discard", shown_, key);
  (void)caught([&] { return backend_.calls.discard(context_, file), CKPT_OK; });
}

Status BackendCalls::remove(std::string_view key) const {
  CKPT_TRY(may_write(key));
  Turn turn(*this, key);
  CKPT_TRY(turn.take());
  const CancelShield also_when_cancelled;
  count(RequestKind::kDelete, 0, 0);
  return call("remove", key, CKPT_NOT_FOUND,
              [&](ckpt_error** error) { return backend_.calls.remove(context_, std::string(key).c_str(), error); });
}

}  // namespace ckpt::store

#include "session.h"

#include <cstdlib>

#include "content.h"
#include "state.h"

namespace ckpt_torch {

using namespace internal;

// ---- what is saved ----

namespace {

template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

Models::Models(std::initializer_list<Models> all) {
  for (const Models& models : all) append(modules_, models.modules_), append(owners_, models.owners_);
}

Optimizers::Optimizers(std::initializer_list<Optimizers> all) {
  for (const Optimizers& some : all) append(optimizers_, some.optimizers_), append(owners_, some.owners_);
}

void Others::set(const std::string& key, c10::IValue value) {
  for (Item& item : items_)
    if (item.first == key) {
      item.second = std::move(value);
      return;
    }
  items_.emplace_back(key, std::move(value));
}

bool Others::contains(const std::string& key) const {
  for (const Item& item : items_)
    if (item.first == key) return true;
  return false;
}

const c10::IValue& Others::at(const std::string& key) const {
  for (const Item& item : items_)
    if (item.first == key) return item.second;
  std::vector<std::string> keys;
  for (const Item& item : items_) keys.push_back(item.first);
  fail(CKPT_NOT_FOUND, "there is no " + in_quotes(key) + " beside the model; there is " +
                           (keys.empty() ? "nothing" : listed(keys, 20)));
}

// ---- the session ----

Session::Session(const std::string& store, Ranks ranks, Settings settings)
    : impl_(guarded([&] { return std::make_unique<Impl>(store, std::move(ranks), std::move(settings)); })) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

std::string Session::string() {
  return guarded([&] {
    impl_->open_session();
    return impl_->session.string();
  });
}

std::string Session::save(const State& state, const SaveOptions& options) {
  return guarded([&] { return impl_->save(state, options); });
}

SaveHandle Session::save_async(const State& state, const SaveOptions& options) {
  return guarded([&] { return impl_->save_async(state, options); });
}

Loaded Session::load(const Models& models, const Optimizers& optimizers, const LoadOptions& options) {
  return guarded([&] { return impl_->load(impl_->resolve(options), models, optimizers, options); });
}

std::optional<Loaded> Session::load_if_any(const Models& models, const Optimizers& optimizers,
                                           const LoadOptions& options) {
  return guarded([&] { return impl_->load_if_any(models, optimizers, options); });
}

Session::Impl::Impl(const std::string& path, Ranks who, Settings given) : Impl(std::move(who), std::move(given)) {
  uri = path;
  store = ckpt::Store::open(path, options_of(settings));
}

Session::Impl::Impl(Ranks who, Settings given) : ranks(std::move(who)), settings(std::move(given)) {
  if (ranks.rank >= ranks.world_size)
    fail(CKPT_INVALID, "rank " + std::to_string(ranks.rank) + " of " + std::to_string(ranks.world_size) +
                           " ranks: ranks count from 0");
}

Session::Impl::~Impl() {
  if (!pending) return;
  // The trainer unwinds: the other ranks are told at once, and do not wait for a rank that may never save again.
  if (unwinding) pending->job.cancel();
  pending->wait_local();
}

void Session::Impl::wait_at_most(const Settings& over, std::chrono::milliseconds least) const {
  const Settings& given = over.count("timeout_ms") ? over : settings;
  const auto found = given.find("timeout_ms");
  std::chrono::milliseconds limit = std::chrono::minutes(30);
  // What is no number, or below 1, is refused together with the other ranks.
  const long long asked = found == given.end() ? 0 : std::atoll(found->second.text().c_str());
  if (asked > 0) limit = std::chrono::milliseconds(asked);
  if (group()) group()->wait_at_most(std::max(limit, least));
}

// By what the environment makes this process look like one of several ranks.
static std::string lookalike() {
  const char* const launchers[][2] = {{"RANK", "WORLD_SIZE"},
                                      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                      {"SLURM_PROCID", "SLURM_NTASKS"},
                                      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                      {"PMI_RANK", "PMI_SIZE"},
                                      {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                      {"JAX_PROCESS_ID", "JAX_NUM_PROCESSES"},
                                      {"HOROVOD_RANK", "HOROVOD_SIZE"},
                                      {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
                                      {"PALS_RANKID", "PALS_SIZE"}};
  for (const auto& names : launchers) {
    const char *rank = std::getenv(names[0]), *size = std::getenv(names[1]);
    if (rank == nullptr || size == nullptr) continue;
    if (std::strtol(size, nullptr, 10) < 2) return "";
    return std::string(names[0]) + " and " + names[1] + " make it look like rank " + rank + " of " + size;
  }
  return "";
}

// In a group rank 0 opens the session and the others join by its string.
void Session::Impl::open_session() {
  if (session) return;
  if (ranks.world_size == 1 && !ranks.alone && !ranks.group) {
    if (const std::string looks = lookalike(); !looks.empty()) {
      TORCH_WARN_ONCE("ckpt: this process saves as the only rank, but ", looks,
                      ": if they save to one path, each fences the others. Give Ranks::of(group), with_session or "
                      "by_rendezvous; Ranks::single() says that it is alone");
    }
  }
  Settings over;
  if (ranks.rendezvous) over.emplace("rendezvous", 1);
  auto open = [&](const std::string& string) {
    const std::string& text = ranks.rank == 0 ? "" : string;
    session = ckpt::Session::open(store, ranks.rank, ranks.world_size, text, options_of(settings, over));
  };
  if (!ranks.group) return open(ranks.session);
  std::string string;
  auto first = caught([&] {
    if (ranks.rank == 0) open("");
    if (ranks.rank == 0) string = session.string();
  });
  string = agree(group(), first, string)[0];
  auto others = caught([&] {
    if (ranks.rank != 0) open(string);
  });
  try {
    agree(group(), others);
  } catch (...) {
    session = ckpt::Session(nullptr);  // the next call tries again on all ranks
    throw;
  }
}

// ---- free functions ----

// COLLECTIVE. If it fails on one rank, all throw.
static Session make_together(const std::string& store, const Ranks& ranks, const Settings& settings) {
  return guarded([&] {
    std::optional<Session> made;
    agree(ranks.group.get(), caught([&] { made.emplace(store, ranks, settings); }));
    return std::move(*made);
  });
}

std::string save(const std::string& store, const Models& models, const Optimizers& optimizers, const Others& others,
                 const SaveOptions& options, const Ranks& ranks) {
  return make_together(store, ranks, options.settings).save({models, optimizers, others}, options);
}

// COLLECTIVE. Nothing, unless rank 0 says that it is of files and they have a known format.
static std::optional<Loaded> load_files(const std::string& path, const std::function<bool()>& of_files,
                                        const Models& models, const Optimizers& optimizers, const LoadOptions& options,
                                        const Ranks& ranks) {
  if (options.selector != "latest") return std::nullopt;  // of files there is nothing to select
  Session::Impl impl(ranks, {});
  std::string answer;
  auto error = caught([&] {
    if (ranks.rank == 0 || !ranks.group) answer = of_files() ? "files" : "";
  });
  if (agree(impl.group(), error, answer)[0].empty()) return std::nullopt;
  try {
    return impl.load(path, models, optimizers, options);
  } catch (const Error& failed) {
    const auto expected = failed.details().find("expected");
    if (failed.status() != CKPT_NOT_FOUND || expected == failed.details().end() || expected->second != "a known format")
      throw;
    return std::nullopt;
  }
}

Loaded load(const std::string& store, const Models& models, const Optimizers& optimizers, const LoadOptions& options,
            const Ranks& ranks) {
  auto files = [&](const std::function<bool()>& of_files) {
    return guarded([&] { return load_files(store, of_files, models, optimizers, options, ranks); });
  };
  if (auto loaded = files([&] { return is_foreign(store); })) return std::move(*loaded);
  try {
    return make_together(store, ranks, options.settings).load(models, optimizers, options);
  } catch (const Error& error) {
    bool in_bucket = store.find(".blob.core.") != store.npos;
    for (const char* scheme : {"s3://", "gs://", "az://", "abfs"}) in_bucket |= store.rfind(scheme, 0) == 0;
    if (error.status() != CKPT_NOT_FOUND || !in_bucket) throw;
    auto is_no_store = [&] { return ckpt::Store::open(store, options_of(options.settings)).list().empty(); };
    if (auto loaded = files(is_no_store)) return std::move(*loaded);
    throw;
  }
}

std::optional<Loaded> load_if_any(const std::string& store, const Models& models, const Optimizers& optimizers,
                                  const LoadOptions& options, const Ranks& ranks) {
  return make_together(store, ranks, options.settings).load_if_any(models, optimizers, options);
}

}  // namespace ckpt_torch

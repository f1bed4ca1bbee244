// A store whose calls take their time, fail, lose their answers, or are the last thing that their process does.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/call.h"
#include "sim/schedule.h"
#include "store/forwarding_store.h"

namespace sim {

using ckpt::Result;
using ckpt::Status;
using ckpt::store::Lock;

// What may happen to the calls of all processes.
struct Weather {
  uint64_t most_ms = 5;   // that a call usually takes
  uint64_t fault_in = 0;  // one of so many calls fails, before or after it has had its effect; 0: none
  uint64_t stall_in = 0;  // one of so many takes up to stall_ms
  int64_t stall_ms = 60'000;
  bool shared = false;                // see Traits: the server may forget locks
  std::map<int, uint64_t> last_call;  // of a process: it is killed in it
  std::map<int, uint64_t> times;      // of a process: its calls take so many times as long
  std::map<int, uint64_t> calls;
  std::map<int, int64_t> succeeded_at;  // the last call of a process that did
  std::string slow;                     // names with this in them take up to half a second more, each way; "": none
  bool patches = false;                 // faults and stalls come in patches: where one is, more are
  std::map<int, int64_t> bad_until;     // of a process in such a patch

  uint64_t most_ms_here() const {
    const auto slow_one = times.find(process());
    return most_ms * (slow_one == times.end() ? 1 : slow_one->second);
  }
  // Whether it happens now what happens in one of so many calls.
  bool comes(uint64_t one_in) const {
    const auto bad = bad_until.find(process());
    constexpr uint64_t kOfBad = 6;
    return one_in && once_in(bad != bad_until.end() && now() < bad->second ? kOfBad : one_in);
  }
};

// The locks that a process holds end with it.
class Locks {
 public:
  using Held = std::shared_ptr<std::unique_ptr<Lock>>;
  void add(int process, const Held& held) { held_[process].push_back(held); }
  void forget_all() {
    for (const auto& [process, held] : held_) free(process);
  }
  void free(int process) {
    for (const std::weak_ptr<std::unique_ptr<Lock>>& weak : held_[process])
      if (const Held held = weak.lock()) held->reset();
  }

 private:
  std::map<int, std::vector<std::weak_ptr<std::unique_ptr<Lock>>>> held_;
};

class Store : public ckpt::store::ForwardingStore {
 public:
  Store(std::shared_ptr<ckpt::store::Store> inner, Weather& weather, Locks& locks)
      : ForwardingStore(std::move(inner)), weather_(weather), locks_(locks) {}

  // `changes`: the call may have had its effect although it fails.
  template <typename Call>
  auto call(const char* name, std::string_view key, bool changes, Call&& act) const -> decltype(act()) {
    live_or_die();
    const int here = process();
    const bool last = weather_.last_call.contains(here) && ++weather_.calls[here] >= weather_.last_call[here];
    const bool fails = !last && weather_.comes(weather_.fault_in);
    if (fails && weather_.patches && now() >= weather_.bad_until[here] && once_in(2))
      weather_.bad_until[here] = now() + static_cast<int64_t>(random(20'000)) * kMs;
    const bool late = (last || fails) && once_in(2);  // after the effect
    const std::string what = std::string(name) + " " + std::string(key), path = inner_->path(key);
    const ckpt::Busy busy(name, path);  // so whoever looks after the call can leave it behind
    wait(key);
    if (fails && !(changes && late)) return fault(what + ": fails");
    if (last && !late) die(what);
    auto result = act();
    (changes && succeeded(result) ? note : detail)(what + (succeeded(result) ? "" : " no"));
    wait(key);
    if (last) die(what);
    if (fails && succeeded(result)) return fault(what + ": its answer is lost");
    weather_.succeeded_at[here] = now();
    return result;
  }

  ckpt::store::Traits traits() const override {
    ckpt::store::Traits traits = inner_->traits();
    traits.shared = traits.shared || weather_.shared;
    return traits;
  }
  Status make_root() override {
    return call("make_root", "", true, [&] { return inner_->make_root(); });
  }
  Status prepare() override {
    return call("prepare", "", true, [&] { return inner_->prepare(); });
  }
  Status make_directory(std::string_view key) override {
    return call("make_directory", key, true, [&] { return inner_->make_directory(key); });
  }
  Status put_if_absent(std::string_view key, ckpt::Bytes data) override {
    return call("put", key, true, [&] { return inner_->put_if_absent(key, data); });
  }
  Status put_over(std::string_view key, ckpt::Bytes data) override {
    return call("put_over", key, true, [&] { return inner_->put_over(key, data); });
  }
  Result<std::unique_ptr<ckpt::store::Writer>> create(std::string_view key, uint64_t size, bool at_most) override;
  Result<std::unique_ptr<ckpt::store::Reader>> open(std::string_view key) const override;
  Result<std::unique_ptr<ckpt::store::Reader>> open_lazily(std::string_view key) const override { return open(key); }
  Result<std::unique_ptr<ckpt::store::Reader>> open_cached(std::string_view key, const ckpt::store::Content&,
                                                           bool) const override {
    return open(key);
  }
  Result<bool> exists(std::string_view key) const override {
    return call("exists", key, false, [&] { return inner_->exists(key); });
  }
  Result<bool> has_directory(std::string_view key) const override {
    return call("has_directory", key, false, [&] { return inner_->has_directory(key); });
  }
  Result<std::vector<ckpt::store::Entry>> list(std::string_view directory) const override {
    return call("list", directory, false, [&] { return inner_->list(directory); });
  }
  Result<std::vector<ckpt::store::Entry>> list_at_most(std::string_view directory, size_t most) const override {
    return call("list", directory, false, [&] { return inner_->list_at_most(directory, most); });
  }
  Result<std::vector<ckpt::store::FileUse>> usage(std::string_view directory) const override {
    return call("usage", directory, false, [&] { return inner_->usage(directory); });
  }
  Result<std::unique_ptr<ckpt::store::Borrowed>> borrow(std::string_view from, std::string_view to) override {
    return call("borrow", to, true, [&] { return inner_->borrow(from, to); });
  }
  Status remove(std::string_view key, bool sync) override {
    return call("remove", key, true, [&] { return inner_->remove(key, sync); });
  }
  Status remove_directory(std::string_view key) override {
    return call("remove_directory", key, true, [&] { return inner_->remove_directory(key); });
  }
  Result<int64_t> age_ms(std::string_view key) const override {
    return call("age_ms", key, false, [&] { return inner_->age_ms(key); });
  }
  Status open_attempt(std::string_view record, ckpt::Bytes text, std::string_view directory) override {
    return call("open_attempt", directory, true, [&] { return inner_->open_attempt(record, text, directory); });
  }
  Result<bool> attempt_exists(std::string_view record, std::string_view directory) const override {
    return call("attempt_exists", directory, false, [&] { return inner_->attempt_exists(record, directory); });
  }
  Status retire(std::string_view directory, std::string_view slot, ckpt::Bytes tombstone) override {
    return call("retire", directory, true, [&] { return inner_->retire(directory, slot, tombstone); });
  }
  Status finish_removals() override {
    return call("finish_removals", "", true, [&] { return inner_->finish_removals(); });
  }
  Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const override {
    return call("lock_shared", key, false, [&] { return keep(inner_->lock_shared(key)); });
  }
  Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const override {
    return call("try_lock_exclusive", key, false, [&] { return keep(inner_->try_lock_exclusive(key)); });
  }

 protected:
  Result<std::vector<std::byte>> get_once(std::string_view key, uint64_t limit) const override {
    return call("get", key, false, [&] { return inner_->get(key, limit); });
  }

 private:
  static bool succeeded(const Status& status) { return status.ok(); }
  template <typename T>
  static bool succeeded(const Result<T>& result) {
    return result.ok();
  }
  static Status fault(const std::string& what) {
    note(what);
    return ckpt::Busy::of_thread_ended(Status(CKPT_IO, what));
  }
  void wait(std::string_view key) const {
    auto ms = static_cast<int64_t>(random(weather_.most_ms_here()));
    if (!weather_.slow.empty() && key.find(weather_.slow) != key.npos) ms += static_cast<int64_t>(random(500));
    if (weather_.comes(weather_.stall_in)) ms = static_cast<int64_t>(random(weather_.stall_ms));
    pause(ms * kMs + static_cast<int64_t>(random(kMs)));
  }
  void die(const std::string& where) const {
    note("is killed in " + where);
    kill(process());
    locks_.free(process());
    live_or_die();
  }
  Result<std::unique_ptr<Lock>> keep(Result<std::unique_ptr<Lock>> lock) const;

  Weather& weather_;
  Locks& locks_;
};

// ---- what a store gives out ----

class Writer : public ckpt::store::Writer {
 public:
  Writer(const Store& store, std::string key, std::unique_ptr<ckpt::store::Writer> inner)
      : store_(store), key_(std::move(key)), inner_(std::move(inner)) {}
  bool direct() const override { return inner_->direct(); }
  Status write_at(uint64_t offset, ckpt::Bytes data) override {
    return store_.call("write", key_, true, [&] { return inner_->write_at(offset, data); });
  }
  Status publish(uint64_t size) override {
    return store_.call("publish", key_, true, [&] { return inner_->publish(size); });
  }
  void abandon() override { inner_->abandon(); }

 private:
  const Store& store_;
  const std::string key_;
  const std::unique_ptr<ckpt::store::Writer> inner_;
};

class Reader : public ckpt::store::Reader {
 public:
  Reader(const Store& store, std::string key, std::unique_ptr<ckpt::store::Reader> inner)
      : store_(store), key_(std::move(key)), inner_(std::move(inner)) {}
  uint64_t size() const override { return inner_->size(); }
  std::string version() const override { return inner_->version(); }
  Status read_at(uint64_t offset, ckpt::MutableBytes out) const override {
    return store_.call("read", key_, false, [&] { return inner_->read_at(offset, out); });
  }
  Result<ckpt::Bytes> map() const override { return inner_->map(); }

 private:
  const Store& store_;
  const std::string key_;
  const std::unique_ptr<ckpt::store::Reader> inner_;
};

class HeldLock : public Lock {
 public:
  HeldLock(Locks::Held held, bool protects) : held_(std::move(held)), protects_(protects) {}
  bool protects() const override { return protects_; }

 private:
  const Locks::Held held_;
  const bool protects_;
};

inline Result<std::unique_ptr<Lock>> Store::keep(Result<std::unique_ptr<Lock>> lock) const {
  if (!lock.ok()) return lock;
  const bool protects = (*lock)->protects();
  auto held = std::make_shared<std::unique_ptr<Lock>>(lock.take());
  locks_.add(process(), held);
  return std::unique_ptr<Lock>(std::make_unique<HeldLock>(std::move(held), protects));
}

inline Result<std::unique_ptr<ckpt::store::Writer>> Store::create(std::string_view key, uint64_t size, bool at_most) {
  CKPT_ASSIGN(auto made, call("create", key, false, [&] { return inner_->create(key, size, at_most); }));
  return std::unique_ptr<ckpt::store::Writer>(std::make_unique<Writer>(*this, std::string(key), std::move(made)));
}

inline Result<std::unique_ptr<ckpt::store::Reader>> Store::open(std::string_view key) const {
  CKPT_ASSIGN(auto opened, call("open", key, false, [&] { return inner_->open(key); }));
  return std::unique_ptr<ckpt::store::Reader>(std::make_unique<Reader>(*this, std::string(key), std::move(opened)));
}

}  // namespace sim

#include "base/call.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/strformat.h"

namespace ckpt {

// Set only while a call is at work, and put back by it. So it is nothing to a language that changes threads between
// calls, nor to two users in one process.
static thread_local CallContext context_of_thread;

int64_t steady_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

static int64_t later(int64_t time, int64_t by) { return time > Call::kNever - by ? Call::kNever : time + by; }

// ---- counting ----

static constexpr std::atomic<uint64_t> RequestCounters::* kCounts[] = {
    &RequestCounters::gets,    &RequestCounters::puts,       &RequestCounters::lists,         &RequestCounters::deletes,
    &RequestCounters::retries, &RequestCounters::bytes_sent, &RequestCounters::bytes_received};

void RequestCounters::add(const RequestCounters& other) {
  for (const auto count : kCounts) this->*count += other.*count;
}

void RequestCounters::become(const RequestCounters& now, const RequestCounters& before) {
  for (const auto count : kCounts) this->*count = now.*count - before.*count;
}

void count_request(RequestKind kind, bool again, uint64_t sent, uint64_t received) {
  for (Call* call = CallContext::current().call(); call; call = call->outer.get()) {
    RequestCounters& requests = call->requests;
    switch (kind) {
      case RequestKind::kGet:
        requests.gets++;
        break;
      case RequestKind::kPut:
        requests.puts++;
        break;
      case RequestKind::kList:
        requests.lists++;
        break;
      case RequestKind::kDelete:
        requests.deletes++;
        break;
    }
    requests.retries += again ? 1 : 0;
    requests.bytes_sent += sent;
    requests.bytes_received += received;
  }
}

// ---- the end of a call ----

int64_t Call::least(std::atomic<int64_t> Call::* of) const {
  int64_t least = kNever;
  for (const Call* call = this; call; call = call->outer.get()) least = std::min(least, (call->*of).load());
  return least;
}

void Call::hear() const {
  if (!hear_) return;
  constexpr int64_t kPauseMs = 20;
  int64_t from = hear_from_ms_;
  if (steady_ms() < from || !hear_from_ms_.compare_exchange_strong(from, kNever)) return;
  try {
    hear_();
  } catch (const std::exception&) {  // no memory, say; it may hear the next time, and whoever asks has an answer
  }
  hear_from_ms_ = steady_ms() + kPauseMs;
}

int64_t Call::over_ms() const {
  for (const Call* call = this; call; call = call->outer.get()) call->hear();
  return least(&Call::over_ms_);
}

bool Call::cancelled() const {
  hear();
  return cancelled_;
}

void Call::cancel() {
  cancelled_ = true;
  std::lock_guard lock(mutex_);
  over_ms_ = std::min(over_ms_.load(), steady_ms());
}

Status Call::end(Status cause) {
  std::lock_guard lock(mutex_);
  if (over_ms_ == kNever) {
    cause_ = cause;
    over_ms_ = steady_ms();
  }
  return cause;
}

Status Call::end_late(Status cause) {
  Status ended = end(std::move(cause));
  late_ = true;
  return ended;
}

void Call::end_at(Status cause, int64_t over_ms) {
  (void)end(std::move(cause));
  over_ms_ = std::min(over_ms_.load(), over_ms);
}

// With the lock. The cause may be any status, and must not be taken for an answer of the store ("not found").
Status Call::why_over() const {
  if (cause_.ok()) return Status(CKPT_CANCELLED, "the job was cancelled");
  return cause_.code() == CKPT_TIMEOUT ? cause_ : Status(CKPT_TIMEOUT, "the call is over: " + cause_.message());
}

Status Call::check() const {
  for (const Call* call = this; call; call = call->outer.get()) {
    call->hear();
    if (call->over_ms_ == kNever) continue;
    std::lock_guard lock(call->mutex_);
    return call->why_over();
  }
  return Ok();
}

Status Call::check_work() const {
  if (cancelled()) return Status(CKPT_CANCELLED, "the job was cancelled");
  if (!late_) return Ok();
  std::lock_guard lock(mutex_);
  return why_over();
}

Status Call::answer_if_left(Status answer) {
  CKPT_TRY(check());
  std::lock_guard lock(mutex_);
  if (over_ms_ != kNever) return why_over();
  if_left_ = std::move(answer);
  has_answer_ = true;
  return Ok();
}

void Call::keep_if_left(std::shared_ptr<const void> memory) {
  if (!part_is_left_) return;
  std::lock_guard lock(mutex_);
  kept_.push_back(std::move(memory));
}

Status Call::settle(Status answer) {
  settled_ = true;
  std::lock_guard lock(mutex_);
  if_left_ = answer;
  has_answer_ = true;
  return answer;
}

void Call::settle_current(Status answer) {
  if (Call* const call = CallContext::current().call()) (void)call->settle(std::move(answer));
}

bool Call::is_left(const Busy& held, int64_t now) const {
  const int64_t over = least(&Call::over_ms_);
  return now >= later(over, kLeaveAnyMs) || (now >= later(over, kLeaveMs) && now >= held.since_ms() + kHeldMs);
}

Status Call::answer_of_left(Status reason) const {
  std::lock_guard lock(mutex_);
  if (!has_answer_) return reason;
  if (if_left_.ok()) return Ok();
  try {
    Status status(if_left_.code(), if_left_.message() + "; " + reason.message());
    for (const auto& [key, value] : if_left_.details()) status = std::move(status).with(key, value);
    return status;
  } catch (const std::bad_alloc&) {
    return if_left_;
  }
}

// What this one is a part of has had its time, too: nothing is begun that might wait for the same.
void Call::end_outer(const Status& cause) const {
  const int64_t over = over_ms();
  for (Call* call = outer.get(); call; call = call->outer.get()) {
    call->part_is_left_ = true;
    call->end_at(cause, over);
  }
}

bool Call::is_stuck(Status* answer) {
  const int64_t now = steady_ms(), patience = patience_ms();
  std::unique_lock lock(mutex_);
  const Busy *oldest = busy_, *latest = busy_;
  for (const Busy* one = busy_; one; one = one->after_) {
    if (one->since_ms() < oldest->since_ms()) oldest = one;
    if (one->late_ms(patience) < latest->late_ms(patience)) latest = one;
  }
  if (!oldest) return false;
  const bool left = is_left(*oldest, now);
  const bool late = now >= latest->late_ms(patience);
  const Busy& held = late ? *latest : *oldest;
  const std::string what = strformat("{} has not ended for {} ms", held.text(), now - held.since_ms());
  lock.unlock();
  if (late) (void)end_late(Status(CKPT_TIMEOUT, what));
  if (!left) return false;
  end_outer(Status(CKPT_TIMEOUT, what));
  *answer = answer_of_left(Status(CKPT_TIMEOUT, what + "; the system holds its thread, which was left behind"));
  return true;
}

// ---- operations ----

// With the lock. Of several at once the time counts once.
void Call::note_end(const Busy& operation) {
  const int64_t now = steady_ms(), from = std::max(operation.since_ms_, in_vain_until_ms_);
  in_vain_until_ms_ = now;
  in_vain_ms_ = operation.unanswered_ ? in_vain_ms_ + std::max<int64_t>(now - from, 0) : 0;
  if (!operation.unanswered_) answers_++;
}

Busy::Busy(const char* verb, std::string_view path, std::string_view name)
    : verb_(verb),
      path_(path),
      name_(name),
      since_ms_(steady_ms()),
      wait_ends_ms_(CallContext::current().until_ms_),
      call_(CallContext::current().call()) {
  // One inside a call that somebody looks after works on the same threads.
  while (call_ && !call_->watched_) call_ = call_->outer.get();
  if (!call_) return;
  std::lock_guard lock(call_->mutex_);
  answers_before_ = call_->answers_;
  lost_ms_ = call_->in_vain_ms_;
  after_ = call_->busy_;
  if (after_) after_->before_ = this;
  call_->busy_ = this;
}

Busy::~Busy() {
  if (!call_) return;
  std::lock_guard lock(call_->mutex_);
  (before_ ? before_->after_ : call_->busy_) = after_;
  if (after_) after_->before_ = before_;
  call_->note_end(*this);
}

int64_t Busy::until_ms(int64_t patience_ms) const {
  const bool in_vain = lost_ms_ && call_->answers_ == answers_before_;
  return later(since_ms_, in_vain ? std::max<int64_t>(patience_ms - lost_ms_, 0) : patience_ms);
}

int64_t Busy::late_ms(int64_t patience_ms) const {
  return std::min(until_ms(patience_ms), later(std::max(wait_ends_ms_, since_ms_), Call::kHeldMs));
}

// What a store refuses, lacks or has already is an answer.
static bool is_no_answer(const Status& status) { return status.code() == CKPT_IO || status.code() == CKPT_TIMEOUT; }

void Busy::ended(const Status& status) {
  if (!call_) return;
  std::lock_guard lock(call_->mutex_);
  unanswered_ = is_no_answer(status);
}

Status Busy::of_thread_ended(Status status) {
  Call* call = CallContext::current().call();
  while (call && !call->watched_) call = call->outer.get();
  if (!call || !is_no_answer(status)) return status;
  std::lock_guard lock(call->mutex_);
  for (const Busy* one = call->busy_; one; one = one->after_)
    if (one->thread_ == std::this_thread::get_id()) one->unanswered_ = true;
  return status;
}

std::string Busy::path() const { return std::string(path_) + (name_.empty() ? "" : "/") + std::string(name_); }

std::string Busy::text() const { return strformat("{} of {}", verb_, path()); }

// ---- contexts ----

const CallContext& CallContext::current() { return context_of_thread; }

ContextScope::ContextScope(const CallContext& context) : before_(context_of_thread) { context_of_thread = context; }
ContextScope::~ContextScope() { context_of_thread = before_; }

// An operation that begins when the call is over, or goes on then, gets half of the time that is left. So after one
// that gets no answer there is time for others.
int64_t CallContext::end_ms() const {
  const int64_t over = call_ ? call_->over_ms() : Call::kNever;
  if (over == Call::kNever)
    return call_ && operation_ ? std::min(until_ms_, operation_->until_ms(call_->patience_ms())) : until_ms_;
  if (!shielded_) return std::min(until_ms_, over);
  const int64_t closed = over + Call::kClosingMs;
  if (!operation_) return std::min(until_ms_, closed);
  const int64_t own = operation_->until_ms(call_->patience_ms());
  if (own <= over) return std::min(until_ms_, own);  // it had all of its time
  const int64_t from = std::max(over, operation_->since_ms());
  return std::min(until_ms_, from + std::max<int64_t>(closed - from, 0) / 2);
}

Status CallContext::check() const {
  const int64_t now = steady_ms();
  if (now < end_ms()) return Ok();
  if (call_) CKPT_TRY(call_->check());
  if (now >= until_ms_ || !operation_) return Status(CKPT_TIMEOUT, "no answer before the time was up");
  return call_->end_late(Status(CKPT_TIMEOUT, strformat("{}: no answer within {} ms (option timeout_ms)",
                                                        operation_->text(), now - operation_->since_ms()))
                             .with("path", operation_->path()));
}

int64_t CallContext::left_ms() const {
  const int64_t end = end_ms();
  return end == Call::kNever ? end : std::max<int64_t>(end - steady_ms(), 0);
}

Status CallContext::pause(int64_t ms) const {
  constexpr int64_t kStepMs = 100;
  for (const int64_t end = steady_ms() + ms;;) {
    CKPT_TRY(check());
    const int64_t left = end - steady_ms();
    if (left <= 0) return Ok();
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(left, kStepMs)));
  }
}

CallContext CallContext::ending_at(int64_t until_ms) const {
  CallContext context = *this;
  context.until_ms_ = std::min(until_ms_, until_ms);
  return context;
}

CallContext CallContext::of(const Busy& operation) const {
  CallContext context = *this;
  context.operation_ = &operation;
  return context;
}

CallContext CallContext::shielded() const {
  CallContext context = *this;
  context.shielded_ = true;
  return context;
}

CallContext CallContext::with(Call* part) const {
  CallContext context(part);
  context.shielded_ = shielded_ && call_;
  return context;
}

// Whoever waited for others until now need not wait for what tells them so.
static CallContext without_end(const CallContext& context, const std::shared_ptr<Call>& own) {
  return CallContext(own ? own.get() : context.call()).shielded();
}

static std::shared_ptr<Call> call_for_nobody() {
  return CallContext::current().call() ? nullptr : std::make_shared<Call>();
}

Closing::Closing(const Status& cause) : own_(call_for_nobody()), scope_(without_end(CallContext::current(), own_)) {
  (void)CallContext::current().call()->end(cause);
}

}  // namespace ckpt

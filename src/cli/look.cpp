#include "cli/look.h"

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/error.h"
#include "cli/format.h"
#include "cli/locate.h"
#include "cli/text.h"

namespace cli {

static int64_t patience_ms = 600000;  // the default of option timeout_ms

void set_patience(const std::optional<std::string>& timeout_ms) {
  const std::string text = timeout_ms.value_or("");
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number > 0) patience_ms = number;
}

namespace {

// What a look has come to. Only one thread at a time holds its exception.
struct Answer {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_there = false;
  std::exception_ptr failure;
};

void answer_by(const std::function<void()>& ask, Answer& answer) {
  std::exception_ptr failure;
  try {
    ask();
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(answer.mutex);
  answer.failure = std::move(failure);
  answer.is_there = true;
  answer.changed.notify_all();
}

}  // namespace

void look_at(std::string_view path, std::function<void()> ask) {
  const auto answer = std::make_shared<Answer>();
  const auto work = [answer, ask] { answer_by(ask, *answer); };
  try {
    std::thread(work).detach();
  } catch (const std::system_error&) {  // no thread is to be had
    work();
  }
  std::unique_lock lock(answer->mutex);
  if (!answer->changed.wait_for(lock, std::chrono::milliseconds(patience_ms), [&] { return answer->is_there; }))
    fail(CKPT_TIMEOUT,
         strformat("looking at {} has not ended for {} ms; the system holds its thread, which was left behind",
                   escaped(shown(path)), patience_ms));
  if (const std::exception_ptr failure = std::exchange(answer->failure, nullptr)) std::rethrow_exception(failure);
}

}  // namespace cli

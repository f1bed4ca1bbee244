#include "cli/look.h"

#include <charconv>
#include <chrono>
#include <exception>
#include <future>
#include <system_error>
#include <thread>

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

void look_at(std::string_view path, std::function<void()> ask) {
  const auto promise = std::make_shared<std::promise<void>>();
  std::future<void> answer = promise->get_future();
  const auto work = [promise, ask] {
    try {
      ask();
      promise->set_value();
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  };
  try {
    std::thread(work).detach();
  } catch (const std::system_error&) {  // no thread is to be had
    work();
  }
  if (answer.wait_for(std::chrono::milliseconds(patience_ms)) != std::future_status::ready)
    fail(CKPT_TIMEOUT,
         format("looking at {} has not ended for {} ms; the system holds its thread, which was left behind",
                escaped(shown(path)), patience_ms));
  answer.get();
}

}  // namespace cli

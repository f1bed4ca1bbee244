#include "cli/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <future>
#include <system_error>

#include "cli/text.h"

namespace cli {

std::string progress_line(uint64_t done, uint64_t total, double seconds) {
  constexpr size_t kBar = 24;
  double share = total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  size_t filled = static_cast<size_t>(share * kBar);
  std::string bar = std::string(filled, '#') + std::string(kBar - filled, '-');
  std::string line =
      strformat("[{}] {} %  {} of {}", bar, print_format("%3.0f", share * 100), human_bytes(done), human_bytes(total));
  if (done == 0 || seconds < 0.2) return line;
  double rate = static_cast<double>(done) / seconds;
  double left = static_cast<double>(total - std::min(done, total)) / rate;
  return line + strformat("  {}  {} left", human_rate(rate), human_duration(static_cast<uint64_t>(std::llround(left))));
}

Progress::Progress() : visible_(is_terminal(stderr)), start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() { wipe(); }

void Progress::wipe() const {
  if (visible_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(uint64_t done, uint64_t total) {
  if (!visible_ || total == 0) return;
  std::fprintf(stderr, "\r\x1b[K%s", progress_line(done, total, seconds()).c_str());
  std::fflush(stderr);
}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

Work watch(ckpt::Options& options, const std::function<void()>& call) {
  const ckpt::Job job = ckpt::Job::create();
  options.set_job(job).check();
  Progress progress;
  std::future<void> done;
  try {
    done = std::async(progress.visible() ? std::launch::async : std::launch::deferred, call);
  } catch (const std::system_error&) {  // no thread to be had: nothing is shown meanwhile
    done = std::async(std::launch::deferred, call);
  }
  while (done.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout) {
    const ckpt::JobStats stats = job.stats();
    progress.update(stats.bytes_done, stats.bytes_total);
  }
  done.get();
  const ckpt::JobStats stats = job.stats();
  return {stats.bytes_done, progress.seconds(), stats};
}

Json requests_json(const ckpt::JobStats& stats) {
  return {{"get", stats.get_count},
          {"put", stats.put_count},
          {"list", stats.list_count},
          {"delete", stats.delete_count},
          {"retries", stats.retry_count},
          {"bytes_sent", stats.bytes_sent},
          {"bytes_received", stats.bytes_received}};
}

std::string requests_line(const ckpt::JobStats& stats) {
  if (stats.get_count + stats.put_count + stats.list_count + stats.delete_count == 0) return "";
  const std::string again = stats.retry_count > 0 ? strformat(" ({} tried again)", stats.retry_count) : "";
  return strformat("requests: {} GET, {} PUT, {} LIST, {} DELETE{}; {} sent, {} received\n", stats.get_count,
                   stats.put_count, stats.list_count, stats.delete_count, again, human_bytes(stats.bytes_sent),
                   human_bytes(stats.bytes_received));
}

}  // namespace cli

#include "store/cloud/key_service.h"

#include <string.h>

#include <algorithm>
#include <thread>

namespace ckpt::store::cloud {

void wipe(std::string& text) { explicit_bzero(text.data(), text.size()); }

bool is_sendable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::string single_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

HttpReply ask_key_service(Http& http, const HttpRequest& request) {
  constexpr int kTries = 3;
  HttpRequest bounded = request;
  bounded.most_text = kMostKeyAnswer;
  for (int i = 1;; i++) {
    HttpReply reply = http.exchange(bounded);
    const bool passing = reply.trouble.empty() ? reply.status >= 500 || reply.status == 429
                                               : !reply.final && !reply.absent && !reply.no_memory;
    if (!passing || i == kTries) return reply;
    std::this_thread::sleep_for(std::chrono::milliseconds(200 * i + static_cast<int64_t>(random_id().lo % 200)));
  }
}

bool is_no_instance(const HttpReply& reply) {
  if (!reply.trouble.empty()) return !reply.sent && !reply.no_memory;
  return reply.status >= 400 && reply.status < 500 && reply.status != 429;
}

Status no_good_answer(std::string_view source, const HttpReply& reply) {
  const std::string what = reply.trouble.empty() ? strformat("HTTP status {}", reply.status) : reply.trouble;
  return Status(CKPT_IO, strformat("credentials of {}: {}", source, what));
}

}  // namespace ckpt::store::cloud

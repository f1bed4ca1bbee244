// What all sources of keys and tokens have in common: services that give them, and what is a good answer.
// No state.
#pragma once

#include "store/cloud/http.h"

namespace ckpt::store::cloud {

inline constexpr size_t kMostKeyAnswer = 64 << 10;  // bytes; keys take a few hundred, tokens a few thousand

// So that the memory keeps no secret.
void wipe(std::string& text);
// Whether it may go into a header, where a line break would begin another one.
bool is_sendable(std::string_view text);
// Without the line break at its end that a file has.
std::string single_line(std::string text);

// A service that gives keys is asked by many at the same time: a few tries. The answer has a bound.
HttpReply ask_key_service(Http& http, const HttpRequest& request);
// Whether there is no such service on this machine: nobody listens at its address, or what does is something else.
bool is_no_instance(const HttpReply& reply);
// IO, with the HTTP status or the trouble.
Status no_good_answer(std::string_view source, const HttpReply& reply);

}  // namespace ckpt::store::cloud

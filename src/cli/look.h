// A look at files, on whose disk everything may stand still: a thread looks, and is left behind then.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cli {

// How long a look may take: option timeout_ms, where that is a number.
void set_patience(const std::optional<std::string>& timeout_ms);

// Throws what `ask` throws, or TIMEOUT with the path. `ask` owns what it uses: it may go on.
void look_at(std::string_view path, std::function<void()> ask);

template <typename Ask>
auto look(std::string_view path, Ask ask) {
  const auto answer = std::make_shared<std::optional<decltype(ask())>>();
  look_at(path, [answer, ask] { answer->emplace(ask()); });
  return std::move(**answer);
}

}  // namespace cli

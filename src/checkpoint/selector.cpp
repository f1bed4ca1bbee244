#include "checkpoint/selector.h"

#include <cstdlib>
#include <string>

#include "format/names.h"

namespace ckpt::checkpoint {

Result<Selector> parse_selector(std::string_view selector) {
  if (selector == "latest") return Selector{.latest = true, .step = {}, .label = {}};
  if (selector.starts_with("name:")) {
    CKPT_TRY(format::check_given_name(selector.substr(5)));
    return Selector{.latest = false, .step = {}, .name = selector.substr(5), .label = {}};
  }
  if (selector.starts_with("label:")) return Selector{.latest = false, .step = {}, .label = selector.substr(6)};
  if (!selector.starts_with("step:")) return Selector{.latest = false, .step = {}, .label = selector};
  const std::string digits(selector.substr(5));
  char* end = nullptr;
  const int64_t step = std::strtoll(digits.c_str(), &end, 10);
  if (digits.empty() || *end || step < 0)
    return Status(CKPT_INVALID, "selector \"" + std::string(selector) + "\": expected step:N");
  return Selector{.latest = false, .step = step, .label = {}};
}

bool can_be_id(std::string_view selector) {
  return selector != "latest" && !selector.starts_with("step:") && !selector.starts_with("label:") &&
         !selector.starts_with("name:") && !selector.empty() && selector.find('/') == std::string_view::npos &&
         selector[0] != '.';
}

}  // namespace ckpt::checkpoint

#include "base/status.h"

#include <cerrno>
#include <new>
#include <system_error>

#include "base/address.h"
#include "base/shown.h"

namespace ckpt {

bool ends_call(ckpt_status code) { return code == CKPT_CANCELLED || code == CKPT_TIMEOUT || code == CKPT_NOMEM; }

bool is_unanswered(ckpt_status code) { return code == CKPT_IO || ends_call(code); }

Status::Status(ckpt_status code, std::string message)
    : rep_(std::make_shared<Rep>(Rep{code, std::move(message), {}})) {}

Status Status::no_memory() noexcept {
  static const Status& status = *new Status(CKPT_NOMEM, "out of memory");
  return status;
}
// Before memory runs out.
[[gnu::constructor]] static void make_no_memory() { (void)Status::no_memory(); }

const std::string& Status::message() const {
  static const std::string empty;
  return rep_ ? rep_->message : empty;
}

const std::string* Status::detail(std::string_view key) const {
  if (!rep_) return nullptr;
  for (const auto& [name, value] : rep_->details)
    if (name == key) return &value;
  return nullptr;
}

const Status::Details& Status::details() const {
  static const Details none;
  return rep_ ? rep_->details : none;
}

template <typename Change>
Status&& Status::changed(Change&& change) && {
  try {
    if (rep_.use_count() > 1) rep_ = std::make_shared<Rep>(*rep_);
    change(*rep_);
  } catch (const std::bad_alloc&) {
  }
  return std::move(*this);
}

Status&& Status::with(std::string_view key, std::string value) && {
  if (!rep_ || detail(key)) return std::move(*this);
  return std::move(*this).changed([&](Rep& rep) { rep.details.emplace_back(std::string(key), std::move(value)); });
}

Status&& Status::in(std::string_view context) && {
  if (!rep_ || (rep_->message.starts_with(context) && rep_->message.compare(context.size(), 2, ": ") == 0))
    return std::move(*this);
  return std::move(*this).changed([&](Rep& rep) { rep.message = std::string(context) + ": " + rep.message; });
}

Status&& Status::shown() && {
  if (!rep_) return std::move(*this);
  if (rep_.use_count() > 1) rep_ = std::make_shared<Rep>(*rep_);
  rep_->message = cut_line(shown_line(without_secrets(rep_->message)));
  for (auto& [key, value] : rep_->details) value = cut_line(shown_line(without_secrets(value)), kMostOfFact);
  return std::move(*this);
}

const char* status_name(ckpt_status status) {
  switch (status) {
#define CKPT_NAME(name) \
  case CKPT_##name:     \
    return #name
    CKPT_NAME(OK);
    CKPT_NAME(INVALID);
    CKPT_NAME(UNSUPPORTED);
    CKPT_NAME(FORKED);
    CKPT_NAME(CANCELLED);
    CKPT_NAME(NOT_FOUND);
    CKPT_NAME(EXISTS);
    CKPT_NAME(GONE);
    CKPT_NAME(CORRUPT);
    CKPT_NAME(FORMAT);
    CKPT_NAME(REVISION);
    CKPT_NAME(INCOMPLETE);
    CKPT_NAME(MISMATCH);
    CKPT_NAME(CONFLICT);
    CKPT_NAME(FENCED);
    CKPT_NAME(ABORTED);
    CKPT_NAME(TIMEOUT);
    CKPT_NAME(COMMIT_UNKNOWN);
    CKPT_NAME(IO);
    CKPT_NAME(NO_SPACE);
    CKPT_NAME(NOMEM);
    CKPT_NAME(INTERNAL);
#undef CKPT_NAME
    default:
      return "UNKNOWN";
  }
}

static ckpt_status code_of_errno(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return CKPT_NOT_FOUND;
    case EEXIST:
      return CKPT_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return CKPT_NO_SPACE;
    case ENOMEM:
      return CKPT_NOMEM;
    default:
      return CKPT_IO;
  }
}

std::string in_quotes(std::string_view name) { return "\"" + std::string(name) + "\""; }

Status error_about(ckpt_status code, std::string_view name, std::string text) {
  return Status(code, std::move(text)).with("tensor", std::string(name));
}

Status tensor_error(ckpt_status code, std::string_view name, std::string text) {
  return of_tensor(Status(code, std::move(text)), name);
}

Status of_tensor(Status status, std::string_view name) {
  if (status.ok() || status.detail("tensor")) return status;
  return std::move(status).in("tensor " + in_quotes(name)).with("tensor", std::string(name));
}

Status from_errno(int error, std::string_view action, std::string_view path) {
  return Status(code_of_errno(error), strformat("{} {}: {}", action, path, std::generic_category().message(error)))
      .with("path", std::string(path))
      .with("errno", std::to_string(error));
}

}  // namespace ckpt

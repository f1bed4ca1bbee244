// ckpt_options: the bag of settings.
#include "api/handles.h"

using namespace ckpt;
using namespace ckpt::api;

ckpt_status ckpt_options_new(ckpt_options** out, ckpt_error** err) {
  return guard(err, [&] {
    if (!out) return null_status("out");
    *out = new ckpt_options;
    return Ok();
  });
}

ckpt_status ckpt_options_set_str(ckpt_options* options, const char* key, const char* value, ckpt_error** err) {
  return guard(err, [&] {
    if (!options || !key || !value) return null_status("options, key or value");
    return options->bag.set_str(key, value);
  });
}

ckpt_status ckpt_options_set_int(ckpt_options* options, const char* key, int64_t value, ckpt_error** err) {
  return guard(err, [&] {
    if (!options || !key) return null_status("options or key");
    return options->bag.set_int(key, value);
  });
}

ckpt_status ckpt_options_set_job(ckpt_options* options, const ckpt_job* job, ckpt_error** err) {
  return guard(err, [&] {
    if (!options) return null_status("options");
    if (job && job->forked()) return forked_status();
    options->job = job ? job->job : nullptr;
    return Ok();
  });
}

void ckpt_options_free(ckpt_options* options) { delete options; }

int32_t ckpt_option_count(void) { return static_cast<int32_t>(option_rows().size()); }

ckpt_status ckpt_option_at(int32_t index, ckpt_option_info* out, ckpt_error** err) {
  return guard(err, [&] {
    if (index < 0 || index >= ckpt_option_count())
      return Status(CKPT_NOT_FOUND, strformat("option {} of {}", index, ckpt_option_count()));
    const OptionRow& row = option_rows()[static_cast<size_t>(index)];
    ckpt_option_info info{};
    info.kind = row.is_int ? CKPT_OPTION_INT : CKPT_OPTION_STR;
    info.min = row.min;
    info.max = row.max;
    info.key = row.key;
    info.fallback = row.fallback_text;
    info.choices = row.choices;
    info.used_by = row.used_by;
    info.help = row.help;
    return put_info(info, out);
  });
}

#include "store/s3/probe.h"

#include "store/keys.h"
#include "store/s3/s3_writer.h"

namespace ckpt::store::s3 {

static Status ignores(const Client& client, std::string_view what) {
  return Status(CKPT_UNSUPPORTED,
                strformat("{}: the server at {} ignores If-None-Match when it {}, so two processes could both believe "
                          "that they committed; use a server that honours it, or, if only one process ever writes "
                          "here, set option conditional_puts to emulate",
                          client.config().uri(), client.config().endpoint(), what))
      .with("path", client.config().uri());
}

static Status probe_with(const std::shared_ptr<Client>& client, std::string_view key) {
  const Bytes text = as_bytes("probe");
  CKPT_TRY(put_object(*client, key, {&text, 1}));
  Status again = put_object(*client, key, {&text, 1});
  if (again.ok()) return ignores(*client, "puts an object");
  if (again.code() != CKPT_EXISTS) return again;
  S3Writer upload(client, key, text.size(), 1);
  CKPT_TRY(upload.write_at(0, text));
  Status completed = upload.publish(text.size());
  if (completed.ok()) return ignores(*client, "completes an upload");
  return completed.code() == CKPT_EXISTS ? Ok() : completed;
}

Status probe_conditions(const std::shared_ptr<Client>& client) {
  const std::string key = strformat(".ckpt/{}{}", kProbePrefix, to_hex(random_id()));
  Status probed = probe_with(client, key);
  Status removed = delete_object(*client, key);
  return probed.ok() ? removed : probed;
}

}  // namespace ckpt::store::s3

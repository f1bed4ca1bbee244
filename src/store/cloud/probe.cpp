#include "store/cloud/probe.h"

#include <atomic>

#include "base/parallel.h"
#include "store/cloud/object_writer.h"
#include "store/cloud/objects.h"
#include "store/keys.h"

namespace ckpt::store::cloud {

static Status unfit(const Bucket& bucket, std::string_view what) {
  return Status(CKPT_UNSUPPORTED,
                strformat("{}: the server at {} {}, so two processes could both believe that they committed; use a "
                          "server that honours conditions, or, if only one process ever writes here, set option "
                          "conditional_puts to emulate",
                          bucket.place().uri(), bucket.place().endpoint(), what))
      .with("path", bucket.place().uri());
}

// What a request that must be refused because of its condition was told: OK if it was.
static Status expect_refusal(const Bucket& bucket, Status told, ckpt_status refusal, std::string_view ignored) {
  if (told.code() == refusal) return Ok();
  return told.ok() ? unfit(bucket, ignored) : told;
}

// A server may look first and put then. This finds one that does so slowly; none is found for certain.
static Status probe_puts_at_once(Bucket& bucket, std::string_view key, Bytes text) {
  constexpr unsigned kAtOnce = 4;
  std::atomic<unsigned> puts = 0;
  CKPT_TRY(for_each_parallel(kAtOnce, kAtOnce, [&](size_t) {
    Status put = put_object(bucket, key, {&text, 1});
    puts += put.ok() ? 1 : 0;
    return put.code() == CKPT_EXISTS ? Ok() : put;
  }));
  return puts < 2 ? Ok() : unfit(bucket, "lets several puts at once succeed where there must be no object yet");
}

static Status probe_with(const std::shared_ptr<Bucket>& bucket, std::string_view key) {
  const Bytes text = as_bytes("probe");
  const Client::Words names = bucket->words();
  CKPT_TRY(put_object(*bucket, key, {&text, 1}));
  CKPT_TRY(expect_refusal(*bucket, put_object(*bucket, key, {&text, 1}), CKPT_EXISTS,
                          strformat("ignores {} when it puts an object", names.if_absent)));
  const std::string shared = std::string(key) + ".shared";
  Status alone = probe_puts_at_once(*bucket, shared, text);
  (void)bucket->remove(shared);
  CKPT_TRY(std::move(alone));
  CKPT_TRY(expect_refusal(*bucket, replace_object(*bucket, key, bucket->no_version(), to_hex(random_id()), text),
                          CKPT_GONE, strformat("ignores {}", names.if_version)));
  ObjectWriter upload(bucket, key, text.size(), 1);
  CKPT_TRY(upload.write_at(0, text));
  return expect_refusal(*bucket, upload.publish(text.size()), CKPT_EXISTS,
                        strformat("ignores {} when it completes an upload", names.if_absent));
}

// Of this endpoint and this list of questions.
static std::string record_of(const Place& place) {
  const std::string questions = place.endpoint() + " 1";
  return ".ckpt/probed." + hex_of(sha256(as_bytes(questions))).substr(0, 32);
}

Status probe_conditions(const std::shared_ptr<Bucket>& bucket) {
  const std::string record = record_of(bucket->place());
  CKPT_ASSIGN(const auto known, bucket->look(record));
  if (known) return Ok();
  const std::string key = strformat("{}/{}{}", kTrashDir, kProbePrefix, to_hex(random_id()));
  Status probed = probe_with(bucket, key);
  Status removed = remove_probe(*bucket, key);  // with the upload whose id an answer that got lost had
  if (probed.code() == CKPT_UNSUPPORTED && probed.detail("http_status"))
    return unfit(*bucket, strformat("knows no conditional puts ({})", probed.message()));
  CKPT_TRY(std::move(probed));
  CKPT_TRY(std::move(removed));
  const Bytes text = as_bytes("conditions hold\n");
  Status put = put_object(*bucket, record, {&text, 1});
  return put.code() == CKPT_EXISTS ? Ok() : put;
}

Status remove_probe(Bucket& bucket, std::string_view key) {
  if (auto uploads = bucket.list_uploads(directory_of(key)); uploads.ok())
    for (const Upload& upload : *uploads)
      if (upload.key == key) CKPT_TRY(bucket.abort_upload(upload));
  return bucket.remove(key);
}

}  // namespace ckpt::store::cloud

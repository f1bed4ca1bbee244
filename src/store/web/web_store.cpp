// The store "https://HOST/PATH": a directory that a web server shows, to be read only. A web server tells no names, so
// a checkpoint is opened by its own.
#include <algorithm>

#include "base/address.h"
#include "store/io_queue.h"
#include "store/keys.h"
#include "store/web/web_reader.h"

namespace ckpt::store {

namespace web {
namespace {

class NoLock final : public Lock {
  bool protects() const override { return false; }
};

class WebStore final : public Store {
 public:
  explicit WebStore(std::shared_ptr<Client> client) : client_(std::move(client)) {}

  std::string uri() const override { return client_->path(""); }
  std::string path(std::string_view key) const override { return client_->path(key); }
  Traits traits() const override {
    return {.read_depth = 16,
            .read_bytes = 16 << 20,
            .visible_is_durable = true,
            .remote = true,
            .directories = false,
            .lists = false};
  }
  Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const override { return IoQueue::make(depth, false); }
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override { return open_reader(key, false); }
  // A 404 is a web server's word for an absent file, and that of what stands before it while it is away. Of a part the
  // manifest says that it is there.
  Result<std::unique_ptr<Reader>> open_cached(std::string_view key, const Content& /*content*/,
                                              bool /*ask*/) const override {
    return open_reader(key, true);
  }
  Result<bool> exists(std::string_view key) const override {
    const Status opened = open(key).status();
    if (opened.code() == CKPT_NOT_FOUND) return false;
    CKPT_TRY(opened);
    return true;
  }
  // A reader of what is removed gets GONE.
  Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const override {
    CKPT_TRY(check_key(key));
    return std::unique_ptr<Lock>(std::make_unique<NoLock>());
  }

  // ---- what a web server does not tell ----
  Result<bool> has_directory(std::string_view) const override { return no_listing(); }
  Result<std::vector<Entry>> list(std::string_view) const override { return no_listing(); }
  Result<std::vector<FileUse>> usage(std::string_view) const override { return no_listing(); }

  // ---- what it does not do ----
  Status make_root() override { return read_only(); }
  Status prepare() override { return read_only(); }
  Status make_directory(std::string_view) override { return read_only(); }
  Status put_if_absent(std::string_view, Bytes) override { return read_only(); }
  Result<std::unique_ptr<Writer>> create(std::string_view, uint64_t, bool) override { return read_only(); }
  Status remove(std::string_view, bool) override { return read_only(); }
  Status remove_directory(std::string_view) override { return read_only(); }
  Status open_attempt(std::string_view, Bytes, std::string_view) override { return read_only(); }
  Status retire(std::string_view, std::string_view, Bytes) override { return read_only(); }
  Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view) const override { return read_only(); }

 private:
  Result<std::unique_ptr<Reader>> open_reader(std::string_view key, bool expected) const {
    CKPT_TRY(check_key(key));
    CKPT_ASSIGN(auto reader, WebReader::open(client_, key, expected));
    return std::unique_ptr<Reader>(std::move(reader));
  }
  Status no_listing() const {
    return Status(
               CKPT_UNSUPPORTED,
               strformat("{}: a web server does not tell what it holds, so there is no list, no latest and no label; "
                         "name the directory of the checkpoint, such as {}/step-100.7.1",
                         uri(), uri()))
        .with("path", uri());
  }
  // An account of Azure is no web server, unless a query is behind its address.
  Status read_only() const {
    const char* instead = is_bucket_address(uri())
                              ? "a signed address is only read: set option sas_token, and leave the query out"
                              : "a web server is read-only for ckpt; write to a directory or to s3://BUCKET/PREFIX";
    return Status(CKPT_UNSUPPORTED, strformat("{}: {}", uri(), instead)).with("path", uri());
  }

  const std::shared_ptr<Client> client_;
};

}  // namespace
}  // namespace web

Result<std::shared_ptr<Store>> open_web(std::string_view uri, const WebOptions& options) {
  CKPT_ASSIGN(auto client, web::Client::make(uri, options));
  return std::shared_ptr<Store>(std::make_shared<web::WebStore>(std::move(client)));
}

}  // namespace ckpt::store

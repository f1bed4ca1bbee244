// A store whose parts are kept in a directory of this machine as they are read. Parts never change, and loads check
// each byte of them; so whatever comes to harm there is noticed, and brought again. All else is asked of the store
// itself.
#include "store/cache_name.h"
#include "store/cache_reader.h"
#include "store/io_queue.h"
#include "store/late_reader.h"

namespace ckpt::store {
namespace {

class CachedStore final : public Store {
 public:
  CachedStore(std::shared_ptr<Store> source, std::unique_ptr<CacheDirectory> directory, const StoreOptions& options)
      : source_(std::move(source)),
        directory_(std::move(directory)),
        direct_io_(options.direct_io),
        uring_(options.uring) {}

  std::string uri() const override { return source_->uri(); }
  std::string identity() const override { return source_->identity(); }
  std::string path(std::string_view key) const override { return source_->path(key); }
  Traits traits() const override {
    Traits traits = source_->traits();
    traits.cached = true;
    return traits;
  }
  Status make_root() override { return source_->make_root(); }
  Status prepare() override { return source_->prepare(); }
  Status make_directory(std::string_view key) override { return source_->make_directory(key); }
  Status put_if_absent(std::string_view key, Bytes data) override { return source_->put_if_absent(key, data); }
  Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size, bool at_most) override {
    return source_->create(key, expected_size, at_most);
  }
  Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const override { return IoQueue::make(depth, uring_); }
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override { return source_->open(key); }
  Result<std::unique_ptr<Reader>> open_lazily(std::string_view key) const override { return source_->open_lazily(key); }
  Result<std::unique_ptr<Reader>> open_cached(std::string_view key, uint64_t size, bool ask) const override;
  Result<bool> exists(std::string_view key) const override { return source_->exists(key); }
  Result<bool> has_directory(std::string_view key) const override { return source_->has_directory(key); }
  Result<std::vector<Entry>> list(std::string_view directory) const override { return source_->list(directory); }
  Result<uint64_t> bytes_in(std::string_view directory) const override { return source_->bytes_in(directory); }
  Status remove(std::string_view key, bool sync) override { return source_->remove(key, sync); }
  Status remove_directory(std::string_view key) override { return source_->remove_directory(key); }
  Status put_over(std::string_view key, Bytes data) override { return source_->put_over(key, data); }
  Result<int64_t> age_ms(std::string_view key) const override { return source_->age_ms(key); }
  Status open_attempt(std::string_view record, Bytes text, std::string_view directory) override {
    return source_->open_attempt(record, text, directory);
  }
  Result<bool> attempt_exists(std::string_view record, std::string_view directory) const override {
    return source_->attempt_exists(record, directory);
  }
  Status retire(std::string_view directory, std::string_view slot, Bytes tombstone) override {
    return source_->retire(directory, slot, tombstone);
  }
  void finish_removals() override { source_->finish_removals(); }
  void sweep(std::string_view directory) override { source_->sweep(directory); }
  Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const override { return source_->lock_shared(key); }
  Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const override {
    return source_->try_lock_exclusive(key);
  }

 private:
  Result<std::vector<std::byte>> get_once(std::string_view key, uint64_t limit) const override {
    return source_->get(key, limit);
  }
  std::unique_ptr<Reader> known(std::string_view key, uint64_t size, const std::string& name,
                                std::string_view identity) const;

  const std::shared_ptr<Store> source_;
  const std::shared_ptr<CacheDirectory> directory_;
  const bool direct_io_, uring_;
};

// The object of an entry that is there, as its footer tells it; null if there is none.
std::unique_ptr<Reader> CachedStore::known(std::string_view key, uint64_t size, const std::string& name,
                                           std::string_view identity) const {
  auto version = CacheEntry::version_of(*directory_, name, identity, size);
  if (!version) return nullptr;
  return std::make_unique<LateReader>(path(key), size, *std::move(version),
                                      [source = source_, key = std::string(key)] { return source->open_lazily(key); });
}

Result<std::unique_ptr<Reader>> CachedStore::open_cached(std::string_view key, uint64_t size, bool ask) const {
  const std::string identity = source_->identity() + "/" + std::string(key), name = cache_name(identity);
  std::unique_ptr<Reader> source = ask ? nullptr : known(key, size, name, identity);
  if (!source) {
    CKPT_ASSIGN(source, directory_->has(name) ? source_->open_lazily(key) : source_->open_cached(key, size, ask));
  }
  if (source->version().empty() || source->size() == 0) return source;
  auto entry = CacheEntry::open(*directory_, name, identity, *source);
  if (!entry) return source;
  auto file = PosixReader::open(directory_->root(), name, direct_io_);
  auto same = directory_->root().leads_to(name, entry->fd());
  if (!file.ok() || !same.ok() || !*same) return source;
  return std::unique_ptr<Reader>(
      std::make_unique<CacheReader>(directory_, std::move(source), std::move(entry), file.take()));
}

}  // namespace

Result<std::shared_ptr<Store>> open_cache(std::shared_ptr<Store> source, const StoreOptions& options) {
  if (!source->traits().remote)
    return Status(CKPT_INVALID, strformat("option cache: expected a store on a server, found {}, which is read as fast "
                                          "without one",
                                          source->uri()));
  CKPT_ASSIGN(auto directory, CacheDirectory::open(options.cache));
  return std::shared_ptr<Store>(std::make_shared<CachedStore>(std::move(source), std::move(directory), options));
}

}  // namespace ckpt::store

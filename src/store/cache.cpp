// A store whose parts are kept in a directory of this machine as they are read. Parts never change, and loads check
// each byte of them; so whatever comes to harm there is noticed, and brought again. All else is asked of the store
// itself.
#include "store/cache_name.h"
#include "store/cache_reader.h"
#include "store/forwarding_store.h"
#include "store/late_reader.h"

namespace ckpt::store {
namespace {

class CachedStore final : public ForwardingStore {
 public:
  CachedStore(std::shared_ptr<Store> source, std::unique_ptr<CacheDirectory> directory, const StoreSettings& options)
      : ForwardingStore(std::move(source)),
        directory_(std::move(directory)),
        direct_io_(options.direct_io),
        uring_(options.uring) {}

  Traits traits() const override {
    Traits traits = inner_->traits();
    traits.cached = true;
    return traits;
  }
  Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const override { return IoQueue::make(depth, uring_); }
  Result<std::unique_ptr<Reader>> open_cached(std::string_view key, const Content& content, bool ask) const override;

 private:
  std::unique_ptr<Reader> known(std::string_view key, uint64_t size, const std::string& name,
                                std::string_view identity) const;

  const std::shared_ptr<CacheDirectory> directory_;
  const bool direct_io_, uring_;
};

// The object of an entry that is there, as its footer tells it; null if there is none.
std::unique_ptr<Reader> CachedStore::known(std::string_view key, uint64_t size, const std::string& name,
                                           std::string_view identity) const {
  auto version = CacheEntry::version_of(*directory_, name, identity, size);
  if (!version) return nullptr;
  return std::make_unique<LateReader>(path(key), size, *std::move(version),
                                      [source = inner_, key = std::string(key)] { return source->open_lazily(key); });
}

// A part that several checkpoints share has one entry, under whichever key it was asked for.
Result<std::unique_ptr<Reader>> CachedStore::open_cached(std::string_view key, const Content& content, bool ask) const {
  const std::string identity = inner_->identity() + "/" + (content.id.empty() ? std::string(key) : content.id),
                    name = cache_name(identity);
  std::unique_ptr<Reader> source = ask ? nullptr : known(key, content.size, name, identity);
  if (!source) {
    CKPT_ASSIGN(source, directory_->has(name) ? inner_->open_lazily(key) : inner_->open_cached(key, content, ask));
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

Result<std::shared_ptr<Store>> open_cache(std::shared_ptr<Store> source, const StoreSettings& options) {
  if (!source->traits().remote)
    return Status(CKPT_INVALID, strformat("option cache: expected a store on a server, found {}, which is read as fast "
                                          "without one",
                                          source->uri()));
  CKPT_ASSIGN(auto directory, CacheDirectory::open(options.cache));
  return std::shared_ptr<Store>(std::make_shared<CachedStore>(std::move(source), std::move(directory), options));
}

}  // namespace ckpt::store

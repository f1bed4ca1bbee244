// A store that behaves as one on a server, over one that does not: its files have versions, and each read is a request.
// What is asked of parts is counted in memory that forked children share.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <new>

#include "store/shell_store.h"

namespace ckpt::store {

class Requests {
 public:
  static constexpr size_t kBlocks = 256;
  struct Counts {
    std::atomic<uint64_t> opens, looks, reads, bytes;  // GET with the tail, HEAD, GET of a range, and of its bytes
    std::atomic<uint64_t> of_block[kBlocks];           // reads that begin or go on in a MiB of a file
  };
  Requests() : counts_(new(memory()) Counts{}) {}
  Requests(const Requests&) = delete;
  ~Requests() { munmap(counts_, sizeof(Counts)); }
  Counts* operator->() const { return counts_; }
  // "opens looks reads" since the last call.
  std::string take() const {
    return std::to_string(counts_->opens.exchange(0)) + " " + std::to_string(counts_->looks.exchange(0)) + " " +
           std::to_string(counts_->reads.exchange(0));
  }

 private:
  static void* memory() {
    return mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  }
  Counts* const counts_;
};

// For a cache: how full the disk of the tests is must decide nothing.
constexpr uint64_t kCacheRoom = uint64_t{1} << 30;

class RemoteStore : public ShellStore {
 public:
  using Answer = std::function<Status(uint64_t offset, MutableBytes bytes)>;
  RemoteStore(std::shared_ptr<Store> inner, const Requests& requests)
      : ShellStore(std::move(inner)), requests_(requests) {}
  // Called with what each read of a part brings.
  void on_answer(Answer answer) { answer_ = std::move(answer); }
  // The last bytes of a file come with its opening; a bit of the byte at `damaged` flipped on the way.
  void tail(uint64_t bytes, uint64_t damaged = UINT64_MAX) {
    tail_ = bytes;
    damaged_ = damaged;
  }

  Traits traits() const override {
    Traits traits = inner_->traits();
    traits.remote = true;
    return traits;
  }
  std::string identity() const override { return "server " + uri(); }
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override { return open_counted(key, false); }
  Result<std::unique_ptr<Reader>> open_lazily(std::string_view key) const override { return open_counted(key, true); }

 private:
  class RemoteReader : public Reader {
   public:
    RemoteReader(std::unique_ptr<Reader> inner, std::string version, uint64_t tail, uint64_t damaged,
                 const Requests& requests, Answer answer)
        : inner_(std::move(inner)),
          version_(std::move(version)),
          tail_(std::min(tail, inner_->size())),
          damaged_(damaged),
          requests_(requests),
          answer_(std::move(answer)) {}
    uint64_t size() const override { return inner_->size(); }
    std::string version() const override { return version_; }
    bool cached(uint64_t offset, uint64_t) const override { return offset >= size() - tail_; }
    Way way(uint64_t offset, uint64_t size) const override { return {.queued = !cached(offset, size)}; }
    Status read_at(uint64_t offset, MutableBytes out) const override {
      const bool is_here = out.empty() || cached(offset, out.size());
      CKPT_TRY(is_here ? inner_->read_at(offset, out) : read_again(offset, out));
      if (tail_ != 0 && damaged_ - offset < out.size()) out[damaged_ - offset] ^= std::byte{1};
      return Ok();
    }
    Status read_again(uint64_t offset, MutableBytes out) const override {
      CKPT_TRY(inner_->read_at(offset, out));
      if (out.empty()) return Ok();
      requests_->reads++;
      requests_->bytes += out.size();
      for (uint64_t i = offset >> 20; i <= (offset + out.size() - 1) >> 20; i++) requests_->of_block[i]++;
      return answer_ ? answer_(offset, out) : Ok();
    }
    Result<Bytes> map() const override { return Status(CKPT_UNSUPPORTED, "an object cannot be mapped"); }

   private:
    const std::unique_ptr<Reader> inner_;
    const std::string version_;
    const uint64_t tail_;
    const uint64_t damaged_;
    const Requests& requests_;
    const Answer answer_;
  };

  Result<std::unique_ptr<Reader>> open_counted(std::string_view key, bool lazily) const {
    const bool part = !key.ends_with("/MANIFEST") && !key.starts_with(".ckpt");
    if (part) (lazily ? requests_->looks : requests_->opens)++;
    CKPT_ASSIGN(auto inner, ShellStore::open(key));
    if (!part) return inner;
    struct stat found{};
    (void)stat(inner_->path(key).c_str(), &found);  // in memory there is one version of each
    const std::string version = strformat("etag {} {}", uint64_t{found.st_ino}, int64_t{found.st_mtim.tv_nsec});
    return std::unique_ptr<Reader>(
        std::make_unique<RemoteReader>(std::move(inner), version, lazily ? 0 : tail_, damaged_, requests_, answer_));
  }

  const Requests& requests_;
  Answer answer_;
  uint64_t tail_ = 0;
  uint64_t damaged_ = UINT64_MAX;
};

}  // namespace ckpt::store

// Feeds a save with the tensors of files on a web server: fetches block after block as the save comes to them, several
// requests at once, and gives back what was saved. So an import takes little memory, however large the files are. What
// several blocks read is spilled (remote_file.h).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/late_memory.h"
#include "interop/remote_file.h"

namespace ckpt::interop {

class Feed final : public LateMemory {
 public:
  explicit Feed(std::vector<std::shared_ptr<RemoteFile>> files);
  // Waits for the requests that are under way.
  ~Feed() override;

  Status fill(const std::vector<Bytes>& samples) override;
  Status begin(std::vector<std::vector<Bytes>> blocks) override;
  Status wait(size_t block, const std::function<Status()>& go_on) override;
  void done(size_t block) override;

 private:
  struct Piece {
    RemoteFile* file = nullptr;
    ByteRange range;
    size_t block = 0;
  };
  struct Block {
    std::vector<Piece> ranges;  // what the save reads
    std::vector<Piece> pieces;  // the same as requests
    size_t waiting = 0;         // of these, those that are not here
  };
  bool place_of(Bytes bytes, Piece* piece) const;
  void plan(const std::vector<Piece>& sorted);
  void work();
  Piece next();

  const std::vector<std::shared_ptr<RemoteFile>> files_;  // by their addresses
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Block> blocks_;
  size_t next_block_ = 0, next_piece_ = 0;  // to fetch
  size_t done_ = 0;                         // blocks that nobody reads any more
  bool ended_ = false;
  Status error_;
  std::vector<std::thread> workers_;
};

}  // namespace ckpt::interop

// Feeds a save with the tensors of files on a web server: fetches block after block as the save comes to them, several
// requests at once, and gives back what was saved. So an import takes little memory, however large the files are. What
// several blocks read is spilled (remote_file.h).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/call.h"
#include "interop/src/client.h"
#include "interop/src/remote_file.h"

namespace ckpt::interop {

class Feed {
 public:
  // Its requests are those of this thread's call.
  explicit Feed(std::vector<std::shared_ptr<RemoteFile>> files);
  // Waits for the requests that are under way.
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  // Has the memory of a save filled by a feed of these files, which the save keeps (ckpt_late_memory).
  static Status feed(std::vector<std::shared_ptr<RemoteFile>> files, client::Save& save);

  // Fills samples of what is to come, and returns once they are there.
  Status fill(const std::vector<Bytes>& samples);
  // What the save will read: the memory of block after block, in this order. Ranges of other memory may be among them.
  Status begin(std::vector<std::vector<Bytes>> blocks);
  // Whether the block is there, for which it waits so long.
  Result<bool> wait(size_t block, int64_t timeout_ms);
  // Nobody reads that block any more.
  void done(size_t block);

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
  const std::shared_ptr<Call> call_;                      // whose requests these are; may be null
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

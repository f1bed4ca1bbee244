// A file on a server: its last bytes came with its opening, all others are fetched.
#pragma once

#include "store/store.h"

namespace ckpt::store {

class TailReader : public Reader {
 public:
  Status read_at(uint64_t offset, MutableBytes out) const final;
  // What is here may be what was damaged on its way.
  Status read_again(uint64_t offset, MutableBytes out) const final;
  // Whatever is not here already is worth waiting for several at a time.
  Way way(uint64_t offset, uint64_t size) const final { return {.queued = !cached(offset, size)}; }
  bool cached(uint64_t offset, uint64_t /*size*/) const final { return offset >= size() - tail().size(); }
  Result<Bytes> map() const final;

 protected:
  virtual std::string path() const = 0;  // for errors
  virtual Bytes tail() const = 0;
  // Fills `out` with bytes of the server's.
  virtual Status fetch(uint64_t offset, MutableBytes out) const = 0;

 private:
  Status check_range(uint64_t offset, uint64_t bytes) const;
};

}  // namespace ckpt::store

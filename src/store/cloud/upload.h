// A multipart upload, from its beginning to its end: pieces with numbers from 0, in any order and several at a time,
// each from memory or from an object that the server has. Nothing is under the key before complete().
#pragma once

#include "store/cloud/objects.h"

namespace ckpt::store::cloud {

class Multipart {
 public:
  using Piece = Bucket::Piece;

  Multipart(std::shared_ptr<Bucket> bucket, std::string_view key);
  ~Multipart() { give_up(); }

  bool begun() const { return !upload_.id.empty(); }
  // `with_checksums`: its pieces have one each, if the server knows them.
  Status begin(bool with_checksums);
  Result<Piece> send(size_t number, std::span<const Bytes> bytes) const;
  // The server takes these bytes from that version of the object `from`: GONE.
  Result<Piece> copy(size_t number, std::string_view from, std::string_view version, uint64_t first,
                     uint64_t size) const;
  // EXISTS; NOT_FOUND: somebody gave the upload up. IO leaves open whether it was done. Whatever it returns, the upload
  // has ended.
  Status complete(std::span<const Piece> pieces);
  // Without memory the upload stays; whoever retires its attempt ends it.
  void give_up();

 private:
  Status finish(std::span<const Piece> pieces);

  const std::shared_ptr<Bucket> bucket_;
  Upload upload_;                // its id is "" before it is begun, and after its end
  bool with_checksums_ = false;  // it was begun so
};

}  // namespace ckpt::store::cloud

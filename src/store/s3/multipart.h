// A multipart upload, from its beginning to its end: parts with numbers from 0, in any order and several at a time,
// each from memory or from an object that the server has. Nothing is under the key before complete().
#pragma once

#include "store/s3/objects.h"

namespace ckpt::store::s3 {

class Multipart {
 public:
  struct Part {
    std::string etag, checksum;
  };

  Multipart(std::shared_ptr<Client> client, std::string_view key);
  ~Multipart() { give_up(); }

  bool begun() const { return !id_.empty(); }
  // `with_checksums`: its parts have one each, if the server knows them.
  Status begin(bool with_checksums);
  Result<Part> send(size_t number, std::span<const Bytes> pieces) const;
  // The server takes these bytes from the object `from`, if it has this ETag still: GONE.
  Result<Part> copy(size_t number, std::string_view from, std::string_view etag, uint64_t first, uint64_t size) const;
  // EXISTS; NOT_FOUND: somebody gave the upload up. IO leaves open whether it was done. Whatever it returns, the upload
  // has ended.
  Status complete(std::span<const Part> parts);
  // Without memory the upload stays; whoever retires its attempt ends it.
  void give_up();

 private:
  Status finish(std::span<const Part> parts);
  Status outcome_of(const Answer& answer, const Request& request);
  Request part_request(size_t number) const;

  const std::shared_ptr<Client> client_;
  const std::string key_, put_by_;
  std::string id_;               // "" before it is begun, and after its end
  bool with_checksums_ = false;  // it was begun so
};

}  // namespace ckpt::store::s3

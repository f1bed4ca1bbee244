#include "store/tail_reader.h"

#include <algorithm>
#include <cstring>

#include "store/keys.h"

namespace ckpt::store {

Status TailReader::check_range(uint64_t offset, uint64_t bytes) const {
  uint64_t end = 0;
  const bool inside = !add_overflows(offset, bytes, &end) && end <= size();
  return inside ? Ok() : ends_early(path(), offset, bytes, size());
}

Status TailReader::read_again(uint64_t offset, MutableBytes out) const {
  if (out.empty()) return Ok();
  CKPT_TRY(check_range(offset, out.size()));
  return fetch(offset, out);
}

Status TailReader::read_at(uint64_t offset, MutableBytes out) const {
  if (out.empty()) return Ok();
  CKPT_TRY(check_range(offset, out.size()));
  const uint64_t end = offset + out.size();
  const uint64_t tail_begin = size() - tail().size();
  const uint64_t from_server = offset < tail_begin ? std::min(end, tail_begin) - offset : 0;
  if (from_server != 0) CKPT_TRY(fetch(offset, out.first(from_server)));
  if (from_server < out.size())
    std::memcpy(out.data() + from_server, tail().data() + (offset + from_server - tail_begin),
                out.size() - from_server);
  return Ok();
}

Result<Bytes> TailReader::map() const {
  return Status(CKPT_UNSUPPORTED, path() + ": what is on a server cannot be mapped").with("path", path());
}

}  // namespace ckpt::store

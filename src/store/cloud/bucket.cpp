#include "store/cloud/bucket.h"

#include <algorithm>
#include <charconv>

#include "store/keys.h"

namespace ckpt::store::cloud {

// By two requests, since not every download tells the checksum of the whole and who put it, or takes a range from the
// end.
Result<Bucket::End> Bucket::read_end(std::string_view key, MutableBytes into) {
  return read_whole([&]() -> Result<End> {
    CKPT_ASSIGN(auto there, look(key, false));
    if (!there) return not_found(path(key));
    const size_t size = std::min<uint64_t>(there->size, into.size());
    if (size != 0) CKPT_TRY(read(key, *there, there->size - size, into.first(size)));
    return End{std::move(there), size};
  });
}

Status Bucket::remove(std::string_view key) {
  Request request("DELETE", key);
  const Answer answer = ask(request);
  return answer.good() || answer.absent ? Ok() : error(answer, request);
}

bool parse_number(std::string_view text, uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool brings(const HttpReply& reply, std::string_view header, const ObjectInfo& object, std::string_view range,
            uint64_t bytes, bool* other) {
  const std::string *told = reply.header(header), *found = reply.header("content-range");
  *other = told && *told != object.version;
  if (!told || *other) return false;
  if (reply.status == 206) return found && *found == strformat("bytes {}/{}", range, object.size);
  return bytes == object.size;
}

Status gone_object(const std::string& path) {
  return Status(CKPT_GONE, path + " was replaced or removed").with("path", path);
}

Status short_object(const std::string& path, uint64_t expected, uint64_t offset, uint64_t found) {
  return Status(CKPT_IO, strformat("{}: expected {} bytes at {}, found {}", path, expected, offset, found))
      .with("path", path);
}

Status Pages::turn(const Client& client, std::string_view directory, std::string_view greatest, size_t names) {
  constexpr size_t kMostBarren = 100, kMostSmall = 1000, kLeastNames = 10;
  pages_++;
  barren_ = greatest > greatest_ ? 0 : barren_ + 1;
  if (greatest > greatest_) greatest_ = greatest;
  const bool goes_on = barren_ < kMostBarren && pages_ < kMostSmall + names / kLeastNames;
  return goes_on ? Ok() : client.stranger(directory, strformat("a listing that does not end ({} pages)", pages_));
}

}  // namespace ckpt::store::cloud

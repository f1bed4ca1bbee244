#include "interop/src/composer/unpack.h"

#include <lz4frame.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "interop/src/composer/codecs.h"
#include "interop/src/dcp/zstd.h"
#include "interop/src/unpacked.h"

namespace ckpt::interop {

namespace {

// One decompressor. Both ranges shrink by what was used.
class Unpacker {
 public:
  virtual ~Unpacker() = default;
  // Begins a member of the file; false: no memory, or no library.
  virtual bool begin() = 0;
  enum class Step { kMore, kEnd, kCorrupt };
  virtual Step step(Bytes& in, MutableBytes& out) = 0;
  virtual const char* missing() const { return nullptr; }
};

class Gzip final : public Unpacker {
 public:
  ~Gzip() override { inflateEnd(&stream_); }
  bool begin() override {
    inflateEnd(&stream_);
    stream_ = {};
    return inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK;
  }
  Step step(Bytes& in, MutableBytes& out) override {
    stream_.next_in = stream_pointer<Bytef>(in);
    stream_.avail_in = static_cast<uInt>(std::min(in.size(), kInBytes));
    stream_.next_out = stream_pointer<Bytef>(out);
    stream_.avail_out = static_cast<uInt>(out.size());
    const uInt given = stream_.avail_in;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    in = in.subspan(given - stream_.avail_in);
    out = out.last(stream_.avail_out);
    return code == Z_STREAM_END ? Step::kEnd : code == Z_OK || code == Z_BUF_ERROR ? Step::kMore : Step::kCorrupt;
  }

 private:
  z_stream stream_{};
};

class Lz4 final : public Unpacker {
 public:
  ~Lz4() override { LZ4F_freeDecompressionContext(context_); }
  bool begin() override { return context_ || !LZ4F_isError(LZ4F_createDecompressionContext(&context_, LZ4F_VERSION)); }
  Step step(Bytes& in, MutableBytes& out) override {
    size_t read = std::min(in.size(), kInBytes), written = out.size();
    const size_t code = LZ4F_decompress(context_, out.data(), &written, in.data(), &read, nullptr);
    if (LZ4F_isError(code)) return Step::kCorrupt;
    in = in.subspan(read);
    out = out.subspan(written);
    return code == 0 ? Step::kEnd : Step::kMore;
  }

 private:
  LZ4F_dctx* context_ = nullptr;
};

class Bzip2 final : public Unpacker {
 public:
  ~Bzip2() override {
    if (end_) end_(&stream_);
  }
  bool begin() override {
    void* library = bzip2_library();
    const bool found = find_function(library, "BZ2_bzDecompressInit", &init_) &&
                       find_function(library, "BZ2_bzDecompress", &decompress_) &&
                       find_function(library, "BZ2_bzDecompressEnd", &end_);
    if (!found) return false;
    end_(&stream_);
    stream_ = {};
    return init_(&stream_, 0, 0) == 0;
  }
  Step step(Bytes& in, MutableBytes& out) override {
    stream_.next_in = stream_pointer<char>(in);
    stream_.avail_in = static_cast<unsigned>(std::min(in.size(), kInBytes));
    stream_.next_out = stream_pointer<char>(out);
    stream_.avail_out = static_cast<unsigned>(out.size());
    const unsigned given = stream_.avail_in;
    const int code = decompress_(&stream_);
    in = in.subspan(given - stream_.avail_in);
    out = out.last(stream_.avail_out);
    return code == 4 ? Step::kEnd : code == 0 ? Step::kMore : Step::kCorrupt;  // BZ_STREAM_END, BZ_OK
  }
  const char* missing() const override { return end_ ? nullptr : kBzip2Library; }

 private:
  BzStream stream_{};
  int (*init_)(BzStream*, int, int) = nullptr;
  int (*decompress_)(BzStream*) = nullptr;
  int (*end_)(BzStream*) = nullptr;
};

// .xz, and .lzma of older programs.
class Lzma final : public Unpacker {
 public:
  ~Lzma() override {
    if (end_) end_(&stream_);
  }
  bool begin() override {
    void* library = lzma_library();
    const bool found = find_function(library, "lzma_auto_decoder", &decoder_) &&
                       find_function(library, "lzma_code", &code_) && find_function(library, "lzma_end", &end_);
    if (!found) return false;
    end_(&stream_);
    stream_ = {};
    return decoder_(&stream_, kMemory, 0) == 0;
  }
  Step step(Bytes& in, MutableBytes& out) override {
    stream_.next_in = stream_pointer<const uint8_t>(in);
    stream_.avail_in = in.size();
    stream_.next_out = stream_pointer<uint8_t>(out);
    stream_.avail_out = out.size();
    const int code = code_(&stream_, in.empty() ? 3 : 0);  // LZMA_FINISH, LZMA_RUN
    in = in.last(stream_.avail_in);
    out = out.last(stream_.avail_out);
    return code == 1 ? Step::kEnd : code == 0 ? Step::kMore : Step::kCorrupt;  // LZMA_STREAM_END, LZMA_OK
  }
  const char* missing() const override { return end_ ? nullptr : kLzmaLibrary; }

 private:
  static constexpr uint64_t kMemory = 512 << 20;  // of the decoder, which the file asks for
  LzmaStream stream_{};
  int (*decoder_)(LzmaStream*, uint64_t, uint32_t) = nullptr;
  int (*code_)(LzmaStream*, int) = nullptr;
  void (*end_)(LzmaStream*) = nullptr;
};

template <typename T>
std::unique_ptr<Unpacker> make_unpacker() {
  return std::make_unique<T>();
}

struct Packing {
  std::string_view magic;
  const char* name;
  std::unique_ptr<Unpacker> (*make)();
};
constexpr Packing kPackings[] = {
    {"\x1f\x8b\x08", "gzip", make_unpacker<Gzip>},
    {"BZh", "bzip2", make_unpacker<Bzip2>},
    {{"\xfd"
      "7zXZ\0",
      6},
     "xz",
     make_unpacker<Lzma>},
    {{"\x5d\0\0", 3}, "lzma", make_unpacker<Lzma>},
    {"\x04\x22\x4d\x18", "lz4", make_unpacker<Lz4>},
    {"\x28\xb5\x2f\xfd", "zstd", nullptr},
};

}  // namespace

const char* packing_of(std::string_view head) {
  for (const Packing& packing : kPackings)
    if (head.starts_with(packing.magic)) return packing.name;
  return nullptr;
}

Status unpack(const char* packing, Bytes packed, const std::function<Status(Bytes)>& take) {
  uint64_t left = most_unpacked(packed.size());
  const auto* row = std::find_if(std::begin(kPackings), std::end(kPackings),
                                 [&](const Packing& each) { return std::string_view(each.name) == packing; });
  if (!row->make) return unpack_zstd(packed, &left, take);
  const std::unique_ptr<Unpacker> unpacker = row->make();
  std::vector<std::byte> buffer(kOutBytes);
  Bytes in = packed;
  while (!in.empty()) {  // several members may follow each other
    if (!unpacker->begin()) {
      if (const char* library = unpacker->missing())
        return Status(CKPT_UNSUPPORTED, strformat("{} data needs {}; install it, or unpack the file", packing, library))
            .with("found", packing);
      return Status(CKPT_NOMEM, packing);
    }
    for (bool ended = false; !ended;) {
      MutableBytes out(buffer);
      const size_t before = in.size();
      const Unpacker::Step step = unpacker->step(in, out);
      const size_t made = buffer.size() - out.size();
      ended = step == Unpacker::Step::kEnd;
      if (step == Unpacker::Step::kCorrupt || (!ended && made == 0 && in.size() == before))
        return Status(CKPT_CORRUPT, strformat("{} data, near byte {} of {}: {}", packing, packed.size() - in.size(),
                                              packed.size(), in.empty() ? "it is cut" : "it is damaged"))
            .with("offset", uint64_t{packed.size() - in.size()});
      if (made == 0) continue;
      CKPT_TRY(take_unpacked(&left, made, packed.size()));
      CKPT_TRY(take(Bytes(buffer).first(made)));
    }
  }
  return Ok();
}

}  // namespace ckpt::interop

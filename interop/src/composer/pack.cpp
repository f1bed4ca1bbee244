#include "interop/src/composer/pack.h"

#include <lz4frame.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "interop/src/composer/codecs.h"

namespace ckpt::interop {

namespace {

// One compressor. Both ranges of step() shrink by what was used; it is called until it has ended.
class Packer {
 public:
  virtual ~Packer() = default;
  virtual bool begin() = 0;  // false: no memory, or no library
  enum class Step { kMore, kEnd, kFailed };
  virtual Step step(Bytes& in, MutableBytes& out) = 0;
  virtual const char* missing() const { return nullptr; }
};

class PackGzip final : public Packer {
 public:
  ~PackGzip() override { deflateEnd(&stream_); }
  bool begin() override {
    return deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK;
  }
  Step step(Bytes& in, MutableBytes& out) override {
    const auto given = static_cast<uInt>(std::min(in.size(), kInBytes));
    stream_.next_in = stream_pointer<Bytef>(in);
    stream_.avail_in = given;
    stream_.next_out = stream_pointer<Bytef>(out);
    stream_.avail_out = static_cast<uInt>(out.size());
    const int code = deflate(&stream_, given == in.size() ? Z_FINISH : Z_NO_FLUSH);
    in = in.subspan(given - stream_.avail_in);
    out = out.last(stream_.avail_out);
    return code == Z_STREAM_END ? Step::kEnd : code == Z_OK || code == Z_BUF_ERROR ? Step::kMore : Step::kFailed;
  }

 private:
  z_stream stream_{};
};

class PackLz4 final : public Packer {
 public:
  ~PackLz4() override { LZ4F_freeCompressionContext(context_); }
  bool begin() override { return !LZ4F_isError(LZ4F_createCompressionContext(&context_, LZ4F_VERSION)); }
  Step step(Bytes& in, MutableBytes& out) override {
    constexpr size_t kPiece = 64 << 10;  // of which the result fits into `out`
    const size_t piece = std::min(in.size(), kPiece);
    const bool is_last = begun_ && piece == 0;
    const size_t made = !begun_    ? LZ4F_compressBegin(context_, out.data(), out.size(), nullptr)
                        : !is_last ? LZ4F_compressUpdate(context_, out.data(), out.size(), in.data(), piece, nullptr)
                                   : LZ4F_compressEnd(context_, out.data(), out.size(), nullptr);
    if (LZ4F_isError(made)) return Step::kFailed;
    if (begun_) in = in.subspan(piece);
    begun_ = true;
    out = out.subspan(made);
    return is_last ? Step::kEnd : Step::kMore;
  }

 private:
  LZ4F_cctx* context_ = nullptr;
  bool begun_ = false;
};

class PackBzip2 final : public Packer {
 public:
  ~PackBzip2() override {
    if (end_) end_(&stream_);
  }
  bool begin() override {
    void* library = bzip2_library();
    const bool found = find_function(library, "BZ2_bzCompressInit", &init_) &&
                       find_function(library, "BZ2_bzCompress", &compress_) &&
                       find_function(library, "BZ2_bzCompressEnd", &end_);
    return found && init_(&stream_, 9, 0, 0) == 0;
  }
  Step step(Bytes& in, MutableBytes& out) override {
    const auto given = static_cast<unsigned>(std::min(in.size(), kInBytes));
    stream_.next_in = stream_pointer<char>(in);
    stream_.avail_in = given;
    stream_.next_out = stream_pointer<char>(out);
    stream_.avail_out = static_cast<unsigned>(out.size());
    const int code = compress_(&stream_, given == in.size() ? 2 : 0);  // BZ_FINISH, BZ_RUN
    in = in.subspan(given - stream_.avail_in);
    out = out.last(stream_.avail_out);
    return code == 4 ? Step::kEnd : code > 0 ? Step::kMore : Step::kFailed;  // BZ_STREAM_END, BZ_RUN_OK, BZ_FINISH_OK
  }
  const char* missing() const override { return end_ ? nullptr : kBzip2Library; }

 private:
  BzStream stream_{};
  int (*init_)(BzStream*, int, int, int) = nullptr;
  int (*compress_)(BzStream*, int) = nullptr;
  int (*end_)(BzStream*) = nullptr;
};

class PackXz final : public Packer {
 public:
  ~PackXz() override {
    if (end_) end_(&stream_);
  }
  bool begin() override {
    void* library = lzma_library();
    const bool found = find_function(library, "lzma_easy_encoder", &encoder_) &&
                       find_function(library, "lzma_code", &code_) && find_function(library, "lzma_end", &end_);
    return found && encoder_(&stream_, 6, 4) == 0;  // the program's preset; LZMA_CHECK_CRC64
  }
  Step step(Bytes& in, MutableBytes& out) override {
    stream_.next_in = stream_pointer<const uint8_t>(in);
    stream_.avail_in = in.size();
    stream_.next_out = stream_pointer<uint8_t>(out);
    stream_.avail_out = out.size();
    const int code = code_(&stream_, 3);  // LZMA_FINISH
    in = in.last(stream_.avail_in);
    out = out.last(stream_.avail_out);
    return code == 1 ? Step::kEnd : code == 0 ? Step::kMore : Step::kFailed;  // LZMA_STREAM_END, LZMA_OK
  }
  const char* missing() const override { return end_ ? nullptr : kLzmaLibrary; }

 private:
  LzmaStream stream_{};
  int (*encoder_)(LzmaStream*, uint32_t, int) = nullptr;
  int (*code_)(LzmaStream*, int) = nullptr;
  void (*end_)(LzmaStream*) = nullptr;
};

class PackZstd final : public Packer {
 public:
  ~PackZstd() override {
    if (context_) free_(context_);
  }
  bool begin() override {
    void* library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    found_ = find_function(library, "ZSTD_createCCtx", &create_) && find_function(library, "ZSTD_freeCCtx", &free_) &&
             find_function(library, "ZSTD_compressStream2", &compress_) &&
             find_function(library, "ZSTD_isError", &is_error_);
    if (found_) context_ = create_();
    return context_ != nullptr;
  }
  Step step(Bytes& in, MutableBytes& out) override {
    Input input{in.data(), in.size(), 0};
    Output output{out.data(), out.size(), 0};
    const size_t left = compress_(context_, &output, &input, 2);  // ZSTD_e_end
    in = in.subspan(input.at);
    out = out.subspan(output.at);
    return is_error_(left) ? Step::kFailed : left == 0 ? Step::kEnd : Step::kMore;
  }
  const char* missing() const override { return found_ ? nullptr : "libzstd.so.1 (Debian: libzstd1)"; }

 private:
  // From zstd.h, since 1.4.
  struct Input {
    const void* data;
    size_t size, at;
  };
  struct Output {
    void* data;
    size_t size, at;
  };
  bool found_ = false;
  void* context_ = nullptr;
  void* (*create_)() = nullptr;
  size_t (*free_)(void*) = nullptr;
  size_t (*compress_)(void*, Output*, Input*, int) = nullptr;
  unsigned (*is_error_)(size_t) = nullptr;
};

std::unique_ptr<Packer> packer_of(std::string_view packing) {
  if (packing == "gzip") return std::make_unique<PackGzip>();
  if (packing == "bzip2") return std::make_unique<PackBzip2>();
  if (packing == "xz") return std::make_unique<PackXz>();
  if (packing == "lz4") return std::make_unique<PackLz4>();
  return std::make_unique<PackZstd>();
}

}  // namespace

Status pack(const char* packing, Bytes content, const std::function<Status(Bytes)>& take) {
  const std::unique_ptr<Packer> packer = packer_of(packing);
  if (!packer->begin()) {
    if (const char* library = packer->missing())
      return Status(CKPT_UNSUPPORTED, strformat("packing by {} needs {}; install it", packing, library))
          .with("found", packing);
    return Status(CKPT_NOMEM, packing);
  }
  std::vector<std::byte> buffer(kOutBytes);
  for (Packer::Step step = Packer::Step::kMore; step != Packer::Step::kEnd;) {
    MutableBytes out(buffer);
    step = packer->step(content, out);
    if (step == Packer::Step::kFailed) return Status(CKPT_INTERNAL, strformat("{} failed", packing));
    if (out.size() < buffer.size()) CKPT_TRY(take(Bytes(buffer).first(buffer.size() - out.size())));
  }
  return Ok();
}

}  // namespace ckpt::interop

#include "interop/src/dcp/zstd.h"

#include <dlfcn.h>

#include <memory>
#include <vector>

#include "interop/src/unpacked.h"

namespace ckpt::interop {

namespace {

// From zstd.h, where they have been the same since 1.0.
struct ZstdInput {
  const void* data;
  size_t size, at;
};
struct ZstdOutput {
  void* data;
  size_t size, at;
};

struct Zstd {
  void* (*create)();
  size_t (*free)(void* stream);
  size_t (*decompress)(void* stream, ZstdOutput* output, ZstdInput* input);
  unsigned (*is_error)(size_t code);
  const char* (*name_of)(size_t code);
  bool loaded = false;

  Zstd() {
    void* library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    loaded = library && find(library, "ZSTD_createDStream", &create) && find(library, "ZSTD_freeDStream", &free) &&
             find(library, "ZSTD_decompressStream", &decompress) && find(library, "ZSTD_isError", &is_error) &&
             find(library, "ZSTD_getErrorName", &name_of);
  }

 private:
  template <typename F>
  static bool find(void* library, const char* name, F* function) {
    *function = reinterpret_cast<F>(dlsym(library, name));
    return *function != nullptr;
  }
};

}  // namespace

Status unpack_zstd(Bytes frames, uint64_t* left_to_take, const std::function<Status(Bytes)>& take) {
  static const Zstd zstd;
  if (!zstd.loaded)
    return Status(CKPT_UNSUPPORTED, "it is compressed by zstd: install libzstd.so.1 (Debian: libzstd1)")
        .with("found", "zstd");
  const std::unique_ptr<void, size_t (*)(void*)> stream(zstd.create(), zstd.free);
  if (!stream) return Status(CKPT_NOMEM, "zstd");
  std::vector<std::byte> buffer(size_t{1} << 18);
  ZstdInput input{frames.data(), frames.size(), 0};
  for (size_t left = 1; input.at < input.size || left != 0;) {
    ZstdOutput output{buffer.data(), buffer.size(), 0};
    const size_t before = input.at;
    left = zstd.decompress(stream.get(), &output, &input);
    if (zstd.is_error(left))
      return Status(CKPT_CORRUPT, strformat("zstd, byte {} of {}: {}", input.at, input.size, zstd.name_of(left)))
          .with("offset", uint64_t{input.at});
    if (output.at == 0 && input.at == before)
      return Status(CKPT_CORRUPT, strformat("zstd: the frame of {} bytes is cut", input.size));
    CKPT_TRY(take_unpacked(left_to_take, output.at, input.size));
    CKPT_TRY(take({buffer.data(), output.at}));
  }
  return Ok();
}

}  // namespace ckpt::interop

#include "device/cuda_runtime.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace ckpt::device::cuda {

static Status unsupported(std::string_view why) {
  return Status(CKPT_UNSUPPORTED, strformat("memory of CUDA devices cannot be taken: {}", why));
}

template <typename Function>
static bool find_function(void* library, const char* name, Function** out) {
  *out = reinterpret_cast<Function*>(dlsym(library, name));
  return *out != nullptr;
}

// The name of the first function that the library lacks; null if it has all.
static const char* find_functions(void* library, Runtime* out) {
#define CKPT_FIND(name) \
  if (!find_function(library, #name, &out->name)) return #name
  CKPT_FIND(cudaRuntimeGetVersion);
  CKPT_FIND(cudaGetDeviceCount);
  CKPT_FIND(cudaGetDevice);
  CKPT_FIND(cudaSetDevice);
  CKPT_FIND(cudaGetLastError);
  CKPT_FIND(cudaGetErrorName);
  CKPT_FIND(cudaGetErrorString);
  CKPT_FIND(cudaPointerGetAttributes);
  CKPT_FIND(cudaHostRegister);
  CKPT_FIND(cudaHostUnregister);
  CKPT_FIND(cudaStreamCreateWithFlags);
  CKPT_FIND(cudaStreamDestroy);
  CKPT_FIND(cudaStreamSynchronize);
  CKPT_FIND(cudaStreamWaitEvent);
  CKPT_FIND(cudaStreamIsCapturing);
  CKPT_FIND(cudaThreadExchangeStreamCaptureMode);
  CKPT_FIND(cudaEventCreateWithFlags);
  CKPT_FIND(cudaEventDestroy);
  CKPT_FIND(cudaEventRecord);
  CKPT_FIND(cudaEventQuery);
  CKPT_FIND(cudaEventSynchronize);
  CKPT_FIND(cudaMemcpyAsync);
  CKPT_FIND(cudaMemcpy2DAsync);
#undef CKPT_FIND
  return nullptr;
}

// Of several names, those that the process has loaded already come first: two runtimes would work side by side, but
// one is enough.
static Result<void*> open_library() {
  // A second C library would come with it.
  if (getauxval(AT_BASE) == 0) return unsupported("this program is linked statically");
  const char* given = secure_getenv("CKPT_CUDART");
  std::vector<const char*> names{"libcudart.so.13", "libcudart.so.12"};
  if (given && *given) names = {given};
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return library;
  std::string tried;
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    const char* why = dlerror();
    tried += strformat("{}{}", tried.empty() ? "" : "; ", why ? why : name);
  }
  return unsupported(strformat("the CUDA Runtime cannot be loaded: {} (CKPT_CUDART may name the library)", tried));
}

static Result<const Runtime*> load_once() {
  CKPT_ASSIGN(void* library, open_library());
  Runtime runtime{};
  if (const char* lacks = find_functions(library, &runtime))
    return unsupported(strformat("the CUDA Runtime that was found lacks {}", lacks));
  int version = 0, &count = runtime.device_count;
  (void)runtime.cudaRuntimeGetVersion(&version);
  const Error error = runtime.cudaGetDeviceCount(&count);
  if (error != kSuccess) (void)runtime.cudaGetLastError();  // the caller shall not find it
  if (error != kSuccess)
    return unsupported(strformat("libcudart {}.{} answers error {} {} ({})", version / 1000, version % 1000 / 10, error,
                                 runtime.cudaGetErrorName(error), runtime.cudaGetErrorString(error)))
        .with("found", std::to_string(error));
  if (count == 0) return unsupported(strformat("libcudart {}.{} finds no device", version / 1000, version % 1000 / 10));
  return new const Runtime(runtime);  // stays loaded: its threads and handlers cannot be taken back
}

Result<const Runtime*> load_runtime() {
  static std::atomic<const Runtime*> loaded{nullptr};
  if (const Runtime* runtime = loaded) return runtime;
  static std::mutex& mutex = *new std::mutex;
  std::lock_guard lock(mutex);
  if (const Runtime* runtime = loaded) return runtime;
  CKPT_ASSIGN(const Runtime* runtime, load_once());
  loaded = runtime;
  return runtime;
}

}  // namespace ckpt::device::cuda

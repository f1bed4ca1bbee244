#include "cli/store_probe.h"

#include <ckpt_backend.h>
#include <dlfcn.h>

#include <cstdlib>
#include <memory>

namespace cli {

// By its path alone: a name without one would be looked for in folders that somebody else may fill.
void load_backend(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
  if (!real) fail(CKPT_NOT_FOUND, "option --backend: no such file: " + path);
  void* const library = dlopen(real.get(), RTLD_NOW | RTLD_LOCAL);
  const char* const why = library ? "it does not export ckpt_backend_init (ckpt_backend.h)" : dlerror();
  const auto init =
      library ? reinterpret_cast<ckpt_backend_init_function>(dlsym(library, "ckpt_backend_init")) : nullptr;
  if (!init) fail(CKPT_UNSUPPORTED, "option --backend: cannot use " + path + ": " + why);
  ckpt_error* err = nullptr;
  if (const ckpt_status status = init(&err)) throw ckpt::Error(status, err);
}

std::vector<Promise> probe_store(const std::string& address, const ckpt::Options& options) {
  const ckpt::Store store = ckpt::Store::open(address, options);
  std::vector<Promise> promises;
  constexpr ckpt_backend_tell tell = [](void* to, const char* name, int32_t state, const char* found) {
    static_cast<std::vector<Promise>*>(to)->push_back({name, static_cast<State>(state), found});
  };
  ckpt_error* err = nullptr;
  if (const ckpt_status status = ckpt_backend_check(store.get(), tell, &promises, &err)) throw ckpt::Error(status, err);
  return promises;
}

}  // namespace cli

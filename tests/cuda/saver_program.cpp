// Saves memory of a device again and again, until it is killed: byte i of checkpoint N is i * 7 + N. Arguments: the
// store, and the first N. It prints each N that is committed.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ckpt.h"
#include "cuda/runtime.h"

static void must(ckpt_status status, ckpt_error* err) {
  if (status == CKPT_OK) return;
  std::fprintf(stderr, "%s\n", ckpt_error_message(err));
  std::_Exit(1);
}

int main(int, char** argv) {
  constexpr int64_t kBytes = 6 << 20;
  ckpt_error* err = nullptr;
  ckpt_store* store = nullptr;
  ckpt_session* session = nullptr;
  must(ckpt_store_open(&store, argv[1], nullptr, &err), err);
  must(ckpt_session_open(&session, store, 0, 1, nullptr, nullptr, &err), err);
  if (cuda_test::fake()) cuda_test::fake()->delay_us(0, 2000);
  void* device = nullptr;
  if (cudaMalloc(&device, kBytes) != 0) return 1;
  auto* host = static_cast<unsigned char*>(std::malloc(kBytes));
  ckpt_tensor_desc desc = {};
  desc.struct_size = sizeof desc;
  desc.dtype = CKPT_DTYPE_U8;
  desc.ndim = 1;
  desc.shape[0] = kBytes;
  // A label that an earlier process saved is taken.
  for (int64_t step = std::atoll(argv[2]);; step++) {
    for (int64_t i = 0; i < kBytes; i++) host[i] = static_cast<unsigned char>(i * 7 + step);
    if (cudaMemcpy(device, host, kBytes, cuda_test::kDefault) != 0) return 1;
    ckpt_save* save = nullptr;
    ckpt_job* job = nullptr;
    must(ckpt_save_new(&save, session, ("s" + std::to_string(step)).c_str(), step, nullptr, &err), err);
    must(ckpt_save_add_tensor(save, "t", &desc, device, kBytes, CKPT_DEVICE_CUDA, 0, &err), err);
    must(ckpt_save_start(save, &job, &err), err);
    must(ckpt_job_wait(job, CKPT_JOB_COMMITTED, -1, &err), err);
    std::printf("%lld\n", static_cast<long long>(step));
    std::fflush(stdout);
    ckpt_job_free(job);
    ckpt_save_free(save);
  }
}

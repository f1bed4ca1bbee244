// Adds a tensor that is said to be on CUDA device 0, prints what the library answers, and then saves and loads a
// tensor of the host, which must go on. The argument is a store. answers_test.py runs it with several libcudart.
#include <cstdio>
#include <cstring>

#include "ckpt.h"

static int failed(const char* what, ckpt_error* err) {
  std::printf("FAILED %s: %s\n", what, ckpt_error_message(err));
  return 1;
}

int main(int, char** argv) {
  ckpt_error* err = nullptr;
  float host[64], loaded[64];
  for (int i = 0; i < 64; i++) host[i] = static_cast<float>(i);
  ckpt_store* store = nullptr;
  ckpt_session* session = nullptr;
  ckpt_save* save = nullptr;
  if (ckpt_store_open(&store, argv[1], nullptr, &err) != CKPT_OK) return failed("store", err);
  if (ckpt_session_open(&session, store, 0, 1, nullptr, nullptr, &err) != CKPT_OK) return failed("session", err);
  if (ckpt_save_new(&save, session, "s", -1, nullptr, &err) != CKPT_OK) return failed("save", err);
  ckpt_tensor_desc desc = {};
  desc.struct_size = sizeof desc;
  desc.dtype = CKPT_DTYPE_F32;
  desc.ndim = 1;
  desc.shape[0] = 64;
  for (int turn = 0; turn < 2; turn++) {  // the second time as the first
    const ckpt_status status = ckpt_save_add_tensor(save, "gpu", &desc, host, sizeof host, CKPT_DEVICE_CUDA, 0, &err);
    std::printf("%s %s\n", ckpt_status_name(status), ckpt_error_message(err));
    ckpt_error_free(err);
    err = nullptr;
  }
  if (ckpt_save_add_tensor(save, "host", &desc, host, sizeof host, CKPT_DEVICE_CPU, 0, &err) != CKPT_OK)
    return failed("add", err);
  if (ckpt_save_run(save, &err) != CKPT_OK) return failed("run", err);
  ckpt_reader* reader = nullptr;
  ckpt_load* load = nullptr;
  if (ckpt_reader_open(&reader, store, "latest", nullptr, &err) != CKPT_OK) return failed("reader", err);
  if (ckpt_load_new(&load, reader, nullptr, &err) != CKPT_OK) return failed("load", err);
  const ckpt_status status =
      ckpt_load_add_tensor(load, "host", &desc, loaded, sizeof loaded, CKPT_DEVICE_CUDA, 0, &err);
  std::printf("%s %s\n", ckpt_status_name(status), ckpt_error_message(err));
  ckpt_error_free(err);
  err = nullptr;
  if (ckpt_load_add_tensor(load, "host", &desc, loaded, sizeof loaded, CKPT_DEVICE_CUDA_HOST, 0, &err) != CKPT_OK)
    return failed("ask", err);
  if (ckpt_load_run(load, &err) != CKPT_OK) return failed("load", err);
  std::printf("%s\n", std::memcmp(host, loaded, sizeof host) == 0 ? "host tensors went on" : "FAILED other bytes");
  ckpt_load_free(load);
  ckpt_reader_free(reader);
  ckpt_save_free(save);
  ckpt_session_free(session);
  ckpt_store_free(store);
  return 0;
}

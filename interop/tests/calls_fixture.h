// The public C API as these tests call it: how a call ended, calls that must go well, and descriptors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ckpt.h"

namespace ckpt::interop {

struct Failure {
  ckpt_status code = CKPT_OK;
  std::string message;
  std::map<std::string, std::string> details;
};

template <typename F>
Failure attempt(F&& call) {
  ckpt_error* err = nullptr;
  Failure failure;
  failure.code = call(&err);
  failure.message = ckpt_error_message(err);
  for (const char* key : {"path", "part", "tensor", "expected", "found", "run"})
    if (const char* value = ckpt_error_detail(err, key)) failure.details[key] = value;
  ckpt_error_free(err);
  return failure;
}

// "" where the error has no such fact.
inline std::string detail(const Failure& failure, const std::string& key) {
  const auto found = failure.details.find(key);
  return found == failure.details.end() ? "" : found->second;
}

template <typename F>
void must(F&& call) {
  const Failure failure = attempt(std::forward<F>(call));
  ASSERT_EQ(failure.code, CKPT_OK) << failure.message;
}

inline ckpt_tensor_desc describe(int32_t dtype, const std::vector<int64_t>& shape) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = dtype;
  desc.ndim = static_cast<int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), desc.shape);
  return desc;
}

inline ckpt_tensor_info tensor_info(const ckpt_reader* reader, const std::string& name) {
  ckpt_tensor_info info{};
  info.struct_size = sizeof info;
  must([&](auto** err) { return ckpt_reader_tensor_find(reader, name.c_str(), &info, err); });
  return info;
}

// All of a tensor into a string or vector of its size.
template <typename Data>
void load_whole(const ckpt_reader* reader, const std::string& name, const ckpt_tensor_desc& desc, Data& data) {
  ckpt_load* load = nullptr;
  const uint64_t bytes = data.size() * sizeof data[0];
  must([&](auto** err) { return ckpt_load_new(&load, reader, nullptr, err); });
  must([&](auto** err) {
    return ckpt_load_add_tensor(load, name.c_str(), &desc, data.data(), bytes, CKPT_DEVICE_CPU, 0, err);
  });
  must([&](auto** err) { return ckpt_load_run(load, err); });
  ckpt_load_free(load);
}

}  // namespace ckpt::interop

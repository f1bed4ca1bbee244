// One .pt file in torch's zip form: the pickle first, then its storages, streamed. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "ckpt.h"
#include "interop/pt/storage_plan.h"

namespace ckpt::interop {

// What data goes through. Not touched before it is needed, so a small export costs no memory.
class PtBuffer {
 public:
  MutableBytes bytes() const { return {data_.get(), TensorStream::kBufferBytes}; }

 private:
  std::unique_ptr<std::byte[]> data_ = std::make_unique_for_overwrite<std::byte[]>(TensorStream::kBufferBytes);
};

// What the files of an export share.
struct PtTarget {
  const ckpt_reader* reader;
  const ckpt_options* options;
  MutableBytes buffer;
};

// Durable under `path`, or not there at all. Storage i has the key i.
Status write_pt_file(const PtTarget& target, const std::string& pickle, const std::vector<PtStorage>& storages,
                     const std::string& path);

}  // namespace ckpt::interop

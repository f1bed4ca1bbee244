// What an export writes: a checkpoint, or what the options of the export make of it (map/change.h). Cheap to copy; the
// reader must outlive it. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "interop/src/client.h"
#include "interop/src/reader.h"

namespace ckpt::interop {

class State {
 public:
  // As it is.
  State(const client::Reader& reader) : reader_(&reader) {}
  // As options map, map_back, config, only, exclude and cast say. The errors of change().
  static Result<State> make(const client::Reader& reader, const ExportOptions& options);

  // Tensors and aliases, in the order of their names; texts are borrowed.
  uint64_t tensor_count() const;
  Result<ckpt_tensor_info> tensor(uint64_t index) const;
  Result<ckpt_tensor_info> tensor(const std::string& name) const;  // NOT_FOUND
  // How an alias views its target.
  Result<ckpt_tensor_desc> alias(const std::string& name) const;
  std::optional<std::string> attr(const std::string& key) const { return reader_->attr(key); }
  std::optional<std::string> tensor_attr(const std::string& name, const std::string& key) const;
  Result<tree::Tree> tree() const;

  const client::Reader& reader() const { return *reader_; }
  // The checkpoint's name of a tensor that is as it was, but perhaps for its name; nothing where elements lie
  // otherwise.
  std::optional<std::string> origin(const std::string& name) const;
  // Elements [begin, begin + size) of one that has no origin.
  Status read(const std::string& name, uint64_t begin, uint64_t size, MutableBytes out) const;

 private:
  struct Changed;
  const ForeignTensor* find(const std::string& name) const;
  ckpt_tensor_info info_of(const ForeignTensor& tensor) const;

  const client::Reader* reader_;
  std::shared_ptr<Changed> changed_;
};

// Of an attribute that may be continued (client.h); empty where there is none.
std::string get_text(const State& state, const std::string& key);

}  // namespace ckpt::interop

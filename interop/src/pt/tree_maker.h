// The walk over a pickle that makes a state tree; shared by tree.cpp (plain values), records.cpp
// (objects) and tensor_records.cpp.
// Recursion goes as deep as a state tree may, CKPT_TREE_MAX_DEPTH.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "interop/src/pt/tree.h"
#include "interop/src/seeded_hash.h"

namespace ckpt::interop {

class TreeMaker {
 public:
  TreeMaker(const PtSource& source, SpareTree& spare, std::string at, const TakeObject& take);
  Status run();
  PtTree take() && { return std::move(out_); }

 private:
  using Body = std::function<Status()>;
  using KeyRefs = std::vector<std::pair<PickleRef, PickleRef>>;

  // ---- tree.cpp ----
  Status value(PickleRef ref);
  Status value_of(PickleRef ref);
  struct Place {
    std::string path;
    uint32_t lowest;  // the first of `walked_` that a value inside of it is
  };
  Status place(const Place& of);
  void leave(PickleRef ref);
  Status surrogates(std::string_view text);
  Status cannot(const Status& why, size_t nodes, size_t open);
  const PickleValue* refused_argument(PickleRef ref) const;
  Status scalar(const PickleValue& value);
  Status sequence(int kind, const std::span<const PickleRef> items);
  Status dict(const std::span<const PickleRef> items);
  Status plain_dict(const KeyRefs& entries);
  Status pairs_dict(const std::span<const PickleRef> items);
  Result<KeyRefs> without_repeats(const std::span<const PickleRef> items);
  Status leaf(PtTensor tensor);
  Result<std::string> add_leaf();
  Result<bool> taken(PickleRef ref);
  std::string tensor_name() const;

  // Opens a container; `body` adds what is in it.
  Status container(int kind, std::string_view class_name, const Body& body);
  Status record(std::string_view class_name, const Body& body) { return container(CKPT_NODE_RECORD, class_name, body); }
  // A field of a record, and a key of a dict. A field that is `silent` has no segment in the paths of tensors.
  Status field(std::string_view key, const Body& body, bool silent = false);
  Status field(std::string_view key, PickleRef ref) {
    return field(key, [&] { return value(ref); });
  }
  Status field_text(std::string_view key, std::string_view text);
  Status field_bool(std::string_view key, bool flag);
  Status key_of(const PickleValue& key);
  Status spend(uint64_t nodes, uint64_t text);
  Status refuse(ckpt_status code, const std::string& what) const;
  Status refuse_name(const std::string& why, const std::string& found);
  std::string where() const { return where(path_.size()); }
  std::string where(size_t segments) const;

  // ---- records.cpp ----
  Status object(PickleRef ref);
  Status name(std::string_view full_name);
  Status persistent(PickleRef ref);
  Status array(PickleRef ref);
  Status scalar_of_numpy(PickleRef ref);
  Status complex(double real, double imaginary);
  Status ordered_dict(PickleRef ref);
  Status script_object(PickleRef ref);
  Status unknown(PickleRef ref, std::string_view class_name);
  // Whether it was one of torch's small values: Size, device, layout, a list of LibTorch's.
  Result<bool> small_object(PickleRef ref, std::string_view class_name);
  const PickleValue* argument(PickleRef ref, size_t i) const;
  PickleRef argument_ref(PickleRef ref, size_t i) const;

  // ---- tensor_records.cpp ----
  Status tensor(PtTensor found);
  Status tensor_fields(PtTensor found);
  Status parameter(PickleRef ref);
  Status subclass(PickleRef ref);
  Status sparse(PickleRef ref);
  Status quantized(PickleRef ref);
  Status quantizer(PickleRef ref);

  const PtSource& source_;
  const PickleDocument& pickle_;
  const TakeObject& take_;
  PtTree out_;
  struct Walked {
    size_t path;      // how much of path_ leads to it
    uint32_t lowest;  // the first of `walked_`, from 1, that a value inside of it is
    size_t circles;   // how many `in_circles_` were before
  };
  std::vector<Walked> walked_;  // values that are being walked
  std::vector<uint32_t> open_;  // their numbers in `walked_`, from 1; 0 for all others
  // Values that were walked, and hold one of `walked_`, which holds them.
  std::unordered_map<PickleRef, Place> circular_;
  std::vector<PickleRef> in_circles_;
  std::vector<std::string> path_;  // segments; empty ones are silent
  std::unordered_set<std::string, SeededHash> names_;
  SpareTree& spare_;
  uint64_t nodes_left_ = 0, text_left_ = 0;  // before the spare ones
  bool spent_ = false;                       // nothing of that is left
  bool refused_ = false;                     // what the pickle refuses was met
  bool cannot_ = false;                      // a value cannot be had
};

}  // namespace ckpt::interop

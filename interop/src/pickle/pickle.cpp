#include "interop/src/pickle/pickle.h"

#include "interop/src/pickle/machine.h"

namespace ckpt::interop {

PickleRef PickleDocument::find(PickleRef dict, std::string_view key) const {
  if (dict >= values_.size()) return kNoValue;
  const PickleValue& holder = values_[dict];
  const bool is_dict = holder.kind == PickleKind::kDict, is_object = holder.kind == PickleKind::kObject;
  if (!is_dict && !is_object) return kNoValue;
  const std::span<const PickleRef> pairs = is_dict ? std::span<const PickleRef>(holder.items) : holder.entries();
  for (size_t i = pairs.size(); i > 0; i -= 2) {
    const PickleValue& found = values_[pairs[i - 2]];
    if (found.kind == PickleKind::kText && found.text == key) return pairs[i - 1];
  }
  return kNoValue;
}

std::string_view PickleDocument::class_of(PickleRef ref) const {
  if (ref >= values_.size()) return {};
  const PickleValue& value = values_[ref];
  if (value.kind == PickleKind::kName) return value.text;
  return value.kind == PickleKind::kObject ? values_[value.callee()].text : std::string_view();
}

Result<PickleDocument> parse_pickle(Bytes bytes, std::string_view where) {
  CKPT_ASSIGN(PickleDocument document, parse_pickle_in_part(bytes, where));
  if (!document.refused().ok()) return Status(document.refused()).in(where);
  return document;
}

Result<PickleDocument> parse_pickle_in_part(Bytes bytes, std::string_view where) {
  PickleMachine machine(bytes);
  Status status = machine.run();
  if (!status.ok() && !machine.refused().ok()) status = machine.refused();  // the first cause
  if (!status.ok()) return std::move(status).in(where);
  return std::move(machine).take();
}

}  // namespace ckpt::interop

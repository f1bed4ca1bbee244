// A pickle from bytes. What the machine accepts is consistent: every reference has a value, every kind has its own
// parts, and memory is in proportion to the bytes. What it refuses, it blames on the bytes.
#include "fuzz/harness.h"
#include "interop/src/pickle/pickle.h"

namespace ckpt::fuzz {
namespace {

using namespace interop;

void check(const PickleDocument& document, const PickleValue& value) {
  for (const std::span<const PickleRef> refs : {std::span<const PickleRef>(value.items), value.entries()})
    for (PickleRef ref : refs) must(ref < document.size());
  if (value.kind == PickleKind::kDict) must(value.items.size() % 2 == 0);
  if (value.kind == PickleKind::kPersistent) must(value.items.size() == 1);
  if (value.kind == PickleKind::kName) must(value.text.find(' ') != std::string_view::npos);
  if (value.kind != PickleKind::kObject) {
    must(value.callee() == kNoValue && value.entries().empty());
    return;
  }
  must(value.entries().size() % 2 == 0);
  must(document[value.callee()].kind == PickleKind::kName && document[value.args()].kind == PickleKind::kTuple);
  if (value.kwargs() != kNoValue) must(document[value.kwargs()].kind == PickleKind::kDict);
  if (value.state() != kNoValue) must(value.state() < document.size());
}

void run(Bytes bytes) {
  const Result<PickleDocument> document = parse_pickle(bytes, "fuzz");
  if (!document.ok()) {
    must(document.status().code() == CKPT_FORMAT || document.status().code() == CKPT_UNSUPPORTED);
    must(document.status().detail("offset") != nullptr);
    if (document.status().code() == CKPT_UNSUPPORTED) must(document.status().detail("found") != nullptr);
    return;
  }
  must(document->root() < document->size() && document->bytes_read() <= bytes.size());
  size_t refs = 0, sum = 0;
  for (PickleRef ref = 0; ref < document->size(); ref++) {
    const PickleValue& value = (*document)[ref];
    check(*document, value);
    refs += value.items.size() + value.entries().size();
    for (char c : value.text) sum += static_cast<unsigned char>(c);
    document->class_of(ref);
    const PickleRef found = document->find(ref, "a");
    must(found == kNoValue || found < document->size());
  }
  must(document->size() <= 2 * bytes.size() && refs <= 4 * bytes.size());
  must(sum < SIZE_MAX);
}

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ckpt::fuzz::run(ckpt::fuzz::input(data, size));
  return 0;
}

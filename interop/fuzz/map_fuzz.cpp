// The bytes as a mapping, and after a NUL as a model's configuration. What is accepted is applied to a small model and
// read to the last byte; where it runs backwards, backwards too.
#include "fuzz/harness.h"
#include "interop/src/map/change.h"

namespace ckpt::fuzz {
namespace {

using namespace interop;

constexpr uint64_t kBytes = 4096;

// Tensors of up to 64 elements in one memory, as whole, strided and cut ones.
ForeignCheckpoint model(Bytes memory) {
  ForeignCheckpoint out;
  auto add = [&](const char* name, uint16_t dtype, std::vector<uint64_t> extents) -> ForeignTensor& {
    ForeignTensor& tensor = out.tensors.emplace_back();
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.shape = Shape::of(extents);
    tensor.pieces.push_back({{}, out.files.range_of(memory.first(tensor.bytes())), std::nullopt, 0});
    return tensor;
  };
  add("model.layers.0.self_attn.q_proj.weight", CKPT_DTYPE_BF16, {8, 4});
  add("model.layers.0.self_attn.k_proj.weight", CKPT_DTYPE_F16, {4, 4}).pieces[0].strides = Strides{1, 4};
  add("model.layers.10.mlp.w.weight", CKPT_DTYPE_F32, {6, 3, 2});
  add("model.norm.weight", CKPT_DTYPE_F32, {4});
  add("empty", CKPT_DTYPE_U8, {0, 3});
  add("scalar", CKPT_DTYPE_I64, {});
  add("packed", CKPT_DTYPE_F4_E2M1FN, {4, 4});
  ForeignTensor& cut = add("cut", CKPT_DTYPE_U8, {5, 2});
  cut.pieces.clear();
  for (uint64_t at = 0; at < 10; at += 5) {
    ForeignPiece piece{{}, out.files.range_of(memory.subspan(at, 5)), std::nullopt, static_cast<uint32_t>(at / 5)};
    piece.region.kind = RegionKind::kFlat;
    piece.region.flat_offset = at;
    piece.region.flat_size = 5;
    cut.pieces.push_back(piece);
  }
  out.ranks = 2;
  return out;
}

void blame(const Status& status) {
  if (status.code() != CKPT_INVALID && status.code() != CKPT_NOT_FOUND) must_blame_the_bytes(status);
}

Status read_all(ForeignCheckpoint& content) {
  for (const ForeignTensor& tensor : content.tensors) {
    must(!tensor.name.empty() && tensor.shape.ndim <= kMaxNdim);
    for (const ForeignPiece& piece : tensor.pieces) {
      CKPT_ASSIGN(const Bytes bytes, content.files.bytes(piece.bytes));
      must(bytes.size() == piece.bytes.size);
      if (const ForeignPiece* whole = tensor.whole(); whole && !whole->strides) must(bytes.size() == tensor.bytes());
      must(codec::xxh3_64(bytes) == codec::xxh3_64(bytes));
    }
  }
  return Ok();
}

void run(const interop::Mapping& mapping, std::string_view config, Bytes memory) {
  Changes changes;
  for (const auto& [name, expressions] : mapping.variables) changes.variables.define(name, expressions);
  if (!config.empty()) (void)changes.variables.use_config(config, "config");
  changes.mapping = mapping;
  for (const bool views : {true, false}) {
    changes.views = views;
    ForeignCheckpoint content = model(memory);
    Status status = change(content, changes);
    blame(status);
    if (status.ok()) blame(read_all(content));
  }
}

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ckpt;
  const std::string_view text = as_text(fuzz::input(data, size));
  const size_t end = std::min(text.find('\0'), text.size());
  const auto mapping = interop::Mapping::parse(text.substr(0, end), "fuzz");
  fuzz::blame(mapping.status());
  if (!mapping.ok()) return 0;
  const std::vector<std::byte> memory(fuzz::kBytes);
  const std::string_view config = text.substr(std::min(end + 1, text.size()));
  fuzz::run(*mapping, config, memory);
  const auto back = mapping->backwards();
  fuzz::blame(back.status());
  if (back.ok()) fuzz::run(*back, config, memory);
  return 0;
}

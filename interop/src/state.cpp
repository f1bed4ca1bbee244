#include "interop/src/state.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "base/parallel.h"
#include "interop/src/json.h"
#include "interop/src/map/change.h"
#include "interop/src/outer_call.h"

namespace ckpt::interop {

namespace {

// The checkpoint's name of a tensor, with those attributes that a change keeps; no file has such a key.
const std::string kOrigin = "~origin";

// How mapped elements are computed: so many bytes by each of some threads, each of which reads as much of the source.
constexpr uint64_t kAtOnce = 8 << 20;
constexpr unsigned kReaders = 4;

// The tensors of a checkpoint one after another, as if they were a file. Thread-safe.
class CheckpointFile final : public store::Reader {
 public:
  CheckpointFile(const client::Reader& reader, client::Options options)
      : reader_(reader), options_(std::move(options)) {}

  // The tensor's place.
  FileRange add(const ForeignTensor& tensor) {
    if (tensor.bytes() == 0) return {};
    const uint64_t offset = round_up(size_, kAlign);
    tensors_.push_back({offset, tensor.bytes(), tensor.elements(), tensor.name, tensor.dtype, tensor.shape});
    size_ = offset + tensor.bytes();
    return {0, offset, tensor.bytes()};
  }

  uint64_t size() const override { return size_; }
  Result<Bytes> map() const override { return Status(CKPT_UNSUPPORTED, "a checkpoint is not mapped"); }

  // By way of memory of its own: `out` may not live as long as a load that was left behind.
  Status read_at(uint64_t offset, MutableBytes out) const override {
    const Lent own(std::make_unique_for_overwrite<std::byte[]>(out.size()));
    CKPT_TRY(with_parts([&] { return load(offset, {own->get(), out.size()}); }));
    std::memcpy(out.data(), own->get(), out.size());
    return Ok();
  }

 private:
  Status load(uint64_t offset, MutableBytes out) const {
    CKPT_ASSIGN(client::Load load, result(client::Load::create(reader_, options_)));
    auto at = std::upper_bound(tensors_.begin(), tensors_.end(), offset,
                               [](uint64_t place, const Tensor& tensor) { return place < tensor.offset; });
    if (at != tensors_.begin()) --at;
    for (const uint64_t end = offset + out.size(); at != tensors_.end() && at->offset < end; ++at) {
      const uint64_t from = std::max(offset, at->offset), to = std::min(end, at->offset + at->bytes);
      if (from >= to) continue;
      // Requests begin and end at pages of the file or at ends of tensors, so at elements.
      const auto bits = static_cast<uint64_t>(dtype_bits(at->dtype));
      const uint64_t first = (from - at->offset) * 8 / bits;
      const uint64_t last = std::min(at->elements, ((to - at->offset) * 8 + bits - 1) / bits);
      CKPT_TRY(done(load.add_tensor(at->name, client::Tensor(describe(at->dtype, at->shape, first, last - first)),
                                    client::MutableMemory(out.data() + (from - offset), to - from))));
    }
    return done(load.run());
  }

  struct Tensor {
    uint64_t offset, bytes, elements;
    std::string name;
    uint16_t dtype;
    Shape shape;
  };
  const client::Reader& reader_;
  const client::Options options_;
  std::vector<Tensor> tensors_;
  uint64_t size_ = 0;
};

Result<ForeignTensor> tensor_of(const client::Reader& reader, const ckpt_tensor_info& info) {
  ForeignTensor tensor;
  tensor.name = info.name;
  tensor.dtype = static_cast<uint16_t>(info.dtype);
  tensor.shape = shape_of(info);
  CKPT_TRY(element_bytes(tensor.elements(), tensor.dtype).status());
  CKPT_ASSIGN(const client::Attributes attributes, result(reader.tensor_attrs(tensor.name)));
  tensor.attributes.assign(attributes.begin(), attributes.end());
  tensor.attributes.emplace_back(kOrigin, tensor.name);
  return tensor;
}

// Where an alias's elements lie, in its target's bytes.
Status point(const client::Reader& reader, const ForeignTensor& target, ForeignTensor* alias) {
  CKPT_ASSIGN(const client::Tensor view, result(reader.alias(alias->name)));
  const ckpt_tensor_desc& desc = view.desc();
  alias->target_offset = static_cast<uint64_t>(desc.flat_offset);
  std::copy_n(desc.strides, desc.ndim, alias->target_strides.begin());
  ForeignPiece& piece = alias->pieces.emplace_back();
  const auto bits = static_cast<uint64_t>(dtype_bits(alias->dtype));
  if (alias->bytes() == 0) return Ok();
  if (bits % 8 != 0) {
    piece.bytes = target.pieces[0].bytes;
    return Ok();
  }
  uint64_t last = 0;
  for (int i = 0; i < alias->shape.ndim; i++)
    last += (alias->shape[i] - 1) * static_cast<uint64_t>(alias->target_strides[static_cast<size_t>(i)]);
  const FileRange& whole = target.pieces[0].bytes;
  piece.bytes = {whole.file, whole.offset + alias->target_offset * bits / 8, (last + 1) * bits / 8};
  if (!is_row_major(alias->shape, alias->target_strides)) piece.strides = alias->target_strides;
  return Ok();
}

// The checkpoint as if somebody else had written it.
Result<ForeignCheckpoint> foreign(const client::Reader& reader, const ExportOptions& options) {
  ForeignCheckpoint out;
  auto file = std::make_unique<CheckpointFile>(reader, reading_options(options));
  std::map<std::string, size_t> place;
  for (const bool aliases : {false, true})
    for (uint64_t i = 0; i < reader.tensor_count(); i++) {
      CKPT_ASSIGN(const ckpt_tensor_info info, result(reader.tensor(i)));
      if ((info.alias_of != nullptr) != aliases) continue;
      CKPT_ASSIGN(ForeignTensor tensor, tensor_of(reader, info));
      if (aliases) {
        tensor.target = place.at(info.alias_of);
        CKPT_TRY(point(reader, out.tensors[tensor.target], &tensor));
      } else {
        tensor.pieces.push_back({{}, file->add(tensor), std::nullopt, 0});
        place[tensor.name] = out.tensors.size();
      }
      out.tensors.push_back(std::move(tensor));
    }
  CKPT_ASSIGN(auto remote, RemoteFile::make(std::move(file), "the checkpoint", 0));
  out.files.add("", InputFile(std::move(remote)));
  CKPT_ASSIGN(out.tree, tree_of(reader));
  return out;
}

// The sizes that an import knew.
Result<Variables::Values> imported_sizes(const client::Reader& reader) {
  Variables::Values values;
  const std::string text = get_text(State(reader), kMapSizesAttr);
  if (text.empty()) return values;
  CKPT_ASSIGN(const StringMap map, parse_string_map(text));
  for (const auto& [name, number] : map) {
    uint64_t& value = values[name];
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || stop != number.data() + number.size())
      return Status(CKPT_FORMAT, std::string("attribute ") + kMapSizesAttr + ": no number " + shown(number));
  }
  return values;
}

}  // namespace

struct State::Changed {
  ForeignCheckpoint content;
  std::map<std::string, size_t, std::less<>> by_name;
  std::vector<size_t> order;
  const ForeignTensor* read = nullptr;  // the last one that was
};

Result<State> State::make(const client::Reader& reader, const ExportOptions& options) {
  State state(reader);
  CKPT_ASSIGN(Changes changes, changes_of(options, ""));
  if (changes.empty()) return state;
  changes.views = false;
  if (changes.at.empty() && !options.at.empty()) changes.at = options.at + '/';
  if (options.config.empty()) {
    CKPT_ASSIGN(Variables::Values values, imported_sizes(reader));
    changes.variables.use_values(std::move(values));
  }
  state.changed_ = std::make_shared<Changed>();
  ForeignCheckpoint& content = state.changed_->content;
  CKPT_ASSIGN(content, foreign(reader, options));
  CKPT_TRY(change(content, changes));
  for (size_t i = 0; i < content.tensors.size(); i++) state.changed_->by_name[content.tensors[i].name] = i;
  for (const auto& [name, place] : state.changed_->by_name) state.changed_->order.push_back(place);
  return state;
}

const ForeignTensor* State::find(const std::string& name) const {
  const auto found = changed_->by_name.find(name);
  return found == changed_->by_name.end() ? nullptr : &changed_->content.tensors[found->second];
}

ckpt_tensor_info State::info_of(const ForeignTensor& tensor) const {
  ckpt_tensor_info info{};
  info.struct_size = sizeof info;
  info.dtype = tensor.dtype;
  info.ndim = tensor.shape.ndim;
  for (int i = 0; i < tensor.shape.ndim; i++) info.shape[i] = static_cast<int64_t>(tensor.shape[i]);
  info.bytes = tensor.bytes();
  info.name = tensor.name.c_str();
  if (tensor.is_alias()) info.alias_of = changed_->content.tensors[tensor.target].name.c_str();
  return info;
}

uint64_t State::tensor_count() const { return changed_ ? changed_->order.size() : reader_->tensor_count(); }

Result<ckpt_tensor_info> State::tensor(uint64_t index) const {
  if (changed_) return info_of(changed_->content.tensors[changed_->order[index]]);
  CKPT_ASSIGN(const ckpt_tensor_info info, result(reader_->tensor(index)));
  return info;
}

Result<ckpt_tensor_info> State::tensor(const std::string& name) const {
  if (changed_) {
    const ForeignTensor* found = find(name);
    return found ? Result<ckpt_tensor_info>(info_of(*found))
                 : Status(CKPT_NOT_FOUND, "no tensor " + shown(name)).with("tensor", name);
  }
  CKPT_ASSIGN(const ckpt_tensor_info info, result(reader_->tensor(name)));
  return info;
}

Result<ckpt_tensor_desc> State::alias(const std::string& name) const {
  if (!changed_) {
    CKPT_ASSIGN(const client::Tensor view, result(reader_->alias(name)));
    return view.desc();
  }
  const ForeignTensor* found = find(name);
  if (!found || !found->is_alias()) return Status(CKPT_NOT_FOUND, "no alias " + shown(name));
  ckpt_tensor_desc view = describe(found->dtype, found->shape);
  view.flags = CKPT_TENSOR_STRIDED;
  view.flat_offset = static_cast<int64_t>(found->target_offset);
  std::copy(found->target_strides.begin(), found->target_strides.end(), view.strides);
  return view;
}

std::optional<std::string> State::tensor_attr(const std::string& name, const std::string& key) const {
  if (!changed_) return reader_->tensor_attr(name, key);
  if (const ForeignTensor* found = find(name))
    for (const auto& [own, value] : found->attributes)
      if (own == key) return value;
  return std::nullopt;
}

Result<tree::Tree> State::tree() const {
  if (!changed_) return tree_of(*reader_);
  return tree::parse_tree_json(tree::tree_json(*changed_->content.tree));
}

std::optional<std::string> State::origin(const std::string& name) const {
  if (!changed_) return name;
  const ForeignTensor* found = find(name);
  if (!found || found->pieces[0].bytes.file != 0) return std::nullopt;  // 0: the checkpoint
  return tensor_attr(name, kOrigin);
}

Status State::read(const std::string& name, uint64_t begin, uint64_t size, MutableBytes out) const {
  const ForeignTensor* found = find(name);
  if (!found) return Status(CKPT_INTERNAL, "no tensor " + shown(name));
  const FileTable& files = changed_->content.files;
  const FileRange& bytes = found->pieces[0].bytes;
  const auto bits = static_cast<uint64_t>(dtype_bits(found->dtype));
  if (out.size() != size * bits / 8) return Status(CKPT_INTERNAL, "a range of a mapped tensor");
  // A tensor is read from its begin to its end before the next one.
  if (std::exchange(changed_->read, found) != found) CKPT_TRY(files.end_spill());
  const auto remote = files.remote_of(bytes.file);
  const uint64_t first = bytes.offset + begin * bits / 8, count = (out.size() + kAtOnce - 1) / kAtOnce;
  return for_each_parallel(kReaders, count, [&](size_t i) {
    const uint64_t at = i * kAtOnce;
    return remote->read(first + at, out.subspan(at, std::min(kAtOnce, out.size() - at)));
  });
}

std::string get_text(const State& state, const std::string& key) {
  std::string text;
  for (size_t i = 0;; i++) {
    const std::optional<std::string> piece = state.attr(text_key(key, i));
    if (!piece) return text;
    text += *piece;
  }
}

}  // namespace ckpt::interop

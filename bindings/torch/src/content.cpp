#include "content.h"

#include <filesystem>

#include "session.h"

namespace ckpt_torch {
namespace internal {

// ---- what a path names ----

static bool starts_with(const std::string& text, const char* begin) { return text.rfind(begin, 0) == 0; }

static bool is_foreign_address(const std::string& url) {
  const std::string address = url.substr(0, url.find_first_of("?#"));
  for (const char* ending : {".safetensors", ".safetensors.index.json", ".pt", ".pth", ".bin", ".ckpt", "/.metadata"}) {
    const std::string text = ending;
    if (address.size() > text.size() && address.compare(address.size() - text.size(), text.size(), text) == 0)
      return true;
  }
  return false;
}

bool is_foreign(const std::string& path) {
  namespace fs = std::filesystem;
  if (starts_with(path, "https://") || starts_with(path, "http://")) return is_foreign_address(path);
  std::error_code none;
  if (!fs::is_directory(path, none)) return fs::is_regular_file(path, none);
  if (fs::exists(path + "/.ckpt", none) || fs::exists(path + "/MANIFEST", none) || fs::is_empty(path, none))
    return false;
  for (const auto& entry : fs::directory_iterator(path, none))
    if (fs::exists(entry.path() / "MANIFEST", none)) return false;
  return true;
}

// ---- what it has ----

Content::Content(const std::string& path, const ckpt::Options& options) : where_(path) {
  ckpt::Options all = options;
  file_.emplace(ckpt::File::open(path, all.set("tensor_data", 0)));  // read() brings what is wanted
  const uint64_t count = file_->tensor_count();
  tensors_.reserve(count);
  for (uint64_t i = 0; i < count; i++) tensors_.emplace(file_->tensor(i).name, i);
}

static void check_version(const std::optional<std::string>& version) {
  if (version && std::strtoll(version->c_str(), nullptr, 10) > kAdapterVersion)
    fail(CKPT_REVISION, "the checkpoint was written by version " + *version +
                            " of the LibTorch adapter, this is version " + std::to_string(kAdapterVersion));
}

Content::Content(const ckpt::Store& store, const std::string& id, uint32_t rank, const ckpt::Options& options)
    : where_(id), reader_(ckpt::Reader::open(store, id, options)) {
  check_version(attr("torch.adapter"));
  tree_ = reader_.tree_of_rank(rank);
}

Node Content::root() const { return file_ ? file_->tree().root() : tree_.root(); }

uint64_t Content::index_of(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    fail(CKPT_NOT_FOUND, where_ + ": no tensor " + in_quotes(name), {{"tensor", name}, {"path", where_}});
  return found->second;
}

ckpt::TensorInfo Content::tensor(const std::string& name) const {
  if (!file_) return reader_.tensor(name);
  const ckpt::FileTensor found = file_->tensor(index_of(name));
  ckpt::TensorInfo info{};
  info.name = found.name;
  info.dtype = found.dtype;
  info.ndim = found.ndim;
  std::copy(std::begin(found.shape), std::end(found.shape), std::begin(info.shape));
  info.bytes = found.bytes;
  return info;
}

std::string Content::named(const std::string& name) const {
  const ckpt::TensorInfo info = tensor(name);
  if (file_ || info.alias_of == nullptr) return name;
  const ckpt_tensor_desc view = ckpt::Tensor(reader_.alias(name)).desc();
  int64_t row = 1;
  bool whole = view.flat_offset == 0 && ckpt::shape_of(info) == ckpt::shape_of(tensor(info.alias_of));
  for (int32_t d = view.ndim; d-- > 0; row *= view.shape[d]) whole &= view.shape[d] == 1 || view.strides[d] == row;
  return whole ? info.alias_of : name;
}

std::optional<std::string> Content::attr(const std::string& key) const {
  return file_ ? std::nullopt : static_cast<std::optional<std::string>>(reader_.attr(key));
}

std::optional<ckpt::ObjectInfo> Content::object(const std::string& name, uint32_t rank) const {
  if (file_ || !reader_.has_object(name, rank)) return std::nullopt;
  return reader_.object(name, rank);
}

uint64_t Content::ranks_of(const Node& record, const std::function<bool(uint64_t)>& differs) const {
  const uint64_t world = reader_.info().world_size;
  if (!differs(world)) return world;
  const ckpt::Tree whole = reader_.tree();  // of an import it tells; it may have been made by fewer ranks
  const auto all = node_at(whole.root(), record.path());
  return std::max<uint64_t>(world, all ? all->child_count : 0);
}

void Content::describe(Loaded& loaded) const {
  if (file_) {
    loaded.id = where_;
    loaded.world_size = 1;
    return;
  }
  const ckpt::CheckpointInfo info = reader_.info();
  loaded.step = info.step;
  loaded.id = info.id;
  loaded.label = info.label;
  loaded.world_size = info.world_size;
  loaded.attrs = reader_.attrs();
}

static bool engine_converts(at::ScalarType type) {
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

bool Content::reads_into(const at::Tensor& tensor, at::ScalarType type) const {
  if (file_) return tensor.is_cpu() && type == tensor.scalar_type();
  return is_reachable(tensor) &&
         (type == tensor.scalar_type() || (engine_converts(type) && engine_converts(tensor.scalar_type())));
}

// ---- what is read of it ----

ContentLoad::ContentLoad(const Content& content, const ckpt::Options& options) : content_(content) {
  if (!content.file_) load_ = ckpt::Load::create(content.reader_, options);
}

void ContentLoad::add_tensor(const std::string& name, const ckpt::Tensor& tensor, ckpt::MutableMemory memory,
                             ckpt::Device device) {
  if (load_)
    load_.add_tensor(name, tensor, memory, device);
  else
    reads_.push_back({content_.index_of(name), tensor, memory});
}

void ContentLoad::add_object(const std::string& name, uint32_t rank, ckpt::MutableMemory memory) {
  load_.add_object(name, rank, memory);
}

void ContentLoad::run() {
  if (load_) return load_.run();
  for (const Read& read : reads_) content_.file_->read(read.tensor, read.region, read.memory);
}

}  // namespace internal
}  // namespace ckpt_torch

// A store in the memory of this process, for tests and for scratch. It answers like the POSIX store.
// One mutex per store guards its tree. The bytes of a file have a lock of their own while it is written, and none once
// it is published.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "store/io_queue.h"
#include "store/keys.h"
#include "store/store.h"

namespace ckpt::store {
namespace {

constexpr unsigned kMostThreads = 4;  // of a queue: more threads do not copy faster

// Zeroed; page-aligned if it has a page or more; takes memory only where it is written, since calloc returns untouched
// pages.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(base_); }

  bool resize(uint64_t capacity) {
    uint64_t slack = capacity >= kAlign ? kAlign : 0, total = 0;
    if (add_overflows(capacity, slack, &total) || total > std::numeric_limits<ptrdiff_t>::max()) return false;
    void* base = std::calloc(std::max<uint64_t>(total, 1), 1);
    if (!base) return false;
    uint64_t address = reinterpret_cast<uintptr_t>(base);
    std::byte* data = static_cast<std::byte*>(base) + (slack ? round_up(address, kAlign) - address : 0);
    if (size_ != 0) std::memcpy(data, data_, std::min(size_, capacity));
    std::free(base_);
    base_ = base;
    data_ = data;
    size_ = capacity;
    return true;
  }
  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  void* base_ = nullptr;
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

struct File {
  Buffer block;
  uint64_t size = 0;
  // Guarded by the tree's mutex:
  uint64_t names = 0;
  int shared = 0;  // shared locks
  bool exclusive = false;
};

struct Directory;

struct Node {  // one of the two is set
  std::shared_ptr<File> file;
  std::shared_ptr<Directory> directory;
};

struct Directory {
  std::map<std::string, Node, std::less<>> nodes;
};

struct FileTree {
  explicit FileTree(std::string_view store) : name(store) {}

  std::string path(std::string_view key) const { return "mem:" + name + (key.empty() ? "" : "/") + std::string(key); }
  // Null if there is none. Hold the mutex for this call and all below.
  std::shared_ptr<Directory> directory(std::string_view key) const {
    std::shared_ptr<Directory> found = root;
    for (std::string_view rest = key; found && !rest.empty();) {
      auto next = found->nodes.find(next_element(rest));
      found = next == found->nodes.end() ? nullptr : next->second.directory;
    }
    return found;
  }
  Node node(std::string_view key) const {
    auto parent = directory(directory_of(key));
    if (!parent) return {};
    auto found = parent->nodes.find(last_of(key));
    return found == parent->nodes.end() ? Node{} : found->second;
  }
  Result<std::shared_ptr<File>> file(std::string_view key) const {
    Node found = node(key);
    if (found.directory) return not_a_file(path(key));
    if (!found.file) return not_found(path(key));
    return found.file;
  }

  const std::string name;
  std::mutex mutex;
  const std::shared_ptr<Directory> root = std::make_shared<Directory>();
};

Status no_memory(const std::string& path, uint64_t size) {
  return Status(CKPT_NOMEM, path + ": no memory for " + std::to_string(size) + " bytes").with("path", path);
}

class MemoryWriter final : public Writer {
 public:
  MemoryWriter(std::shared_ptr<FileTree> tree, std::string_view key, std::weak_ptr<Directory> parent)
      : tree_(std::move(tree)), key_(key), path_(tree_->path(key)), parent_(std::move(parent)) {}

  Status reserve(uint64_t size) { return file_->block.resize(size) ? Ok() : no_memory(path_, size); }
  bool direct() const override { return false; }
  Status write_at(uint64_t offset, Bytes data) override;
  Status publish(uint64_t size) override;

 private:
  Status grow(uint64_t end);

  const std::shared_ptr<FileTree> tree_;
  const std::string key_, path_;
  const std::weak_ptr<Directory> parent_;
  std::shared_mutex growing_;  // shared by writes of disjoint ranges, exclusive to move the bytes
  std::shared_ptr<File> file_ = std::make_shared<File>();  // null after publish
};

Status MemoryWriter::write_at(uint64_t offset, Bytes data) {
  uint64_t end = 0;
  if (add_overflows(offset, data.size(), &end)) return no_memory(path_, std::numeric_limits<uint64_t>::max());
  CKPT_TRY(grow(end));
  std::shared_lock lock(growing_);
  if (!file_) return already_published(path_);
  if (!data.empty()) std::memcpy(file_->block.data() + offset, data.data(), data.size());
  return Ok();
}

Status MemoryWriter::grow(uint64_t end) {
  {
    std::shared_lock lock(growing_);
    if (!file_ || end <= file_->block.size()) return Ok();
  }
  std::unique_lock lock(growing_);
  if (!file_ || end <= file_->block.size()) return Ok();
  uint64_t generous = end > std::numeric_limits<uint64_t>::max() / 2 ? end : end + end / 2;
  return file_->block.resize(generous) || file_->block.resize(end) ? Ok() : no_memory(path_, end);
}

Status MemoryWriter::publish(uint64_t size) {
  std::unique_lock lock(growing_);
  if (!file_) return already_published(path_);
  std::shared_ptr<File> file = std::move(file_);
  if (size > file->block.size() && !file->block.resize(size)) return no_memory(path_, size);
  file->size = size;
  std::lock_guard tree_lock(tree_->mutex);
  auto parent = tree_->directory(directory_of(key_));
  // If the directory was replaced by another one of the same name, this file does not belong there.
  if (!parent || parent != parent_.lock()) return not_found(tree_->path(directory_of(key_)));
  if (!parent->nodes.try_emplace(std::string(last_of(key_)), Node{file, nullptr}).second) return exists(path_);
  file->names++;
  return Ok();
}

class MemoryReader final : public Reader {
 public:
  MemoryReader(std::shared_ptr<const File> file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  uint64_t size() const override { return file_->size; }
  Status read_at(uint64_t offset, MutableBytes out) const override {
    uint64_t end = 0;
    if (out.empty()) return Ok();
    if (add_overflows(offset, out.size(), &end) || end > file_->size)
      return ends_early(path_, offset, out.size(), file_->size);
    std::memcpy(out.data(), file_->block.data() + offset, out.size());
    return Ok();
  }
  Result<Bytes> map() const override { return Bytes(file_->block.data(), file_->size); }

 private:
  const std::shared_ptr<const File> file_;
  const std::string path_;
};

class MemoryName final : public Borrowed {
 public:
  MemoryName(Store& store, std::string_view key, std::unique_ptr<Reader> file, bool made)
      : store_(store), key_(key), file_(std::move(file)), made_(made) {}
  const Reader& file() const override { return *file_; }
  void drop() override {
    if (std::exchange(made_, false)) (void)store_.remove(key_, false);
  }

 private:
  Store& store_;
  const std::string key_;
  const std::unique_ptr<Reader> file_;
  bool made_;  // by this call
};

class MemoryLock final : public Lock {
 public:
  MemoryLock(std::shared_ptr<FileTree> tree, std::shared_ptr<File> file, bool exclusive)
      : tree_(std::move(tree)), file_(std::move(file)), exclusive_(exclusive) {}
  ~MemoryLock() override {
    std::lock_guard lock(tree_->mutex);
    if (exclusive_)
      file_->exclusive = false;
    else
      file_->shared--;
  }

 private:
  const std::shared_ptr<FileTree> tree_;
  const std::shared_ptr<File> file_;
  const bool exclusive_;
};

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<FileTree> tree) : tree_(std::move(tree)) {}

  std::string uri() const override { return tree_->path(""); }
  std::string path(std::string_view key) const override { return tree_->path(key); }
  Status make_root() override { return Ok(); }
  Status prepare() override { return Ok(); }
  Status make_directory(std::string_view key) override;
  Status put_if_absent(std::string_view key, Bytes data) override;
  Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size, bool at_most) override;
  Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const override {
    return IoQueue::make(std::min(depth, kMostThreads), false);
  }
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override;
  Result<bool> exists(std::string_view key) const override;
  Result<bool> has_directory(std::string_view key) const override { return exists(key); }
  Result<std::vector<Entry>> list(std::string_view directory) const override;
  Result<std::vector<FileUse>> usage(std::string_view directory) const override;
  Result<std::unique_ptr<Borrowed>> borrow(std::string_view from, std::string_view to) override;
  Status remove(std::string_view key, bool sync) override;
  Status remove_directory(std::string_view key) override;
  Status retire(std::string_view directory, std::string_view slot, Bytes tombstone) override;
  Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const override { return lock(key, false); }
  Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const override { return lock(key, true); }

 private:
  Result<std::unique_ptr<MemoryWriter>> new_file(std::string_view key, uint64_t expected_size);
  Result<std::unique_ptr<Lock>> lock(std::string_view key, bool exclusive) const;

  const std::shared_ptr<FileTree> tree_;
};

Status MemoryStore::make_directory(std::string_view key) {
  CKPT_TRY(check_key(key));
  std::lock_guard lock(tree_->mutex);
  std::shared_ptr<Directory> directory = tree_->root;
  for (std::string_view rest = key; !rest.empty();) {
    Node& node = directory->nodes[std::string(next_element(rest))];
    if (node.file) return not_a_directory(path(key.substr(0, key.size() - (rest.empty() ? 0 : rest.size() + 1))));
    if (!node.directory) node.directory = std::make_shared<Directory>();
    directory = node.directory;
  }
  return Ok();
}

Result<std::unique_ptr<MemoryWriter>> MemoryStore::new_file(std::string_view key, uint64_t expected_size) {
  CKPT_TRY(check_new_file(key));
  std::shared_ptr<Directory> parent;
  {
    std::lock_guard lock(tree_->mutex);
    parent = tree_->directory(directory_of(key));
  }
  if (!parent) return not_found(path(directory_of(key)));
  auto writer = std::make_unique<MemoryWriter>(tree_, key, parent);
  CKPT_TRY(writer->reserve(expected_size));
  return writer;
}

Status MemoryStore::put_if_absent(std::string_view key, Bytes data) {
  CKPT_ASSIGN(auto writer, new_file(key, data.size()));
  CKPT_TRY(writer->write_at(0, data));
  return writer->publish(data.size());
}

Result<std::unique_ptr<Writer>> MemoryStore::create(std::string_view key, uint64_t expected_size, bool /*at_most*/) {
  CKPT_ASSIGN(auto writer, new_file(key, expected_size));
  return std::unique_ptr<Writer>(std::move(writer));
}

Result<std::unique_ptr<Reader>> MemoryStore::open(std::string_view key) const {
  CKPT_TRY(check_key(key));
  std::lock_guard lock(tree_->mutex);
  CKPT_ASSIGN(auto file, tree_->file(key));
  return std::unique_ptr<Reader>(std::make_unique<MemoryReader>(std::move(file), path(key)));
}

Result<bool> MemoryStore::exists(std::string_view key) const {
  CKPT_TRY(check_key(key));
  std::lock_guard lock(tree_->mutex);
  const Node found = tree_->node(key);
  return found.file || found.directory;
}

Result<std::vector<Entry>> MemoryStore::list(std::string_view directory) const {
  if (!directory.empty()) CKPT_TRY(check_key(directory));
  std::lock_guard lock(tree_->mutex);
  auto found = tree_->directory(directory);
  if (!found) return not_found(path(directory));
  std::vector<Entry> entries;
  for (const auto& [name, node] : found->nodes) entries.push_back(Entry{name, node.directory != nullptr});
  return entries;
}

Result<std::vector<FileUse>> MemoryStore::usage(std::string_view directory) const {
  if (!directory.empty()) CKPT_TRY(check_key(directory));
  std::lock_guard lock(tree_->mutex);
  auto found = tree_->directory(directory);
  if (!found) return not_found(path(directory));
  std::vector<FileUse> files;
  for (const auto& [name, node] : found->nodes)
    if (node.file)
      files.push_back({name, node.file->size, node.file->names, reinterpret_cast<uintptr_t>(node.file.get())});
  return files;
}

Result<std::unique_ptr<Borrowed>> MemoryStore::borrow(std::string_view from, std::string_view to) {
  CKPT_TRY(check_key(from));
  CKPT_TRY(check_new_file(to));
  bool made = false;
  {
    std::lock_guard lock(tree_->mutex);
    CKPT_ASSIGN(auto file, tree_->file(from));
    auto parent = tree_->directory(directory_of(to));
    if (!parent) return not_found(path(directory_of(to)));
    made = parent->nodes.try_emplace(std::string(last_of(to)), Node{file, nullptr}).second;
    file->names += made ? 1 : 0;
  }
  CKPT_ASSIGN(auto opened, open(to));
  return std::unique_ptr<Borrowed>(std::make_unique<MemoryName>(*this, to, std::move(opened), made));
}

Status MemoryStore::remove(std::string_view key, bool) {
  CKPT_TRY(check_key(key));
  std::lock_guard lock(tree_->mutex);
  CKPT_ASSIGN(const auto file, tree_->file(key));
  file->names--;
  auto& nodes = tree_->directory(directory_of(key))->nodes;
  nodes.erase(nodes.find(last_of(key)));
  return Ok();
}

Status MemoryStore::remove_directory(std::string_view key) {
  Status removed = retire(key, "none", {});
  return removed.code() == CKPT_CONFLICT ? Status(CKPT_IO, removed.message()) : removed;
}

Status MemoryStore::retire(std::string_view directory, std::string_view slot, Bytes /*tombstone*/) {
  CKPT_TRY(check_key(directory));
  CKPT_TRY(check_element(slot));
  std::lock_guard lock(tree_->mutex);
  auto found = tree_->directory(directory);
  if (!found) return not_found(path(directory));
  for (const auto& [name, node] : found->nodes)
    if (node.directory) return foreign_directory(path(directory), name);
  for (const auto& [name, node] : found->nodes) node.file->names--;
  auto& nodes = tree_->directory(directory_of(directory))->nodes;
  nodes.erase(nodes.find(last_of(directory)));
  return Ok();
}

Result<std::unique_ptr<Lock>> MemoryStore::lock(std::string_view key, bool exclusive) const {
  CKPT_TRY(check_key(key));
  std::lock_guard guard(tree_->mutex);
  CKPT_ASSIGN(auto file, tree_->file(key));
  if (file->exclusive || (exclusive && file->shared > 0)) return locked(path(key));
  if (exclusive)
    file->exclusive = true;
  else
    file->shared++;
  return std::unique_ptr<Lock>(std::make_unique<MemoryLock>(tree_, std::move(file), exclusive));
}

}  // namespace

Result<std::shared_ptr<Store>> open_memory(std::string_view name) {
  if (name.empty()) return Status(CKPT_INVALID, "store \"mem:\": expected a name after the colon");
  // Never destroyed, since a store may outlive the static objects of the program.
  static auto& mutex = *new std::mutex;
  static auto& trees = *new std::map<std::string, std::weak_ptr<FileTree>, std::less<>>;
  std::lock_guard lock(mutex);
  std::erase_if(trees, [](const auto& entry) { return entry.second.expired(); });
  auto& known = trees[std::string(name)];
  std::shared_ptr<FileTree> tree = known.lock();
  if (!tree) known = tree = std::make_shared<FileTree>(name);
  return std::shared_ptr<Store>(std::make_shared<MemoryStore>(std::move(tree)));
}

}  // namespace ckpt::store

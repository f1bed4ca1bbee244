#include "session/checkpoint.h"

#include <algorithm>

#include "format/framing.h"
#include "format/names.h"
#include "session/merge.h"

namespace ckpt::session {

Result<std::shared_ptr<Checkpoint>> Checkpoint::open(std::shared_ptr<store::Store> store, std::string_view selector,
                                                     std::string_view run) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->store_ = std::move(store);
  CKPT_ASSIGN(checkpoint->entry_, find_checkpoint(*checkpoint->store_, selector, run));
  std::string path = checkpoint->store_->path(checkpoint->entry_.id);
  Status status = checkpoint->read_manifest();
  // Found a moment ago and not there now: it was removed in between.
  if (status.code() == CKPT_NOT_FOUND || status.code() == CKPT_CONFLICT)
    return Status(CKPT_GONE, path + " was removed while it was being opened").with("path", path);
  if (!status.ok()) return std::move(status).in(path + "/MANIFEST").with("path", path + "/MANIFEST");
  checkpoint->parts_.resize(checkpoint->index_.parts.size());
  return checkpoint;
}

// Every text ends with a line feed (FORMAT §4), which in our own copy of the manifest becomes the NUL of a C string.
void Checkpoint::terminate_texts() {
  char* names = const_cast<char*>(index_.names.data());  // bytes_ is ours and writable
  auto end = [names](const fb::Text& text) { names[text.offset() + text.size()] = 0; };
  for (const auto& tensor : index_.tensors) end(tensor.name());
  for (const auto& alias : index_.aliases) {
    end(alias.name());
    end(alias.target());
  }
  for (const auto& object : index_.objects) {
    end(object.name());
    end(object.media_type());
  }
  for (const auto& attr : index_.attrs) {
    end(attr.owner());
    end(attr.key());
    end(attr.value());
  }
}

Status Checkpoint::read_manifest() {
  std::string key = entry_.id + "/" + std::string(format::kManifestName);
  CKPT_ASSIGN(lock_, store_->lock_shared(key));
  CKPT_ASSIGN(auto file, store_->open(key));
  size_ = file->size();
  CKPT_ASSIGN(bytes_, device::Mapping::make(size_));
  MutableBytes bytes = bytes_.bytes().first(size_);
  CKPT_TRY(file->read_at(0, bytes));
  CKPT_ASSIGN(auto slot, format::open_slot(bytes));
  if (!slot.committed) return Status(CKPT_ABORTED, "a tombstone: " + slot.tombstone.reason);
  CKPT_ASSIGN(index_, format::Index::open(slot.index, format::IndexKind::kManifest));
  if (!(index_.summary == slot.summary)) return Status(CKPT_FORMAT, "the two summaries differ");
  CKPT_TRY(check_index_coverage(index_));
  terminate_texts();
  size_t tensor = 0;
  for (const fb::Alias& alias : index_.aliases) {
    while (tensor < index_.tensors.size() && index_.text(index_.tensors[tensor].name()) < index_.text(alias.name()))
      tensor++;
    alias_positions_.push_back(tensor + alias_positions_.size());
  }
  return Ok();
}

Checkpoint::Named Checkpoint::named_at(uint64_t position) const {
  auto at = std::lower_bound(alias_positions_.begin(), alias_positions_.end(), position);
  size_t before = static_cast<size_t>(at - alias_positions_.begin());
  if (at == alias_positions_.end() || *at != position) return {&index_.tensors[position - before], nullptr};
  const fb::Alias& alias = index_.aliases[before];
  return {index_.find_tensor(index_.text(alias.target())), &alias};
}

Checkpoint::Named Checkpoint::find(std::string_view name) const {
  if (const fb::Tensor* tensor = index_.find_tensor(name)) return {tensor, nullptr};
  const fb::Alias* alias = index_.find_alias(name);
  return {alias ? index_.find_tensor(index_.text(alias->target())) : nullptr, alias};
}

std::string_view Checkpoint::name_of(const Named& named) const {
  return index_.text(named.alias ? named.alias->name() : named.tensor->name());
}

// ---- parts ----

Status Checkpoint::at_part(Status status, uint32_t number) const {
  std::string name = format::part_name(number), path = store_->path(entry_.id + "/" + name);
  if (status.code() == CKPT_NOT_FOUND) {
    bool gone = store_->open(entry_.id + "/" + std::string(format::kManifestName)).status().code() == CKPT_NOT_FOUND;
    status = gone ? Status(CKPT_GONE, "the checkpoint was removed while it was being read")
                  : Status(CKPT_INCOMPLETE, "the part is missing");
  }
  return std::move(status).in(path).with("part", name).with("path", path);
}

Result<std::unique_ptr<store::Reader>> Checkpoint::open_part_file(uint32_t number) const {
  CKPT_ASSIGN(auto file, store_->open(entry_.id + "/" + format::part_name(number)));
  const fb::Part& expected = index_.parts[number];
  if (file->size() < 2 * kAlign || file->size() != expected.size())
    return Status(CKPT_INCOMPLETE, strprintf("%llu bytes, expected %llu", static_cast<unsigned long long>(file->size()),
                                             static_cast<unsigned long long>(expected.size())))
        .with("expected", uint64_t{expected.size()})
        .with("found", file->size());
  std::vector<std::byte> head(kAlign);
  CKPT_TRY(file->read_at(0, head));
  CKPT_ASSIGN(auto header, format::decode_part_header(head));
  const format::Summary& summary = index_.summary;
  if (header.save_id == summary.save_id &&
      (header.world_size != summary.world_size || header.store_id != summary.store_id ||
       header.token != summary.token || header.attempt != summary.attempt))
    return Status(CKPT_FORMAT, "its header contradicts the manifest's summary");
  if (header.save_id != format::id_of(expected.save_id()) || header.rank != expected.rank())
    return Status(CKPT_MISMATCH,
                  strprintf("part of save %s, rank %u; expected save %s, rank %u", to_hex(header.save_id).c_str(),
                            header.rank, to_hex(format::id_of(expected.save_id())).c_str(), expected.rank()))
        .with("expected", to_hex(format::id_of(expected.save_id())))
        .with("found", to_hex(header.save_id));
  return file;
}

Result<const store::Reader*> Checkpoint::part(uint32_t number) const {
  std::lock_guard lock(mutex_);
  if (!parts_[number]) {
    auto file = open_part_file(number);
    if (!file.ok()) return at_part(std::move(file).status(), number);
    parts_[number] = file.take();
  }
  return static_cast<const store::Reader*>(parts_[number].get());
}

}  // namespace ckpt::session

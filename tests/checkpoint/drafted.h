// Checkpoints whose indexes a test wrote record by record, in a store in memory.
#pragma once

#include "checkpoint/engine.h"
#include "commit/merge.h"
#include "format/framing.h"
#include "format/index_draft.h"

namespace ckpt::checkpoint {

using format::Draft;
using format::EncodedIndex;
using format::IndexKind;

// A part without data. `index_offset`: where its index begins.
inline std::vector<std::byte> part_file(const EncodedIndex& index, const format::PartHeader& header,
                                        uint64_t index_offset) {
  std::vector<std::byte> file(round_up(index_offset + index.bytes.size() + format::kPartTrailerSize, kAlign));
  auto head = format::encode_part_header(header);
  auto tail = format::encode_part_trailer(
      {index_offset, index.bytes.size(), index.root_size, index.root_digest, header.save_id});
  std::copy(head.begin(), head.end(), file.begin());
  std::copy(index.bytes.begin(), index.bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(index_offset));
  std::copy(tail.begin(), tail.end(), file.end() - static_cast<std::ptrdiff_t>(tail.size()));
  return file;
}

// The checkpoint "c" of a store of its own.
struct Drafted {
  uint64_t index_offset;  // in parts
  std::shared_ptr<store::Store> inner;
  std::shared_ptr<store::ShellStore> shell;
  std::vector<EncodedIndex> indexes;  // of the parts

  explicit Drafted(uint64_t offset = 1 << 20) : index_offset(offset) {
    static int number = 0;
    inner = *store::open_memory("drafted" + std::to_string(number++));
    shell = std::make_shared<store::ShellStore>(inner);
    EXPECT_TRUE(inner->make_directory("c").ok());
  }
  void put(const std::string& key, Bytes bytes) {
    (void)inner->remove(key, false);
    Status status = inner->put_if_absent(key, bytes);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  uint64_t part_size(const EncodedIndex& index) const { return round_up(index_offset + index.bytes.size() + 72, 4096); }
  // Writes the next part.
  void add_part(Draft draft) {
    const auto rank = static_cast<uint32_t>(indexes.size());
    const format::Summary& summary = draft.builder.summary;
    indexes.push_back(draft.encode());
    const format::PartHeader header{
        1, summary.save_id, rank, summary.world_size, summary.store_id, summary.token, summary.attempt};
    put("c/" + format::part_name(rank), part_file(indexes.back(), header, index_offset));
  }
  // Commits the parts as the engine does.
  Status merge() {
    std::vector<PartFile> parts;
    for (uint32_t rank = 0; rank < indexes.size(); rank++) {
      CKPT_ASSIGN(PartFile part, open_part(*inner, "c", rank));
      parts.push_back(std::move(part));
    }
    CKPT_ASSIGN(commit::Merged merged, commit::merge_parts(parts, {}, *inner, "c", false));
    put("c/MANIFEST", merged.file);
    return Ok();
  }
  // Commits the parts with whatever this draft of a manifest says of them. `spoil` may change the copies and the
  // records of the parts.
  using Spoil = std::function<void(std::string* copies, const std::function<format::PartFields&(size_t)>& part)>;
  void commit(Draft manifest, const Spoil& spoil = {}) {
    std::string copies;
    auto record = [&](size_t i) -> format::PartFields& {
      return format::fields<format::PartFields>(std::span<const fb::Part>(manifest.builder.parts), i);
    };
    manifest.builder.parts.clear();
    manifest.builder.summary.part_bytes = 0;
    for (const EncodedIndex& index : indexes) {
      manifest.add_part(part_size(index), index_offset, index.bytes.size());
      format::PartFields& part = record(manifest.builder.parts.size() - 1);
      part.copy_offset = copies.size();
      part.root_size = static_cast<uint32_t>(index.root_size);
      part.root_digest = index.root_digest;
      copies += as_text(index.bytes);
      copies.resize(round_up(copies.size(), 64));
    }
    if (spoil) spoil(&copies, record);
    put("c/MANIFEST", format::frame_manifest(manifest.encode(), as_bytes(copies), manifest.builder.summary));
  }
  Result<std::unique_ptr<Checkpoint>> open() const { return Checkpoint::open_quietly(*shell, "c"); }
  std::vector<std::byte> manifest() const { return *inner->get("c/MANIFEST", uint64_t{1} << 30); }
};

inline void expect_error(const Status& status, ckpt_status code, std::string_view why) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(why), std::string::npos) << status.message() << "\n  expected: " << why;
}

}  // namespace ckpt::checkpoint

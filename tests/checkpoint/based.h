// A checkpoint of two ranks, made by hand, of which chunks lie in parts of two earlier checkpoints.
#pragma once

#include <map>

#include "checkpoint/drafted.h"
#include "codec/checksum.h"
#include "format/part_record.h"

namespace ckpt::checkpoint {

// What lies where in a file, as the chunks say that are put.
class Data {
 public:
  fb::Chunk put(uint64_t offset, const std::string& text) {
    pieces_[offset] = text;
    return at(offset, text);
  }
  // A chunk that another file has.
  static fb::Chunk at(uint64_t offset, const std::string& text) {
    const auto size = static_cast<uint32_t>(text.size());
    return fb::Chunk(offset, size, size, format::digest_of(codec::xxh3_128(as_bytes(text))));
  }
  void write(std::vector<std::byte>* file) const {
    for (const auto& [offset, text] : pieces_) std::memcpy(file->data() + offset, text.data(), text.size());
  }

 private:
  std::map<uint64_t, std::string> pieces_;
};

inline std::string of(char letter, size_t size = 16) { return std::string(size, letter); }

// Tensor "t" is in both parts, one row each; "u" and object "o" are rank 1's.
struct Based : Drafted {
  static constexpr Id kOne{1, 1}, kTwo{1, 2};

  struct Base {
    fb::Part record;
    std::vector<std::byte> file;
    std::string key() const { return "c/" + format::file_name(record); }
  };
  std::vector<Base> bases;

  Based() : Drafted(64 << 10) {
    const std::string object = of('o', 5000);
    Data one, two;
    bases.push_back(base(kOne, 3, 4, {one.put(4096, of('a')), one.put(4112, of('b')), one.put(4128, of('x'))}, one));
    bases.push_back(base(kTwo, 0, 1, {two.put(4096, of('c')), two.put(8192, object.substr(0, 4096))}, two));
    for (uint32_t rank : {0u, 1u}) {
      Draft part(IndexKind::kPart, 2);
      Data own;
      if (rank == 0) part.builder.bases = {{bases[0].record, 16}};
      if (rank == 1) part.builder.bases = {{bases[0].record, 16}, {bases[1].record, 16 + 4096}};
      part.tensor("t", CKPT_DTYPE_U8, {2, 48}).region(format::box({rank, 0}, {1, 48}));
      if (rank == 0)
        part.segment(0, 48, {own.put(4096, of('0')), Data::at(4112, of('b')), own.put(4112, of('1'))}, {}, {0, 1, 0});
      if (rank == 1)
        part.segment(0, 48, {Data::at(4096, of('c')), own.put(4096, of('2')), Data::at(4096, of('a'))}, {}, {2, 0, 1});
      if (rank == 1) add_object(&part, &own, object);
      add(std::move(part), own);
    }
    for (const Base& base : bases) put(base.key(), base.file);
  }

  static std::string row(uint32_t rank) {
    return rank == 0 ? of('0') + of('b') + of('1') : of('c') + of('2') + of('a');
  }
  // Of which tensor "t" has, and the object.
  void add(Draft draft, const Data& data) {
    const auto rank = static_cast<uint32_t>(indexes.size());
    const format::Summary summary = draft.builder.summary;
    indexes.push_back(draft.encode());
    auto file = part_file(
        indexes.back(),
        {1, summary.save_id, rank, summary.world_size, summary.store_id, summary.token, summary.attempt}, index_offset);
    data.write(&file);
    put("c/" + format::part_name(rank), file);
  }
  void flip(const std::string& key, uint64_t offset) {
    auto file = *inner->get(key, 1 << 20);
    file[offset] ^= std::byte{1};
    put(key, file);
  }

 private:
  static void add_object(Draft* part, Data* own, const std::string& text) {
    const fb::Chunk chunks[] = {Data::at(8192, text.substr(0, 4096)), own->put(8192, text.substr(4096))};
    const uint16_t homes[] = {2, 0};
    part->builder.add_object({.name = "o",
                              .media_type = "text/plain",
                              .scope = 1,
                              .placement = 1,
                              .size = text.size(),
                              .digest = codec::xxh3_128(as_bytes(text)),
                              .inline_bytes = {},
                              .chunks = chunks,
                              .homes = homes});
  }
  // A part of an earlier checkpoint: a tensor for each of its chunks.
  Base base(const Id& save, uint32_t rank, uint32_t world, const std::vector<fb::Chunk>& chunks, const Data& data) {
    Draft draft(IndexKind::kPart, world);
    draft.builder.summary.save_id = save;
    draft.builder.summary.token = 3;  // its own, whatever it is
    for (size_t i = 0; i < chunks.size(); i++)
      draft.tensor(strformat("earlier{}", i), CKPT_DTYPE_U8, {chunks[i].raw_size()})
          .region({})
          .segment(0, chunks[i].raw_size(), {chunks[i]});
    const EncodedIndex index = draft.encode();
    const format::Summary& summary = draft.builder.summary;
    Base made{fb::Part(part_size(index), index_offset, index.bytes.size(), 0, format::digest_of(index.root_digest),
                       format::digest_of(save), static_cast<uint32_t>(index.root_size), rank, uint8_t{format::kBase},
                       uint8_t{0}, uint16_t{0}, 0u),
              part_file(index, {1, save, rank, world, summary.store_id, summary.token, summary.attempt}, index_offset)};
    data.write(&made.file);
    return made;
  }
};

}  // namespace ckpt::checkpoint

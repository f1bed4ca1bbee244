// Shared by the fuzzers: turns the fuzzer's bytes into files with right checksums, so that it gets past them.
#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "checkpoint/index_file.h"
#include "codec/checksum.h"
#include "format/fault.h"
#include "format/framing.h"
#include "maintain/verify.h"
#include "store/store.h"

namespace ckpt::fuzz {

inline Bytes input(const uint8_t* data, size_t size) { return std::as_bytes(std::span(data, size)); }
// A copy, aligned like a file in memory.
inline std::vector<std::byte> copy_of(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

// Aborts unless `holds`, which must be true for any input.
inline void must(bool holds) {
  if (!holds) std::abort();
}

// Aborts unless a file may get this refusal. Any other status is a bug of ours.
inline void must_blame_the_bytes(const Status& status) {
  switch (status.code()) {
    case CKPT_OK:
    case CKPT_CORRUPT:
    case CKPT_FORMAT:
    case CKPT_REVISION:
    case CKPT_UNSUPPORTED:
    case CKPT_INCOMPLETE:
    case CKPT_MISMATCH:
    case CKPT_ABORTED:
    case CKPT_EXISTS:
    case CKPT_NOMEM:
      return;
    default:
      std::abort();
  }
}

// A folder for as long as this exists; in memory if possible, since fuzzers write files for every input.
struct Scratch {
  explicit Scratch(const std::string& name)
      : folder(std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path()) {
    std::string made = folder / (name + ".XXXXXX");
    must(mkdtemp(made.data()) != nullptr);
    folder = made;
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(folder); }
  std::filesystem::path folder;
};

// ---- sealing ----

template <typename T>
void set(const T& record, const T& value) {
  std::memcpy(const_cast<T*>(&record), &value, sizeof value);
}

template <typename T>
std::span<const T> column_of(const flatbuffers::Vector<const T*>* vector) {
  std::span<const T> column;
  return format::get_column(vector, &column).ok() ? column : std::span<const T>();
}

// The table in these bytes; null if they are no FlatBuffer of this type.
template <typename Table>
const Table* table_in(Bytes bytes, const char* identifier) {
  auto table = format::open_flatbuffer<Table>(bytes, identifier, "");
  return table.ok() ? *table : nullptr;
}

// The bytes of an index, to be changed in place where digests of other bytes are.
struct RawIndex {
  std::vector<std::byte> bytes;
  uint64_t root_size = 0;

  Bytes root_bytes() const { return Bytes(bytes).last(root_size); }
  const fb::Root* root() const { return table_in<fb::Root>(root_bytes(), "CKPR"); }
  // Calls visit(const fb::PageRef&, Bytes page) for the pages that lie inside, those of names first.
  template <typename Visit>
  void for_each_page(Visit&& visit) const {
    if (!root()) return;
    for (auto list : {column_of(root()->pages()), column_of(root()->part_pages())})
      for (const fb::PageRef& ref : list)
        if (ref.offset() % 8 == 0 && format::range_ok(ref.offset(), ref.size(), bytes.size()))
          visit(ref, Bytes(bytes).subspan(ref.offset(), ref.size()));
  }
  // Puts the digests of the pages into the root; returns the root's own.
  Digest seal() {
    for_each_page([](const fb::PageRef& ref, Bytes page) {
      set(ref, fb::PageRef(ref.offset(), ref.name_first(), ref.object_first(), format::digest_of(codec::xxh3_128(page)),
                           ref.first(), ref.size(), ref.pad()));
    });
    return codec::xxh3_128(root_bytes());
  }
};

// ---- reading what was accepted ----

// Reads every text and region of a page that was accepted.
inline uint64_t walk(const format::Page& page) {
  uint64_t sum = 0;
  auto read = [&](const fb::Text& text) {
    for (char c : page.text(text)) sum += static_cast<unsigned char>(c);
    must(*(page.c_text(text) + text.size()) == '\0');
  };
  for (const auto& tensor : page.tensors) {
    read(tensor.name());
    must(page.find_tensor(page.text(tensor.name())) == &tensor);
    if (!page.holdings.empty()) sum += page.holding_of(tensor).stored_bytes();
    for (const auto& region : page.regions_of(tensor)) {
      sum += page.region_of(region, tensor.ndim()).box.volume();
      for (const auto& segment : page.segments_of(region))
        for (const auto& chunk : page.chunks_of(segment)) sum += chunk.offset();
    }
  }
  for (const auto& alias : page.aliases) {
    read(alias.name());
    read(alias.target());
    must(page.find_alias(page.text(alias.name())) == &alias && !page.find_tensor(page.text(alias.name())));
    for (uint64_t number : page.view_of(alias)) sum += number;
  }
  for (const auto& object : page.objects) {
    read(object.name());
    read(object.media_type());
    must(page.find_object(page.text(object.name())) == &object);
    if (object.placement() == 0)
      for (std::byte byte : page.inline_data.subspan(object.inline_offset(), object.size()))
        sum += static_cast<uint64_t>(byte);
  }
  for (const auto& attr : page.attrs) {
    read(attr.owner());
    read(attr.key());
    read(attr.value());
    must(!page.attrs_of(page.text(attr.owner())).empty());
  }
  return sum;
}

// The parts of a layout are as many as it says, and exist. A few of them are looked at.
inline void walk(const format::Root& root) {
  constexpr uint64_t kSome = 1000;
  for (const fb::PageRef& page : root.pages) {
    const auto number = static_cast<size_t>(&page - root.pages.data());
    must(root.page_of(root.first_name(page)) == number);
    must(root.page_of_name(page.name_first()) >= number && root.page_of_object(page.object_first()) >= number);
  }
  for (const fb::Layout& layout : root.layouts) {
    const uint64_t count = root.part_count(layout);
    uint64_t seen = 0;
    auto see = [&](uint32_t part) {
      must(part < root.summary.world_size);
      seen++;
    };
    root.for_each_part(layout, 0, kSome, see);
    root.for_each_part(layout, count - std::min(count, kSome), kSome, see);
    must(seen == 2 * std::min(count, kSome));
  }
}

inline void walk(const checkpoint::IndexFile& index) {
  walk(index.root());
  for (size_t i = 0; i < index.page_count(); i++) walk(**index.page(i));
}

}  // namespace ckpt::fuzz

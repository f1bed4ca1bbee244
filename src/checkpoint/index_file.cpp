#include "checkpoint/index_file.h"

#include <algorithm>

#include "base/large_memory.h"
#include "base/parallel.h"
#include "codec/checksum.h"
#include "format/framing.h"
#include "format/slot.h"
#include "format/table.h"

namespace ckpt::checkpoint {

// So small an index is read at once: a second read costs more than its bytes.
static constexpr uint64_t kReadWhole = 1 << 20;

// Nearly all roots and pages are far smaller. What claims to be larger must match its digest before it gets memory.
static constexpr uint64_t kLarge = 64 << 20;

// Pages need an alignment of 8.
static IndexMemory memory_of(uint64_t size) {
  // GCC 11 makes no shared memory that nobody fills.
  const std::shared_ptr<uint64_t[]> words = std::make_unique_for_overwrite<uint64_t[]>((size + 7) / 8);
  return {{words, reinterpret_cast<std::byte*>(words.get())}, size};
}

static Status check_large(const IndexFile::Read& read, uint64_t offset, uint64_t size, const Digest& digest,
                          const char* what) {
  if (size <= kLarge) return Ok();
  IndexMemory piece = memory_of(kReadWhole);
  codec::Hasher hasher;
  for (uint64_t at = 0; at < size; at += piece.size) {
    piece.size = std::min(piece.size, size - at);
    CKPT_TRY(read(offset + at, piece, false));
    hasher.update(MutableBytes(piece));
  }
  return format::check_digest(hasher.digest(), digest, what);
}

IndexFile::~IndexFile() {
  for (auto& page : pages_) delete page.load();
}

Status IndexFile::open_root(const IndexPlace& place, Bytes root) {
  CKPT_TRY(format::check_digest(codec::xxh3_128(root), place.root_digest, "the root of the index"));
  CKPT_ASSIGN(root_, format::Root::open(root, place.kind, place.size, place.data_end));
  root_.rank = place.rank;
  root_at_ = place.size - place.root_size;
  pages_ = std::vector<std::atomic<const Loaded*>>(root_.pages.size() + root_.part_pages.size());
  return Ok();
}

Result<std::unique_ptr<IndexFile>> IndexFile::open(const IndexPlace& place, Bytes memory) {
  std::unique_ptr<IndexFile> file(new IndexFile);
  file->memory_ = memory;
  CKPT_TRY(file->open_root(place, memory.last(place.root_size)));
  return file;
}

Result<std::unique_ptr<IndexFile>> IndexFile::open(const IndexPlace& place, Read read, bool whole) {
  std::unique_ptr<IndexFile> file(new IndexFile);
  whole = place.size <= (whole ? kLarge : kReadWhole);
  const uint64_t size = whole ? place.size : place.root_size;
  CKPT_TRY(
      check_large(read, place.size - place.root_size, place.root_size, place.root_digest, "the root of the index"));
  file->own_ = memory_of(size);
  const Bytes bytes = MutableBytes(file->own_);
  auto open_root = [&](bool again) {
    CKPT_TRY(read(place.size - size, file->own_, again));
    return file->open_root(place, bytes.last(place.root_size));
  };
  Status opened = open_root(false);
  if (opened.code() == CKPT_CORRUPT && place.again) opened = open_root(true);
  CKPT_TRY(std::move(opened));
  if (whole) file->memory_ = bytes;
  if (!whole || place.again) file->read_ = std::move(read);
  file->again_ = place.again;
  return file;
}

// Keeps a page that was read, unless another thread was faster.
Status IndexFile::keep(size_t number, Bytes bytes, std::shared_ptr<std::byte[]> memory) const {
  const size_t named = root_.pages.size();
  auto loaded = std::make_unique<Loaded>();
  loaded->memory = std::move(memory);
  CKPT_ASSIGN(loaded->page, number < named ? format::Page::open(bytes, root_, number)
                                           : format::Page::open_parts(bytes, root_, number - named));
  const Loaded* expected = nullptr;
  if (pages_[number].compare_exchange_strong(expected, loaded.get())) (void)loaded.release();
  return Ok();
}

// A page, and the padding that follows it.
Status IndexFile::check(size_t number, Bytes bytes) const {
  const fb::PageRef& page = ref(number);
  CKPT_TRY(format::check_digest(codec::xxh3_128(bytes.first(page.size())), format::id_of(page.digest()),
                                "a page of the index"));
  if (format::all_zero(bytes.subspan(page.size()))) return Ok();
  return Status(CKPT_CORRUPT, strformat("the index at {}: expected zero padding", page.offset() + page.size()));
}

Status IndexFile::load(size_t number) const {
  const fb::PageRef& page = ref(number);
  const uint64_t size = end_of(number) - page.offset();
  Bytes bytes;
  IndexMemory memory;
  if (memory_.empty())
    CKPT_TRY(check_large(read_, page.offset(), page.size(), format::id_of(page.digest()), "a page of the index"));
  auto read = [&](bool again) {
    memory = memory_of(size);
    bytes = MutableBytes(memory);
    CKPT_TRY(read_(page.offset(), memory, again));
    return check(number, bytes);
  };
  if (!memory_.empty()) bytes = memory_.subspan(page.offset(), size);
  Status found = memory_.empty() ? read(false) : check(number, bytes);
  if (found.code() == CKPT_CORRUPT && again_) found = read(true);
  CKPT_TRY(std::move(found));
  return keep(number, bytes.first(page.size()), std::move(memory.data));
}

// Reads pages in one piece. Those of which that fails are left to load, which tells why.
void IndexFile::load_row(size_t first, size_t count, unsigned threads) const {
  count = std::min(count, pages_.size() - first);
  while (count > 0 && find(first)) first++, count--;
  while (count > 0 && find(first + count - 1)) count--;
  if (count < 2 || !memory_.empty()) return;
  const uint64_t begin = ref(first).offset(), size = end_of(first + count - 1) - begin;
  if (size > kLarge) return;
  auto free = [size](std::byte* at) { free_large(at, size); };
  const IndexMemory memory{{static_cast<std::byte*>(allocate_large(size)), free}, size};
  if (!read_(begin, memory, false).ok()) return;
  constexpr size_t kPages = 8;  // for a thread at a time
  (void)for_each_parallel(count <= kPages ? 1 : threads, (count + kPages - 1) / kPages, [&](size_t group) {
    for (size_t i = first + group * kPages; i < std::min(first + count, first + (group + 1) * kPages); i++) {
      const Bytes bytes(memory.data.get() + (ref(i).offset() - begin), end_of(i) - ref(i).offset());
      if (!find(i) && check(i, bytes).ok()) (void)keep(i, bytes.first(ref(i).size()), memory.data);
    }
    return Ok();
  });
}

// Pages in a row just before this one that are here; as many as are worth reading at once, or fewer.
size_t IndexFile::loaded_before(size_t number) const {
  constexpr size_t kMost = 64;
  size_t count = 0;
  while (count < std::min(number, kMost) && find(number - count - 1)) count++;
  return count;
}

// Whoever came so far page by page may go on as far: he reads at most twice what he needs, and in few pieces.
Result<const format::Page*> IndexFile::get(size_t number) const {
  if (const format::Page* page = find(number)) return page;
  if (const size_t ahead = loaded_before(number); ahead > 1) load_row(number, ahead, resolve_threads(0));
  if (!find(number)) CKPT_TRY(load(number));
  return find(number);
}

Status IndexFile::load_all(unsigned threads) const {
  constexpr size_t kPages = 32;  // for a thread at a time
  if (pages_.size() <= kPages) threads = 1;
  Status loaded = for_each_parallel(threads, (pages_.size() + kPages - 1) / kPages, [&](size_t i) -> Status {
    load_row(i * kPages, kPages, 1);
    for (size_t at = i * kPages; at < std::min(pages_.size(), (i + 1) * kPages); at++)
      if (!find(at)) CKPT_TRY(load(at));
    return Ok();
  });
  CKPT_TRY(std::move(loaded));
  bool runs = false;
  for (size_t i = 0; i < page_count(); i++)
    for (const fb::Attr& attr : find(i)->attrs) runs |= find(i)->text(attr.key()) == format::kRunsAttr;
  if (runs == ((root_.summary.required_features & format::kHasRuns) != 0)) return Ok();
  return Status(CKPT_FORMAT, "required_features and attributes of tables in runs contradict each other");
}

Result<fb::Part> IndexFile::part(uint32_t number) const {
  CKPT_ASSIGN(const format::Page* page, part_page(number / root_.parts_per_page));
  return page->parts[number % root_.parts_per_page];
}

Result<uint64_t> IndexFile::used(uint32_t number) const {
  CKPT_ASSIGN(const format::Page* page, part_page(number / root_.parts_per_page));
  return page->used.empty() ? 0 : page->used[number % root_.parts_per_page];
}

}  // namespace ckpt::checkpoint

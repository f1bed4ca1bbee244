#include "checkpoint/index_file.h"

#include "base/parallel.h"
#include "format/checksum.h"
#include "format/framing.h"
#include "format/slot.h"

namespace ckpt::checkpoint {

// So small an index is read at once: a second read costs more than its bytes.
static constexpr uint64_t kReadWhole = 1 << 20;

IndexFile::~IndexFile() {
  for (auto& page : pages_) delete page.load();
}

Status IndexFile::open_root(const IndexPlace& place, Bytes root) {
  CKPT_TRY(format::check_digest(format::xxh3_128(root), place.root_digest, "the root of the index"));
  CKPT_ASSIGN(root_, format::Root::open(root, place.kind, place.size, place.data_end));
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
  whole |= place.size <= kReadWhole;
  const uint64_t size = whole ? place.size : place.root_size;
  file->own_.resize((size + 7) / 8);
  const MutableBytes bytes = bytes_of(file->own_, size);
  auto open_root = [&](bool again) {
    CKPT_TRY(read(place.size - size, bytes, again));
    return file->open_root(place, Bytes(bytes).last(place.root_size));
  };
  Status opened = open_root(false);
  if (opened.code() == CKPT_CORRUPT && place.again) opened = open_root(true);
  CKPT_TRY(std::move(opened));
  if (whole) file->memory_ = bytes;
  if (!whole || place.again) file->read_ = std::move(read);
  file->again_ = place.again;
  return file;
}

Result<std::unique_ptr<IndexFile::Loaded>> IndexFile::load(size_t number) const {
  const bool named = number < root_.pages.size();
  const size_t at = named ? number : number - root_.pages.size();
  const fb::PageRef& ref = named ? root_.pages[at] : root_.part_pages[at];
  auto loaded = std::make_unique<Loaded>();
  Bytes bytes;
  auto check = [&] {
    return format::check_digest(format::xxh3_128(bytes), format::id_of(ref.digest()), "a page of the index");
  };
  auto read = [&](bool again) {
    loaded->bytes.resize((uint64_t{ref.size()} + 7) / 8);
    const MutableBytes out = bytes_of(loaded->bytes, ref.size());
    bytes = out;
    CKPT_TRY(read_(ref.offset(), out, again));
    return check();
  };
  if (!memory_.empty()) bytes = memory_.subspan(ref.offset(), ref.size());
  Status found = memory_.empty() ? read(false) : check();
  if (found.code() == CKPT_CORRUPT && again_) found = read(true);
  CKPT_TRY(std::move(found));
  CKPT_ASSIGN(loaded->page, named ? format::Page::open(bytes, root_, at) : format::Page::open_parts(bytes, root_, at));
  return loaded;
}

Result<const format::Page*> IndexFile::get(size_t number) const {
  if (const Loaded* there = pages_[number].load(std::memory_order_acquire)) return &there->page;
  CKPT_ASSIGN(auto loaded, load(number));
  const Loaded* expected = nullptr;
  // Another thread may have been faster: then its page is the one.
  if (!pages_[number].compare_exchange_strong(expected, loaded.get())) return &expected->page;
  return &loaded.release()->page;
}

Status IndexFile::check_gaps() const {
  uint64_t end = 0;
  auto gap = [&](uint64_t next) {
    return format::all_zero(memory_.subspan(end, next - end))
               ? Ok()
               : Status(CKPT_CORRUPT, strformat("the index at {}: expected zero padding", end));
  };
  for (auto list : {root_.pages, root_.part_pages})
    for (const fb::PageRef& page : list) {
      CKPT_TRY(gap(page.offset()));
      end = page.offset() + page.size();
    }
  return gap(round_up(end, format::kPageAlign));
}

Status IndexFile::load_all(unsigned threads) const {
  if (!memory_.empty()) CKPT_TRY(check_gaps());
  constexpr size_t kPages = 32;  // for a thread at a time
  if (pages_.size() <= kPages) threads = 1;
  return for_each_parallel(threads, (pages_.size() + kPages - 1) / kPages, [&](size_t i) -> Status {
    for (size_t at = i * kPages; at < std::min(pages_.size(), (i + 1) * kPages); at++)
      if (auto page = get(at); !page.ok()) return std::move(page).status();
    return Ok();
  });
}

Result<fb::Part> IndexFile::part(uint32_t number) const {
  CKPT_ASSIGN(const format::Page* page, part_page(number / root_.parts_per_page));
  return page->parts[number % root_.parts_per_page];
}

}  // namespace ckpt::checkpoint

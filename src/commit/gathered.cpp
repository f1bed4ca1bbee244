#include "commit/gathered.h"

#include <cstring>
#include <type_traits>

#include "codec/checksum.h"
#include "format/fault.h"
#include "format/part_record.h"

namespace ckpt::commit {

// ---- rows and runs ----

static bool same_step(const uint64_t* before, const uint64_t* row, size_t width) {
  for (size_t at = 0; at < width; at++)
    if (row[at] - before[at] != row[at + width] - row[at]) return false;
  return true;
}

void put_runs(std::span<const uint64_t> rows, size_t width, LargeVector<uint64_t>* to) {
  const size_t count = rows.size() / width;
  for (size_t first = 0, end; first < count; first = end) {
    const uint64_t* row = &rows[first * width];
    for (end = first + 1;
         end < count && (end == first + 1 || same_step(&rows[(end - 2) * width], &rows[(end - 1) * width], width));
         end++) {
    }
    to->push_back(end - first);
    to->insert(to->end(), row, row + width);
    if (end - first == 1) continue;
    for (size_t at = 0; at < width; at++) to->push_back(row[width + at] - row[at]);
  }
}

bool are_runs(std::span<const uint64_t> runs, size_t width) {
  while (!runs.empty()) {
    const size_t size = run_size(runs[0], width);
    if (runs[0] == 0 || size > runs.size()) return false;
    runs = runs.subspan(size);
  }
  return true;
}

// ---- collecting ----

fb::Text Gathered::put_text(std::string_view text) {
  const fb::Text at(static_cast<uint32_t>(names.size()), static_cast<uint32_t>(text.size()));
  names.insert(names.end(), text.begin(), text.end());
  return at;
}

uint64_t Gathered::put_numbers(std::span<const uint64_t> values) {
  const uint64_t first = numbers.size();
  numbers.insert(numbers.end(), values.begin(), values.end());
  return first;
}

Gathered::Range Gathered::put_rows(std::span<const uint64_t> rows, size_t width) {
  const uint64_t first = numbers.size();
  put_runs(rows, width, &numbers);
  return {first, numbers.size() - first};
}

// ---- the file: a head; each column, its bytes after their number; the digest of all before ----

static constexpr char kMagic[8] = {'C', 'K', 'P', 'T', 'G', 'R', 'U', 'P'};
struct Head {
  char magic[8];
  uint32_t revision, zero;
};

template <typename Self, typename Visit>
static void for_each_column(Self& gathered, Visit&& visit) {
  visit(gathered.parts);
  visit(gathered.bases);
  visit(gathered.members);
  visit(gathered.tensors);
  visit(gathered.aliases);
  visit(gathered.objects);
  visit(gathered.attrs);
  visit(gathered.leaves);
  visit(gathered.numbers);
  visit(gathered.names);
  visit(gathered.copies);
}

static void append_column(format::Buffer* file, Bytes column) {
  const uint64_t size = column.size();
  file->append(std::as_bytes(std::span(&size, 1)));
  file->append(column);
}

format::Buffer Gathered::encode() const {
  format::Buffer file;
  Head head{{}, CKPT_FORMAT_REVISION, 0};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  file.append(std::as_bytes(std::span(&head, 1)));
  append_column(&file, format::encode_summary(summary));
  for_each_column(*this, [&](const auto& column) {
    using Record = typename std::remove_cvref_t<decltype(column)>::value_type;
    static_assert(std::has_unique_object_representations_v<Record>, "no byte of a record is left to chance");
    append_column(&file, std::as_bytes(std::span(column.data(), column.size())));
  });
  const Digest digest = codec::xxh3_128(Bytes(file.data(), file.size()));
  file.append(std::as_bytes(std::span(&digest, 1)));
  return file;
}

// Takes the next column off the front of `rest`; empty if it does not fit.
static bool take_column(Bytes* rest, Bytes* column) {
  uint64_t size = 0;
  if (rest->size() < sizeof size) return false;
  std::memcpy(&size, rest->data(), sizeof size);
  *rest = rest->subspan(sizeof size);
  if (size > rest->size()) return false;
  *column = rest->first(size);
  *rest = rest->subspan(size);
  return true;
}

Result<Gathered> Gathered::decode(Bytes file, const Id& save_id, uint32_t first, uint32_t count) {
  Head head{};
  Digest digest;
  if (file.size() < sizeof head + sizeof digest) return format::bad(strformat("no group: {} bytes", file.size()));
  std::memcpy(&head, file.data(), sizeof head);
  std::memcpy(&digest, file.last(sizeof digest).data(), sizeof digest);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0 || head.revision != CKPT_FORMAT_REVISION)
    return format::bad("no group of this revision");
  Bytes rest = file.first(file.size() - sizeof digest), column;
  if (codec::xxh3_128(rest) != digest) return Status(CKPT_CORRUPT, "the group does not match its checksum");
  rest = rest.subspan(sizeof head);
  if (!take_column(&rest, &column)) return format::bad("a group that ends too early");
  Gathered gathered;
  std::vector<uint64_t> summary((column.size() + 7) / 8);
  std::memcpy(summary.data(), column.data(), column.size());
  CKPT_ASSIGN(gathered.summary, format::decode_summary(std::as_bytes(std::span(summary)).first(column.size())));
  bool whole = true;
  for_each_column(gathered, [&](auto& records) {
    using Record = typename std::remove_cvref_t<decltype(records)>::value_type;
    whole = whole && take_column(&rest, &column) && column.size() % sizeof(Record) == 0;
    if (!whole) return;
    records.resize(column.size() / sizeof(Record));
    if (!column.empty()) std::memcpy(static_cast<void*>(records.data()), column.data(), column.size());
  });
  if (!whole || !rest.empty()) return format::bad("the columns of a group do not fill it");
  if (gathered.summary.save_id != save_id) return format::bad("a group of another save");
  CKPT_TRY(gathered.check(first, count));
  return gathered;
}

// Whether runs of pieces are of known kinds, and their rows of the parts [first, first + count).
static bool are_pieces(std::span<const uint64_t> runs, size_t ndim, uint32_t first, uint32_t count) {
  const size_t width = row_width(ndim);
  if (!are_runs(runs, width)) return false;
  constexpr auto kRows = static_cast<uint64_t>(RegionKind::kRows);
  const bool rows = !runs.empty() && runs[1] == kRows;  // then all are
  if (rows && ndim == 0) return false;
  for (size_t size; !runs.empty(); runs = runs.subspan(size)) {
    const bool one = runs[0] == 1;
    size = run_size(runs[0], width);
    const uint64_t last = runs[width] + (one ? 0 : (runs[0] - 1) * runs[2 * width]);
    if (runs[0] > UINT32_MAX || runs[1] > kRows || (runs[1] == kRows) != rows || (!one && runs[1 + width] != 0))
      return false;
    if (runs[width] - first >= count || last - first >= count) return false;
  }
  return true;
}

// That every reference stays inside its column. What records say is checked by the merge, as if parts said it.
Status Gathered::check(uint32_t first, uint32_t count) const {
  auto text_in = [&](const fb::Text& text) { return format::range_ok(text.offset(), text.size(), names.size()); };
  const fb::Part* before = nullptr;
  for (const fb::Base& base : bases) {
    CKPT_TRY(format::check_base(base.part(), summary.save_id, before));
    before = &base.part();
  }
  auto range_in = [&](const Range& range) { return format::range_ok(range.first, range.count, numbers.size()); };
  bool ok = parts.size() == count;
  for (size_t i = 0; i < parts.size() && ok; i++) ok = parts[i].rank() == first + i;
  for (const Tensor& tensor : tensors)
    ok = ok && text_in(tensor.name) && tensor.ndim <= kMaxNdim && range_in({tensor.shape, tensor.ndim}) &&
         range_in(tensor.pieces) && are_pieces(range(tensor.pieces), tensor.ndim, first, count);
  for (const Alias& alias : aliases)
    ok = ok && text_in(alias.name) && text_in(alias.target) && alias.ndim <= kMaxNdim && range_in(alias.view_range());
  for (const Object& object : objects)
    ok = ok && text_in(object.name) && text_in(object.media_type) && range_in(object.holders) &&
         object.scope <= CKPT_OBJECT_TREE && are_runs(range(object.holders), Object::holder_width(object.scope));
  for (const Leaf& leaf : leaves) ok = ok && text_in(leaf.name) && text_in(leaf.object) && text_in(leaf.path);
  for (const Attr& attr : attrs) ok = ok && text_in(attr.owner) && text_in(attr.key) && text_in(attr.value);
  return ok ? Ok() : format::bad("a record of a group refers to what is not there");
}

}  // namespace ckpt::commit

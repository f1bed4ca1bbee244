// Compares two checkpoints: first what they hold, then the elements, in pieces, and only if the checksums differ.
#include "maintain/diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/parallel.h"
#include "device/convert.h"
#include "load/load.h"
#include "load/same_content.h"

namespace ckpt::maintain {

using load::kPieceBytes, load::read_range, load::same_chunks, load::same_layout, load::same_stored;

static Finding difference(int32_t kind, std::string name, std::string text) {
  Finding finding;
  finding.kind = kind;
  finding.name = std::move(name);
  finding.text = std::move(text);
  return finding;
}

// ---- elements ----

struct Difference {
  uint64_t count = 0;
  double max_abs = NAN, max_rel = NAN;
  int64_t first = -1, last = -1;
};

// The element as a number, if double can hold the numbers of the dtype; else NaN.
static double number_at(uint16_t dtype, const std::byte* at) {
  auto as = [at](auto sample) {
    std::memcpy(&sample, at, sizeof sample);
    return static_cast<double>(sample);
  };
  switch (dtype) {
    case CKPT_DTYPE_F64:
      return as(double{});
    case CKPT_DTYPE_F32:
      return as(float{});
    case CKPT_DTYPE_BF16:
    case CKPT_DTYPE_F16: {
      float value = 0;
      device::convert(dtype, at, CKPT_DTYPE_F32, reinterpret_cast<std::byte*>(&value), 1, 1);
      return value;
    }
    case CKPT_DTYPE_I8:
      return as(int8_t{});
    case CKPT_DTYPE_I16:
      return as(int16_t{});
    case CKPT_DTYPE_I32:
      return as(int32_t{});
    case CKPT_DTYPE_I64:
      return as(int64_t{});
    case CKPT_DTYPE_U8:
    case CKPT_DTYPE_BOOL:
      return as(uint8_t{});
    case CKPT_DTYPE_U16:
      return as(uint16_t{});
    case CKPT_DTYPE_U32:
      return as(uint32_t{});
    case CKPT_DTYPE_U64:
      return as(uint64_t{});
    default:
      return NAN;
  }
}

// |x - y|, also for 64-bit integers, which double cannot hold.
static double distance(uint16_t dtype, const std::byte* x, const std::byte* y) {
  if (dtype != CKPT_DTYPE_I64 && dtype != CKPT_DTYPE_U64) return std::abs(number_at(dtype, x) - number_at(dtype, y));
  uint64_t u, v;
  std::memcpy(&u, x, sizeof u);
  std::memcpy(&v, y, sizeof v);
  bool less = dtype == CKPT_DTYPE_I64 ? static_cast<int64_t>(u) < static_cast<int64_t>(v) : u < v;
  return static_cast<double>(less ? v - u : u - v);
}

// Packed elements are only counted one by one, not compared as numbers.
static void compare_packed(int bits, uint64_t total, uint64_t first_byte, Bytes a, Bytes b, Difference* tally) {
  uint64_t width = static_cast<uint64_t>(bits),
           last_counted = tally->last < 0 ? UINT64_MAX : static_cast<uint64_t>(tally->last);
  for (uint64_t i = 0; i < a.size(); i++) {
    auto different = static_cast<unsigned>(a[i] ^ b[i]);
    for (uint64_t bit = 0; bit < 8; bit++) {
      uint64_t element = ((first_byte + i) * 8 + bit) / width;
      if ((different >> bit & 1) == 0 || element >= total || element == last_counted) continue;
      last_counted = element;
      tally->count++;
      if (tally->first < 0) tally->first = static_cast<int64_t>(element);
      tally->last = static_cast<int64_t>(element);
    }
  }
}

static void compare(uint16_t dtype, uint64_t width, uint64_t first, Bytes a, Bytes b, Difference* tally) {
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
  for (uint64_t i = 0; i < a.size() / width; i++) {
    const std::byte *x = a.data() + i * width, *y = b.data() + i * width;
    if (std::memcmp(x, y, width) == 0) continue;
    tally->count++;
    if (tally->first < 0) tally->first = static_cast<int64_t>(first + i);
    tally->last = static_cast<int64_t>(first + i);
    double u = number_at(dtype, x), v = number_at(dtype, y), abs = distance(dtype, x, y);
    if (std::isnan(abs)) continue;
    double scale = std::max(std::abs(u), std::abs(v)), rel = scale > 0 ? abs / scale : 0;
    tally->max_abs = std::isnan(tally->max_abs) ? abs : std::max(tally->max_abs, abs);
    tally->max_rel = std::isnan(tally->max_rel) ? rel : std::max(tally->max_rel, rel);
  }
}

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;  // [first, end), in units of the flattened tensor

// Where chunks differ: all of the tensor, unless both have the same pieces, each a range of it.
static Ranges differing(const std::vector<checkpoint::Piece>& a, const std::vector<checkpoint::Piece>& b,
                        const plan::Geometry& geometry) {
  const Ranges all = {{0, geometry.volume}};
  if (!std::ranges::equal(a, b, same_layout)) return all;
  Ranges ranges;
  for (size_t i = 0; i < a.size(); i++) {
    const Region held = a[i].held();
    if (held.kind == RegionKind::kBox || held.kind == RegionKind::kRows || geometry.packed) return all;
    uint64_t at = (held.kind == RegionKind::kFlat ? held.flat_offset : 0) + a[i].segment->start();
    const auto x = a[i].chunks(), y = b[i].chunks();
    for (size_t k = 0; k < x.size(); k++) {
      if (x[k].raw_size() % geometry.width != 0) return all;
      const uint64_t end = at + x[k].raw_size() / geometry.width;
      if (!same_stored(x[k], y[k])) {
        if (!ranges.empty() && ranges.back().second == at)
          ranges.back().second = end;
        else
          ranges.emplace_back(at, end);
      }
      at = end;
    }
  }
  std::ranges::sort(ranges);
  return ranges;
}

static Status compare_range(const checkpoint::Checkpoint& a, const checkpoint::TensorRef& ta,
                            const checkpoint::Checkpoint& b, const checkpoint::TensorRef& tb,
                            std::pair<uint64_t, uint64_t> range, Difference* tally, Job& job) {
  plan::Geometry geometry = *plan::geometry_of(ta.dtype(), ta.shape());
  uint64_t step = std::max<uint64_t>(kPieceBytes / geometry.width, 1);
  std::vector<std::byte> left, right;
  for (uint64_t at = range.first; at < range.second; at += step) {
    CKPT_TRY(job.check());
    uint64_t count = std::min(step, range.second - at);
    left.resize(count * geometry.width);
    right.resize(count * geometry.width);
    CKPT_TRY(read_range(a, ta, at, left));
    CKPT_TRY(read_range(b, tb, at, right));
    if (geometry.packed)
      compare_packed(dtype_bits(ta.dtype()), *element_count(ta.shape()), at, left, right, tally);
    else
      compare(geometry.dtype, geometry.width, at, left, right, tally);
    job.counters.bytes_done += left.size();
  }
  return Ok();
}

// ---- structure ----

using checkpoint::Checkpoint;
using Texts = std::map<std::string, std::string>;

static std::string describe(const Checkpoint::Named& named) {
  std::string text = std::string(dtype_name(named.tensor.dtype())) + " " + to_text(named.tensor.shape());
  if (!named.alias) return text;
  text += " alias of \"" + std::string(named.tensor.name()) + "\"";
  for (uint64_t number : named.view()) text += " " + std::to_string(number);
  return text;
}

static Result<Texts> objects_of(const Checkpoint& checkpoint) {
  Texts objects;
  for (uint64_t i = 0; i < checkpoint.object_count(); i++) {
    CKPT_ASSIGN(checkpoint::ObjectRef at, checkpoint.object_at(i));
    const fb::Object& object = *at.object;
    std::string name =
        std::string(at.page->text(object.name())) + (object.scope() ? strformat(" of rank {}", at.part) : "");
    objects[name] = strformat("{} bytes, XXH3-128 ", object.size()) + to_hex(format::id_of(object.digest())) + " " +
                    std::string(at.page->text(object.media_type()));
  }
  return objects;
}

static Result<Texts> attrs_of(const Checkpoint& checkpoint) {
  Texts attrs;
  for (size_t i = 0; i < checkpoint.manifest().page_count(); i++) {
    CKPT_ASSIGN(const format::Page* page, checkpoint.manifest().page(i));
    for (const fb::Attr& attr : page->attrs) {
      std::string owner(page->text(attr.owner()));
      attrs[(owner.empty() ? "the checkpoint" : "\"" + owner + "\"") + std::string(": ") +
            std::string(page->text(attr.key()))] = page->text(attr.value());
    }
  }
  return attrs;
}

static void compare_maps(const char* what, const Texts& a, const Texts& b, Report* report) {
  for (const auto& [name, value] : a) {
    auto other = b.find(name);
    if (other == b.end())
      report->findings.push_back(
          difference(CKPT_FINDING_MISSING, name, std::string(what) + " " + name + ": only in the first"));
    else if (other->second != value)
      report->findings.push_back(difference(
          CKPT_FINDING_DIFFERENT, name,
          std::string(what) + " " + name + ": " + value.substr(0, 200) + " against " + other->second.substr(0, 200)));
  }
  for (const auto& [name, value] : b)
    if (!a.contains(name))
      report->findings.push_back(
          difference(CKPT_FINDING_EXTRA, name, std::string(what) + " " + name + ": only in the second"));
}

struct Pair {
  std::string name;
  checkpoint::TensorRef a, b;
};

static Result<std::vector<Pair>> compare_names(const Checkpoint& a, const Checkpoint& b, Report* report, Job& job) {
  std::vector<Pair> pairs;
  uint64_t i = 0, j = 0;
  while (i < a.name_count() || j < b.name_count()) {
    CKPT_TRY(job.check());
    Checkpoint::Named x, y;
    std::string left, right;
    if (i < a.name_count()) {
      CKPT_ASSIGN(x, a.named_at(i));
      left = x.name();
    }
    if (j < b.name_count()) {
      CKPT_ASSIGN(y, b.named_at(j));
      right = y.name();
    }
    if (j == b.name_count() || (i < a.name_count() && left < right)) {
      report->findings.push_back(difference(CKPT_FINDING_MISSING, left, "tensor \"" + left + "\": only in the first"));
      i++;
    } else if (i == a.name_count() || right < left) {
      report->findings.push_back(difference(CKPT_FINDING_EXTRA, right, "tensor \"" + right + "\": only in the second"));
      j++;
    } else {
      i++, j++;
      std::string text_x = describe(x), text_y = describe(y);
      if (text_x != text_y)
        report->findings.push_back(
            difference(CKPT_FINDING_DIFFERENT, left, strformat("tensor \"{}\": {} against {}", left, text_x, text_y)));
      else if (!x.alias)
        pairs.push_back({left, x.tensor, y.tensor});
    }
  }
  return pairs;
}

static uint64_t bytes_of(const Pair& pair) {
  const plan::Geometry geometry = *plan::geometry_of(pair.a.dtype(), pair.a.shape());
  return geometry.volume * geometry.width;
}

Status diff_checkpoints(const Checkpoint& first, const Checkpoint& second, bool values, unsigned threads,
                        Report* report, Job& job) {
  CKPT_ASSIGN(const auto first_past_cache, first.past_cache());
  CKPT_ASSIGN(const auto second_past_cache, second.past_cache());
  const Checkpoint &a = first_past_cache ? *first_past_cache : first,
                   &b = second_past_cache ? *second_past_cache : second;
  CKPT_ASSIGN(std::vector<Pair> pairs, compare_names(a, b, report, job));
  CKPT_ASSIGN(Texts objects_a, objects_of(a));
  CKPT_ASSIGN(Texts objects_b, objects_of(b));
  compare_maps("object", objects_a, objects_b, report);
  CKPT_ASSIGN(Texts attrs_a, attrs_of(a));
  CKPT_ASSIGN(Texts attrs_b, attrs_of(b));
  compare_maps("attribute of", attrs_a, attrs_b, report);
  if (!values) return Ok();
  for (const Pair& pair : pairs) job.counters.bytes_total += bytes_of(pair);
  std::vector<Difference> tallies(pairs.size());
  CKPT_TRY(for_each_parallel(threads, pairs.size(), [&](size_t i) -> Status {
    if (Status cancelled = job.check(); !cancelled.ok()) return cancelled;
    CKPT_ASSIGN(auto pieces_a, a.pieces(pairs[i].a));
    CKPT_ASSIGN(auto pieces_b, b.pieces(pairs[i].b));
    if (same_chunks(pieces_a, pieces_b)) {
      job.counters.bytes_done += bytes_of(pairs[i]);
      return Ok();
    }
    const uint64_t bytes = bytes_of(pairs[i]);
    const plan::Geometry geometry = *plan::geometry_of(pairs[i].a.dtype(), pairs[i].a.shape());
    uint64_t compared = 0;
    for (const auto& range : differing(pieces_a, pieces_b, geometry)) {
      Status done = compare_range(a, pairs[i].a, b, pairs[i].b, range, &tallies[i], job);
      if (!done.ok()) return done;
      compared += (range.second - range.first) * geometry.width;
    }
    job.counters.bytes_done += bytes - std::min(bytes, compared);
    return Ok();
  }));
  for (size_t i = 0; i < pairs.size(); i++) {
    const Difference& tally = tallies[i];
    if (tally.count == 0) continue;
    Finding finding = difference(CKPT_FINDING_DIFFERENT, pairs[i].name,
                                 strformat("tensor \"{}\": {} elements differ, max abs {}, max rel {}", pairs[i].name,
                                           tally.count, tally.max_abs, tally.max_rel));
    finding.count = tally.count;
    finding.max_abs = tally.max_abs;
    finding.max_rel = tally.max_rel;
    finding.first_element = tally.first;
    finding.last_element = tally.last;
    report->findings.push_back(std::move(finding));
  }
  return Ok();
}

}  // namespace ckpt::maintain

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "cli/diff_tables.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/rows.h"
#include "cli/slice.h"
#include "cli/text.h"

namespace cli {
namespace {

constexpr uint64_t kBatchBytes = 64 << 20, kBatchPieces = 4096;
constexpr size_t kBins = 32;

using Tensors = std::vector<ckpt::TensorInfo>;

// ---- elements as numbers ----

class Decoder {
 public:
  explicit Decoder(int32_t dtype) : dtype_(component(dtype)), bits_(dtype_ % 256) {
    if (!has_f32(dtype_)) return;
    for (uint32_t pattern = 0; pattern < 1u << bits_; pattern++) {
      std::byte bytes[4];
      std::memcpy(bytes, &pattern, sizeof pattern);
      floats_.push_back(to_f32(dtype_, bytes, 0));
    }
  }
  bool known() const {
    const bool integer = dtype_ / 256 <= 1 && bits_ <= 64;
    return !floats_.empty() || integer || dtype_ == CKPT_DTYPE_F32 || dtype_ == CKPT_DTYPE_F64 ||
           dtype_ == CKPT_DTYPE_BOOL;
  }
  // The numbers first, first + 1, … of `data`.
  void decode(std::span<const std::byte> data, uint64_t first, std::span<double> out) const {
    for (double& value : out) value = number(element_pattern(data, bits_, first++));
  }
  // A complex number is two.
  static int32_t component(int32_t dtype) {
    return dtype == CKPT_DTYPE_C32    ? int32_t{CKPT_DTYPE_F16}
           : dtype == CKPT_DTYPE_C64  ? int32_t{CKPT_DTYPE_F32}
           : dtype == CKPT_DTYPE_C128 ? int32_t{CKPT_DTYPE_F64}
                                      : dtype;
  }
  uint64_t count(const ckpt::TensorInfo& tensor, uint64_t elements) const {
    return dtype_ == tensor.dtype ? elements : 2 * elements;
  }

 private:
  double number(uint64_t pattern) const {
    if (!floats_.empty()) return floats_[pattern];
    if (dtype_ == CKPT_DTYPE_F32) return std::bit_cast<float>(static_cast<uint32_t>(pattern));
    if (dtype_ == CKPT_DTYPE_F64) return std::bit_cast<double>(pattern);
    if (dtype_ == CKPT_DTYPE_BOOL) return pattern != 0;
    const int shift = 64 - bits_;
    return dtype_ / 256 == 0 ? static_cast<double>(static_cast<int64_t>(pattern << shift) >> shift)
                             : static_cast<double>(pattern);
  }
  int32_t dtype_;
  int bits_;
  std::vector<float> floats_;  // of each pattern
};

class Decoders {
 public:
  const Decoder& of(int32_t dtype) { return decoders_.try_emplace(dtype, dtype).first->second; }

 private:
  std::map<int32_t, Decoder> decoders_;
};

// ---- reading ----

// Some elements of a tensor.
struct Piece {
  const ckpt::TensorInfo* tensor;
  Slice slice;
  uint64_t bytes;
};

// The elements of pieces, each piece by itself.
class Batch {
 public:
  void read(const ckpt::Reader& reader, const std::vector<Piece>& pieces, const ckpt::Options& options) {
    places_.clear();
    uint64_t size = 0;
    for (const Piece& piece : pieces) places_.push_back((size + 63) / 64 * 64), size = places_.back() + piece.bytes;
    if (size > data_.size()) data_.resize(size);
    auto load = ckpt::Load::create(reader, options);
    for (size_t i = 0; i < pieces.size(); i++) {
      const ckpt::TensorInfo& tensor = *pieces[i].tensor;
      ckpt::Tensor wanted(tensor);
      if (pieces[i].slice != Slice::whole(ckpt::shape_of(tensor)))
        wanted.box(pieces[i].slice.offset, pieces[i].slice.extent);
      load.add_tensor(tensor.name, wanted, {data_.data() + places_[i], pieces[i].bytes});
    }
    load.run();
  }
  std::span<const std::byte> piece(size_t i) const { return std::span(data_).subspan(places_[i]); }

 private:
  std::vector<std::byte> data_;
  std::vector<uint64_t> places_;
};

bool is_packed(const ckpt::TensorInfo& tensor) { return tensor.dtype % 256 % 8 != 0; }

Piece piece_of(const ckpt::TensorInfo& tensor, const Slice& slice) {
  return {&tensor, slice,
          is_packed(tensor) ? tensor.bytes : slice.volume() * static_cast<uint64_t>(tensor.dtype % 256 / 8)};
}

// Pieces of at most a batch. An element of a packed dtype need not begin at a byte, so such a tensor is one piece.
std::vector<Piece> pieces_of(const ckpt::TensorInfo& tensor, bool whole) {
  std::vector<Piece> pieces;
  const uint64_t width = std::max<uint64_t>(1, static_cast<uint64_t>(tensor.dtype % 256 / 8));
  for_each_slab(Slice::whole(ckpt::shape_of(tensor)), whole ? UINT64_MAX : kBatchBytes / width,
                [&](const Slice& slab) { pieces.push_back(piece_of(tensor, slab)); });
  return pieces;
}

// Calls visit(pieces) for batches of the pieces of all tensors, with a bar.
void for_each_batch(const std::vector<const ckpt::TensorInfo*>& tensors,
                    const std::function<bool(const ckpt::TensorInfo&)>& is_whole,
                    const std::function<void(const std::vector<Piece>&)>& visit) {
  uint64_t total = 0, done = 0, size = 0;
  for (const ckpt::TensorInfo* tensor : tensors) total += tensor->bytes;
  Progress progress;
  std::vector<Piece> batch;
  const auto flush = [&] {
    if (!batch.empty()) visit(batch);
    progress.update(done += size, total);
    batch.clear(), size = 0;
  };
  for (const ckpt::TensorInfo* tensor : tensors)
    for (const Piece& piece : pieces_of(*tensor, is_whole(*tensor))) {
      if (size + piece.bytes > kBatchBytes || batch.size() >= kBatchPieces) flush();
      batch.push_back(piece), size += piece.bytes;
    }
  flush();
}

// Calls visit(first, count) for short runs of numbers, which fit the processor's cache.
template <typename Visit>
void for_each_run(uint64_t count, Visit visit) {
  constexpr uint64_t kRun = 4096;
  for (uint64_t first = 0; first < count; first += kRun) visit(first, std::min(kRun, count - first));
}

// Six digits are what a page shows; a sum of squares of NaN is none.
Json figure(double value) {
  return std::isfinite(value) ? Json(std::strtod(print_format("%.6g", value).c_str(), nullptr)) : Json(nullptr);
}

// ---- statistics ----

class Stats {
 public:
  void add(std::span<const double> values) {
    if (fine_.empty()) fine_.resize(kFine);
    for (const double value : values) {
      if (!std::isfinite(value)) {
        (std::isnan(value) ? nans_ : infinities_)++;
        continue;
      }
      zeros_ += value == 0;
      min_ = std::min(min_, value), max_ = std::max(max_, value);
      sum_ += value, squares_ += value * value;
      fine_[place_of(value)]++;
    }
    count_ += values.size();
  }
  bool empty() const { return count_ == 0; }
  double min() const { return finite() ? min_ : std::nan(""); }
  double max() const { return finite() ? max_ : std::nan(""); }
  double mean() const { return sum_ / static_cast<double>(finite()); }
  double norm() const { return finite() ? std::sqrt(squares_) : std::nan(""); }
  uint64_t zeros() const { return zeros_; }
  uint64_t nans() const { return nans_; }
  uint64_t infinities() const { return infinities_; }

  // A letter for each bin from min to max: how full it is, "0" for empty, "z" for the fullest.
  std::string histogram() {
    static constexpr std::string_view kLevels = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    std::vector<double> bins(kBins);
    for (size_t i = 0; i < fine_.size(); i++)
      if (fine_[i] != 0) bins[bin_of((edge(i) + edge(i + 1)) / 2)] += static_cast<double>(fine_[i]);
    std::vector<uint64_t>().swap(fine_);  // of 100,000 tensors they would fill the memory
    const double most = *std::max_element(bins.begin(), bins.end()), top = static_cast<double>(kLevels.size() - 1);
    std::string out;
    for (const double bin : bins)
      out += kLevels[bin == 0 ? 0 : std::max(size_t{1}, static_cast<size_t>(bin / most * top))];
    return out;
  }

 private:
  // Before min and max are known, numbers are counted by the first bits of their f32 pattern, in the order of numbers:
  // 64 places for each power of two.
  static constexpr int kDropped = 17;
  static constexpr size_t kFine = size_t{1} << (32 - kDropped);
  static size_t place_of(double value) {
    constexpr double kMost = std::numeric_limits<float>::max();
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(std::clamp(value, -kMost, kMost)));
    return (bits >> 31 ? ~bits : bits | 1u << 31) >> kDropped;
  }
  static double edge(size_t place) {
    const uint32_t ordered = static_cast<uint32_t>(place) << kDropped;
    return std::bit_cast<float>(ordered >> 31 ? ordered & ~(1u << 31) : ~ordered);
  }
  uint64_t finite() const { return count_ - nans_ - infinities_; }
  size_t bin_of(double value) const {
    const double part = (std::clamp(value, min_, max_) - min_) / (max_ - min_) * kBins;  // NaN if all are the same
    return std::isnan(part) ? kBins / 2 : std::min(kBins - 1, static_cast<size_t>(part));
  }
  uint64_t count_ = 0, zeros_ = 0, nans_ = 0, infinities_ = 0;
  double min_ = std::numeric_limits<double>::infinity(), max_ = -min_, sum_ = 0, squares_ = 0;
  std::vector<uint64_t> fine_;
};

// ---- differences ----

class Difference {
 public:
  void add(std::span<const double> a, std::span<const double> b) {
    for (size_t i = 0; i < a.size(); i++) {
      const bool equal = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
      unlike_ += !equal;
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
        odd_ += !equal;
        continue;
      }
      const double change = b[i] - a[i];
      most_ = std::max(most_, std::fabs(change));
      squares_ += change * change, a_ += a[i] * a[i], b_ += b[i] * b[i], product_ += a[i] * b[i];
    }
    count_ += a.size();
  }
  // Elements, those that differ, odd ones; norms of the change, before, after; change by norm, cosine, largest change.
  Json to_json() const {
    const double norm = std::sqrt(squares_), before = std::sqrt(a_), after = std::sqrt(b_);
    const double share = norm == 0 ? 0 : norm / std::max(before, after), cosine = product_ / (before * after);
    const Json numbers[] = {count_,         unlike_,       odd_,          figure(norm),
                            figure(before), figure(after), figure(share), figure(std::clamp(cosine, -1.0, 1.0)),
                            figure(most_)};
    return Json::array(numbers);
  }

 private:
  uint64_t count_ = 0, unlike_ = 0, odd_ = 0;  // odd: one of the two is NaN or infinite, and the other is not the same
  double squares_ = 0, a_ = 0, b_ = 0, product_ = 0, most_ = 0;
};

}  // namespace

Json stats_json(const ckpt::Reader& reader, const Tensors& tensors, const ckpt::Options& options) {
  Decoders decoders;
  std::vector<const ckpt::TensorInfo*> read;
  for (const ckpt::TensorInfo& tensor : tensors)
    if (tensor.alias_of == nullptr && decoders.of(tensor.dtype).known()) read.push_back(&tensor);
  std::vector<Stats> all(tensors.size());
  std::vector<std::string> histograms(tensors.size());
  Batch batch;
  std::vector<double> values(4096);
  size_t finished = 0;
  const auto finish = [&](size_t until) {
    for (; finished < until; finished++)
      if (!all[finished].empty()) histograms[finished] = all[finished].histogram();
  };
  for_each_batch(read, is_packed, [&](const std::vector<Piece>& pieces) {
    batch.read(reader, pieces, options);
    for (size_t i = 0; i < pieces.size(); i++) {
      const Piece& piece = pieces[i];
      const auto place = static_cast<size_t>(piece.tensor - tensors.data());
      finish(place);  // tensors are read in their order
      const Decoder& decoder = decoders.of(piece.tensor->dtype);
      for_each_run(decoder.count(*piece.tensor, piece.slice.volume()), [&](uint64_t first, uint64_t count) {
        decoder.decode(batch.piece(i), first, std::span(values).first(count));
        all[place].add(std::span(values).first(count));
      });
    }
  });
  finish(tensors.size());
  const auto column = [&](auto value) {
    return Json::array(all, [&](const Stats& one) { return one.empty() ? Json(nullptr) : Json(value(one)); });
  };
  return {{"min", column([](const Stats& one) { return figure(one.min()); })},
          {"max", column([](const Stats& one) { return figure(one.max()); })},
          {"mean", column([](const Stats& one) { return figure(one.mean()); })},
          {"norm", column([](const Stats& one) { return figure(one.norm()); })},
          {"zeros", column([](const Stats& one) { return one.zeros(); })},
          {"nans", column([](const Stats& one) { return one.nans(); })},
          {"infinities", column([](const Stats& one) { return one.infinities(); })},
          {"histogram", Json::array(histograms)}};
}

namespace {

// Tensors of the same name and shape whose values can be compared.
struct Pairs {
  Tensors a, b;
};

Pairs pairs_of(const ckpt::Reader& a, const ckpt::Reader& b, const std::set<std::string>& said, Decoders& decoders) {
  Pairs pairs;
  const auto comparable = [&](const ckpt::TensorInfo& tensor) {
    return tensor.alias_of == nullptr && decoders.of(tensor.dtype).known();
  };
  for (const ckpt::TensorInfo& tensor : b.tensors()) {
    if (said.contains(tensor.name) || !comparable(tensor) || !a.has_tensor(tensor.name)) continue;
    const ckpt::TensorInfo before = a.tensor(tensor.name);
    const bool complex = Decoder::component(tensor.dtype) != tensor.dtype;
    if (!comparable(before) || ckpt::shape_of(before) != ckpt::shape_of(tensor)) continue;
    if (complex != (Decoder::component(before.dtype) != before.dtype)) continue;
    pairs.a.push_back(before);
    pairs.b.push_back(tensor);
  }
  return pairs;
}

std::vector<Difference> differences_of(const ckpt::Reader& a, const ckpt::Reader& b, const Pairs& pairs,
                                       Decoders& decoders, const ckpt::Options& options) {
  std::vector<Difference> all(pairs.b.size());
  std::vector<const ckpt::TensorInfo*> read;
  for (const ckpt::TensorInfo& tensor : pairs.b) read.push_back(&tensor);
  const auto place_of = [&](const ckpt::TensorInfo& tensor) { return static_cast<size_t>(&tensor - pairs.b.data()); };
  const auto is_whole = [&](const auto& tensor) { return is_packed(tensor) || is_packed(pairs.a[place_of(tensor)]); };
  Batch before, after;
  std::vector<double> left(4096), right(4096);
  for_each_batch(read, is_whole, [&](const std::vector<Piece>& pieces) {
    std::vector<Piece> others;
    for (const Piece& piece : pieces) others.push_back(piece_of(pairs.a[place_of(*piece.tensor)], piece.slice));
    before.read(a, others, options);
    after.read(b, pieces, options);
    for (size_t i = 0; i < pieces.size(); i++) {
      const Decoder &old = decoders.of(others[i].tensor->dtype), &fresh = decoders.of(pieces[i].tensor->dtype);
      for_each_run(fresh.count(*pieces[i].tensor, pieces[i].slice.volume()), [&](uint64_t first, uint64_t count) {
        old.decode(before.piece(i), first, std::span(left).first(count));
        fresh.decode(after.piece(i), first, std::span(right).first(count));
        all[place_of(*pieces[i].tensor)].add(std::span(left).first(count), std::span(right).first(count));
      });
    }
  });
  return all;
}

// What differs but values: names, dtypes, shapes, objects, attributes.
Json structure_json(const ckpt::Reader& a, const ckpt::Reader& b, const std::set<std::string>& said,
                    ckpt::Options options) {
  constexpr size_t kMost = 1000;
  options.set("values", 0);
  std::vector<std::string> texts;
  for (const ckpt::Finding& finding : a.diff(b, options))
    if (!said.contains(text_of(finding.name)) && texts.size() < kMost)
      texts.push_back(page_text(text_of(finding.text)));
  return Json::array(texts);
}

}  // namespace

Json comparison_report(const Opened& a, const Opened& b, const ckpt::Options& options) {
  const auto side = [](const ckpt::Reader& reader) {
    return TableSide{tables_of(reader), [&reader](const std::string& name) { return reader.has_tensor(name); }};
  };
  const TableDifferences tables = diff_tables(side(a.reader), side(b.reader), "", true, options);
  Decoders decoders;
  const Pairs pairs = pairs_of(a.reader, b.reader, tables.said, decoders);
  const std::vector<Difference> changes = differences_of(a.reader, b.reader, pairs, decoders, options);
  return {{"kind", "comparison"},
          {"title", page_text(a.info.id) + " → " + page_text(b.info.id)},
          {"a", page_info(a.info)},
          {"b", page_info(b.info)},
          {"tensors", tensors_json(pairs.b)},
          {"changes", Json::array(changes, [](const Difference& change) { return change.to_json(); })},
          {"structure", structure_json(a.reader, b.reader, tables.said, options)},
          {"tables", Json::array(tables.found, [](const TableDifference& table) {
             return Json{
                 {"name", page_text(table.name)},
                 {"texts", Json::array(table.texts, [](const std::string& text) { return Json(page_text(text)); })}};
           })}};
}

}  // namespace cli

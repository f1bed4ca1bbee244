#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "cli/diff_tables.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/report.h"

namespace cli {
namespace {

// ---- elements as numbers ----

// A complex number is two numbers.
int32_t component(int32_t dtype) { return dtype / 256 == 5 ? 2 * 256 + dtype % 256 / 2 : dtype; }
uint64_t components(int32_t dtype) { return component(dtype) == dtype ? 1 : 2; }

bool has_numbers(const ckpt::TensorInfo& tensor) {
  return tensor.alias_of == nullptr && std::string_view(ckpt_dtype_name(tensor.dtype)) != "dtype";
}

class Decoder {
 public:
  explicit Decoder(int32_t dtype) : dtype_(component(dtype)), bits_(dtype_ % 256) {
    for (uint32_t pattern = 0; has_f32(dtype_) && pattern < 1u << bits_; pattern++)
      floats_.push_back(to_f32(dtype_, std::as_bytes(std::span(&pattern, 1)), 0));
  }
  // The numbers first, first + 1, … of `data`.
  void decode(std::span<const std::byte> data, uint64_t first, std::span<double> out) const {
    if (bits_ == 16) return decode_as<uint16_t>(data, first, out);
    if (bits_ == 32) return decode_as<uint32_t>(data, first, out);
    for (double& value : out) value = number(element_pattern(data, bits_, first++));
  }

 private:
  // Several times as fast, for the dtypes that nearly all weights have.
  template <typename Pattern>
  void decode_as(std::span<const std::byte> data, uint64_t first, std::span<double> out) const {
    const std::byte* from = data.data() + first * sizeof(Pattern);
    for (double& value : out) {
      Pattern pattern;
      std::memcpy(&pattern, from, sizeof pattern);
      value = number(pattern);
      from += sizeof pattern;
    }
  }
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

// ---- reading ----

// A checkpoint, and the tensors of it that are read; those at one place of two sides have the same shape.
struct Side {
  const ckpt::Reader& reader;
  const TensorInfos& tensors;
};

// Some numbers of a tensor of one side, few enough for the processor's cache, and the bytes that they are from.
struct Run {
  int32_t dtype = 0;
  std::vector<double> numbers;
  std::span<const std::byte> data;
  uint64_t first = 0;
  // Of a dtype of 64 bits: doubles do not tell all integers apart.
  uint64_t pattern(size_t i) const { return element_pattern(data, 64, first + i); }
};

// All numbers of the tensors that have any, tensor by tensor. `ends`: these are the tensor's last.
using Visit = std::function<void(size_t place, bool ends, const std::vector<Run>& sides)>;

class Reading {
 public:
  Reading(std::vector<Side> sides, const ckpt::Options& options, Visit visit)
      : sides_(std::move(sides)), options_(options), visit_(std::move(visit)), runs_(sides_.size()) {}

  void run() {
    for (const Side& side : sides_)
      for (const ckpt::TensorInfo& tensor : side.tensors) total_ += has_numbers(tensor) ? tensor.bytes : 0;
    for (size_t place = 0; place < sides_[0].tensors.size(); place++) {
      const ckpt::TensorInfo& tensor = sides_[0].tensors[place];
      if (!has_numbers(tensor) || tensor.bytes == 0) continue;
      const std::vector<int64_t> shape = ckpt::shape_of(tensor);
      const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
      for (int64_t first = 0; first < count; first += kElements) {
        const int64_t size = std::min(kElements, count - first);
        if (elements_ + size > kElements || batch_.size() == kPieces) flush();
        elements_ += size;
        batch_.push_back({place, first, size, first + size == count, {}});
      }
    }
    flush();
  }

 private:
  static constexpr int64_t kElements = 1 << 24;  // in memory, of each side; packed ones begin at a byte, too
  static constexpr size_t kPieces = 4096;

  // Some elements of the tensor that each side has at this place.
  struct Piece {
    size_t place;
    int64_t first, count;
    bool last;
    std::vector<std::byte> data[2];  // of each side
  };
  void flush() {
    for (size_t s = 0; s < sides_.size() && !batch_.empty(); s++) load(s);
    for (const Piece& piece : batch_) visit_piece(piece);
    progress_.update(done_, total_);
    batch_.clear();
    elements_ = 0;
  }
  void load(size_t s) {
    auto load = ckpt::Load::create(sides_[s].reader, options_);
    for (Piece& piece : batch_) {
      const ckpt::TensorInfo& tensor = sides_[s].tensors[piece.place];
      std::vector<std::byte>& data = piece.data[s];
      data.resize((static_cast<uint64_t>(piece.count) * static_cast<uint64_t>(tensor.dtype % 256) + 7) / 8);
      load.add_tensor(tensor.name, ckpt::Tensor(tensor).flat(piece.first, piece.count), {data.data(), data.size()});
      done_ += data.size();
    }
    load.run();
  }
  void visit_piece(const Piece& piece) {
    constexpr uint64_t kRun = 4096;
    const uint64_t count = static_cast<uint64_t>(piece.count) * components(sides_[0].tensors[piece.place].dtype);
    for (uint64_t first = 0; first < count; first += kRun) {
      for (size_t s = 0; s < sides_.size(); s++) {
        Run& run = runs_[s];
        run.dtype = sides_[s].tensors[piece.place].dtype, run.data = piece.data[s], run.first = first;
        run.numbers.resize(std::min(kRun, count - first));
        decoders_.try_emplace(run.dtype, run.dtype).first->second.decode(run.data, first, run.numbers);
      }
      visit_(piece.place, piece.last && first + kRun >= count, runs_);
    }
  }

  const std::vector<Side> sides_;
  const ckpt::Options& options_;
  const Visit visit_;
  std::map<int32_t, Decoder> decoders_;
  std::vector<Piece> batch_;
  std::vector<Run> runs_;
  int64_t elements_ = 0;
  uint64_t done_ = 0, total_ = 0;
  Progress progress_;
};

// Six digits are what a page shows; a sum of squares of NaN is none.
Json figure(double value) {
  return std::isfinite(value) ? Json(std::strtod(print_format("%.6g", value).c_str(), nullptr)) : Json(nullptr);
}

// ---- statistics ----

// Where `value` lies between two numbers, however far apart, as one of so many cells; in the middle if they are equal.
size_t cell_of(double value, double low, double high, size_t cells) {
  const double share = (value / 2 - low / 2) / (high / 2 - low / 2);
  if (std::isnan(share)) return cells / 2;
  return std::min(cells - 1, static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(cells)));
}

// Figures of a tensor, of one look at its numbers.
class Stats {
 public:
  void add(std::span<const double> values) {
    for (const double value : values) {
      if (!std::isfinite(value)) {
        (std::isnan(value) ? nans_ : infinities_)++;
        continue;
      }
      zeros_ += value == 0;
      min_ = std::min(min_, value), max_ = std::max(max_, value);
      sum_ += value, squares_ += value * value;
    }
    count_ += values.size();
    if (min_ < low_ || max_ > high_) widen();
    for (const double value : values)
      if (std::isfinite(value)) cells_[cell_of(value, low_, high_, kCells)]++;
  }
  static constexpr const char* kNames[] = {"min",  "max",        "mean",  "norm",     "zeros",
                                           "nans", "infinities", "count", "histogram"};
  Json to_json() const {
    const auto finite = static_cast<double>(count_ - nans_ - infinities_);
    const Json numbers[] = {
        figure(min_), figure(max_), figure(sum_ / finite), figure(finite == 0 ? min_ : std::sqrt(squares_)),
        zeros_,       nans_,        infinities_,           count_,
        histogram()};
    return Json::array(numbers);
  }

 private:
  static constexpr size_t kCells = 4096, kBins = 32;

  // Numbers are counted in far more cells than a page shows bins: before all are known, over twice the range so far.
  void widen() {
    const Stats before = *this;
    const double margin = max_ / 2 - min_ / 2, most = std::numeric_limits<double>::max();
    low_ = std::max(-most, min_ - margin), high_ = std::min(most, max_ + margin);
    cells_.assign(kCells, 0);
    for (size_t i = 0; i < before.cells_.size(); i++)
      cells_[cell_of(before.middle_of(i), low_, high_, kCells)] += before.cells_[i];
  }
  double middle_of(size_t cell) const {
    const double share = (static_cast<double>(cell) + 0.5) / kCells;
    return low_ * (1 - share) + high_ * share;
  }
  // A digit for each bin from min to max: how full it is, "0" for empty, "z" for the fullest.
  std::string histogram() const {
    uint64_t bins[kBins] = {}, most = 1;
    for (size_t i = 0; i < cells_.size(); i++)
      bins[cell_of(std::clamp(middle_of(i), min_, max_), min_, max_, kBins)] += cells_[i];
    for (const uint64_t bin : bins) most = std::max(most, bin);
    std::string digits;
    for (const uint64_t bin : bins) digits += "0123456789abcdefghijklmnopqrstuvwxyz"[(bin * 35 + most - 1) / most];
    return digits;
  }

  uint64_t count_ = 0, zeros_ = 0, nans_ = 0, infinities_ = 0;
  double min_ = std::numeric_limits<double>::infinity(), max_ = -min_, sum_ = 0, squares_ = 0;
  double low_ = min_, high_ = max_;  // of the cells
  std::vector<uint64_t> cells_;
};

// ---- differences ----

class Difference {
 public:
  void add(const Run& a, const Run& b) {
    const bool exact = a.dtype == b.dtype && (a.dtype == CKPT_DTYPE_I64 || a.dtype == CKPT_DTYPE_U64);
    for (size_t i = 0; i < a.numbers.size(); i++) {
      const double before = a.numbers[i], after = b.numbers[i];
      double change = after - before;
      if (change == 0 && exact) change = static_cast<double>(static_cast<int64_t>(b.pattern(i) - a.pattern(i)));
      const bool finite = std::isfinite(before) && std::isfinite(after);
      const bool equal = finite ? change == 0 : before == after || (std::isnan(before) && std::isnan(after));
      differ_ += !equal;
      odd_ += !equal && !finite;
      if (!finite) continue;
      largest_ = std::max(largest_, std::fabs(change));
      squares_ += change * change, a_ += before * before, b_ += after * after, product_ += before * after;
    }
    count_ += a.numbers.size();
  }
  // Odd: one of the two is NaN or infinite, and the other is not the same. `change`: the norm by the larger norm.
  static constexpr const char* kNames[] = {"count",  "differ", "odd",    "norm",   "norm_a",
                                           "norm_b", "change", "cosine", "largest"};
  Json to_json() const {
    const double norm = std::sqrt(squares_), a = std::sqrt(a_), b = std::sqrt(b_);
    const double change = norm == 0 ? 0 : norm / std::max(a, b), cosine = std::clamp(product_ / (a * b), -1.0, 1.0);
    const Json numbers[] = {count_,    differ_,        odd_,           figure(norm),    figure(a),
                            figure(b), figure(change), figure(cosine), figure(largest_)};
    return Json::array(numbers);
  }

 private:
  uint64_t count_ = 0, differ_ = 0, odd_ = 0;
  double squares_ = 0, a_ = 0, b_ = 0, product_ = 0, largest_ = 0;
};

// Tensors of the same name and shape whose values can be compared, of both.
std::pair<TensorInfos, TensorInfos> pairs_of(const ckpt::Reader& a, const ckpt::Reader& b,
                                             const std::set<std::string>& said) {
  std::pair<TensorInfos, TensorInfos> pairs;
  for (const ckpt::TensorInfo& after : b.tensors()) {
    if (said.contains(after.name) || !has_numbers(after) || !a.has_tensor(after.name)) continue;
    const ckpt::TensorInfo before = a.tensor(after.name);
    if (!has_numbers(before) || components(before.dtype) != components(after.dtype)) continue;
    if (ckpt::shape_of(before) != ckpt::shape_of(after)) continue;
    pairs.first.push_back(before);
    pairs.second.push_back(after);
  }
  return pairs;
}

// What differs but values: names, dtypes, shapes, objects, attributes.
Json structure_json(const ckpt::Reader& a, const ckpt::Reader& b, const std::set<std::string>& said,
                    ckpt::Options options) {
  constexpr size_t kMost = 1000;
  options.set("values", 0);
  std::vector<Json> texts;
  for (const ckpt::Finding& finding : a.diff(b, options))
    if (!said.contains(text_of(finding.name)) && texts.size() < kMost) texts.push_back(page_text(finding.text));
  return Json::array(texts);
}

}  // namespace

void add_stats(const ckpt::Reader& reader, const TensorInfos& tensors, const ckpt::Options& options, Json* json) {
  std::vector<Json> figures(tensors.size(), Json(nullptr));
  Stats stats;
  Reading({{reader, tensors}}, options, [&](size_t place, bool ends, const auto& sides) {
    stats.add(sides[0].numbers);
    if (ends) figures[place] = std::exchange(stats, {}).to_json();
  }).run();
  json->add("names", Json::array(Stats::kNames));
  json->add("figures", Json::array(figures));
}

Json comparison_report(const Opened& a, const Opened& b, const ckpt::Options& options) {
  const TableDifferences tables = diff_tables(checkpoint_side(a.reader), checkpoint_side(b.reader), "", true, options);
  const auto [before, after] = pairs_of(a.reader, b.reader, tables.said);
  std::vector<Json> figures(after.size(), Difference().to_json());
  Difference difference;
  Reading({{a.reader, before}, {b.reader, after}}, options, [&](size_t place, bool ends, const auto& sides) {
    difference.add(sides[0], sides[1]);
    if (ends) figures[place] = std::exchange(difference, {}).to_json();
  }).run();
  return {{"kind", "comparison"},
          {"title", strformat("{} → {}", a.info.id, b.info.id)},
          {"a", to_json(a.info)},
          {"b", to_json(b.info)},
          {"tensors", tensors_json(after)},
          {"names", Json::array(Difference::kNames)},
          {"figures", Json::array(figures)},
          {"structure", structure_json(a.reader, b.reader, tables.said, options)},
          {"tables", Json::array(tables.found, [](const TableDifference& table) {
             const auto shown = [](const std::string& text) { return page_text(text.c_str()); };
             return Json{{"name", shown(table.name)}, {"texts", Json::array(table.texts, shown)}};
           })}};
}

}  // namespace cli

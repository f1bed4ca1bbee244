#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "cli/diff_tables.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/rows.h"
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
    if (dtype_ == CKPT_DTYPE_F32) return each<float>(data, first, out, [](float value) { return value; });
    if (bits_ == 16 && !floats_.empty())
      return each<uint16_t>(data, first, out, [this](uint16_t pattern) { return floats_[pattern]; });
    for (double& value : out) value = number(element_pattern(data, bits_, first++));
  }
  // A complex number is two.
  static int32_t component(int32_t dtype) {
    return dtype == CKPT_DTYPE_C32    ? int32_t{CKPT_DTYPE_F16}
           : dtype == CKPT_DTYPE_C64  ? int32_t{CKPT_DTYPE_F32}
           : dtype == CKPT_DTYPE_C128 ? int32_t{CKPT_DTYPE_F64}
                                      : dtype;
  }
  static uint64_t parts(int32_t dtype) { return component(dtype) == dtype ? 1 : 2; }

 private:
  // The dtypes that nearly all weights have, several times as fast.
  template <typename T, typename ToNumber>
  static void each(std::span<const std::byte> data, uint64_t first, std::span<double> out, ToNumber to_number) {
    const std::byte* from = data.data() + first * sizeof(T);
    for (double& number : out) {
      T value;
      std::memcpy(&value, from, sizeof value);
      number = static_cast<double>(to_number(value));
      from += sizeof value;
    }
  }
  double number(uint64_t pattern) const {
    if (!floats_.empty()) return floats_[pattern];
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

using Decoders = std::map<int32_t, Decoder>;
const Decoder& decoder_of(const ckpt::TensorInfo& tensor, Decoders& all) {
  return all.try_emplace(tensor.dtype, tensor.dtype).first->second;
}
bool has_numbers(const ckpt::TensorInfo& tensor, Decoders& all) {
  return tensor.alias_of == nullptr && decoder_of(tensor, all).known();
}

// ---- reading ----

struct Side {
  const ckpt::Reader& reader;
  const Tensors& tensors;
};

// Some elements of the tensor that each side has at this place.
struct Piece {
  size_t place;
  int64_t first, count;
};

uint64_t bytes_of(const ckpt::TensorInfo& tensor, int64_t elements) {
  return (static_cast<uint64_t>(elements) * static_cast<uint64_t>(tensor.dtype % 256) + 7) / 8;
}

// What one side has of some pieces.
class Loaded {
 public:
  void read(const Side& side, const std::vector<Piece>& pieces, const ckpt::Options& options) {
    starts_.clear();
    uint64_t size = 0;
    for (const Piece& piece : pieces) {
      starts_.push_back((size + 63) / 64 * 64);
      size = starts_.back() + bytes_of(side.tensors[piece.place], piece.count);
    }
    if (size > data_.size()) data_.resize(size);
    auto load = ckpt::Load::create(side.reader, options);
    for (size_t i = 0; i < pieces.size(); i++) {
      const ckpt::TensorInfo& tensor = side.tensors[pieces[i].place];
      load.add_tensor(tensor.name, ckpt::Tensor(tensor).flat(pieces[i].first, pieces[i].count),
                      {data_.data() + starts_[i], bytes_of(tensor, pieces[i].count)});
    }
    load.run();
  }
  std::span<const std::byte> piece(size_t i) const { return std::span(data_).subspan(starts_[i]); }

 private:
  std::vector<std::byte> data_;
  std::vector<uint64_t> starts_;
};

// All numbers of the tensors of the sides, a few thousand at a time, which fit the processor's cache: visit(place of
// the tensor, the numbers of each side).
using Visit = std::function<void(size_t place, const std::vector<std::vector<double>>& numbers)>;
class Reading {
 public:
  Reading(std::vector<Side> sides, Decoders& decoders, const ckpt::Options& options, Visit visit)
      : sides_(std::move(sides)), loaded_(sides_.size()), decoders_(decoders), options_(options), visit_(visit) {}

  void run() {
    const Tensors& tensors = sides_[0].tensors;
    for (const ckpt::TensorInfo& tensor : tensors) total_ += tensor.bytes;
    for (size_t place = 0; place < tensors.size(); place++) {
      const std::vector<int64_t> shape = ckpt::shape_of(tensors[place]);
      const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
      const int64_t most = int64_t{kBatchBytes} / (tensors[place].dtype % 256) * 8;  // packed ones begin at a byte, too
      for (int64_t first = 0; first < count; first += most) add({place, first, std::min(most, count - first)});
    }
    flush();
  }

 private:
  void add(Piece piece) {
    const uint64_t bytes = bytes_of(sides_[0].tensors[piece.place], piece.count);
    if (size_ + bytes > kBatchBytes || batch_.size() >= kBatchPieces) flush();
    size_ += bytes;
    batch_.push_back(piece);
  }
  void flush() {
    for (size_t s = 0; s < sides_.size() && !batch_.empty(); s++) loaded_[s].read(sides_[s], batch_, options_);
    for (size_t i = 0; i < batch_.size(); i++) visit_piece(i);
    progress_.update(done_ += size_, total_);
    batch_.clear();
    size_ = 0;
  }
  void visit_piece(size_t i) {
    constexpr uint64_t kRun = 4096;
    const Piece& piece = batch_[i];
    const uint64_t count = static_cast<uint64_t>(piece.count) * Decoder::parts(sides_[0].tensors[piece.place].dtype);
    std::vector<std::vector<double>> numbers(sides_.size());
    for (uint64_t first = 0; first < count; first += kRun) {
      for (size_t s = 0; s < sides_.size(); s++) {
        numbers[s].resize(std::min(kRun, count - first));
        decoder_of(sides_[s].tensors[piece.place], decoders_).decode(loaded_[s].piece(i), first, numbers[s]);
      }
      visit_(piece.place, numbers);
    }
  }

  const std::vector<Side> sides_;
  std::vector<Loaded> loaded_;
  Decoders& decoders_;
  const ckpt::Options& options_;
  const Visit visit_;
  std::vector<Piece> batch_;
  uint64_t size_ = 0, done_ = 0, total_ = 0;
  Progress progress_;
};

// Six digits are what a page shows; a sum of squares of NaN is none.
Json figure(double value) {
  return std::isfinite(value) ? Json(std::strtod(print_format("%.6g", value).c_str(), nullptr)) : Json(nullptr);
}

// ---- statistics ----

class Stats {
 public:
  // Before min and max are known, numbers are counted by the first bits of their f32 pattern, in the order of numbers:
  // 64 places for each power of two. All tensors use the same counts, one after the other; at first all are 0.
  using Fine = std::vector<uint64_t>;
  static constexpr int kDropped = 17;
  static constexpr size_t kFine = size_t{1} << (32 - kDropped);

  void add(std::span<const double> values, Fine& fine) {
    for (const double value : values) {
      if (!std::isfinite(value)) {
        (std::isnan(value) ? nans_ : infinities_)++;
        continue;
      }
      zeros_ += value == 0;
      min_ = std::min(min_, value), max_ = std::max(max_, value);
      sum_ += value, squares_ += value * value;
      fine[place_of(value)]++;
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
  std::string histogram(Fine& fine) const {
    static constexpr std::string_view kLevels = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    std::vector<double> bins(kBins);
    for (size_t i = place_of(min_); finite() != 0 && i <= place_of(max_); i++)
      if (const uint64_t count = std::exchange(fine[i], 0); count != 0)
        bins[bin_of((edge(i) + edge(i + 1)) / 2)] += static_cast<double>(count);
    const double most = *std::max_element(bins.begin(), bins.end()), top = static_cast<double>(kLevels.size() - 1);
    std::string out;
    for (const double bin : bins)
      out += kLevels[bin == 0 ? 0 : std::max(size_t{1}, static_cast<size_t>(bin / most * top))];
    return out;
  }

 private:
  static size_t place_of(double value) {  // -0 is 0
    constexpr double kMost = std::numeric_limits<float>::max();
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(std::clamp(value, -kMost, kMost) + 0.0));
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
  Tensors read;
  std::vector<size_t> places;  // of these among all
  for (size_t i = 0; i < tensors.size(); i++)
    if (has_numbers(tensors[i], decoders)) read.push_back(tensors[i]), places.push_back(i);
  std::vector<Stats> all(tensors.size());
  std::vector<std::string> histograms(tensors.size());
  Stats::Fine fine(Stats::kFine);
  size_t last = 0;
  const auto finish = [&] { histograms[last] = all[last].empty() ? "" : all[last].histogram(fine); };
  Reading({{reader, read}}, decoders, options, [&](size_t place, const auto& numbers) {
    if (places[place] != last) finish();  // tensors come one after the other
    last = places[place];
    all[last].add(numbers[0], fine);
  }).run();
  if (!all.empty()) finish();
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
  for (const ckpt::TensorInfo& after : b.tensors()) {
    if (said.contains(after.name) || !has_numbers(after, decoders) || !a.has_tensor(after.name)) continue;
    const ckpt::TensorInfo before = a.tensor(after.name);
    if (!has_numbers(before, decoders) || ckpt::shape_of(before) != ckpt::shape_of(after) ||
        Decoder::parts(before.dtype) != Decoder::parts(after.dtype))
      continue;
    pairs.a.push_back(before);
    pairs.b.push_back(after);
  }
  return pairs;
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
  const TableDifferences tables = diff_tables(checkpoint_side(a.reader), checkpoint_side(b.reader), "", true, options);
  Decoders decoders;
  const Pairs pairs = pairs_of(a.reader, b.reader, tables.said, decoders);
  std::vector<Difference> changes(pairs.b.size());
  Reading({{a.reader, pairs.a}, {b.reader, pairs.b}}, decoders, options, [&](size_t place, const auto& numbers) {
    changes[place].add(numbers[0], numbers[1]);
  }).run();
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

#include "cli/array.h"

#include <string>

namespace cli {

ArrayWriter::ArrayWriter(std::vector<int64_t> extents, bool summary, size_t width, FILE* out)
    : index_(extents.size(), 0), width_(width), out_(out) {
  for (int64_t extent : extents) {
    shown_.push_back(summary ? shown(extent) : extent);
    gap_.push_back(summary && has_gap(extent));
  }
}

void ArrayWriter::put(char c, size_t count) {
  std::string text(count, c);
  put(text);
}

bool ArrayWriter::at_gap(size_t dimension) const { return gap_[dimension] && index_[dimension] == kEdge; }

// After `closed` dimensions have ended, the next index of dimension ndim - 1 - closed begins.
void ArrayWriter::separate(size_t closed) {
  size_t ndim = index_.size(), dimension = ndim - 1 - closed;
  put(']', closed);
  put(",");
  if (closed == 0) {
    put(" ");
    if (at_gap(dimension)) put("..., ");
    return;
  }
  put('\n', closed);
  if (at_gap(dimension)) {
    put(' ', ndim - closed);
    put("...,");
    put('\n', closed);
  }
  put(' ', ndim - closed);
  put('[', closed);
}

void ArrayWriter::add(std::string_view number) {
  size_t ndim = index_.size();
  if (!started_) {
    put('[', ndim);
    started_ = true;
  } else {
    size_t closed = 0;
    while (closed < ndim && ++index_[ndim - 1 - closed] == shown_[ndim - 1 - closed]) index_[ndim - 1 - closed++] = 0;
    if (closed < ndim) separate(closed);
  }
  if (number.size() < width_) put(' ', width_ - number.size());
  put(number);
}

void ArrayWriter::finish() {
  put(started_ ? std::string(index_.size(), ']') : "[]");
  put("\n");
}

}  // namespace cli

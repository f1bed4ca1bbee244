// Findings of verify, diff, load, prune and repair: plain records in the order in which they were found.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "base/types.h"

namespace ckpt {

struct Finding {
  int32_t kind = 0;  // CKPT_FINDING_*
  ckpt_status status = CKPT_OK;
  std::string text, name, part;
  uint64_t offset = 0, size = 0;
  int64_t first_element = -1, last_element = -1;
  double max_abs = NAN, max_rel = NAN;
  uint64_t count = 0;
};

struct Report {
  std::vector<Finding> findings;

  void add(int32_t kind, ckpt_status status, std::string name, std::string text, uint64_t size = 0) {
    Finding& finding = findings.emplace_back();
    finding.kind = kind;
    finding.status = status;
    finding.name = std::move(name);
    finding.text = std::move(text);
    finding.size = size;
  }
};

}  // namespace ckpt

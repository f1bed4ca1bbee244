// What ckpt report shows, as JSON: of names here from cmd_report.cpp, of values from report_values.cpp. One thread.
#pragma once

#include <vector>

#include "cli/command.h"

namespace cli {

using TensorInfos = std::vector<ckpt::TensorInfo>;

// A name as a page may show it: escaped, and not longer than a person reads. Null is null.
Json page_text(const char* text);
// Names, dtypes, shapes and sizes, column by column.
Json tensors_json(const TensorInfos& tensors);
// Adds "names" of figures, and "figures": these of each tensor, null for aliases and dtypes whose numbers the tool does
// not know. Reads in bounded memory.
void add_stats(const ckpt::Reader& reader, const TensorInfos& tensors, const ckpt::Options& options, Json* json);
// How the values of `b` differ from those of `a`; reads every element of both.
Json comparison_report(const Opened& a, const Opened& b, const ckpt::Options& options);

}  // namespace cli

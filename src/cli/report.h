// What ckpt report shows, as JSON: report.html draws it, and has the same names for it. One thread.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/listing.h"

namespace cli {

// A text of a checkpoint as a page may show it: escaped, and not longer than a person reads.
std::string page_text(std::string_view text);
// The checkpoint's record in all reports.
Json page_info(const ckpt::CheckpointInfo& info);

// Names, dtypes, shapes and sizes, column by column.
Json tensors_json(const std::vector<ckpt::TensorInfo>& tensors);
// Figures of the values, column by column: min, max, mean, norm; how many elements are zero, NaN and infinite; and a
// histogram. Null for aliases, and dtypes whose numbers the tool does not know. Reads in bounded memory.
Json stats_json(const ckpt::Reader& reader, const std::vector<ckpt::TensorInfo>& tensors, const ckpt::Options& options);

// Opens the committed checkpoints for their attributes, from the newest on, for at most half a minute.
Json store_report(const ckpt::Store& store, const std::string& path, const std::string& run);

// `stats`: reads every element. `opened` is a checkpoint that one report is about.
Json checkpoint_report(const Opened& opened, bool stats, const ckpt::Options& options);

// How the values of `b` differ from those of `a`; reads every element of both.
Json comparison_report(const Opened& a, const Opened& b, const ckpt::Options& options);

}  // namespace cli

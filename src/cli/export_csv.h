// Sparse tables as CSV files, all rows or what changed. One thread.
#pragma once

#include <string>

#include <ckpt.hpp>

namespace cli {

// Makes the directory `path`, which must not be there, with T.csv for each table T below `at`: all its rows or, with
// `since`, those that this checkpoint lacks or has with other values. Then removed/T.csv has the ids of T that it alone
// has, and a table that is new has all its rows. Returns how many tables there are; NOT_FOUND if none.
uint64_t export_csv(const ckpt::Reader& reader, const ckpt::Reader* since, const std::string& at,
                    const std::string& path, const ckpt::Options& options);

}  // namespace cli

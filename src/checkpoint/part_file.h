// A part file as stored: header, trailer and own index, checked against each other.
#pragma once

#include <memory>

#include "checkpoint/index_file.h"
#include "format/framing.h"
#include "store/store.h"

namespace ckpt::checkpoint {

struct PartFile {
  uint32_t number = 0;
  uint64_t size = 0;
  std::unique_ptr<store::Reader> file;  // may be closed once the part is open
  format::PartHeader header;
  format::PartTrailer trailer;
  std::unique_ptr<IndexFile> index;  // all of it is read
  const format::Summary& summary() const { return index->root().summary; }
};

// Opens PART_`number` of a directory and checks everything but its data. NOT_FOUND, or another error that names the
// part.
Result<PartFile> open_part(const store::Store& store, std::string_view directory, uint32_t number);

// The same of a part or base as a manifest calls it. Whether it is the one that the record describes is not checked.
Result<PartFile> open_file(const store::Store& store, std::string_view directory, const fb::Part& record);

// MISMATCH, or another error, unless an open file is the part or base of this record: reads its two ends.
Status check_file(const store::Reader& file, const fb::Part& record);

// What its root says of its checkpoint; reads no more than that, however large the index says it is.
Result<format::Summary> part_summary(const store::Store& store, std::string_view directory, uint32_t number);

// What a part's trailer says of its index.
IndexPlace place_of(const format::PartTrailer& trailer, uint32_t number);

// Adds the part's name and path to an error; the same of any file.
Status at_file(Status status, const store::Store& store, std::string_view directory, const std::string& name);
Status at_part(Status status, const store::Store& store, std::string_view directory, uint32_t number);

}  // namespace ckpt::checkpoint

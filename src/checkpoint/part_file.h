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

// What its root says of its checkpoint; reads no more than that, however large the index says it is.
Result<format::Summary> part_summary(const store::Store& store, std::string_view directory, uint32_t number);

// What a part's trailer says of its index.
IndexPlace place_of(const format::PartTrailer& trailer, uint32_t number);

// Adds the part's name and path to an error.
Status at_part(Status status, const store::Store& store, std::string_view directory, uint32_t number);

}  // namespace ckpt::checkpoint

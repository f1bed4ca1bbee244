// A part file as stored: header, trailer and own index, checked against each other.
#pragma once

#include <memory>
#include <vector>

#include "format/framing.h"
#include "format/index.h"
#include "store/store.h"

namespace ckpt::checkpoint {

struct PartFile {
  uint32_t number = 0;
  uint64_t size = 0;
  std::unique_ptr<store::Reader> file;  // may be closed once the part is open
  format::PartHeader header;
  format::PartTrailer trailer;
  std::vector<std::byte> index_bytes;
  format::Index index;
};

// Opens PART_`number` of a directory and checks everything but its data. NOT_FOUND, or another error that names the
// part.
Result<PartFile> open_part(const store::Store& store, std::string_view directory, uint32_t number);

// Adds the part's name and path to an error.
Status at_part(Status status, const store::Store& store, std::string_view directory, uint32_t number);

}  // namespace ckpt::checkpoint

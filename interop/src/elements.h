// The elements of a region of a foreign tensor, taken out of its pieces: what a program asks for that has no address to
// look at. Only what is wanted is read; the tensor is never put together.
#pragma once

#include "device/descriptor.h"
#include "interop/src/reader.h"

namespace ckpt::interop {

// Copies the wanted region into the memory of `wanted`, whose dtype and shape are the tensor's. After find_elements().
// `stays`: what is in the memory of files on a server stays there. The errors of reading the files.
Status copy_elements(FileTable& files, const ForeignTensor& tensor, const device::RegionRequest& wanted, bool stays);

}  // namespace ckpt::interop

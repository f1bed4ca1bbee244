// Stores from outside: loading a library of them (ckpt_backend.h); and what the store on any address promises, tried by
// libckpt.
#pragma once

#include <string>
#include <vector>

#include "cli/error.h"
#include "cli/mount_probe.h"

namespace cli {

// For the rest of the process. NOT_FOUND, UNSUPPORTED, and what it says itself.
void load_backend(const std::string& path);
std::vector<Promise> probe_store(const std::string& address, const ckpt::Options& options);

}  // namespace cli

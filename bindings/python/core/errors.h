// Failures of the engine as ckpt.Error and its subclasses (gen/errors.py).
#pragma once

#include <nanobind/nanobind.h>

#include <ckpt.hpp>
#include <map>
#include <string>

namespace ckpt_py {

using Details = std::map<std::string, std::string>;

// Text of the engine. Bytes of a path that are not UTF-8 become surrogates, as in Python's own paths.
nanobind::str decoded(const std::string& text);

// Raises the exception for a status. A Python exception that is already set becomes its cause.
[[noreturn]] void raise(ckpt_status status, const std::string& message, const Details& details = {});

// From now on nanobind turns a ckpt::Error of ckpt.hpp into the same exception.
void translate_errors();

}  // namespace ckpt_py

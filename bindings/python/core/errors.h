// Failures of the engine as ckpt.Error and its subclasses (ckpt/errors.py).
#pragma once

#include <nanobind/nanobind.h>

#include <ckpt.hpp>
#include <map>
#include <string>

namespace ckpt_py {

using Details = std::map<std::string, std::string>;

// Text of the engine, which may hold the bytes of any path: those that are no UTF-8 as Python has them in paths.
nanobind::str decoded(const std::string& text);

// Raises what ckpt.errors makes of a status. An exception that is set already becomes its cause.
[[noreturn]] void raise(ckpt_status status, const std::string& message, const Details& details = {});

// ckpt::Error, thrown by ckpt.hpp, becomes the same.
void translate_errors();

}  // namespace ckpt_py

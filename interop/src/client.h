// The public C++ API as this room uses it: ckpt.hpp without exceptions and under a name of its own, its answers as
// Status and Result; the options of a call, and the long texts that an import keeps as attributes for an export.
// Stateless.
#pragma once

#include <string>
#include <string_view>

#include "base/call_options.h"
#include "base/status.h"
#include "base/types.h"
#include "tree/tree.h"

#define CKPT_HPP_EXPECTED
#define CKPT_HPP_NAMESPACE ckpt_client
#include "ckpt.hpp"

namespace ckpt::interop {

namespace client = ::ckpt_client;

// The Status of a call that failed, with its facts.
Status status_of(const client::Error& error);
inline Status done(const client::Result<void>& answer) { return answer ? Ok() : status_of(answer.error()); }
template <typename T>
Result<T> result(client::Result<T> answer) {
  if (!answer) return status_of(answer.error());
  return *std::move(answer);
}

// Handles of our own of what a program has: a thread that is left behind may use them longer than he does. FORKED.
Result<client::Store> clone(const ckpt_store* store);
Result<client::Reader> clone(const ckpt_reader* reader);

// The main tree of a checkpoint.
Result<tree::Tree> tree_of(const client::Reader& reader);

// What the caller set.
Options options_from(const ckpt_options* given);
// For what a call of ours reads of a checkpoint, as its own options say.
client::Options reading_options(const auto& options) {
  return {{"threads", options.threads}, {"timeout_ms", options.timeout_ms}};
}

// "model/layers.0.w"; "the root".
std::string place_of(const tree::Tree& tree, uint32_t node);
// The node at such a place; "" is the root. NOT_FOUND, with the places that there are.
Result<uint32_t> node_at(const tree::Tree& tree, std::string_view place);

Shape shape_of(const ckpt_tensor_info& info);
// Of all elements of a tensor, or of [begin, begin + size) of it.
ckpt_tensor_desc describe(uint16_t dtype, const Shape& shape);
ckpt_tensor_desc describe(uint16_t dtype, const Shape& shape, uint64_t begin, uint64_t size);

// An attribute of the checkpoint that may be longer than one may be: continued under KEY+1, KEY+2, … `text` is UTF-8.
Status set_text(client::Save& save, const std::string& key, std::string_view text);
// The key of its piece `number`.
std::string text_key(const std::string& key, size_t number);

}  // namespace ckpt::interop

// What becomes of a foreign checkpoint's tensors on their way in or out: some are left out, others get another name, an
// order of their own or another dtype, as options say. No element is moved: what lies otherwise than in its file is
// computed when it is read (computed.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "interop/src/map/mapping.h"
#include "interop/src/reader.h"

namespace ckpt::interop {

// Which names stay. A glob that fits a name or a place above it ("optimizer" of "optimizer/state/0") means it.
struct Selection {
  std::vector<std::string> only, exclude;  // no `only`: all

  bool keeps(std::string_view name) const;
  // Adds the globs that mean the name.
  void note(std::string_view name, std::set<std::string>* found) const;
  bool empty() const { return only.empty() && exclude.empty(); }
};

struct Changes {
  Selection selection;
  std::optional<Mapping> mapping;
  std::string at;  // the place that the mapping is for, with a '/' at its end; empty for all
  Variables variables;
  std::optional<uint16_t> cast;        // of f32, f16 and bf16
  std::optional<Mapping> back;         // must give the same names and shapes again
  bool strict = true;                  // a rule or a glob that finds nothing is an error
  std::optional<Unmatched> unmatched;  // what to do instead of what the mapping says
  // Whether a tensor may lie with strides, or in a part of its source.
  bool views = true;

  bool empty() const { return selection.empty() && !mapping && !cast; }
};

// What options map, map_at, map_back, config, only, exclude, cast and strict of an import, an export or a file say;
// `beside`: where config.json may be.
template <typename CallOptions>
Result<Changes> changes_of(const CallOptions& options, const std::string& beside, const Folder& folder = nullptr);

// MISMATCH for shapes that do not fit, NOT_FOUND for what a rule, `only` or `exclude` names and is not there, FORMAT
// for names that come twice, UNSUPPORTED.
Status change(ForeignCheckpoint& content, const Changes& changes);

// What of an import an export needs to go back.
inline constexpr const char* kMapAttr = "map";             // the mapping's name
inline constexpr const char* kMapSizesAttr = "map.sizes";  // {"H": "32"}: its variables

// ---- tree.cpp ----
// Takes _orig_mod., _checkpoint_wrapped_module. and _fsdp_wrapped_module. off all keys of dicts with tensors, and
// module. where all keys of one begin with it, in whatever order they stand; but where two keys would be one.
Status unwrap_names(ForeignCheckpoint& content);
bool is_wrapped(std::string_view name);  // whether the key at its end has such a word
// By the name of each tensor of the tree: what it is called now; none where it is left out.
using NewNames = std::map<std::string, std::vector<std::string>, std::less<>>;
// The tree with the tensors that are left, each beside those that it was beside.
Result<tree::Tree> changed_tree(const tree::Tree& tree, const NewNames& names, const Selection& selection,
                                std::set<std::string>* found);
// Of the tensors below a place ("model/"; empty: of all) whose names are their paths in the tree: the keys that lead
// from there to them, joined by dots.
std::map<std::string, std::string> dotted_names(const tree::Tree& tree, const std::string& below);

}  // namespace ckpt::interop

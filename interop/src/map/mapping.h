// A mapping: rules that say what the tensors of one program are called, and how they lie, in another. Written as JSON
// (docs/mappings.md), by the user or shipped; its names, shapes and configuration come from files that nobody vouches
// for. Pure; each object belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "base/types.h"
#include "interop/src/map/pattern.h"
#include "interop/src/map/view.h"

namespace ckpt::interop {

// Sizes by name: of each variable the first expression whose parts are all known. An expression is numbers, variables
// and config.KEY, with * and / between them; KEY may have dots.
class Variables {
 public:
  using Values = std::map<std::string, uint64_t>;

  // `json` is a model's configuration; `name` is for messages. FORMAT
  Status use_config(std::string_view json, const std::string& name);
  // What is known already, from an import: before any expression.
  void use_values(Values values) {
    known_ = std::move(values);
    forget();
  }
  void define(std::string name, std::vector<std::string> expressions);

  // 0: no such variable.
  Result<uint64_t> size_of(const std::string& name) const;
  // NOT_FOUND, with what would be needed.
  Result<uint64_t> evaluate(const std::string& expression) const;
  // Of all that can be told.
  Values values() const;

 private:
  void forget() {
    told_.clear();
    told_expressions_.clear();
  }
  Result<uint64_t> evaluate(std::string_view expression, int depth) const;
  Result<uint64_t> term(std::string_view term, int depth) const;
  Result<uint64_t> variable(const std::string& name, int depth) const;
  Result<uint64_t> first_known(const std::string& name, const std::vector<std::string>& expressions, int depth) const;

  std::map<std::string, std::vector<std::string>> expressions_;
  Values known_, config_;
  std::string config_name_;
  using Told = std::map<std::string, Result<uint64_t>>;
  mutable Told told_, told_expressions_;  // what was asked for; of a variable "needs itself" meanwhile
};

struct Narrow {
  int axis = 0;
  std::string begin, size;  // expressions
};
using Operation = std::variant<Rearrange, Narrow>;

// One tensor into several along a dimension, or several into one. "*" is an equal share of what the others leave.
struct Cut {
  int axis = 0;
  std::vector<std::string> sizes;  // empty: as the sources are
};

struct Rule {
  std::vector<Pattern> from, to;  // one of the two has one; `to` of a drop has none
  std::vector<Pattern> aliases;   // further names of the target
  std::optional<Cut> cut;         // where there are several
  std::vector<Operation> ops;     // done to each of the several: after a split, before a concat
  std::optional<uint16_t> cast;
  bool optional = false;  // it may find nothing
  std::string shown;      // "rule 3 (model.norm.weight)"
};

enum class Unmatched : uint8_t { kError, kKeep, kDrop };

struct Mapping {
  std::string name;  // for messages
  std::map<std::string, std::vector<std::string>> variables;
  Unmatched unmatched = Unmatched::kError;
  std::vector<Rule> rules;

  // INVALID, with the rule.
  static Result<Mapping> parse(std::string_view json, const std::string& name);
  // Whether it leaves the tensor out.
  bool drops(std::string_view tensor) const;
  // UNSUPPORTED where a rule loses something.
  Result<Mapping> backwards() const;
};

}  // namespace ckpt::interop

// Which names of modules, classes and functions a pickle may mention and "call". Nothing is ever imported or run; the
// rule keeps files out that would harm whoever loads them elsewhere, and says so by name:
//   1. A name of a module that exists to do things (os, subprocess, builtins, importlib, pickle, functools, torch.hub,
//   …)
//      is refused wherever it stands, even if nothing calls it. Its few names that are data (builtins.set,
//      types.SimpleNamespace, functools.partial, …) are exempt, and functions that only compute (len, operator.mul) may
//      be mentioned.
//   2. Any other name may be mentioned: a dtype, an activation function, the class of a storage.
//   3. Called may be what is known to build data (torch._utils._rebuild_tensor_v2, numpy's _reconstruct, …) and what
//      looks like a class: its last part begins with an upper-case letter, underscores aside. Made without a call, as
//      pickle does with objects of classes of one's own (NEWOBJ), may be what 2 allows.
// Names are "module name" in Python 3's spelling; `name` may have dots (a class in a class). Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ckpt::interop {

enum class NameRule : uint8_t {
  kRefused,
  kSpecial,  // may be mentioned; what a call of it means is for the machine to say, or it is refused
  kMention,  // may be mentioned, and made into an object without a call
  kCall
};

NameRule rule_of(std::string_view full_name);
bool looks_like_class(std::string_view full_name);

// "module name", with what Python 2 called otherwise renamed: "copy_reg" to "copyreg".
std::string full_name(std::string_view module, std::string_view name);

// "os system" -> "os.system"
std::string dotted(std::string_view full_name);

}  // namespace ckpt::interop

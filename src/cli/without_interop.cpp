// Replaces cmd_import.cpp, cmd_export.cpp, cmd_map.cpp and foreign.cpp if libckpt is built without ckpt_file.h.
#include "cli/command.h"
#include "cli/foreign.h"

namespace cli {
namespace {

[[noreturn]] void unsupported(const std::string& what) {
  fail(CKPT_UNSUPPORTED, what + ": this ckpt was built without .pt, safetensors and hfai (CKPT_INTEROP=OFF)");
}

// A command with any arguments that only says that it is not in this build.
void add_unsupported(CLI::App& app, Action& chosen, const char* name) {
  add_bare_command(app, name, "not in this build (CKPT_INTEROP=OFF)", chosen, [name]() -> int { unsupported(name); });
}

}  // namespace

void add_import(CLI::App& app, Action& chosen) { add_unsupported(app, chosen, "import"); }
void add_export(CLI::App& app, Action& chosen) { add_unsupported(app, chosen, "export"); }
void add_map(CLI::App& app, Action& chosen) { add_unsupported(app, chosen, "map"); }

void show_foreign(const ForeignQuery& query, const Common&) { unsupported("info " + query.path); }
ForeignContent foreign_content(const std::string& path, const Common&) { unsupported("diff " + path); }
std::vector<SparseTable> foreign_tables(const std::string& path, const Common&) { unsupported("cat " + path); }
TensorSource foreign_tensor(const std::string& path, const std::string&, const std::string&, const Common&) {
  unsupported("cat " + path);
}

}  // namespace cli

// Of a build without RecIS (CKPT_RECIS): its directories are known, and refused.
#include "contrib/recis/files/format.h"

namespace ckpt::interop {

namespace {

Status built_without(const std::string& path) {
  return Status(CKPT_UNSUPPORTED, path + ": format recis, and libckpt_files was built without RecIS (CKPT_RECIS)")
      .with("path", path)
      .with("found", "recis");
}

}  // namespace

Result<ForeignCheckpoint> read_recis(const std::string& path, const ReadOptions&) { return built_without(path); }
Result<ExportPlan> plan_recis(const ExportRequest& request) { return built_without(request.path); }
std::vector<std::string> places_of_recis(const std::string&) { return {}; }

}  // namespace ckpt::interop

// Export: which format the caller wants, and what its options may be.
#include <string>

#include "interop/calls.h"
#include "interop/hfai/export.h"
#include "interop/interop.h"
#include "interop/pt/export.h"
#include "interop/safetensors/export.h"

namespace ckpt::interop {

namespace {

std::string format_of(const Options& bag, const std::string& target) {
  const std::string format = bag.str("format");
  if (format != "auto") return format;
  return target.ends_with(".pt") || target.ends_with(".pth") ? "pt" : "safetensors";
}

}  // namespace

Status export_checkpoint(const ckpt_reader* reader, const char* path, const ckpt_options* given) {
  if (!reader || !path || !*path) return Status(CKPT_INVALID, "export: reader and path must not be NULL or empty");
  const ckpt_options options{options_for(given, "export")};
  const Options& bag = options.bag;
  const std::string format = format_of(bag, path);
  const bool opaque_as_dict = bag.str("opaque") == "dict";
  if (bag.is_set("shards") && format != "hfai")
    return Status(CKPT_INVALID, "export: option shards is for format hfai, found format " + format)
        .with("found", format);
  if (format == "pt") return export_pt(reader, path, opaque_as_dict, &options);
  if (format == "safetensors") return export_safetensors(reader, path, &options);
  return export_hfai(reader, path, {static_cast<uint32_t>(bag.integer("shards")), opaque_as_dict}, &options);
}

}  // namespace ckpt::interop

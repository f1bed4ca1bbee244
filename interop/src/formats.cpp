#include "interop/src/formats.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/address.h"
#include "contrib/recis/files/format.h"
#include "interop/src/composer/format.h"
#include "interop/src/dcp/format.h"
#include "interop/src/deepspeed/format.h"
#include "interop/src/hfai/format.h"
#include "interop/src/hfai/layout.h"
#include "interop/src/look.h"
#include "interop/src/numpy/format.h"
#include "interop/src/pt/format.h"
#include "interop/src/safetensors/format.h"
#include "interop/src/sets/combine.h"
#include "interop/src/sets/format.h"
#include "interop/src/shards/format.h"

namespace ckpt::interop {

namespace {

// Of a file on a web server: the headers of most files fit into it.
constexpr uint64_t kFirstBytes = 64 << 10;

// The first that takes a candidate reads it.
constexpr Format kFormats[] = {
    {"hfai", "a directory of hfai's PART_*.pt", is_hfai, read_hfai, plan_hfai, kTakesShards, kHfaiShards,
     kHfaiVersionKey},
    {"megatron", "a directory of Megatron (torch_dist), or that of an iteration", is_megatron, read_megatron, nullptr},
    {"dcp", "one of Lightning's sharded strategies, which has a meta.pt beside DCP's files", is_lightning,
     read_lightning, plan_dcp, kTakesShards | kTakesAt},
    {"dcp", "a directory of torch.distributed.checkpoint (DCP), which has a .metadata", is_dcp, read_dcp, plan_dcp},
    {"numpy", "a .npz or .npy of numpy", is_numpy, read_numpy, nullptr},
    kRecis,
    {"pt", "a .pt file of PyTorch", is_pt, read_pt, plan_pt, kTakesAt},
    {"composer",
     "a .tar of Composer with composer_states.pt, a .nemo of NeMo, or a .pt packed by gzip, bzip2, xz, lz4 or zstd",
     is_composer, read_composer, plan_composer, kTakesAt},
    {"dcp", "DCP's safetensors of several ranks (shard-*.safetensors)", is_dcp_hugging_face, read_dcp_hugging_face,
     plan_dcp},
    {"diffusers", "a pipeline's directory of diffusers, which has a model_index.json", is_diffusers, read_diffusers,
     nullptr},
    {"hf-trainer", "a checkpoint directory of Hugging Face's Trainer", is_hf_trainer, read_hf_trainer, nullptr},
    {"accelerate", "a directory of accelerate's save_state", is_accelerate, read_accelerate, nullptr},
    {"deepspeed", "a directory of DeepSpeed (ZeRO 1 to 3, universal), or that of one tag", is_deepspeed, read_deepspeed,
     nullptr},
    // Whose model and adapter are safetensors, where they came as such.
    {"torchtune", "an output directory of torchtune", is_torchtune, read_torchtune, plan_torchtune, kTakesShardBytes,
     "model", "adapter"},
    {"olmo", "an unsharded checkpoint directory of OLMo", is_olmo, read_olmo, plan_olmo},
    {"olmo", "a sharded checkpoint directory of OLMo or OLMo-core", is_olmo_sharded, read_olmo_sharded, plan_olmo},
    {"bin", "pytorch_model.bin files of Hugging Face, or their index", is_bin_set, read_bin_set, nullptr},
    {"safetensors", "a safetensors file, a directory or a Hugging Face index of them", is_safetensors, read_safetensors,
     plan_safetensors, kTakesShardBytes | kTakesAt | kTakesTables},
    {"meta", "a directory of Meta's consolidated.*.pth", is_meta, read_meta, plan_meta, kTakesShards | kTakesAt},
    {"pickle", "a pickle of Python", is_pickle, read_pt, nullptr},
    {"ranks", "a directory with one .pt of each rank (rank0.pt, *_rank0.pt)", is_rank_files, read_rank_files, nullptr},
};

Result<Candidate> look_at(const std::string& path, const Folder& folder) {
  if (path.empty()) return Status(CKPT_INVALID, "the path is empty");
  Candidate candidate{path, false, {}, folder};
  if (folder) {
    CKPT_ASSIGN(candidate.is_directory, folder->find_kind());
  } else {
    const Busy busy("inspection", path);
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) return from_errno(errno, "open", path);
    candidate.is_directory = S_ISDIR(info.st_mode);
  }
  if (candidate.is_directory) return candidate;
  const Result<InputFile> file = InputFile::open(path, folder);
  const bool may_be_directory = store::is_web_url(path) && path.find('.', path.rfind('/')) == path.npos;
  if (file.status().code() == CKPT_NOT_FOUND && may_be_directory)
    return Status(CKPT_NOT_FOUND, file.status().message() + "; if it is a directory: " + kWebListsNothing)
        .with("path", path);
  CKPT_TRY(file.status());
  const FileBytes bytes = file->bytes();
  CKPT_TRY(bytes.need(0, kFirstBytes));
  candidate.head = as_text(bytes.all().first(std::min<size_t>(bytes.size(), Candidate::kHeadBytes)));
  return candidate;
}

std::string look_of(const Candidate& candidate) {
  if (candidate.is_directory) return look_of_directory(candidate.path, candidate.folder);
  const std::string look = look_of_file(candidate.head);
  const bool is_page = look.starts_with("it is an HTML page") && store::is_web_url(candidate.path);
  if (!look.empty()) return is_page ? look + ", or a directory: " + kWebListsNothing : look;
  std::string bytes = "it begins with";
  for (const char byte : candidate.head.substr(0, 8)) bytes += strformat(" {:02x}", static_cast<unsigned char>(byte));
  return bytes;
}

// Bindings tell by it a directory that is nobody's from one that lacks a file, which is NOT_FOUND, too.
constexpr const char* kKnownFormat = "a known format";

Status unknown(const Candidate& candidate) {
  std::string accepted;
  for (const Format& format : kFormats) accepted += (accepted.empty() ? "" : "; ") + std::string(format.what);
  const std::string look = look_of(candidate);
  return Status(candidate.is_directory ? CKPT_NOT_FOUND : CKPT_FORMAT,
                candidate.path + " is of no known format: " + look + "; expected " + accepted)
      .with("path", candidate.path)
      .with("expected", kKnownFormat)
      .with("found", look);
}

const Format& format_of(const ExportRequest& request) {
  std::string name = request.options.format;
  if (name == "auto") name = request.path.ends_with(".pt") || request.path.ends_with(".pth") ? "pt" : "safetensors";
  if (name == "olmo-safetensors") name = "olmo";  // whose writer asks again
  // The setter of the option knows the same names.
  return *std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& row) { return name == row.name; });
}

std::string formats_with(unsigned takes, const char* between) {
  std::string names;
  for (const Format& row : kFormats)
    if (row.takes & takes) names += (names.empty() ? "" : between) + std::string(row.name);
  return names;
}

Status check_option(const char* option, bool is_set, const Format& format, Takes takes) {
  if (!is_set || (format.takes & takes)) return Ok();
  return Status(CKPT_INVALID, strformat("export: option {} is for {}, found format {}", option,
                                        formats_with(takes, " and "), format.name))
      .with("found", format.name);
}

// What has no place for a sparse table would keep its ids and nothing else.
Status check_tables(const ExportRequest& request, const Format& format) {
  if (format.takes & kTakesTables) return Ok();
  for (const auto& table : request.reader.reader().tables()) {
    if (!request.reader.tensor(table.name).ok()) continue;  // left out
    return Status(CKPT_UNSUPPORTED, strformat("export: {} is a sparse table, which format {} cannot hold; expected "
                                              "format {}, or option exclude={}*",
                                              table.name, format.name, formats_with(kTakesTables, " or "), table.name))
        .with("tensor", std::string(table.name))
        .with("found", format.name);
  }
  return Ok();
}

// What safetensors call the tensors. torchtune's model is safetensors or a .pt, which keeps the tree.
Status know_names(const ExportRequest& request, std::string_view format, Wanted* wanted) {
  if (format != "safetensors" && format != "torchtune") return Ok();
  const std::string at = format == "torchtune" ? "model" : wanted->at;
  const auto own_of = safetensors_names(request.reader, at);
  if (!own_of.ok()) return format == "torchtune" ? Ok() : own_of.status();
  for (const auto& [name, own] : *own_of) wanted->names[(format == "torchtune" ? "model/" : "") + name] = own;
  return Ok();
}

Status verify_export(const ExportRequest& request, const Format& format) {
  const ReadOptions options{.job = &request.job};
  CKPT_ASSIGN(ForeignCheckpoint written, read_foreign(request.path, options));
  Wanted wanted{.at = request.options.at,
                .tensors_only = format.name == std::string_view("safetensors"),
                .places = format.places};
  for (const char* part : format.no_values)
    if (part) wanted.no_values.emplace_back(part);
  CKPT_TRY(know_names(request, format.name, &wanted));
  return compare_export(request.reader, written, wanted, options);
}

}  // namespace

Result<ForeignCheckpoint> read_foreign(const std::string& path, const ReadOptions& options) {
  CKPT_ASSIGN(const Candidate candidate, look_at(path, options.folder));
  const Format* format = std::ranges::find_if(kFormats, [&](const Format& row) { return row.detect(candidate); });
  if (options.folder) CKPT_TRY(options.folder->failed());
  Result<ForeignCheckpoint> content = format == std::end(kFormats) ? unknown(candidate) : format->read(path, options);
  if (content.ok() && candidate.is_directory) note_left_out(*content, path, options.folder);
  if (options.folder) CKPT_TRY(options.folder->failed());
  return content;
}

Status export_checkpoint(const ExportRequest& request) {
  if (request.path.empty()) return Status(CKPT_INVALID, "export: the path is empty");
  if (RemoteFolder::has(request.path))
    return Status(CKPT_UNSUPPORTED, shown_url(request.path) + ": an export writes files, and no address");
  const Format& format = format_of(request);
  CKPT_TRY(check_option("shards", request.options.is_set.shards, format, kTakesShards));
  CKPT_TRY(check_option("shard_bytes", request.options.is_set.shard_bytes, format, kTakesShardBytes));
  CKPT_TRY(check_option("at", request.options.is_set.at, format, kTakesAt));
  CKPT_TRY(check_tables(request, format));
  {
    CKPT_ASSIGN(const ExportPlan plan, format.plan(request));
    CKPT_TRY(write_export(request, plan));
  }
  return request.options.verify_after ? verify_export(request, format) : Ok();
}

}  // namespace ckpt::interop

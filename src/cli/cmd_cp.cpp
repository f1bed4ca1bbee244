// ckpt cp: copies checkpoints into another store.
#include <cstdio>
#include <optional>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/text.h"

namespace cli {
namespace cmd_cp {
namespace {

struct Args : Common {
  std::string from, to;
  bool all = false;
};

constexpr Words kWords = {
    "cp", "copy checkpoints into another store",
    "Makes the same checkpoint in another store, which may be a directory, s3://, gs:// or az://BUCKET/PREFIX: same "
    "run,\n"
    "label, step and name, "
    "byte for byte. Every byte is checked on its way; what is damaged is not copied. A copy that was interrupted is no "
    "checkpoint:\n"
    "the same command goes on with it, and keeps the parts that are there (-o check=full reads them whole first); ckpt "
    "rm removes it.\n"
    "A checkpoint that is there already is not copied again, but for parts that are missing there or damaged (what "
    "the\n"
    "ends of a part tell; -o check=full reads all of it), and files that another one there has are not sent.\n"
    "Makes the store if there is none; one that is empty becomes another\n"
    "place of the store, where @latest and labels find the copies. In a store with checkpoints of its own a copy is "
    "foreign: it is\n"
    "opened by its name alone. --all copies every checkpoint of the store, or of the run that --run names, oldest "
    "first.",
    "  ckpt cp /data/run7@latest s3://backup/run7\n"
    "  ckpt cp s3://backup/run7@step:400 /scratch/run7\n"
    "  ckpt cp https://host/run7/step-400.1.1 /scratch/run7\n"
    "  ckpt cp /data/run7 s3://backup/run7 --all\n",
    "0 copied, or there already, 1 with --all some could not be copied, 2 error"};

struct Copied {
  std::string id;
  std::optional<ckpt::CheckpointInfo> info;  // once it is open
  uint64_t bytes = 0;                        // that were copied, or read there
  double seconds = 0;
  ckpt::JobStats stats{};
  uint64_t parts_kept = 0, files_shared = 0;
  bool there = false, mended = false, gone = false;
  std::string foreign;  // why
  std::optional<ckpt::Error> error;
};

bool names_a_file(const std::string& path) {
  return path.ends_with(".safetensors") || path.ends_with(".pt") || path.ends_with(".pth") || is_foreign(path);
}

std::string target_of(const Args& args) {
  if (names_a_file(args.to)) invalid(shown(args.to) + " is no store: ckpt export writes such a file");
  const std::string& to = args.to;
  if (is_directory(to)) return locate_store(to);
  if (const size_t at = to.rfind('@'); at != std::string::npos && to.find('/', at) == std::string::npos)
    invalid(shown(to) + ": TO is a store; a copy keeps its name");
  return to;
}

void copy_one(const ckpt::Reader& reader, const ckpt::Store& to, const Args& args, Copied* copied) {
  copied->info = reader.info();
  copied->id = copied->info->id;
  ckpt::Options options = make_options(args);
  ckpt::Report report{nullptr};
  const Work work = watch(options, [&] { report = reader.copy(to, options); });
  copied->bytes = work.bytes;
  copied->seconds = work.seconds;
  copied->stats = work.stats;
  for (const ckpt::Finding& finding : report) {
    if (finding.kind == CKPT_FINDING_DIFFERENT) copied->foreign = text_of(finding.text);
    if (finding.kind == CKPT_FINDING_REUSED) copied->files_shared = finding.count;
    copied->mended |= finding.kind == CKPT_FINDING_REPAIRED;
    if (finding.kind != CKPT_FINDING_KEPT && finding.kind != CKPT_FINDING_REPAIRED) continue;
    copied->parts_kept = finding.count;
    copied->there = finding.status == CKPT_EXISTS;
  }
}

void print_copied(const Copied& copied) {
  const std::string name = escaped(copied.id);
  if (copied.gone) return print("removed meanwhile: " + name + "\n");
  if (copied.error) {
    std::fputs(strformat("ckpt: {}: {}\n", name, error_text(*copied.error)).c_str(), stderr);
    return;
  }
  if (!copied.foreign.empty()) std::fputs(("ckpt: note: " + escaped(copied.foreign) + "\n").c_str(), stderr);
  if (copied.there) return print("already there: " + name + "\n" + requests_line(copied.stats));
  const std::string rate =
      copied.seconds > 0.2 ? ", " + human_rate(static_cast<double>(copied.bytes) / copied.seconds) : "";
  const std::string kept =
      copied.parts_kept > 0 ? strformat(", {} of {} were there", copied.parts_kept, copied.info->part_count) : "";
  const std::string shared = copied.files_shared > 0 ? strformat(" ({} not sent, since checkpoints there have them)",
                                                                 human_bytes(copied.stats.bytes_reused))
                                                     : "";
  print(strformat("{} {}: {}{}, {}{}{}\n", copied.mended ? "mended" : "copied", name,
                  counted(copied.info->part_count, "part"), kept, human_bytes(copied.bytes), rate, shared));
  print(requests_line(copied.stats));
}

Json to_json(const Copied& copied) {
  Json json = {{"id", copied.id},
               {"result", copied.gone     ? "removed meanwhile"
                          : copied.error  ? "failed"
                          : copied.there  ? "already there"
                          : copied.mended ? "mended"
                                          : "copied"},
               {"bytes_copied", copied.bytes},
               {"parts_kept", copied.parts_kept},
               {"files_shared", copied.files_shared},
               {"bytes_reused", copied.stats.bytes_reused},
               {"requests", requests_json(copied.stats)},
               {"foreign", !copied.foreign.empty()}};
  if (copied.info) json.add("checkpoint", cli::to_json(*copied.info));
  if (copied.error) json.add("error", error_json(*copied.error));
  return json;
}

int tell(const Args& args, const std::string& to, const std::vector<Copied>& all) {
  uint64_t failed = 0, there = 0, gone = 0;
  for (const Copied& copied : all) {
    failed += copied.error ? 1 : 0;
    there += copied.there ? 1 : 0;
    gone += copied.gone ? 1 : 0;
  }
  if (args.json)
    print_json({{"from", shown(args.from)}, {"to", to}, {"copies", Json::array(all, [](const auto& c) {
                                                           return to_json(c);
                                                         })}});
  else if (args.all)
    print(strformat("{} copied, {} already there, {}{} failed\n", all.size() - failed - there - gone, there,
                    gone == 0 ? "" : strformat("{} removed meanwhile, ", gone), failed));
  return failed == 0 ? kExitOk : kExitNo;
}

bool is_of_run(const ckpt::CheckpointInfo& info, const std::optional<std::string>& run) {
  return !run || *run == info.run || *info.run == '\0';  // what is damaged may tell its run no more
}

// Retention, say, beside a training.
bool was_removed(const ckpt::Store& store, const std::string& id, const ckpt::Options& options) {
  try {
    (void)ckpt::Reader::open(store, id, options);
    return false;
  } catch (const ckpt::Error& error) {
    return error.status() == CKPT_NOT_FOUND || error.status() == CKPT_GONE;
  }
}

int copy_all(const Args& args, const std::string& target, const ckpt::Options& options) {
  const ckpt::Store from = ckpt::Store::open(locate_store(args.from), options), to = ckpt::Store::open(target, options);
  std::vector<Copied> all;
  for (const ckpt::CheckpointInfo& info : list_store(from, args.setting("run").value_or(""))) {
    const bool is_attempt = info.state == CKPT_CHECKPOINT_OPEN || info.state == CKPT_CHECKPOINT_ABORTED;
    if (is_attempt || (info.flags & CKPT_CHECKPOINT_COPY) != 0 || !is_of_run(info, args.setting("run"))) continue;
    Copied& copied = all.emplace_back();
    copied.id = info.id;
    try {
      copy_one(ckpt::Reader::open(from, info.id, options), to, args, &copied);
    } catch (const ckpt::Error& error) {
      copied.gone = was_removed(from, info.id, options);
      if (!copied.gone) copied.error = error;
    }
    if (!args.json || copied.error) print_copied(copied);
  }
  return tell(args, target, all);
}

int run(const Args& args) {
  if (is_foreign(args.from)) invalid(shown(args.from) + " is no checkpoint: ckpt import makes one of it");
  const std::string target = target_of(args);
  const ckpt::Options options = make_options(args, args.from, target);
  if (args.all) return copy_all(args, target, options);
  const Opened opened = open_checkpoint(args.from, args, options);
  std::vector<Copied> one(1);
  copy_one(opened.reader, ckpt::Store::open(target, options), args, &one[0]);
  if (!args.json) print_copied(one[0]);
  return tell(args, target, one);
}

}  // namespace
}  // namespace cmd_cp

void add_cp(CLI::App& app, Action& chosen) {
  using namespace cmd_cp;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("FROM", args->from, kCheckpointHelp).required();
  command.add("TO", args->to, "the store to copy into").required();
  command.add("--all", args->all, "every checkpoint of the store FROM that is not there yet");
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli

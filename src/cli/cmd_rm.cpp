// ckpt rm: removes one checkpoint.
#include "cli/command.h"
#include "cli/listing.h"
#include "cli/text.h"

namespace cli {
namespace cmd_rm {
namespace {

struct Args : Common {
  std::string checkpoint;
  bool dry_run = false, kept = false;
};

constexpr Words kWords = {
    "rm", "remove one checkpoint",
    "Removes one checkpoint, or the rest of an attempt to save one, at once and for good. Refuses one that is being "
    "read\n"
    "or written, and one that ckpt keep keeps, unless --kept says so. Refuses a bare STORE: say which checkpoint.\n"
    "--dry-run says what would be removed, how many bytes that frees, and how many stay since other checkpoints share\n"
    "them; it cannot tell whether somebody reads it. The files removed last may stay in .ckpt/recycled until the next\n"
    "save writes over them.",
    "  ckpt rm /data/run7/step-100.7.1\n"
    "  ckpt rm /data/run7@label:step-100 --dry-run\n",
    "0 removed (or would be), 2 error"};

bool is_latest(const ckpt::Store& store, const ckpt::CheckpointInfo& info) try {
  return store.find("latest", {{"run", info.run}}).id == std::string_view(info.id);
} catch (const ckpt::Error&) {
  return false;
}

// A committed one by itself, which asks a server less than a list; any other as it is listed.
Entry entry_of(const ckpt::Store& store, const std::string& id) {
  std::optional<ckpt::CheckpointInfo> found;
  try {
    found = store.find(id);
  } catch (const ckpt::Error&) {
  }
  if (found) return {.info = *found, .latest = is_latest(store, *found)};
  for (const Entry& entry : read_entries(store, ""))
    if (id == entry.info.id) return entry;
  fail(CKPT_NOT_FOUND, "no checkpoint and no attempt is called " + id);
}

std::string text_of_removal(const Args& args, const Entry& entry) {
  const ckpt::CheckpointInfo& info = entry.info;
  const std::string what = escaped(info.id);
  if (!args.dry_run) return "removed " + what + (info.shared_bytes == 0 ? "" : ": " + stays_text(info)) + "\n";
  std::string text = strformat("would remove {}, {}", what, state_name(info.state));
  if (info.step >= 0) text += strformat(", step {}", info.step);
  if (entry.latest) text += ", the latest of run \"" + escaped(info.run) + "\"";
  if ((info.flags & CKPT_CHECKPOINT_KEPT) != 0) text += args.kept ? ", kept" : ", kept: only with --kept";
  text += ": frees " + human_bytes(freed_bytes(info));
  if (info.shared_bytes != 0) text += "; " + stays_text(info);
  return text + "\nnothing was removed: this was a dry run\n";
}

void remove(const Args& args, const ckpt::Store& store, const ckpt::CheckpointInfo& info) {
  const bool release = args.kept && (info.flags & CKPT_CHECKPOINT_KEPT) != 0;
  if (release) store.keep(info.id, false);
  try {
    store.remove(info.id);
  } catch (const ckpt::Error& error) {
    if (release && error.status() != CKPT_NOT_FOUND) store.keep(info.id);
    if (error.status() == CKPT_CONFLICT && !error.detail("kept").empty())
      fail(CKPT_CONFLICT, std::string(error.what()) + "; --kept removes it all the same");
    throw;
  }
}

int run(const Args& args) {
  ckpt::Options options = make_options(args);
  Target target = locate(args.checkpoint, options);
  auto store = ckpt::Store::open(target.store, options);
  const Entry entry = entry_of(store, resolve_id(store, target, options));
  if (!args.dry_run) remove(args, store, entry.info);
  if (args.json)
    print_json({{"store", shown(target.store)},
                {"id", entry.info.id},
                {"state", state_name(entry.info.state)},
                {"latest", entry.latest},
                {"written", !args.dry_run},
                {"bytes", entry.info.bytes},
                {"shared_bytes", entry.info.shared_bytes},
                {"freed_bytes", freed_bytes(entry.info)}});
  else
    print(text_of_removal(args, entry));
  return kExitOk;
}

}  // namespace
}  // namespace cmd_rm

void add_rm(CLI::App& app, Action& chosen) {
  using namespace cmd_rm;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("CHECKPOINT", args->checkpoint, "the checkpoint's directory, or STORE@SELECTOR").required();
  command.add("--dry-run", args->dry_run, "only say what would be removed");
  command.add("--kept", args->kept, "also if it is kept (ckpt keep)");
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli

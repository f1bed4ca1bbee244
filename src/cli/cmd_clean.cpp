// ckpt clean: removes what saves and copies left that will never be a checkpoint.
#include <algorithm>
#include <set>

#include "cli/command.h"
#include "cli/table.h"

namespace cli {
namespace cmd_clean {
namespace {

struct Args : Common {
  std::string store;
  bool write = false, dry_run = false;
};

constexpr Words kWords = {
    "clean", "remove what aborted",
    "Removes attempts that were given up (state aborted), unfinished copies that nobody works on, and what earlier\n"
    "removals left and is due. Without --write it only lists them. Never removes a checkpoint, damaged or not, nor an\n"
    "attempt that is open: a session may be writing it, and nobody but that session's successor can tell. The next\n"
    "session of its run removes it, if a crash left it. A checkpoint that lost its MANIFEST looks the same and stays:\n"
    "ckpt repair makes it anew; ckpt rm removes it once a later session has begun.",
    "  ckpt clean /data/run7\n"
    "  ckpt clean /data/run7 --write\n",
    "0 done, 1 some could not be removed, 2 error"};

// What was or would be done with one directory; status OK and not removed: it stays, as it should.
struct Deed {
  std::string id, why;
  uint64_t bytes = 0;
  bool removed = false;
  ckpt_status status = CKPT_OK;
};

// Without a number to keep, the engine's prune is about copies and removals alone.
void clean_copies(const ckpt::Store& store, ckpt::Options options, bool write, std::vector<Deed>* deeds) {
  options.set("dry_run", !write).set("keep_last", 0).set("keep_every", 0).set("protect", "");
  for (const ckpt::Finding& finding : store.prune(options))
    deeds->push_back({text_of(finding.name), text_of(finding.text), finding.size, finding.kind == CKPT_FINDING_REMOVED,
                      finding.status});
}

// An aborted attempt has its tombstone where a commit record would be, so it is none and will be none, whatever is done
// meanwhile. An open one may be committed between the list and its removal, which would remove a checkpoint.
void clean_attempts(const ckpt::Store& store, bool write, std::vector<Deed>* deeds) {
  std::set<std::string> copies;
  for (const Deed& deed : *deeds) copies.insert(deed.id);
  for (const ckpt::CheckpointInfo& info : store.list()) {
    if (copies.contains(info.id)) continue;
    if (info.state == CKPT_CHECKPOINT_OPEN)
      deeds->push_back({info.id,
                        "unfinished: it may be written now; its run's next session removes it, unless it was committed "
                        "and lost its MANIFEST",
                        info.bytes});
    if (info.state != CKPT_CHECKPOINT_ABORTED) continue;
    Deed deed{info.id, "aborted", info.bytes, true};
    try {
      if (write) store.remove(info.id);
    } catch (const ckpt::Error& error) {
      if (error.status() == CKPT_NOT_FOUND) continue;  // somebody was faster
      deed = {info.id, "aborted; " + error_text(error), info.bytes, false, error.status()};
    }
    deeds->push_back(deed);
  }
}

const char* name_of(const Deed& deed) { return finding_name(deed.removed ? CKPT_FINDING_REMOVED : CKPT_FINDING_KEPT); }

void print_deeds(const Args& args, const std::vector<Deed>& deeds) {
  Table table({{args.write ? "DONE" : "WOULD BE"},
               {"ATTEMPT", Align::kLeft, true},
               {"BYTES", Align::kRight},
               {"WHY", Align::kLeft, true}});
  uint64_t removed = 0, bytes = 0;
  for (const Deed& deed : deeds) {
    table.add({name_of(deed), escaped(deed.id), human_bytes(deed.bytes), escaped(deed.why)});
    removed += deed.removed ? 1 : 0;
    bytes += deed.removed ? deed.bytes : 0;
  }
  if (!table.empty()) print(table.render(terminal_width()));
  if (removed == 0)
    print("nothing to remove\n");
  else if (args.write)
    print(strformat("removed {}, {}\n", counted(removed, "attempt"), human_bytes(bytes)));
  else
    print(strformat("nothing was removed: this was a dry run; add --write to remove {}, {}\n",
                    counted(removed, "attempt"), human_bytes(bytes)));
}

Json to_json(const Deed& deed) {
  Json json = {{"kind", name_of(deed)}, {"text", deed.why}, {"name", deed.id}, {"bytes", deed.bytes}};
  if (deed.status != CKPT_OK) json.add("status", ckpt_status_name(deed.status));
  return json;
}

int run(const Args& args) {
  const ckpt::Options options = make_options(args);
  const std::string path = locate_store(args.store, options);
  const ckpt::Store store = ckpt::Store::open(path, options);
  (void)list_store(store);
  std::vector<Deed> deeds;
  clean_copies(store, options, args.write, &deeds);
  clean_attempts(store, args.write, &deeds);
  if (args.json)
    print_json({{"store", shown(path)}, {"written", args.write}, {"findings", Json::array(deeds, [](const Deed& deed) {
                                                                    return to_json(deed);
                                                                  })}});
  else
    print_deeds(args, deeds);
  const bool failed = std::any_of(deeds.begin(), deeds.end(), [](const Deed& deed) { return deed.status != CKPT_OK; });
  return failed ? kExitNo : kExitOk;
}

}  // namespace
}  // namespace cmd_clean

void add_clean(CLI::App& app, Action& chosen) {
  using namespace cmd_clean;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("STORE", args->store, "the directory that holds the checkpoints").required();
  Option write = command.add("--write", args->write, "remove them, not only list them");
  command.add("--dry-run", args->dry_run, "only list them, which is the default").excludes(write);
  command.run(chosen, [args] {
    args->write = is_to_write(*args, args->write);
    if (args->dry_run && args->write) invalid("--dry-run and -o dry_run=0 contradict each other");
    return run(*args);
  });
}

}  // namespace cli

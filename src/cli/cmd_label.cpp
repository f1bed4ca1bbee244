// ckpt label: names for checkpoints that are there already.
#include <optional>

#include "cli/command.h"
#include "cli/text.h"

namespace cli {
namespace cmd_label {
namespace {

struct Args : Common {
  std::string place, name;
  bool remove = false, no_keep = false;
};

constexpr Words kWords = {
    "label", "give a checkpoint a name after it was saved",
    "From now on STORE@name:NAME is that checkpoint. One checkpoint of a run has a name: another that had it loses "
    "it.\n"
    "The rules of labels hold for it, but it is none: STORE@NAME does not find it. ckpt ls shows names.\n"
    "The checkpoint is also kept, as by ckpt keep, unless --no-keep says so. It stays kept without the name, until\n"
    "ckpt keep --release. Names lie in the store's .ckpt, so copies in other stores have none.",
    "  ckpt label /data/run7@step:400 production\n"
    "  ckpt info /data/run7@name:production\n"
    "  ckpt label s3://bucket/run7 production --remove\n",
    "0 done, 2 error"};

// Nobody, too, if its checkpoint is gone or damaged.
std::optional<ckpt::CheckpointInfo> holder(const ckpt::Store& store, const std::string& run, const std::string& name) {
  try {
    return store.find("name:" + name, {{"run", run}});
  } catch (const ckpt::Error& error) {
    if (error.status() == CKPT_INVALID) throw;
    return {};
  }
}

bool is_kept(const ckpt::CheckpointInfo& info) { return (info.flags & CKPT_CHECKPOINT_KEPT) != 0; }

int run(const Args& args) {
  const ckpt::Options options = make_options(args);
  const Target target = locate(args.place, options);
  if (args.remove && target.kind != Target::Kind::kStore) invalid("--remove takes a STORE, without a checkpoint");
  const auto store = ckpt::Store::open(target.store, options);
  std::optional<ckpt::CheckpointInfo> named;
  if (!args.remove) named = store.find(resolve_id(store, target, options));
  const std::string run = named ? named->run : args.setting("run").value_or("main");
  const std::optional<ckpt::CheckpointInfo> before = holder(store, run, args.name);
  if (named && !args.no_keep) store.keep(named->id);
  store.name(run, args.name, named ? named->id : "");
  const bool kept = named && (!args.no_keep || is_kept(*named));
  const bool moved = before && (!named || std::string_view(named->id) != before->id);
  if (args.json) {
    Json json = {{"store", shown(target.store)}, {"run", run}, {"name", args.name}};
    json.add("before", before ? Json(before->id) : Json(nullptr));
    if (named) json.add("id", named->id);
    if (named) json.add("kept", kept);
    print_json(json);
    return kExitOk;
  }
  print(named ? strformat("{} is {}{}\n", args.name, escaped(named->id), kept ? ", kept" : "")
              : strformat("{} is no name any more\n", args.name));
  if (moved)
    print(strformat("it was {}{}\n", escaped(before->id),
                    is_kept(*before) ? ", which stays kept (ckpt keep --release)" : ""));
  return kExitOk;
}

}  // namespace
}  // namespace cmd_label

void add_label(CLI::App& app, Action& chosen) {
  using namespace cmd_label;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("CHECKPOINT", args->place, "the checkpoint's directory, or STORE@SELECTOR; with --remove the STORE")
      .required();
  command.add("NAME", args->name, "its name from now on").required();
  const Option remove = command.add("--remove", args->remove, "no checkpoint has the name any more");
  command.add("--no-keep", args->no_keep, "retention may remove the checkpoint all the same").excludes(remove);
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli

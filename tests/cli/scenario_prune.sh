# prune: a dry run by default, then the policy, for one run only.
make_safetensors a.safetensors "w F32 2 $(f32 1 2)"
for step in 1 2 3 4 5 6; do import a.safetensors store "step-$step" --step "$step" -o run=main; done
import a.safetensors store other -o run=else; other=$ID
labels() { expect 0 ls store --json; json '" ".join(c["label"] for c in d["checkpoints"] if c["run"] == "main")'; }
expect 2 prune store; complains 'keep-last'
expect 2 prune store --keep-last 0
expect 0 prune store --keep-last 2 --keep-every 3 --protect step-1
says '^removed +step-2'; says '^removed +step-4'; says_not '^removed +step-[1356]'
says '^nothing was removed: this was a dry run; add --write to remove 2 checkpoints$'
expect 0 prune store --keep-last 2 --dry-run; says 'add --write to remove 4'
expect 2 prune store --keep-last 2 --dry-run --write; complains '--write'
expect 2 prune store --keep-last 2 --dry-run -o dry_run=0; complains 'contradict'
[ "$(labels)" = "step-1 step-2 step-3 step-4 step-5 step-6" ] || fail "a dry run removed something"
expect 0 prune store --keep-last 2 --keep-every 3 --protect step-1 --write --json
json_is 'sum(f["kind"] == "removed" for f in d["findings"])' 2
[ "$(labels)" = "step-1 step-3 step-5 step-6" ] || fail "left: $(labels)"
expect 2 prune store --keep-last 1 --write -o dry_run=1; complains 'contradict'
expect 0 prune store --keep-last 1 --protect step-1 --protect step-3 -o dry_run=0
[ "$(labels)" = "step-1 step-3 step-6" ] || fail "left: $(labels)"
expect 0 prune store --keep-last 5; says 'nothing to remove'
expect 0 prune store --keep-last 1 --run else; says 'nothing to remove'
expect 2 prune store --keep-last 1 --run esle --write
complains 'run "esle" has no checkpoint; runs, newest first: "else", "main"'
import a.safetensors store best --step 3 -o run=main
expect 0 prune store --keep-last 1; says '^removed +step-1'; says_not '^removed +best'; says_not 'step-6'
[ -e "store/$other/MANIFEST" ] || fail "another run was pruned"

# What should go and cannot is no success.
import a.safetensors store step-8 --step 8 -o run=main
flock -s store/step-6.*/MANIFEST "$CKPT" prune store --keep-last 1 --write >.out 2>.err
[ $? -eq 1 ] || fail "prune of what is being read did not exit with 1"
says '^kept +step-6.*is being read'; says '^1 checkpoint could not be removed$'
expect 0 prune store --keep-last 1 --write; says '^removed +step-6'
# Root may remove anything, so another user tries.
if [ "$(id -u)" -eq 0 ]; then
  expect 0 ls store --run main --json; count=$(json 'len(d["checkpoints"])')
  import a.safetensors store step-7 --step 7 -o run=main
  chmod 755 "$SCRATCH"
  setpriv --reuid=65534 --regid=65534 --clear-groups "$CKPT" prune store --keep-last 1 --write >.out 2>.err
  [ $? -eq 1 ] || fail "prune of somebody else's store did not exit with 1"
  says '^kept +step-'; says 'could not be removed$'
  # What this user cannot read is not damaged.
  chmod 700 "store/$ID"; setpriv --reuid=65534 --regid=65534 --clear-groups "$CKPT" ls store >.out 2>.err
  says "$ID .* unreadable "
  # Nor is what it may not look for absent.
  chmod 700 store; setpriv --reuid=65534 --regid=65534 --clear-groups "$CKPT" ls store/sub >.out 2>.err
  complains 'Permission denied'
fi

# runs: which runs a store has, who owns them, and their newest checkpoints.
make_safetensors a.safetensors "w F32 2x3 $(f32 0 1 2 3 4 5)"
mkdir -p empty/.ckpt
expect 0 runs empty; says 'no runs in empty'
expect 2 runs missing; complains '^ckpt: no such directory: missing'
import a.safetensors store base -o run=import; base=$ID
import a.safetensors store step-1 --step 1 -o run=main
import a.safetensors store step-2 --step 2 -o run=main; newest=$ID

expect 0 runs store; is_quiet
says '^RUN +CHECKPOINTS +NEWEST +LABEL +STEP +TOKEN'
says "^import +1 +$base +base +- +1$"
says "^main +2 +$newest +step-2 +2 +3$"
expect 0 runs store --json
json_is '[r["run"] for r in d["runs"]]' "['import', 'main']"
keys='("checkpoint_count", "newest_id", "newest_label", "newest_step", "token")'
json_is "[[r[x] for x in $keys] for r in d[\"runs\"]]" \
  "[[1, '$base', 'base', None, 1], [2, '$newest', 'step-2', 2, 3]]"

# Without its checkpoints a run is still owned, and without .ckpt it still has its checkpoints.
rm -r "store/$base"
expect 0 runs store; says '^import +0 +- +- +- +1$'
rm -r store/.ckpt
expect 0 runs store; says "^main +2 +$newest +step-2 +2 +-$"; says_not '^import'

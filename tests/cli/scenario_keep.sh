# keep: a checkpoint that prune and rm leave, until it is released.
make_safetensors a.safetensors "w F32 2 $(f32 1 2)"
for step in 1 2 3; do import a.safetensors store step-$step --step $step; done
first=step-1.1.1
expect 0 keep store@step:1; is_quiet; says "^kept: $first$"
expect 0 keep "store/$first" --json; json_is '(d["id"], d["kept"])' "('$first', True)"
expect 0 ls store; says "^$first .* kept$"; says_not 'step-2.* kept'
expect 0 ls store --json; json_is '[c["kept"] for c in d["checkpoints"]]' '[True, False, False]'
expect 0 prune store --keep-last 1 --write --run main --json
json_is '[(f["kind"], f["name"]) for f in d["findings"]]' "[('kept', '$first'), ('removed', 'step-2.2.1')]"
expect 2 rm store@step:1; complains 'is kept, since somebody said so \(ckpt keep\); --kept removes it all the same$'
expect 0 rm store@step:1 --dry-run; says ', kept: only with --kept: frees '
expect 2 keep store; complains 'name one checkpoint'
expect 2 keep store@step:7; complains 'no checkpoint of step 7'
expect 2 keep store/step-9.9.9 --json
expect 0 keep store@step:1 --release; says "^not kept any more: $first$"
expect 0 keep store@step:1; expect 0 rm store@step:1 --kept; says "^removed $first"
[ ! -e "store/$first" ] || fail "it is still there"
[ -z "$(ls store/.ckpt/kept)" ] || fail "words about it stay"

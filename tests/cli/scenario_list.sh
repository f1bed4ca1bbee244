# ls, info, rm: what is there, under every way to name it. Imports are of run "main" here so that "latest" means them.
make_safetensors a.safetensors "w F32 2x3 $(f32 0 1 2 3 4 5)" "b BF16 2 803fc03f" "s I64 - 0700000000000000"
mkdir empty notes; touch notes/text
expect 2 ls missing; complains '^ckpt: no such directory: missing'
import a.safetensors store step-1 --step 1 -o run=main; first=$ID
import a.safetensors store step-2 --step 2 -o run=main; second=$ID

# What is no store, such as a disk that is not mounted, is none without checkpoints; nor is an unknown run.
for command in ls runs du status clean report rm 'verify --all' 'prune --keep-last 1' 'cp --all'; do
  to=; [ "$command" != 'cp --all' ] || to=copies
  for place in empty notes; do
    expect 2 $command $place $to; complains "^ckpt: no store: .*$place holds neither .ckpt nor a checkpoint; "
  done
  [[ "$command" =~ runs|clean|rm ]] || { expect 2 $command store $to --run none; complains 'run "none" has no ch'; }
done
expect 2 ls store --run ''; complains "^ckpt: --run: needs a value, found ''"
cp -r store at@sign; expect 0 info at@sign --json; json_is 'd["id"]' "$second"; rm -r at@sign

expect 0 ls store; is_quiet
says '^CHECKPOINT .* STEP +RANKS +TENSORS +SIZE +STATE +AGE +NOTES'
says "^$first +step-1 +main +1 +1 +3 .* committed"
says "^$second .* latest$"
says_not "^$first .* latest$"
says_not $'\x1b'
expect 0 ls store --json
json_is '[c["id"] for c in d["checkpoints"]]' "['$first', '$second']"
json_is '[c["latest"] for c in d["checkpoints"]]' '[False, True]'
json_is '[(c["step"], c["ranks"], c["tensors"], c["state"]) for c in d["checkpoints"]]' \
  "[(1, 1, 3, 'committed'), (2, 1, 3, 'committed')]"
expect 2 ls "store/$first"; complains 'its store is'

# Some of them, in another order. An attempt is as old as the newest of its session or an earlier one.
cp -r store some; import a.safetensors some step-10 --step 10 -o run=main
mkdir some/step-3.9.1; head -c 100000 /dev/zero >some/step-3.9.1/PART_000
cp -r some/step-10.3.1 some/step-7.8.1; flip some/step-7.8.1/MANIFEST $(($(stat -c %s some/step-7.8.1/MANIFEST) - 20))
ids() { expect 0 ls some --json "$@"; json '" ".join(c["id"] for c in d["checkpoints"])'; }
[ "$(ids --last 2 --run main --state committed)" = "step-2.2.1 step-10.3.1" ] || fail "--last: $(ids --last 2)"
[ "$(ids --last 1)" = step-3.9.1 ] || fail "--last 1: $(ids --last 1)"
[ "$(ids --last 9 --sort name)" = "step-1.1.1 step-2.2.1 step-3.9.1 step-7.8.1 step-10.3.1" ] || fail "--sort name"
[ "$(ids --sort size --last 2 --state open --state committed)" = "step-3.9.1 step-10.3.1" ] || fail "--sort size"
[ "$(ids --state damaged)" = step-7.8.1 ] || fail "--state damaged: $(ids --state damaged)"
expect 0 ls some --sort age; says_not '^no checkpoints'
expect 0 ls store --state damaged --state open; says '^no checkpoints in store of state damaged or open$'
expect 2 ls store --state damagd; complains "needs one of committed, .*; found 'damagd'; did you mean 'damaged'\?$"
expect 2 ls store --sort step; complains "^ckpt: --sort needs one of age, size, name; found 'step'"
for last in 0 -1 x; do expect 2 ls store --last "$last"; complains "^ckpt: --last: needs a whole .* 1 or more"; done

expect 0 ls store --run main; says "^$first "
expect 0 ls store --run main --state open; says 'no checkpoints in store of run "main" of state open'

# Every way to name the same checkpoint.
for name in "store/$first" "store/$first/" "store@$first" store@label:step-1 store@step:1 \
  "file://$SCRATCH/store/$first"; do
  expect 0 info "$name" --json; json_is 'd["id"]' "$first"
done
for name in store store/ store@latest "$SCRATCH/store"; do
  expect 0 info "$name" --json; json_is 'd["id"]' "$second"
done
cd "store/$first" || exit 1
expect 0 info . --json; json_is 'd["id"]' "$first"
cd "$SCRATCH" || exit 1
expect 2 info store@label:none; complains '"main" has no checkpoint "none"; newest: "step-2", "step-1"$'
expect 2 info store@step:7; complains 'no checkpoint of step 7; nearest: 2; newest: 2$'
expect 2 info store@step-11; complains '; near: "step-1"; newest: '
expect 2 info empty; complains 'empty: the store is empty: no checkpoint was saved here yet$'
mkdir plain; touch plain/notes.txt; expect 2 info plain
complains 'plain is of no known format: it is no store of ckpt, and holds 1 entry'
expect 2 info store@; complains "nothing after '@'"
expect 2 info nowhere/step-1.1.1; complains 'no such directory'

expect 0 info store; is_quiet
says "^checkpoint +$second"
says '^TENSOR +DTYPE +SHAPE +BYTES +STORED +SEGMENTS'
says '^w +f32 +\[2, 3\] +24 B'
says '^b +bf16 +\[2\] +4 B'
says '^s +i64 +\[\] +8 B'
expect 0 info store --tensors '[bs]'; says '^b '; says '^s '; says_not '^w '
expect 0 info store --json --segments
json_is '[(t["name"], t["dtype"], t["shape"], t["bytes"]) for t in d["tensor_list"]]' \
  "[('b', 'bf16', [2], 4), ('s', 'i64', [], 8), ('w', 'f32', [2, 3], 24)]"
json_is 'sum(len(t["segments"]) for t in d["tensor_list"])' 3
json_is 'd["part_list"][0]["name"]' PART_000

# A copied checkpoint is foreign: listed, readable by id, never the latest.
mkdir other; import a.safetensors other home -o run=main
cp -r "store/$second" other/
expect 0 ls other --json
json_is '[(c["label"], c["foreign"], c["latest"]) for c in d["checkpoints"] if c["label"] == "step-2"]' \
  "[('step-2', True, False)]"
expect 0 info "other/$second"; says 'committed, foreign'

# A copy inside the store: listed and readable, never the latest.
cp -r "store/$second" store/copy
expect 0 ls store; says "^$second .* latest$"; says '^copy .* copy$'; is_quiet
expect 0 ls store --json; json_is '[c["id"] for c in d["checkpoints"] if c["copy"]]' "['copy']"
expect 0 info store@copy --json; json_is 'd["label"]' step-2
rm -r store/copy

# A newer checkpoint that cannot be loaded: the tool goes on from the one before, and says so.
cp -r store torn; flip "torn/$second/MANIFEST" 100
for name in torn torn@latest; do
  expect 0 info "$name" --json; complains "^warning: passed over $second: .*MANIFEST"
  json_is '(d["id"], d["passed_over"])' "('$first', 1)"
done
expect 0 cat torn w; complains "^warning: passed over $second"
expect 0 info "torn@$first" --json; is_quiet; json_is 'd["passed_over"]' 0
expect 2 info torn@latest -o on_damaged=error; complains '^ckpt: .*MANIFEST'
expect 0 ls torn; says "^$first .* latest$"
flip "torn/$first/MANIFEST" 100
expect 2 info torn@latest; complains '^ckpt: .*MANIFEST'
expect 0 ls torn; says "^$second .*"; says_not 'latest$'

# One that a newer ckpt wrote.
mkdir future; cp -r "${scenario%/*}/../golden/bad/REVISION-newer" future/
expect 0 ls future; says '^REVISION-newer .* newer revision '
expect 0 ls future --json; json_is '[c["state"] for c in d["checkpoints"]]' "['newer revision']"

expect 2 rm store; complains 'name one checkpoint'

# What a removal would do.
expect 0 rm "store/$second" --dry-run
says "^would remove $second, committed, step 2, the latest of run \"main\": frees [0-9.]+ KiB$"
says '^nothing was removed: this was a dry run$'
expect 0 rm some/step-3.9.1 --dry-run --json
json_is '(d["state"], d["written"], d["freed_bytes"])' "('open', False, 100000)"
expect 2 rm some/step-3.9.1; complains 'may still be written by its session'
expect 0 rm some@step-7.8.1 --dry-run; says '^would remove step-7.8.1, damaged'
expect 2 rm store@label:none --dry-run; expect 2 rm store/nowhere.1.1 --dry-run
[ -d "store/$second" ] || fail "a dry run removed something"
expect 0 rm "store@step:1"; says "removed $first"
[ ! -e "store/$first" ] || fail "the directory is still there"
expect 2 rm "store@$first"
expect 0 rm "store/$second/"
expect 0 ls store; says 'no checkpoints'

# Where a store has one run, that is meant; with several, "main" is.
import a.safetensors models m -o run=gan
for name in models models@label:m; do expect 0 info "$name" --json; json_is 'd["id"]' "$ID"; done
expect 2 info models -o run=main; complains 'run "main" has no checkpoint; the only run is "gan"'
expect 0 info models --run gan --json; json_is 'd["id"]' "$ID"
import a.safetensors models n -o run=other
expect 2 info models; complains 'run "main" has no checkpoint; runs, newest first: "other", "gan"'

# A store with a mirror: what it has, what it lacks, and what is left of a store that was lost.
import a.safetensors near m -o mirror=far; kept=$ID
import a.safetensors near n; only_here=$ID
expect 0 ls near -o mirror=far; says "^$kept .* mirrored$"; says "^$only_here .* latest$"
says "^the mirror lags: it lacks 1, of which $only_here was saved .* ago$"
expect 0 ls near; says_not 'mirror'
rm -r near
expect 0 ls near -o mirror=far --json
json_is '[(c["id"], c["mirror"]) for c in d["checkpoints"]]' "[('$kept', 'only')]"
for name in near near@latest near@label:m "near/$kept"; do
  expect 0 info "$name" -o mirror=far --json; json_is 'd["id"]' "$kept"
done
expect 2 info "near/${kept}0" -o mirror=far; complains "${kept}0"
expect 2 ls near; complains 'no such directory'

# An import that the mirror could not take is no success, whatever stands in its way.
import a.safetensors near2 m -o mirror=far2
touch far2/n.2.1
expect 1 import a.safetensors near2 --label n -o mirror=far2; complains 'n.2.1 was imported, but the mirror does not'
expect 0 info near2/n.2.1

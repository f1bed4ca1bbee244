# clean: removes what aborted and dead copies, only with --write, and nothing that may be or become a checkpoint.
make_safetensors a.safetensors "w F32 2x3 $(f32 0 1 2 3 4 5)"
expect 2 clean missing; complains 'no such directory'
import a.safetensors store step-1 --step 1 -o run=main; first=$ID
expect 2 clean "store/$first"; complains 'its store is'
# Of two ranks one gives up.
program=$(dirname "$CKPT")/tests/programs/save_tree_program
save() { echo "$1" | "$program" store given-up /dev/stdin tree "$2" 2 2>.err; }
save '{"a":1}' 0 & save 'give up' 1 || fail save_tree_program; wait
expect 0 ls store --state aborted --json; aborted=$(json 'd["checkpoints"][0]["id"]')
head -c 3000 /dev/zero >"store/$aborted/PART_000"
mkdir store/step-9.9.1
expect 0 status store; says '; 1 committed, 1 unfinished, 1 aborted$'

# A dry run by default.
expect 0 clean store; says "^removed +$aborted .* aborted$"; says '^kept +step-9.9.1 .*it may be written now'
says '^nothing was removed: this was a dry run; add --write to remove 1 attempt, '; says_not "$first"
expect 0 clean store --dry-run; expect 2 clean store --dry-run --write; complains '--write'
expect 2 clean store --write -o dry_run=1; complains 'contradict'
expect 0 clean store --json; json_is 'd["written"]' False
[ -d "store/$aborted" ] || fail "a dry run removed something"

# What stays: checkpoints, whatever is asked of prune, damaged ones, and what may be written.
cp -r "store/$first" "store/step-1.1.2"
flip store/step-1.1.2/MANIFEST $(($(stat -c %s store/step-1.1.2/MANIFEST) - 20))
expect 0 clean store --write --json -o keep_last=1
json_is '(d["written"], [(f["kind"], f["name"]) for f in d["findings"]])' \
  "(True, [('removed', '$aborted'), ('kept', 'step-9.9.1')])"
[ -d "store/$aborted" ] && fail "$aborted is still there"
expect 0 verify "store/$first"; [ -d store/step-9.9.1 ] && [ -d store/step-1.1.2 ] || fail "too much was removed"
expect 0 clean store --write; says '^nothing to remove$'

# An unfinished copy, once nobody works on it.
expect 0 cp "store/$first" copies; rm "copies/$first/MANIFEST"
mkdir -p copies/.ckpt/attempts; printf '/copy %032d\n' 0 >copies/.ckpt/attempts/1.1.step-1
exec 3<copies/.ckpt/attempts/1.1.step-1; flock -s 3
expect 0 clean copies; says '^kept +step-1.1.1 '; says '^nothing to remove$'
exec 3<&-
expect 0 clean copies; says '^removed +step-1.1.1 .*: a copy that nobody finishes, would be removed$'
expect 0 clean copies --write; says '^removed 1 attempt, '; expect 0 ls copies; says 'no checkpoints'

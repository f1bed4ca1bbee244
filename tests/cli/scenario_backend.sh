# A store from outside: a library of the user's, named on the command line, proven by check, and used by the commands.
programs=$(dirname "$CKPT")/tests/programs
folder=$programs/folder_store.so broken=$programs/broken_store.so
store=folder://$SCRATCH/store

expect 0 check "$store" --backend "$folder"; is_quiet
says '^ckpt [0-9.]+$'; says "^$store$"; says '^all that ckpt needs holds$'
for promise in absence exclusive_put large_file whole_at_once publish_if_absent ranges versions lists long_list \
  removal ages; do
  says "^$promise +ok"
done
expect 0 check "$store" --backend "$folder" --json
json_is 'd["store"], d["holds"], sorted(d)' "('$store', True, ['holds', 'promises', 'store', 'version'])"
json_is '{p["result"] for p in d["promises"]}' "{'ok'}"
[ -z "$(find store -type f)" ] || fail "left: $(find store -type f)"

# One whose puts replace what is there is found out, and refused before a save.
make_safetensors a.safetensors "w F32 2 $(f32 1 2)"
expect 1 check "$store" --backend "$broken"
says '^exclusive_put +BROKEN +.* puts of one name got OK$'; says '^publish_if_absent +BROKEN '
says '^something that ckpt needs does not hold$'
expect 2 import a.safetensors "$store" --label first --backend "$broken"
complains 'UNSUPPORTED|two processes could both believe'

# Every command takes it.
for step in 1 2 3; do
  expect 0 import a.safetensors "$store" --label "step-$step" --step "$step" -o run=main --backend "$folder"
done
labels() { expect 0 ls "$store" --backend "$folder" --json; json_is '[c["label"] for c in d["checkpoints"]]' "$1"; }
labels "['step-1', 'step-2', 'step-3']"
expect 0 verify "$store@step:2" --backend "$folder"
expect 0 cat "$store" w --backend "$folder"
expect 0 cp "$store" copy --backend "$folder"; expect 0 verify copy
expect 0 cp copy "folder://$SCRATCH/second" --backend "$folder"
expect 0 verify "folder://$SCRATCH/second" --backend "$folder"
expect 0 prune "$store" --keep-last 1 --write --backend "$folder"
labels "['step-3']"
[ "$(find store -name 'PART_*' | wc -l)" -eq 1 ] || fail "left: $(find store -type f)"

# The query of an address may be a secret.
mkdir -p "none?pw=s3cret/.ckpt"; touch "none?pw=s3cret/%part" "none?pw=s3cret/.ckpt/store"
for command in ls runs; do
  expect 0 $command "folder://$SCRATCH/none?pw=s3cret" --backend "$folder"; says "no .* in folder://$SCRATCH/none$"
  expect 0 $command "folder://$SCRATCH/none?pw=s3cret" --backend "$folder" --json; says_not s3cret
done

# Nothing is loaded that was not named.
expect 2 ls "$store"; complains 'found scheme folder'
expect 2 ls "$store" --backend missing.so; complains 'no such file: missing.so'
expect 2 ls "$store" --backend a.safetensors; complains '^ckpt: option --backend: cannot use a.safetensors: '
expect 2 ls "$store" --backend "$(ldd "$CKPT" | sed -n "s/.* => \(.*libckpt.so[^ ]*\) .*/\1/p")"
complains 'ckpt_backend_init'
expect 2 ls "$store" --backend "$folder" --backend "$folder"; complains 'scheme "folder" is registered already'
expect 2 ls "folder://host/x" --backend "$folder"; complains 'expected folder:///directory'
expect 2 check "$store" --peers 2 --backend "$folder"; complains -- '--peers is for a directory'

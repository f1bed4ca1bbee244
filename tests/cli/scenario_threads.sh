# Where the system gives no thread, or no more of them: each command does its work or says a line, with its exit code.
PRELOAD=$(dirname "$CKPT")/tests/programs/no_threads.so
[ -e "$PRELOAD" ] || fail "$PRELOAD was not built"

# A sanitizer wants to be the first that is loaded; it is loaded all the same.
preloaded=("LD_PRELOAD=$PRELOAD" "ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0")

# limited N ARGUMENTS...: the tool with at most N threads more than its first.
limited() {
  local most=$1 got=0
  shift
  env NO_THREADS_AFTER="$most" "${preloaded[@]}" "$CKPT" "$@" >.out 2>.err </dev/null || got=$?
  [ "$got" -le 2 ] || fail "ckpt $* exited $got with $most threads"
  [ "$got" -ne 2 ] || complains '^ckpt: ..'
}

make_safetensors one.safetensors "w F32 2 $(f32 1 2)" "v F32 3 $(f32 1 2 3)"
mkdir two; cp one.safetensors two/model-00001-of-00002.safetensors
make_safetensors two/model-00002-of-00002.safetensors "u F32 2 $(f32 3 4)"
import one.safetensors good a; import one.safetensors good b
for most in 0 1 2 3; do
  limited $most import one.safetensors "store$most" --label x
  limited $most import two "store$most" --label two
  for command in ls runs info verify; do limited $most $command good; done
  limited $most cat good w
  limited $most diff good@label:a good@label:b
  limited $most diff one.safetensors good
  limited $most cp good "copy$most" --all
  limited $most export good "out$most.safetensors"
  limited $most export good "out$most.pt"
  limited $most export good "dcp$most" --format dcp
  limited $most repair "good/$ID"
  limited $most prune good --keep-last 9 --write
  limited $most rm "store$most@label:x"
done
expect 0 verify good; is_quiet

# With a terminal, on which progress is shown.
for command in "verify good" "diff good@label:a good@label:b" "prune good --keep-last 9" \
  "export good terminal.safetensors" "cp good@label:a terminal" "import one.safetensors terminal-store"; do
  got=0
  # shellcheck disable=SC2086  # a command and its arguments
  on_terminal env "${preloaded[@]}" "$CKPT" $command || got=$?
  [ "$got" -le 2 ] || fail "ckpt $command exited $got on a terminal"
  [ "$got" -ne 2 ] || says 'ckpt: '
done

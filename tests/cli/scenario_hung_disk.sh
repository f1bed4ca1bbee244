# A disk that answers nothing: each command ends, timeout_ms and at most ten seconds after, and names the path.
PRELOAD=$(dirname "$CKPT")/tests/programs/hung_disk.so
[ -e "$PRELOAD" ] || fail "$PRELOAD was not built"

make_safetensors one.safetensors "w F32 2 $(f32 1 2)"
import one.safetensors good a
mkdir nfs0 && cp -r good nfs0/store && cp one.safetensors nfs0/one.safetensors
echo '{"unmatched": "keep", "rules": []}' >map.json

# All at once, since each waits.
run_hung() {
  local number=$1 got=0
  shift
  timeout 60 env HUNG_DISK=nfs0 LD_PRELOAD="$PRELOAD" ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" \
    "$CKPT" "$@" -o timeout_ms=500 >"hung$number.out" 2>"hung$number.err" </dev/null || got=$?
  [ "$got" -eq 2 ] || { cat "hung$number.err"; echo "FAIL: ckpt $* exited $got"; }
  grep -q nfs0 "hung$number.err" || echo "FAIL: ckpt $* does not name the path: $(cat "hung$number.err")"
}
begun=$SECONDS number=0
while read -r command; do
  number=$((number + 1))
  # shellcheck disable=SC2086  # a command and its arguments
  run_hung $number $command >"hung$number.said" &
done <<EOF
ls nfs0/store
runs nfs0/store
info nfs0/store
info nfs0/store/$ID
info nfs0/store@latest
info nfs0/one.safetensors
verify nfs0/store
cat nfs0/store w
cat nfs0/one.safetensors w
diff good nfs0/store
diff nfs0/one.safetensors good
cp nfs0/store copy
cp good nfs0/copy
import nfs0/one.safetensors imported --label a
import one.safetensors nfs0/new --label a
export nfs0/store out.safetensors
export good nfs0/out.safetensors
repair nfs0/store/$ID
prune nfs0/store --keep-last 1
rm nfs0/store@label:a
map check ./map.json nfs0/one.safetensors
EOF
wait
[ $((SECONDS - begun)) -lt 45 ] || fail "it took $((SECONDS - begun)) s"
! grep -h . hung*.said || fail "not each command ended as it should"

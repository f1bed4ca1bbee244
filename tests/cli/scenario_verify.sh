# verify: sound, damaged data, damaged manifest, truncated and missing parts, and what cannot be told.
make_safetensors a.safetensors "layer.weight F32 100x100 $(f32_count 10000)" "layer.bias F32 100 $(f32_count 100)"
import a.safetensors store step-1 --step 1 -o run=main
dir=store/$ID
for mode in "" --quick "--sample 1/2" "--sample 2/2"; do
  # shellcheck disable=SC2086
  expect 0 verify "$dir" $mode; says "^sound: $ID "; is_quiet
done
expect 0 verify store --json; json_is '(d["sound"], d["mode"], d["damages"])' "(True, 'full', [])"
expect 2 verify store --sample 3; complains 'k/n'
expect 2 verify store --sample 3/2; complains 'k from 1 to n'
expect 2 verify store --quick --sample 1/2
expect 2 verify missing; complains 'no such directory'
expect 2 verify store@label:none

# One byte of one tensor: the damage names the part, the offset, the tensor and its elements.
expect 0 info "$dir" --json --segments
offset=$(json '[t["segments"][0]["offset"] for t in d["tensor_list"] if t["name"] == "layer.weight"][0]')
cp -r store damaged
flip "damaged/$ID/PART_000" $((offset + 4000))
expect 1 verify "damaged/$ID"
says 'part PART_000, offset [0-9]+, [0-9]+ bytes'
says 'tensor layer.weight, elements [0-9]+ to [0-9]+'
says '^DAMAGED: 1 damage in '
expect 1 verify "damaged/$ID" --json
json_is '(d["sound"], len(d["damages"]))' '(False, 1)'
json_is '[(f["part"], f["name"], f["status"]) for f in d["damages"]][0]' "('PART_000', 'layer.weight', 'CORRUPT')"
json_is '[f["first_element"] <= 1000 <= f["last_element"] for f in d["damages"]][0]' True
json_is "d['damages'][0]['offset'] <= $offset + 4000 < d['damages'][0]['offset'] + d['damages'][0]['bytes']" True
expect 0 verify "damaged/$ID" --quick
expect 2 cat "damaged/$ID" layer.weight; complains '^ckpt: '
expect 0 cat "damaged/$ID" layer.bias

# A part that is cut short, and one that is gone.
cp -r store short; truncate -s -100 "short/$ID/PART_000"
expect 1 verify "short/$ID" --quick; says DAMAGED
cp -r store gone; rm "gone/$ID/PART_000"
expect 1 verify "gone/$ID"; says DAMAGED

# A damaged commit record.
cp -r store torn; flip "torn/$ID/MANIFEST" 100
expect 1 verify "torn/$ID"; says DAMAGED
# A listing reads the end of it only.
flip "torn/$ID/MANIFEST" $(($(stat -c %s "torn/$ID/MANIFEST") - 20))
expect 0 ls torn --json; json_is 'd["checkpoints"][0]["state"]' damaged
expect 2 info "torn/$ID"; complains '^ckpt: '

# The newest cannot be loaded: an older one is sound, and the answer is not.
import a.safetensors two step-1 --step 1 -o run=main
import a.safetensors two step-2 --step 2 -o run=main; newest=$ID
flip "two/$newest/MANIFEST" 100
expect 1 verify two; says "^sound: step-1"; complains "$newest"
says "^DAMAGED: 1 checkpoint newer than it cannot be loaded$"
expect 1 verify two@latest --json; json_is '(d["sound"], len(d["damages"]), len(d["opening"]))' '(False, 0, 1)'
expect 0 verify two@label:step-1

# Another program's lock on MANIFEST neither removes the checkpoint nor keeps it from being read.
flock -x "store/$ID/MANIFEST" true 2>/dev/null
flock -x "$dir/MANIFEST" "$CKPT" verify "$dir" >.out 2>.err || fail "it cannot be read under a lock of another program"
says '^sound: '

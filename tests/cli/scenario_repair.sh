# repair: a lost or damaged MANIFEST comes back byte for byte; nothing is written without --write.
make_safetensors a.safetensors "w F32 2x2 $(f32 1 2 3 4)"
import a.safetensors store step-1 --step 1 -o run=main
dir=store/$ID
cp "$dir/MANIFEST" kept
expect 0 repair "$dir"; says '^nothing to repair: '
rm "$dir/MANIFEST"
expect 2 info "$dir"
for argument in "$dir" "store@$ID"; do
  expect 0 repair "$argument"; says '^repairable: '; says 'add --write'
  [ ! -e "$dir/MANIFEST" ] || fail "a dry run wrote MANIFEST"
done
expect 0 repair "$dir" --json; json_is '(d["result"], d["written"])' "('repairable', False)"
expect 0 repair "$dir" --write; says "^repaired: $ID"
cmp "$dir/MANIFEST" kept || fail "MANIFEST is not what it was"
expect 0 verify "$dir"
flip "$dir/MANIFEST" 64
expect 0 repair "$dir" -o dry_run=0; says '^repaired: '
cmp "$dir/MANIFEST" kept || fail "MANIFEST is not what it was"
# A sound MANIFEST of which a part is gone is nothing to be glad of.
mv "$dir/PART_000" part
expect 1 repair "$dir"; says '^cannot be repaired: '; says 'part is missing.*PART_000'
mv part "$dir/PART_000"
# A label is no id, and what was never there was not removed.
expect 2 rm "store@$ID.9"; complains 'no checkpoint'
# Without its only part nothing can be rebuilt.
rm "$dir/MANIFEST"; truncate -s 100 "$dir/PART_000"
expect 1 repair "$dir" --write; says '^cannot be repaired: '
[ ! -e "$dir/MANIFEST" ] || fail "MANIFEST was made from nothing"
expect 2 repair store; complains 'name one checkpoint'
expect 2 repair store@none

# verify --all: every committed checkpoint of a store; its report, by which an interrupted pass goes on.
python3 - <<'PYTHON'
import json, struct
text = json.dumps({"w": {"dtype": "F32", "shape": [1000, 1000], "data_offsets": [0, 4000000]}}).encode()
open("a.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(i * 7 % 251 for i in range(4000000)))
PYTHON
for step in 1 2 3; do import a.safetensors store "step-$step" --step "$step" -o run=main; done
mkdir -p store/step-9.9.1 empty/.ckpt
expect 0 verify empty --all; says '^0 checkpoints sound$'
expect 2 verify missing --all; complains 'no such directory'
expect 2 verify "store/step-1.1.1" --all; complains 'its store is'
expect 2 verify store --report r.json; complains 'requires --all'
find store | sort >before

# Attempts are not checked, and nothing is written to the store.
expect 0 verify store --all; is_quiet
for id in step-1.1.1 step-2.2.1 step-3.3.1; do says "^sound: $id \(full check, "; done
says '^3 checkpoints sound$'; says_not step-9
find store | sort | cmp - before || fail "something was written to the store"
expect 0 verify store --all --quick --report quick.json; expect 0 verify store --all --sample 1/3

# The report says when each was last sound, also after it is damaged.
expect 0 verify store --all --report r.json
cp r.json .out; json_is '[(c["id"], c["result"]) for c in d["checkpoints"]]' \
  "[('step-1.1.1', 'sound'), ('step-2.2.1', 'sound'), ('step-3.3.1', 'sound')]"
json_is 'all(d["started_unix_ms"] <= c["last_sound_unix_ms"] <= d["finished_unix_ms"] for c in d["checkpoints"])' True
then=$(json 'd["checkpoints"][1]["last_sound_unix_ms"]')
flip store/step-2.2.1/PART_000 2000000
expect 1 verify store --all --report r.json
says '^damaged: part PART_000, offset '; says '^DAMAGED: 1 damage in step-2.2.1'
says '^2 checkpoints sound, 1 DAMAGED$'
cp r.json .out; json_is 'd["checkpoints"][1]["last_sound_unix_ms"]' "$then"
json_is '(d["checkpoints"][1]["result"], len(d["checkpoints"][1]["damages"]))' "('damaged', 1)"
expect 1 verify store --all --json; json_is '[c["sound"] for c in d["checkpoints"]]' '[True, False, True]'

# A pass that was killed goes on with the checkpoint where it was; at 2 MB/s each takes two seconds.
{ timeout -s KILL 3.5 "$CKPT" verify store --all --rate 2 --report paced.json >.out; } 2>.err
cp paced.json .out; json_is '(d["mode"], d["finished_unix_ms"])' "('paced', None)"
json_is '[c["id"] for c in d["checkpoints"]]' "['step-1.1.1']"
expect 1 verify store --all --rate 2000 --report paced.json; says '^going on with the pass that was interrupted$'
says_not '^sound: step-1'; says '^sound: step-3.*paced check'; says '^2 checkpoints sound, 1 DAMAGED$'
expect 1 verify store --all --rate 2000 --report paced.json; says '^sound: step-1'
expect 1 verify store/step-2.2.1 --rate 2000; says '^DAMAGED: 1 damage in step-2.2.1 \(paced check\)$'

# What cannot be opened ends nothing; what is gone is forgotten.
cp -r store torn; flip torn/step-3.3.1/MANIFEST 100; cp -r "${scenario%/*}/../golden/bad/REVISION-newer" torn/
expect 1 verify torn --all; says '^damaged: .*MANIFEST'; says '^CANNOT SAY: REVISION-newer: '
says '^1 checkpoint sound, 2 DAMAGED, of 1 nobody can say$'
rm -r store/step-2.2.1; expect 0 verify store --all --report r.json
cp r.json .out; json_is 'len(d["checkpoints"])' 2

# A file that is no report, or one of something else, stays as it is.
for file in a.safetensors before; do
  cp "$file" copy; expect 2 verify store --all --report "$file"
  complains 'is no report of ckpt verify --all; name another'
  cmp "$file" copy || fail "$file was written over"
done
expect 2 verify torn --all --report r.json; complains 'is the report of the store .*/store, not of .*/torn'
expect 2 verify store --all --report quick.json; complains 'is the report of a quick check, not of a full one'
expect 2 verify store --all --report nowhere/r.json; complains 'cannot write nowhere/r.json: No such file'
ln -s elsewhere r2.json; ln -s elsewhere r2.json.new
expect 0 verify store --all --report r2.json
[ ! -e elsewhere ] && [ ! -L r2.json ] || fail "the report went through a link"
expect 2 verify store --all --report empty; complains '^ckpt: --report needs a file, found empty$'
expect 2 verify store --all --rate 0; expect 2 verify store --all --rate 5 --quick; complains 'leave out --quick'

# On a terminal, a bar.
on_terminal "$CKPT" verify store --all --rate 4; grep -q 'MiB of .* left' .out || fail "no bar"

# info and cat: state trees in outline and as JSON, long ones cut, damaged ones told of.
save_tree() { "$(dirname "$CKPT")/tests/programs/save_tree_program" "$@" || fail "save_tree_program $*"; }

cat >tree.json <<'JSON'
{"model":{"w":{"$":"tensor","name":"model/w"},"0":{"$":"tensor","name":"model/~s0"}},
 "optimizer":{"$":"dict","items":[[0,{"step":7,"exp_avg":{"$":"tensor","name":"optimizer/0/exp_avg"}}]]},
 "lr":0.001,"warm":1.0,"betas":{"$":"tuple","items":[0.9,0.999]},"epoch":3,
 "big":{"$":"int","value":"99999999999999999999"},
 "best":{"$":"float","value":"inf"},"note":"a\u001b[31m\nb","raw":{"$":"bytes","base64":"AP8="},"none":null,"amp":true,
 "size":{"$":"record","class":"torch.Size","items":{"items":[2,3]}},"two words":[],
 "order":ORDER}
JSON
sed -i "s/ORDER/[$(seq -s, 0 39)]/" tree.json
save_tree store a tree.json
expect 0 info store
says '^state: dict of 15$'
says '^  model: dict of 2$'
says '^    w: tensor f32 \[2, 3\]$'
says '^    "0": tensor f32 \[2, 3\]$'
says '^    0: dict of 2$'
says '^      step: 7$'
says '^  lr: 0\.001$'
says '^  warm: 1\.0$'
says '^  betas: \(0\.9, 0\.999\)$'
says '^  big: 99999999999999999999$'
says '^  best: inf$'
says '^  note: "a\\x1b\[31m\\nb"$'
says '^  raw: bytes, 2 B$'
says '^  none: null$'
says '^  amp: true$'
says '^  size: torch\.Size\{items: \[2, 3\]\}$'
says '^  "two words": \[\]$'
says '^  order: \[0, 1, 2, .*… 40 in all\]$'
says_not 'more of'
expect 0 info store --tensors 'model/*'; says_not '^state: '
expect 0 info store --json; json_is 'd["object_list"][0]["media_type"]' application/vnd.ckpt.tree+json

# The JSON: as it is, and laid out; both are the same values.
expect 0 cat store state --json
json_is 'd["optimizer"]["items"][0][1]["step"]' 7
[ "$(wc -l <.out)" -eq 0 ] || fail "--json has line feeds"
says '^\{"model":\{"w":\{"\$":"tensor","name":"model/w"\},'
cp .out exact.json
expect 0 cat store state
says '^  "lr": 0\.001,$'
says '^  "betas": \{"\$": "tuple", "items": \[0\.9, 0\.999\]\},$'
python3 - <<'PYTHON' || fail "the layout changes values"
import json
assert json.load(open(".out")) == json.load(open("exact.json"))
PYTHON
expect 0 cat store --object state; cmp -s .out exact.json || fail "--object and --json differ"
expect 2 cat store state --raw; complains 'is a state tree'
expect 0 info store --at model; says '^model/w '; says_not '^optimizer'; says_not '^state: '
expect 0 cat store w --at model; says '^\[\[0\.0, 1\.0, 2\.0\],$'
expect 2 cat store model/w --json; complains 'is not a state tree'
expect 0 cat store model/w; says '^\[\[0\.0, 1\.0, 2\.0\],$'

# What two ranks hold together, with what is each one's own, is one tree.
own() { echo '{"$":"record","class":"ckpt.PerRank","items":{"rank'"$1"'":'"$2"'}}'; }
for rank in 0 1; do
  echo '{"w":{"$":"tensor","name":"w"},"only'"$rank"'":1,"seed":'"$(own $rank 4$rank)"'}' >rank$rank.json
  save_tree ranks a rank$rank.json state $rank 2 & saving+=($!)
done
wait "${saving[@]}" || fail "two ranks could not save"
expect 0 info ranks
says '^state: dict of 4$'; says '^  only1: 1$'; says '^  seed: ckpt\.PerRank\{rank0: 40, rank1: 41\}$'
[ "$(grep -c '^state: ' .out)" -eq 1 ] || fail "the tree is shown twice"
expect 0 cat ranks state --json; json_is 'd["only1"]' 1
expect 0 export ranks ranks.pt; is_quiet

# Long ones: levels first, then lines; --all shows the rest.
python3 - >long.json <<'PYTHON'
import json
print(json.dumps({"few": {str(i) + "x": {"a": "y" * 70} for i in range(150)}, "last": 1}))
PYTHON
save_tree long a long.json
expect 0 info long
says '^  few: dict of 150 …$'
says '^  last: 1$'
says '^… 300 more of 303 nodes$'
expect 0 info long --all
says '^    149x: dict of 1$'
says '^      a: "y{60}…" \(70 bytes\)$'
says_not 'more of'
python3 -c 'import json; print(json.dumps({"k" + str(i): i for i in range(500)}))' >flat.json
save_tree flat a flat.json
expect 0 info flat; says '^  k98: 98$'; says_not '^  k99: '; says '^… 401 more of 501 nodes$'

# A tree that cannot be read takes nothing from the rest.
echo '{"a":1,"a":2}' >broken.json
save_tree broken a broken.json
expect 0 info broken; says '^state: cannot be read: .*"a" comes twice'; says '^label +a$'
expect 2 cat broken state; complains 'comes twice'
echo '{"$":"quaternion"}' >newer.json
save_tree newer a newer.json
expect 0 info newer; says '^state: cannot be read: .*"quaternion"'

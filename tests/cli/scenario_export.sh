# export gives back what import took; neither overwrites.
make_safetensors a.safetensors "w F32 2x3 $(f32 0 1 2 3 4 5)" "b BF16 2 803fc03f" "s I64 - 0700000000000000"
import a.safetensors store a -o run=main
expect 0 export "store/$ID" out.safetensors; says "exported $ID"
python3 - <<'PYTHON' || fail "the exported tensors differ from the imported ones"
import json, struct
def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    body = data[8 + size:]
    head.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], body[slice(*v["data_offsets"])]) for k, v in head.items()}
assert read("a.safetensors") == read("out.safetensors")
PYTHON
expect 2 export "store/$ID" out.safetensors; complains '^ckpt: '
expect 2 import a.safetensors store --label a -o run=main; complains '^ckpt: '
expect 0 import a.safetensors store --label a -o run=main -o on_existing=replace; says '^imported a'
mkdir renamed; cp out.safetensors renamed/a.safetensors  # the name is an attribute
import renamed/a.safetensors store again -o run=main
expect 0 diff store@label:a store@label:again
expect 2 import none.safetensors store --label n; complains 'none.safetensors'
expect 2 import a.safetensors store --label 'bad label'; complains '^ckpt: '
expect 2 export store@label:again out.xyz
complains "^ckpt: unknown ending '.xyz' of out.xyz: expected .safetensors, .pt, .pth, "
expect 2 export store@label:again part --at nowhere; complains 'nowhere'
expect 0 export store@label:again sharded --shard-bytes 1 -o strict=exact  # which is about mappings
[ -e sharded/model.safetensors.index.json ] || fail "--shard-bytes 1 wrote no index"
[ ! -e out.xyz ] || fail "an export of an unknown ending was written"
expect 0 export store@label:again out.xyz --format pt; python3 -m zipfile -t out.xyz >/dev/null || fail "no zip"
expect 0 export store@label:again llama3.1; [ -d llama3.1 ] || fail "no directory"
expect 0 export store@label:again v1.5-base
head -c 20 a.safetensors >torn.safetensors
expect 2 import torn.safetensors store --label torn; complains '^ckpt: '

# As .pt: the format is told by the ending or said, and a file comes back byte for byte.
expect 0 export store@label:again out.pt -o run=main; says "^exported"; is_quiet
python3 -m zipfile -t out.pt >/dev/null || fail "out.pt is no zip"
expect 0 import out.pt store --label pt -o run=main
expect 0 export store@label:pt same --format pt -o run=main; is_quiet  # the tree is not left out
cmp out.pt same || fail "the exports of one state differ"
expect 2 export store@label:pt out.pt -o run=main; complains 'out.pt exists'
expect 0 export store@label:pt as.safetensors -o run=main; complains 'left out 1 object, which safetensors cannot hold'
expect 2 export store@label:pt parts --format hfai --shards 2 -o run=main; complains '"model"'
expect 2 export store@label:pt parts --format zip -o run=main; complains 'format'
expect 2 export store@label:pt two.pt --shards 2 -o run=main; complains 'shards'
[ ! -e parts ] && [ ! -e two.pt ] || fail "a refused export left something"

# Meta's files divide what Meta's models divide.
make_safetensors llama.safetensors "norm.weight F32 2 $(f32 1 2)" \
  "layers.0.attention.wo.weight F32 2x4 $(f32 0 1 2 3 4 5 6 7)"
import llama.safetensors store llama -o run=main
expect 0 export store@label:llama meta --format meta --shards 2 --verify-after
[ "$(ls meta | paste -sd ' ')" = 'consolidated.00.pth consolidated.01.pth' ] || fail "wrote $(ls meta)"
expect 2 export store@label:llama three --format meta --shards 3; complains '4 columns'

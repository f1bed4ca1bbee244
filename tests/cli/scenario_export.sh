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
expect 2 import a.safetensors store
head -c 20 a.safetensors >torn.safetensors
expect 2 import torn.safetensors store --label torn; complains '^ckpt: '

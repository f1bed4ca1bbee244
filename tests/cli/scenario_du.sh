# du: the space of a checkpoint by the names of its tensors, and of a store by its checkpoints.
python3 - <<'PYTHON'
import json, struct
names = {"model/a.0.w": 100000, "model/a.1.w": 50000, "model/b": 10, "head": 1000}
head, end = {}, 0
for name, count in names.items():
    head[name] = {"dtype": "F32", "shape": [count], "data_offsets": [end, end + 4 * count]}
    end += 4 * count
for file, byte in ("a", 1), ("b", 2):
    text = json.dumps(head).encode()
    body = bytes(i * 7 % 251 for i in range(end - 4000)) + bytes([byte]) * 4000
    open(f"{file}.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
PYTHON
expect 2 du missing; complains 'no such directory'
import a.safetensors store step-1 --step 1 -o run=main; first=$ID

# By subtree: '/' and '.' divide names, the lines add up, the largest comes first.
expect 0 du store@latest --json
json_is '[(t["name"], t["tensors"], t["bytes"]) for t in d["trees"]]' "[('model', 3, 600040), ('head', 1, 4000)]"
expect 0 du "store/$first" --depth 2 --json
json_is '[t["name"] for t in d["trees"]]' "['model/a', 'head', 'model/b']"
expect 0 du "store/$first" --depth 9 --json; json_is 'sum(t["bytes"] for t in d["trees"])' 604040
expect 0 du "store/$first"; says '^model +3 +586 KiB +586 KiB$'; says_not 'stay'
says "^$first: .* in files, .* of them its own; ckpt rm frees .*$"
expect 2 du "store/$first" --depth 0; expect 2 du store@label:none

# Of a store: what is shared counts once, and in no FREED.
import b.safetensors store step-2 --step 2 -o run=main -o incremental=on; second=$ID
mkdir store/step-3.9.1; head -c 5000 /dev/zero >store/step-3.9.1/PART_000
expect 0 du store --json
json_is '[(c["state"], c["bytes"] == c["shared_bytes"] + c["freed_bytes"]) for c in d["checkpoints"]]' \
  "[('open', True), ('committed', True), ('committed', True)]"
json_is '[c["own_bytes"] < 20000 < c["shared_bytes"] for c in d["checkpoints"] if c["id"] == "'"$second"'"]' '[True]'
used=$(find store/step-* -type f -printf '%i %s\n' | sort -u | awk '{sum += $2} END {print sum}')
json_is 'd["bytes"]' "$used"
expect 0 du store; says "^$second +committed +.*KiB"; says '^3 checkpoints in store: '
expect 0 du store@latest; says 'of it stay, which other checkpoints have, too$'
expect 0 rm "store/$second" --dry-run --json; json_is '(d["written"], d["latest"])' '(False, True)'
json_is 'd["freed_bytes"] + d["shared_bytes"] == d["bytes"]' True

# One that cannot be read is listed, and cannot be shown.
flip "store/$second/MANIFEST" $(($(stat -c %s "store/$second/MANIFEST") - 20))
expect 0 du store; says "^$second +damaged "
expect 2 du "store/$second"; complains '^ckpt: '

# What torch conjugates, negates or scales when it uses it is shown as torch has it, or said to be stored integers.
python3 - <<'PYTHON'
import struct, zipfile

# A pickle of protocol 2 as torch writes it. Each entry: name, storage class, function, number of elements, what
# follows the stride, data.
def text(value): return b"X" + struct.pack("<I", len(value)) + value.encode()
def number(value): return b"\x8a\x08" + struct.pack("<q", value)
def name(module, item): return f"c{module}\n{item}\n".encode()
def flags(*keys): return b"}" + b"".join(text(key) + b"\x88s" for key in keys)
ORDERED = name("collections", "OrderedDict") + b")R"
def quantizer(scale):
    return b"(" + name("torch", "per_tensor_affine") + b"G" + struct.pack(">d", scale) + number(3) + b"t"
def write(path, entries):
    pickle, storages = b"\x80\x02}(", []
    for key, (item, kind, function, count, rest, data) in enumerate(entries):
        pickle += text(item) + name("torch._utils", function) + b"((" + text("storage") + name("torch", kind)
        pickle += text(str(key)) + text("cpu") + number(count) + b"tQ" + number(0) + b"(" + number(count) + b"t("
        pickle += number(1) + b"t" + rest + b"tR"
        storages.append(data)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr("m/data.pkl", pickle + b"u.")
        file.writestr("m/byteorder", "little")
        for key, data in enumerate(storages): file.writestr(f"m/data/{key}", data)
        file.writestr("m/version", "3\n")

def floats(*values): return struct.pack(f"<{len(values)}f", *values)
def tensor(*keys): return b"\x89" + ORDERED + (flags(*keys) if keys else b"")
def all_of(c, cdata, n, ndata, cn, scale):
    return [("c", "ComplexFloatStorage", "_rebuild_tensor_v2", 2, c, cdata),
            ("n", "FloatStorage", "_rebuild_tensor_v2", 3, n, ndata),
            ("cn", "ComplexFloatStorage", "_rebuild_tensor_v2", 2, cn, floats(1, 2, 3, -4)),
            ("q", "QInt8Storage", "_rebuild_qtensor", 2, quantizer(scale) + b"\x89" + ORDERED, bytes([5, 6])),
            ("i", "IntStorage", "_rebuild_tensor_v2", 1, tensor("neg"), struct.pack("<i", 7))]
both = tensor("conj", "neg")
write("marked.pt", all_of(tensor("conj"), floats(1, 2, 3, -4), tensor("neg"), floats(1, -2, 0), both, 0.5))
write("plain.pt", all_of(tensor(), floats(1, -2, 3, 4), tensor(), floats(-1, 2, -0.0), both, 0.5))
write("stored.pt", all_of(tensor(), floats(1, 2, 3, -4), tensor(), floats(1, -2, 0), both, 0.25))
PYTHON
for file in marked plain stored; do expect 0 import $file.pt store --label $file; done

affine='torch.per_tensor_affine, scale'
for from in marked.pt store@label:marked; do
  expect 0 cat $from c; says '1\.0-2\.0j.*3\.0\+4\.0j'; is_quiet
  expect 0 cat $from n; says '-1\.0.* 2\.0.*-0\.0'; is_quiet
  expect 0 cat $from cn; says '-1\.0\+2\.0j.*-3\.0-4\.0j'
  expect 0 cat $from n --box 1:2; says '2\.0'; says_not '-2\.0'
  "$CKPT" cat $from n --raw >raw || fail "cat --raw"
  [ "$(od -An -tx1 raw | tr -d ' \n')" = "$(f32 -1 2 -0.0)" ] || fail "--raw is not what torch has"
  rm -f n.npy; expect 0 cat $from n --npy n.npy
  [ "$(tail -c 12 n.npy | od -An -tx1 | tr -d ' \n')" = "$(f32 -1 2 -0.0)" ] || fail "--npy is not what torch has"
  expect 0 cat $from q; says '5.*6'
  complains "^ckpt: note: q is quantized \\($affine 0.5, zero_point 3\\): these are its stored integers\$"
  expect 2 cat $from i; complains 'tensor i: torch negates its elements'
done
expect 0 cat store@label:marked n --as bf16; says '-1\.0.* 2\.0.*-0\.0'

# The same numbers by other elements; the same elements for other numbers.
for pair in 'marked.pt plain.pt' 'store@label:marked plain.pt' 'store@label:marked store@label:plain'; do
  for name in c n; do expect 0 diff $pair --at $name; says '^equal: '; done
done
for pair in 'marked.pt stored.pt' 'marked.pt store@label:stored' 'store@label:marked store@label:stored'; do
  expect 1 diff $pair --at c; says '^tensor c: 2 elements differ$'
  expect 1 diff $pair --at n; says '^tensor n: 3 elements differ$'
  expect 0 diff $pair --at cn
  expect 1 diff $pair --at q
  says "^tensor q: i8 \\[2\\] \\($affine 0.5, zero_point 3\\) against i8 \\[2\\] \\($affine 0.25, zero_point 3\\)\$"
  expect 1 diff $pair --at n --json
  json_is "[(d['name'], d['differing_elements']) for d in d['differences']]" "[('n', 3)]"
done
expect 1 diff store@label:marked store@label:plain; says 'object "?state"?'; says_not '^tensor'; says_not 'VALUES'

# safetensors cannot say it, by name; without these it takes the rest.
expect 2 export store@label:marked out.safetensors
complains 'tensor "c": torch conjugates its elements when it uses them, and safetensors cannot say that'
[ ! -e out.safetensors ] || fail "a file is left"
expect 2 export store@label:marked out.safetensors --exclude c,n,cn,i; complains 'tensor "q": it is quantized'
expect 0 export store@label:stored out.safetensors --exclude cn,q,i
expect 0 export store@label:marked again.pt --cast bf16
expect 0 cat again.pt n; says '-1\.0.* 2\.0.*-0\.0'

# diff: equal, other values, other structure.
# The names of imported files are attributes, so they are the same here.
mkdir 1 2 3
make_safetensors 1/x.safetensors "w F32 2x2 $(f32 1 2 3 4)" "b F32 2 $(f32 0 0)"
make_safetensors 2/x.safetensors "w F32 2x2 $(f32 1 2 3.5 4)" "b F32 2 $(f32 0 0)"
make_safetensors 3/x.safetensors "w F32 4 $(f32 1 2 3 4)" "c F32 2 $(f32 0 0)"
import 1/x.safetensors store a -o run=main; a=$ID
import 1/x.safetensors store same -o run=main -o compression=lz4; same=$ID
import 2/x.safetensors store b -o run=main; b=$ID
import 3/x.safetensors store c -o run=main; c=$ID
expect 0 diff "store/$a" "store/$a"
expect 0 diff "store/$a" "store/$same"; says '^equal: '; is_quiet
expect 0 diff store@label:a "store/$same" --json; json_is '(d["equal"], d["differences"])' '(True, [])'
expect 1 diff "store/$a" "store/$b"
says '^VALUES OF +DIFFER +MAX ABS +MAX REL'
says '^w +1 +0\.5 '
says_not '^b '
expect 1 diff "store/$a" "store/$b" --json
json_is '[(f["name"], f["differing_elements"], f["max_abs"]) for f in d["differences"]]' "[('w', 1, 0.5)]"
expect 0 diff "store/$a" "store/$b" --structure-only
expect 1 diff "store/$a" "store/$c"
says '^tensor "b": only in the first'
says '^tensor "c": only in the second'
says '^tensor "w": .*\[2, 2\] against .*\[4\]'
expect 1 diff "store/$a" "store/$c" --at c; says '^tensor "c": only in the second'; says_not '"[bw]"'
expect 0 diff "store/$a" "store/$b" --at b; says '^equal: '
expect 2 diff "store/$a" store@label:none; complains '^ckpt: '
expect 2 diff "store/$a"

# Views that claim terabytes of a file of a few KiB: what both repeat is compared once, and all of it counts.
python3 -c '
import struct, zipfile
def pt(path, shape, strides, value):
    text = lambda s: b"X" + struct.pack("<I", len(s)) + s.encode()
    number = lambda n: b"\x8a\x08" + struct.pack("<Q", n)
    numbers = lambda all: b"(" + b"".join(map(number, all)) + b"t"
    tensor = (b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") +
              text("cpu") + number(1024) + b"tQ" + number(0) + numbers(shape) + numbers(strides) +
              b"\x89ccollections\nOrderedDict\n)RtR")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/data.pkl", b"\x80\x02}" + text("w") + tensor + b"s.")
        file.writestr("a/version", b"3\n")
        file.writestr("a/byteorder", b"little")
        file.writestr("a/data/0", struct.pack("<f", value) * 1024)
pt("zero.pt", [1 << 40], [0], 1)
pt("other.pt", [1 << 40], [0], 2)
pt("overlap.pt", [1 << 20, 1 << 20], [0, 0], 1)
pt("window.pt", [256, 256, 256, 256, 2], [1, 1, 1, 1, 1], 1)'
expect 0 diff zero.pt zero.pt
expect 1 diff zero.pt other.pt; says "w: $((1 << 40)) elements differ"
expect 0 diff overlap.pt overlap.pt
expect 2 diff window.pt window.pt; complains 'names each element of its memory'
expect 0 diff window.pt window.pt --structure-only

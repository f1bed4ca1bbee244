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

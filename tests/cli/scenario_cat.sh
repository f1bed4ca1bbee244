# cat: numbers of every kind, boxes, summaries, .npy files and raw bytes.
make_safetensors a.safetensors "w F32 2x3 $(f32 0 0.5 -1 1e30 4 5)" "bf BF16 2 803fc03f" "half F16 2 003cffff" \
  "e4 F8_E4M3 3 38fe7f" "e5 F8_E5M2 2 3c7c" "i I32 2 ffffffff07000000" "u U8 3 00ff07" "t BOOL 2 0100" \
  "s I64 - 0700000000000000" "empty F32 0x4 " "big F32 50x40 $(f32_count 2000)"
import a.safetensors store x -o run=main

printed() {
  expect 0 cat store "$1" "${@:3}"
  [ "$(cat .out)" = "$2" ] || fail "$1 printed $(cat .out), expected $2"
  is_quiet
}
printed w $'[[  0.0,   0.5,  -1.0],\n [1e+30,   4.0,   5.0]]'
printed w $'[[-1.0],\n [ 5.0]]' --box :,2:3
printed w '[[1e+30,   4.0]]' --box 1,0:2
printed w '[[0.5]]' --box=-2,-2
printed bf '[1.0, 1.5]'
printed half '[1.0, nan]'
printed e4 '[   1.0, -448.0,    nan]'
printed e5 '[1.0, inf]'
printed i '[-1,  7]'
printed u '[  0, 255,   7]'
printed t '[ True, False]'
printed s 7
printed empty '[]'
printed bf '[1.0, 1.5]' --as f32
printed e4 '[   1.0, -448.0,    nan]' --as f32
expect 2 cat store w --box 0:3; complains 'is outside dimension 0, which has extent 2'
expect 2 cat store w --box 0:1,:,:; complains 'names 3 dimensions'
expect 2 cat store w --box x; complains 'cannot read'
expect 2 cat store none; complains '^ckpt: .*none'
expect 2 cat store
expect 2 cat store w --as i8; complains 'cannot convert'
expect 2 cat store w --as f99; complains 'no dtype is called'

# More than 1000 elements: the edges, unless --full.
expect 0 cat store big
says '^\[\[ +0\.0, +1\.0, +2\.0, \.\.\., +37\.0, +38\.0, +39\.0\],$'
says '^ \.\.\.,$'
says ' 1999\.0\]\]$'
expect 0 cat store big --full
[ "$(tr -cd ',' <.out | wc -c)" -eq 1999 ] || fail "--full does not print every element"
says_not '\.\.\.'
expect 0 cat store big --box 10:49,5:39; says '^\[\[ 405\.0, +406\.0, +407\.0, \.\.\., +436\.0, +437\.0, +438\.0\],$'

# .npy, read back without NumPy.
expect 0 cat store w --npy w.npy
python3 - <<'PYTHON' || fail "w.npy does not hold the tensor"
import ast, struct
data = open("w.npy", "rb").read()
assert data[:8] == b"\x93NUMPY\x01\x00"
size = struct.unpack("<H", data[8:10])[0]
assert (10 + size) % 64 == 0
head = ast.literal_eval(data[10:10 + size].decode())
assert head == {"descr": "<f4", "fortran_order": False, "shape": (2, 3)}, head
assert data[10 + size:] == struct.pack("<6f", 0, 0.5, -1, 1e30, 4, 5)
PYTHON
expect 2 cat store w --npy w.npy; complains 'w.npy exists'
expect 2 cat store bf --npy bf.npy; complains 'add --as f32'
[ ! -e bf.npy ] || fail "bf.npy was left behind"
expect 0 cat store bf --as f32 --npy bf.npy
[ "$(tail -c 8 bf.npy | od -An -tx1 | tr -d ' \n')" = 0000803f0000c03f ] || fail "bf.npy holds other numbers"
expect 0 cat store big --box 7:9,3:5 --npy box.npy
[ "$(tail -c 16 box.npy | od -An -tx1 | tr -d ' \n')" = "$(f32 283 284 323 324)" ] || fail "box.npy holds other numbers"
expect 2 cat store w --npy no/where.npy; complains 'cannot write'

expect 0 cat store w --raw
[ "$(od -An -v -tx1 .out | tr -d ' \n')" = "$(f32 0 0.5 -1 1e30 4 5)" ] || fail "--raw wrote other bytes"
expect 0 cat store big --raw --box 49; [ "$(wc -c <.out)" -eq 160 ] || fail "--raw wrote $(wc -c <.out) bytes"
expect 2 cat store --object none; complains '^ckpt: .*none'
expect 2 cat store w --object none; complains 'either'

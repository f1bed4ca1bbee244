# info shows a .pt without a store, import makes a checkpoint of it, and neither runs what the pickle says.
seeds=$(dirname "$scenario")/../../interop/fuzz/corpus/pt # files that torch 2.15 wrote
cp "$seeds/kinds.pt.seed" kinds.pt; cp "$seeds/state-legacy.pt.seed" state.pt
expect 0 info kinds.pt; is_quiet
says '^format +pt$'; says '^tensors +17, 4 aliases, 330 B$'
says '^d +f32 +\[4, 3\] +48 B +a$'; says '^qc/scales +f64 +\[3\]'
expect 0 info state.pt; says '^format +pt-legacy$'; says '^ *epoch: 3$'
expect 0 info state.pt --tensors 'opt/state/0/*' ; says '^opt/state/0/exp_avg '; says_not '^model/'
expect 0 info state.pt --json
json_is "d['format'], d['tensors'], d['state_tree']['epoch']" "('pt-legacy', 23, 3)"
json_is "[t['alias_of'] for t in d['tensor_list'] if t['name'] == 'param']" '[None]'
expect 2 info kinds.pt --segments; complains 'segments is for checkpoints'
expect 2 info none.pt; complains 'none.pt'

expect 0 import kinds.pt store --label kinds; says '^imported kinds.*: 17 tensors'
complains '^ckpt: note: the file has no checksums of [0-9]+ of its entries'
expect 0 info store@label:kinds; says '^import.format +- +pt'; says '^d +f32 .* a *$'
says '^import.unchecked +- +' # the seed was written without checksums
expect 0 cat store@label:kinds d; says '0.*4.*8'
expect 0 import state.pt store --label state
complains 'no checksums of [0-9]+ of its entries' # the older form has none
expect 0 info store@label:state; says '^ *epoch: 3$'

python3 - <<'PYTHON'
import os, pickle, zipfile
class Evil:
    def __reduce__(self):
        return os.system, ("touch owned",)
def save(name, pickled, **more):
    with zipfile.ZipFile(name, "w") as file:
        file.writestr("m/data.pkl", pickled)
        for key, data in more.items():
            file.writestr(f"m/data/{key}", data)
save("evil.pt", pickle.dumps({"w": Evil()}, 2))
scalar = (b"\x80\x03}(X\x01\0\0\0acnumpy.core.multiarray\nscalar\n"
          b"(cnumpy\ndtype\n(X\x02\0\0\0f8\x89\x88tR(K\x03X\x01\0\0\0<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
          b"C\x08\0\0\0\0\0\0\xe0?tRX\x01\0\0\0bK\x07u.")
save("numpy.pt", scalar)
save("plain.pt", pickle.dumps({"a": [1, 2.5, None], "b": (True, "x")}, 2))
damaged = open("kinds.pt", "rb").read()
open("torn.pt", "wb").write(damaged[:-40])
PYTHON
for command in 'info evil.pt' 'import evil.pt store --label evil'; do
  expect 2 $command; complains '(os|posix)\.system'
done
[ ! -e owned ] || fail "the pickle was run"
expect 0 info plain.pt; says '^tensors +0, 0 aliases'; says 'a: \[1, 2.5, null\]'
expect 0 import plain.pt other --label plain -o run=import; is_quiet
expect 0 export other@label:plain plain-again.pt -o run=import; is_quiet
expect 0 import numpy.pt other --label numpy -o run=import
expect 0 export other@label:numpy numpy-again.pt -o run=import
complains '^ckpt: note: wrote 0 arrays of numpy as torch.s tensors and 1 number as Python.s'
expect 0 info numpy-again.pt; says 'a: 0.5'
expect 0 export other@label:numpy as.safetensors -o run=import; complains 'left out 1 object'
head -c 300 kinds.pt | gzip >packed.safetensors
expect 2 import packed.safetensors other --label packed
complains 'looks like gzip data; unpack it; expected .*PyTorch.*safetensors'
expect 2 info torn.pt; complains 'torn.pt: zip: truncated'
expect 2 import torn.pt store --label torn; complains 'torn.pt: zip: truncated'
expect 0 ls store --json; json_is "sorted(c['label'] for c in d['checkpoints'])" "['kinds', 'state']"

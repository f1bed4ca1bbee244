# cp: the same checkpoint elsewhere, gone on with after a kill, refused where it is damaged or another has its name.
make_safetensors a.safetensors "w F32 3 $(f32 1 2 3)"
python3 -c '
import struct
text = b"""{"w":{"dtype":"F32","shape":[8000000],"data_offsets":[0,32000000]}}"""
open("b.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(range(250)) * 128000)'
for step in 1 2; do import a.safetensors store "step-$step" --step "$step"; done
import b.safetensors store best --run other; best=$ID

# One, by every way to name it; then it is there already.
expect 0 cp store copy; says '^copied step-2.2.1: 1 part, '; is_quiet
expect 0 ls copy --json; json_is '[(c["label"], c["foreign"]) for c in d["checkpoints"]]' "[('step-2', False)]"
expect 0 cp store/step-1.1.1 copy; expect 0 verify copy@label:step-1; says '^sound'
expect 0 cp store@step:1 copy; says '^already there: step-1.1.1$'
expect 0 cp store@latest copy -o check=full --json
json_is 'd["copies"][0]["result"], d["copies"][0]["checkpoint"]["id"]' "('already there', 'step-2.2.1')"
cmp store/step-2.2.1/MANIFEST copy/step-2.2.1/MANIFEST || fail "other bytes"
expect 0 info copy; says '^checkpoint +step-2.2.1'

# All of a store, or of a run, oldest first; what cannot be copied is told, and the others go on.
expect 0 cp store all --all; says '^copied step-1'; says "^copied best"; says '^3 copied, 0 already there, 0 failed$'
expect 0 cp store all --all --run other --json
json_is '[(c["id"], c["result"]) for c in d["copies"]]' "[('$best', 'already there')]"
expect 2 cp store all --all --run ohter; complains 'run "ohter" has no checkpoint'
flip store/step-1.1.1/PART_000 4096
expect 1 cp store some --all
complains '^ckpt: step-1.1.1: .*PART_000.*tensor "w"'; says '^copied step-2'
says '^2 copied, 0 already there, 1 failed$'
expect 2 cp store@step-1 elsewhere; complains 'tensor "w"'
expect 0 ls elsewhere --json; json_is '[c["state"] for c in d["checkpoints"]]' "['open']"
expect 0 rm elsewhere@step-1.1.1; expect 0 ls elsewhere --json; json_is 'd["checkpoints"]' "[]"
flip store/step-1.1.1/PART_000 4096

# Killed in the middle: no checkpoint, and the next one goes on.
for after in 0.01 0.03 0.05; do
  rm -rf killed
  { timeout -s KILL "$after" "$CKPT" cp "store/$best" killed; } >.out 2>.err
  [ ! -e "killed/$best/MANIFEST" ] || expect 0 verify "killed/$best"
  expect 0 cp "store/$best" killed; expect 0 verify "killed/$best"; says '^sound'
  # An empty temporary file may be one that somebody has just made: it stays for an hour.
  left=$(find "killed/$best" -type f -size +0 -printf '%f\n' | sort | tr '\n' ' ')
  [ "$left" = "MANIFEST PART_000 " ] || fail "left behind: $left"
done

# A store of its own: the copy is foreign there, and a name is taken.
import a.safetensors own step-1
expect 0 cp store@step:2 own; complains '^ckpt: note: step-2.2.1: .*foreign'
expect 0 ls own --json; json_is '[c["id"] for c in d["checkpoints"] if c["foreign"]]' "['step-2.2.1']"
expect 2 cp store@step:1 own; complains 'another checkpoint has this name'; complains 'expected: |is save'

# A backup that lost a part is made whole again.
rm copy/step-1.1.1/PART_000; : >copy/step-2.2.1/PART_000
expect 0 cp store copy --all; says '^mended step-1.1.1: 1 part'; says '^mended step-2.2.1: 1 part'
expect 0 verify copy@step:1; expect 0 verify copy@step:2

# What retention removes meanwhile: the copying waits where it tells of the first copy, since nobody reads its stderr.
import a.safetensors mine of-its-own
python3 - "$CKPT" <<'PYTHON' || fail "cp of what is removed meanwhile"
import os, subprocess, sys, time
tool = sys.argv[1]
read, write = os.pipe()
os.set_blocking(write, False)
try:
    while True:
        os.write(write, bytes(4096))
except BlockingIOError:
    os.set_blocking(write, True)
copying = subprocess.Popen([tool, "cp", "store", "mine", "--all"], stdout=subprocess.PIPE, stderr=write)
os.close(write)
for _ in range(3000):
    if os.path.exists("mine/step-1.1.1/MANIFEST"):
        break
    time.sleep(0.01)
subprocess.run([tool, "rm", "store@step:2"], check=True, stdout=subprocess.DEVNULL)
while os.read(read, 65536):
    pass
out = copying.communicate()[0].decode()
wanted = "2 copied, 0 already there, 1 removed meanwhile, 0 failed"
sys.exit(out if copying.returncode != 0 or "removed meanwhile: step-2.2.1" not in out or wanted not in out else 0)
PYTHON

# What is no checkpoint and no store.
expect 2 cp a.safetensors copy; complains 'ckpt import'
for file in x.safetensors x.pt a.safetensors; do expect 2 cp store "$file"; complains 'ckpt export'; done
expect 2 cp store copy@latest; complains 'a store'
expect 2 cp store copy/step-2.2.1; complains 'its store is'
expect 2 cp nothing copy; complains 'no such directory'
expect 2 cp store/step-1.1.1 copy --all; complains 'its store is'

# One endpoint for two services: each would get the other's keys.
for command in "cp s3://b/run gs://b/run" "diff s3://b/run@latest az://c/run@latest"; do
  expect 2 $command -o endpoint=http://127.0.0.1:1; complains 'option endpoint is of one service'
done

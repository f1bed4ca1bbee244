#!/usr/bin/env bash
# run.sh TOOL SCENARIO: runs one scenario of the ckpt command in a fresh scratch folder.
# A scenario is bash that is sourced here: it finds $CKPT (the tool), $SCRATCH (its current directory) and the helpers
# below.
set -u
CKPT=$(realpath "$1")
scenario=$(realpath "$2")
tests=$(dirname "$(realpath "$0")")
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/ckpt_cli_XXXXXX")
export CKPT SCRATCH LC_ALL=C.UTF-8
trap 'chmod -R u+w "$SCRATCH"; rm -rf "$SCRATCH"' EXIT
cd "$SCRATCH" || exit 1

fail() {
  echo "FAILED ${scenario##*/}:${BASH_LINENO[1]}: $*" >&2
  echo "--- stdout"; cat "$SCRATCH/.out"; echo "--- stderr"; cat "$SCRATCH/.err"
  exit 1
} >&2

# expect CODE ARGUMENTS...: runs the tool; what it printed is kept in .out and .err. JSON is checked against the schema.
expect() {
  local want=$1 got=0
  shift
  "$CKPT" "$@" >"$SCRATCH/.out" 2>"$SCRATCH/.err" </dev/null || got=$?
  [ "$got" -eq "$want" ] || fail "ckpt $* exited $got, expected $want"
  if [[ " $* " == *" --json "* ]] && { [ "$1" != cat ] || grep -Eq '"(missing_ids|error)"' "$SCRATCH/.out"; }; then
    python3 "$tests/check_json.py" "$1" "$SCRATCH/.out" 2>"$SCRATCH/.wrong" || fail "ckpt $*: $(<"$SCRATCH/.wrong")"
  fi
}

# on_terminal COMMAND...: runs it on a terminal; what it printed there is kept in .out. Returns its exit code.
on_terminal() {
  python3 - "$@" >"$SCRATCH/.out" <<'PYTHON'
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
try:
    while data := os.read(terminal, 1000):
        sys.stdout.buffer.write(data)
except OSError:  # its end
    pass
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) % 256)
PYTHON
}

# Extended regular expressions that a line of the last output matches.
says() { grep -Eq -- "$1" "$SCRATCH/.out" || fail "stdout lacks: $1"; }
says_not() { ! grep -Eq -- "$1" "$SCRATCH/.out" || fail "stdout has: $1"; }
complains() { grep -Eq -- "$1" "$SCRATCH/.err" || fail "stderr lacks: $1"; }
is_quiet() { [ ! -s "$SCRATCH/.err" ] || fail "stderr is not empty"; }

# json EXPRESSION: a Python expression over the last output, d; prints its value.
json() { python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$SCRATCH/.out" "$1"; }
json_is() { local got; got=$(json "$1") && [ "$got" = "$2" ] || fail "$1 is '$got', expected '$2'"; }

# make_safetensors FILE 'NAME DTYPE SHAPE HEX'...: SHAPE as 2x3, "-" for a scalar; HEX is the data.
make_safetensors() {
  python3 - "$@" <<'PYTHON'
import json, struct, sys
header, data = {}, b""
for spec in sys.argv[2:]:
    name, dtype, shape, digits = spec.split(" ")
    shape = [] if shape == "-" else [int(n) for n in shape.split("x")]
    piece = bytes.fromhex(digits)
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(piece)]}
    data += piece
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<Q", len(text)) + text + data)
PYTHON
}

# f32 NUMBERS...: their bytes as hex digits. f32_count N: 0, 1, … N-1.
f32() {
  python3 -c 'import struct,sys; print(struct.pack(f"<{len(sys.argv) - 1}f", *map(float, sys.argv[1:])).hex())' "$@"
}
f32_count() { python3 -c 'import struct,sys; n=int(sys.argv[1]); print(struct.pack(f"<{n}f", *range(n)).hex())' "$1"; }

# import FILE STORE LABEL [MORE...]: sets $ID to the new checkpoint's id.
import() {
  local file=$1 store=$2 label=$3
  shift 3
  expect 0 import "$file" "$store" --label "$label" --json "$@"
  ID=$(json 'd["id"]')
}

# flip FILE OFFSET: changes one byte in place.
flip() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
  printf "\\x$(printf %02x $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" count=1 conv=notrunc status=none
}

: >"$SCRATCH/.out"; : >"$SCRATCH/.err"
. "$scenario"

# What a terminal would obey, turn around or hide is shown escaped, wherever it comes from, and no line is long.
RIGHT_TO_LEFT=$'\u202e' ESCAPE=$'\e'
plain() { # of what the last command printed
  ! grep -q "$RIGHT_TO_LEFT\|$ESCAPE\|"$'\xc2\x9b' .out .err || fail "not escaped: $(cat -v .out .err)"
  [ "$(wc -L <.err)" -le 1024 ] || fail "a line of $(wc -L <.err) bytes"
}
LONG=$(printf '%04000d' 0)

# Words of the command line.
for words in "$ESCAPE[31m" "--$ESCAPE[31m" "ls --$RIGHT_TO_LEFT" "ls a $RIGHT_TO_LEFT$LONG" "$LONG" \
  "info $ESCAPE$LONG" "runs $ESCAPE$LONG"; do
  # shellcheck disable=SC2086
  expect 2 $words; plain; complains '^ckpt: '
done
mkdir -p "no$ESCAPE[31m/.ckpt"
expect 0 runs "no$ESCAPE[31m"; plain; says '^no runs in no\\x1b\[31m$'

# A state tree, as JSON too; as an object it is not for a terminal.
printf '{"a%s":"%s","b":"\\u009b"}' "$RIGHT_TO_LEFT" "$RIGHT_TO_LEFT" |
  "$(dirname "$CKPT")/tests/programs/save_tree_program" tree a /dev/stdin || fail save_tree_program
expect 0 info tree; plain
expect 0 cat tree state; plain; says '"a\\u202e": "\\u202e"'
expect 0 cat tree state --json; plain
json_is 'list(d) == ["a\u202e", "b"] and d["b"] == "\u009b"' True
got=0; on_terminal "$CKPT" cat tree --object state || got=$?
[ $got -eq 2 ] && says 'is not text' || fail 'an object on a terminal'

# Names in other people's files: of tensors, of files that are left out, of a function of TorchScript.
make_safetensors plain.safetensors "w F32 1 $(f32 1)"
mkdir odd && cp plain.safetensors odd/model.safetensors
touch "odd/$ESCAPE[31m" "odd/$RIGHT_TO_LEFT"
expect 0 info odd; plain; says '^left out +\\x1b\[31m, \\xe2\\x80\\xae$'
expect 0 import odd store; plain; complains 'left out of odd: \\x1b\[31m, \\xe2\\x80\\xae$'
python3 - <<'END'
import struct, zipfile
with zipfile.ZipFile("script.pt", "w") as archive:
    archive.writestr("a/data.pkl", b"\x80\x02}X\x03\x00\x00\x00w\x1b[K\x01s.")
    archive.writestr("a/code/x.py", "def \x1b[31mforward(self):\n  pass\n")
    archive.writestr("a/version", "3\n")
END
expect 0 import script.pt store; plain; complains 'TorchScript with code \(function "\\x1b\[31mforward"\)'
expect 0 info script.pt; plain; says 'w\\x1b\['

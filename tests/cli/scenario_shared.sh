# Checkpoints that share files: what the tool tells of it, and that a removal, a copy and a repair know it.
python3 - <<'PYTHON'
import json, struct
head = {"frozen": {"dtype": "F32", "shape": [100000], "data_offsets": [0, 400000]},
        "moving": {"dtype": "F32", "shape": [1000], "data_offsets": [400000, 404000]}}
for name, byte in ("a", 1), ("b", 2):
    text = json.dumps(head).encode()
    open(f"{name}.safetensors", "wb").write(
        struct.pack("<Q", len(text)) + text + bytes(i * 7 % 251 for i in range(400000)) + bytes([byte]) * 4000)
PYTHON
import a.safetensors store one --step 1 -o run=main; first=$ID
import b.safetensors store two --step 2 -o run=main -o incremental=on; second=$ID
ls store/"$second" | grep -q '^BASE_' || fail "nothing is shared"

expect 0 ls store; says 'shares [0-9.]+ KiB'
expect 0 ls store --json
json_is '[c["shared_bytes"] > 400000 for c in d["checkpoints"]]' '[True, True]'
json_is '[c["base_bytes"] > 400000 for c in d["checkpoints"]]' '[False, True]'
expect 0 info store/"$second"; says '^bases +.* of these in parts of earlier checkpoints, of which .* are used$'
says '^shared +.*: they stay when it is removed, which frees '
expect 0 info store/"$first"; says_not '^bases'; says '^shared '
expect 0 verify store/"$second"

# A copy sends only news.
expect 0 cp store/"$first" copy; says_not 'not sent'
expect 0 cp store/"$second" copy; says '^copied .*\([0-9.]+ KiB not sent, since checkpoints there have them\)'
expect 0 verify copy/"$second"
[ copy/"$first"/PART_000 -ef copy/"$second"/BASE_* ] || fail "sent again"
expect 0 cp store/"$first" other
expect 0 cp store/"$second" other --json; json_is 'd["copies"][0]["files_shared"]' 1
json_is 'd["copies"][0]["bytes_reused"] > 400000' True

# What is lost comes back from whoever has it.
rm copy/"$second"/BASE_*
expect 1 verify copy/"$second"
expect 0 repair copy/"$second"; says 'would be taken from'
expect 0 repair copy/"$second" --write; says 'was taken from'
expect 0 verify copy/"$second"

# A removal says what stays.
expect 0 prune store --keep-last 1; says 'bytes of it stay, which other checkpoints have, too'
expect 0 rm store/"$first"; says '^removed .*: [0-9.]+ KiB of it stay, which other checkpoints have, too$'
expect 0 verify store/"$second"
expect 0 info store/"$second"; says_not '^shared'; says '^bases'
expect 0 rm store/"$second"; says_not 'stay'

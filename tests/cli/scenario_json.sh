# --json: each command has it, or is one whose output is for a shell; what an error says is JSON, too. That every output
# is as schemas/tool-output.json says, run.sh checks in all scenarios.
expect 0 help; commands=$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\{2,\}\) .*/\1/p' .out)
for command in $commands; do
  grep -q "\"$command\": {\"required\"" "$tests/../../schemas/tool-output.json" || [ "$command" = completion ] ||
    fail "the schema lacks $command"
  expect 0 help "$command"; [ "$command" = completion ] || says '--json'
done
[ "$(wc -w <<<"$commands")" -gt 18 ] || fail "found only $commands"

expect 2 ls missing --json; complains '^ckpt: no such directory: missing$'
json_is 'd["error"]' "{'status': 'NOT_FOUND', 'message': 'no such directory: missing', 'details': {}}"
make_safetensors a.safetensors "w F32 2 $(f32 1 2)"; import a.safetensors store a --step 1
flip "store/$ID/MANIFEST" 100
expect 2 info "store@$ID" --json
json_is '(d["error"]["status"], "MANIFEST" in d["error"]["details"]["path"])' "('CORRUPT', True)"
for mistake in nonsense 'ls . --nonsense' 'ls . -o nonsense=1' 'cat store@a w' 'help nonsense'; do
  expect 2 $mistake --json; json_is 'd["error"]["status"] in ("INVALID", "NOT_FOUND", "CORRUPT")' True
done
expect 2 ls missing; says_not error

# What no other scenario asks for as JSON.
import a.safetensors store b --step 2
expect 0 export "store@$ID" out.safetensors --json; json_is '(d["id"], d["path"])' "('$ID', 'out.safetensors')"
expect 0 rm "store@$ID" --json; json_is '(d["id"], d["written"])' "('$ID', True)"
expect 0 clean store --json; expect 0 prune store --keep-last 1 --json; json_is 'd["written"]' False
expect 0 repair store/a.1.1 --json; json_is 'd["result"]' repairable

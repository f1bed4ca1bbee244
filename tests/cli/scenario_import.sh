# import: label and run by default, and what a directory holds that is left out.
make_safetensors base.safetensors "w F32 2 $(f32 1 2)"
expect 0 import base.safetensors store; is_quiet; says '^imported base\.1\.1: '
expect 0 info store --json; json_is '(d["label"], d["run"])' "('base', 'main')"
cp base.safetensors '.my  model (2).safetensors'
expect 0 import './.my  model (2).safetensors' store; is_quiet; says '^imported my--model--2-\.'
expect 2 import base.safetensors store; complains '"base" already'
expect 0 import base.safetensors store --run chosen; is_quiet; says '^imported base\.'

# A trainer's directory.
mkdir trainer; cp base.safetensors trainer/model.safetensors; mkdir trainer/runs
for file in training_args.bin rng_state.pth config.json; do echo x >"trainer/$file"; done
expect 0 import trainer store
complains '^ckpt: note: left out of trainer: config.json, rng_state.pth, runs/, training_args.bin$'
says '^imported trainer\.'
cd trainer || exit 1; expect 0 import . ../other; says '^imported trainer\.'; cd .. || exit 1
for i in $(seq 20); do touch "trainer/z$i"; done
expect 0 import trainer store --label again; complains ' and 12 more$'
for name in trainer trainer/ trainer/model.safetensors; do
  expect 0 info $name; is_quiet; says '^format +safetensors'; says '^w +f32 +\[2\]'
done
expect 2 info trainer --at model; complains 'is for checkpoints: trainer is none'
# With save_only_model, whose trainer_state.json says what it is.
mkdir only; cp base.safetensors only/model.safetensors; echo '{"epoch": 1.5}' >only/trainer_state.json
for file in training_args.bin config.json; do echo x >"only/$file"; done
expect 0 info only; is_quiet; says '^format +hf-trainer'; says '^model/w +f32 +\[2\]'
expect 0 import only store; complains '^ckpt: note: left out of only: config.json, training_args.bin$'
expect 0 info store@label:only; says 'trainer_state: '

# Beside a trainer an import has a run of its own, and says so.
"$(dirname "$CKPT")/tests/programs/save_tree_program" busy step-1 /dev/stdin <<<'{"a":1}' || fail save_tree_program
expect 0 import base.safetensors busy
complains '^ckpt: note: saved into run "import", since a trainer uses run "main"; --run import opens it, in programs '
expect 0 info busy@label:base --run import --json; json_is 'd["run"]' import
expect 2 info busy@label:base; complains 'run "import" has it'

# By a mapping: other names, only some tensors, another dtype; and what a mapping would do.
make_safetensors named.safetensors "model.a F32 2 $(f32 0 1)" "model.b F32 1 $(f32 2)"
cat >names.json <<'JSON'
{"rules": [{"match": "model.{x}", "to": "{x}.weight"}]}
JSON
expect 0 map check ./names.json named.safetensors; says '^a.weight'; says 'backwards it gives the same'
expect 0 import named.safetensors mapped --map ./names.json --only 'model.b' --cast bf16
expect 0 info mapped@latest --json; json_is 'len(d["tensor_list"])' 1; json_is 'd["tensor_list"][0]["name"]' b.weight
expect 0 export mapped@latest back.safetensors --map ./names.json --map-back --cast f32
expect 0 info back.safetensors; says 'model.b'
expect 2 import named.safetensors mapped --label no --map no-such-map; complains 'no-such-map'
echo '{"rules": [{"match": "model.a", "to": "a", "cast": "f16"}], "unmatched": "keep"}' >lossy.json
expect 1 map check ./lossy.json named.safetensors; says 'not backwards'

# Of a directory those files are taken that transformers loads; the note names the others, which open by themselves.
mkdir mistral && for file in model model.fp16 consolidated model-00001-of-00002; do
  make_safetensors mistral/$file.safetensors "w F32 1 $(f32 ${#file})"
done
echo '{"weight_map": {"w": "model-00001-of-00002.safetensors"}}' >mistral/model.safetensors.index.json
expect 0 import mistral hf --label hf; says '1 tensor,'
complains '^ckpt: note: left out of mistral: consolidated.safetensors, model-00001-of-00002.safetensors, model.fp16'
complains 'model.fp16.safetensors, model.safetensors.index.json$'
expect 0 cat hf@label:hf w; says '5\.0'
rm mistral/model.safetensors
expect 0 import mistral hf --label index; says '1 tensor,'
complains '^ckpt: note: left out of mistral: consolidated.safetensors, model.fp16.safetensors$'
expect 0 cat hf@label:index w; says '20\.0'
expect 0 import mistral/consolidated.safetensors hf --label meta; is_quiet
expect 0 cat hf@label:meta w; says '12\.0'

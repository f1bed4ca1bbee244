# Directories of torch.distributed.checkpoint: shown, printed and imported as they are, and written.
fixtures=$(dirname "$scenario")/../../interop/tests/fixtures/dcp
expect 0 info "$fixtures/fsdp2"; is_quiet
says '^format +dcp$'; says '^tensors +25, 0 aliases'; says '0.weight: tensor f32 \[7, 5\]'; says 'epoch: 3'
expect 0 info "$fixtures/no_collectives"; says "seed: ckpt.PerRank\\{rank0: 100, rank1: 101\\}"
expect 0 info "$fixtures/hf"; says '^format +dcp$'; says '^0.weight +f32 +\[7, 5\]'

# One tensor, of which only what is printed is read: of several pieces, by strides, packed by zstd.
expect 0 cat "$fixtures/grid" both --box 3:4; says '\[\[15.0, 16.0, 17.0, 18.0, 19.0\]\]'
expect 0 cat "$fixtures/grid" twice --box 5:7,1:3; says '\[\[26.0, 27.0\],'; says ' \[31.0, 32.0\]\]'
expect 0 cat "$fixtures/fsdp2" odd/transposed; says '\[ 3,  7, 11\]\]'
expect 0 cat "$fixtures/zstd" odd/half --as f32; says '\[0.0, 1.0, 2.0\]'
expect 2 cat "$fixtures/fsdp2" odd/half --as f16; complains 'cannot convert'
expect 2 cat "$fixtures/fsdp2" nothing; complains 'has no tensor nothing'
expect 2 cat "$fixtures/fsdp2" --object x; complains 'is none'
expect 0 cat "$fixtures/fsdp2.pt" odd/transposed; says '\[ 3,  7, 11\]\]'

expect 0 import "$fixtures/fsdp2" store; is_quiet; says '^imported fsdp2\.'
expect 0 import "$fixtures/fsdp2.pt" store --label pt
expect 1 diff store@label:fsdp2 store@label:pt; says 'import.format'
[ "$(wc -l <.out)" = 1 ] || fail "more than the format differs"
expect 0 export store@label:fsdp2 out --format dcp --shards 3; is_quiet
for file in .metadata __0_0.distcp __1_0.distcp __2_0.distcp; do [ -s "out/$file" ] || fail "no $file"; done
expect 0 import out store --label again
expect 0 diff store@label:fsdp2 store@label:again
expect 2 export store@label:fsdp2 out --format dcp; complains 'exists'

# Keys of which torch makes text are told.
"$(dirname "$CKPT")/tests/programs/save_tree_program" keyed a /dev/stdin <<'JSON' || fail save_tree_program
{"s":{"$":"dict","items":[[0,{"$":"tensor","name":"s/0"}],[1,2]]}}
JSON
expect 0 export keyed keyed.dcp --format dcp; complains '^ckpt: note: wrote 2 integer keys as text and 0 OrderedDicts'

# Compared as they are, with a checkpoint and with each other.
expect 0 diff "$fixtures/fsdp2" "$fixtures/fsdp2.pt"; says '^equal: '
expect 0 diff "$fixtures/fsdp2" store@label:fsdp2
expect 1 diff store@label:fsdp2 "$fixtures/grid"
says '^tensor both: only in the second$'; says '^the state trees differ'
make_safetensors x.safetensors "both F32 7x5 $(f32_count 35)" "twice F32 7x5 $(f32_count 34)$(f32 -1)"
expect 1 diff "$fixtures/grid" x.safetensors; says '^tensor twice: 1 elements differ$'; says_not 'both'
expect 0 diff "$fixtures/grid" x.safetensors --structure-only
expect 1 diff "$fixtures/grid" x.safetensors --json; json_is 'd["differences"][0]["differing_elements"]' 1

# What is damaged, or around one, is told by name.
cp -r "$fixtures/fsdp2" damaged; rm damaged/__1_0.distcp
expect 2 info damaged; complains '__1_0.distcp is missing'
expect 2 import damaged store; complains '__1_0.distcp is missing'
cp -r "$fixtures/fsdp2" unended; rm unended/.metadata
expect 2 import unended store; complains 'that save never ended'
mkdir -p run/optimizer_0; cp "$fixtures/async/.metadata" "$fixtures"/async/*.distcp run/optimizer_0
expect 2 import run store; complains 'import what is in it: "optimizer_0", of torch.distributed.checkpoint'
# A framework's directory that it is known to read, with DCP directories in it.
expect 0 info "$fixtures/../accelerate/fsdp"; says '^format +accelerate$'
expect 1 diff "$fixtures/../accelerate/fsdp" "$fixtures/../accelerate/ranks"; says_not '^tensor'

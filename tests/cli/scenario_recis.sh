# import, info, diff and export of RecIS' checkpoints; recis.py makes them, and reads them as RecIS does.
recis() { python3 "$(dirname "$scenario")/recis.py" "$@" >.out 2>.err || fail "recis.py $*"; }
recis forge run 3

expect 0 info run; is_quiet; says '^format +recis$'; says '^tables/user.profile.emb/embedding +f32 +\[[0-9]+, 6\]'
expect 0 cat run sparse_optim/sparse_adam_step; says '30'
expect 0 import run store --step 30; is_quiet; says '^imported run\.'
expect 0 info store; says '^tables/user\.profile\.emb +[0-9]+ +i64 +65536'; says '^tables/none +0 '
says 'global_step: 30'; says 'io_state: ckpt.PerRank'
expect 0 cat store tables/item --ids 40,59 --columns step_filter; says '^ID +step_filter$'
expect 0 import run/ckpt_30 store --label again --verify-after
expect 1 diff store@label:run store@label:again; says 'recis|import\.files'; says_not 'rows that differ'

# In any number of shards, as RecIS would read them on any number of workers.
for shards in 1 2 5; do
  expect 0 export store "out$shards" --format recis --shards $shards --verify-after
  recis check "out$shards" $shards
done
expect 0 import out5 store --label from-5
expect 0 diff store@label:run store@label:from-5; says '^equal: '
expect 2 export store x.pt; complains 'format safetensors or recis'

# What is not whole leaves nothing.
expect 0 ls store --json; cp .out before
rm run/ckpt_30/model-000004-of-000009.safetensors
expect 2 import run store --label broken; complains 'model-000004-of-000009.safetensors is missing, which index names'
expect 0 ls store --json; cmp -s before .out || fail "the store changed"

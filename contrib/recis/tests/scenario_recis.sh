# import, info, diff and export of RecIS' checkpoints; recis.py makes them, and reads them as RecIS does.
recis() { python3 "$(dirname "$scenario")/recis.py" "$@" >.out 2>.err || fail "recis.py $*"; }
recis forge run 3

expect 0 info run --tensors 'tables/user*'; is_quiet; says '^format +recis$'
says '^tables/user.profile.emb/embedding +f32 +\[[0-9]+, 6\]'
expect 0 cat run sparse_optim/sparse_adam_step; says '30'

# Tables in place, without an import.
expect 0 info run; says '^tables/user\.profile\.emb +[0-9]+ +i64 .*embedding f32 \[6\]'; says '^tables/none +0 '
says_not '^tables/item/ids'
expect 0 info run --json; says '"table_list": \['; says '"row_count": 20,'
expect 1 cat run tables/item --ids 59,7,40 --columns step_filter; says '^59 +'; says '^not there: 7$'
cp .out in_place
expect 0 cat run tables/user.profile.emb --csv; cp .out rows.csv
expect 2 cat run model --ids 5; complains 'is not a sparse table'
expect 0 import run store --step 30; is_quiet; says '^imported run\.'
expect 0 info store; says '^tables/user\.profile\.emb +[0-9]+ +i64 +65536'; says '^tables/none +0 '
says 'global_step: 30'; says 'io_state: ckpt.PerRank'
expect 0 cat store tables/item --ids 40,59 --columns step_filter; says '^ID +step_filter$'
expect 1 cat store tables/item --ids 59,7,40 --columns step_filter; cmp -s .out in_place || fail "not as in place"
expect 0 cat store tables/user.profile.emb --csv
[[ $(sort .out) == "$(sort rows.csv)" ]] || fail "other rows than in place"
expect 0 diff run store; says '^equal: '
expect 0 diff run/ckpt_30 store --at tables
expect 0 import run/ckpt_30 store --label again --verify-after
expect 1 diff store@label:run store@label:again; says 'recis|import\.files'; says_not 'rows that differ'

# In any number of shards, as RecIS would read them on any number of workers.
for shards in 1 2 5; do
  expect 0 export store "out$shards" --format recis --shards $shards --verify-after
  recis check "out$shards" $shards
done
expect 0 import out5 store --label from-5
expect 0 diff store@label:run store@label:from-5; says '^equal: '
expect 2 export store x.pt; complains 'format recis or safetensors'
python3 - <<'END'
import glob, json, struct
for path in glob.glob("out1/ckpt_30/*.safetensors"):
    data = bytearray(open(path, "rb").read())
    (length,) = struct.unpack("<Q", data[:8])
    header, begin = json.loads(data[8:8 + length]), 8 + length
    at = lambda name: begin + header[name]["data_offsets"][0]
    one = at("item.step_filter/part_0_1")
    data[one] ^= 1  # of row 0
    open(path, "wb").write(data)
END
expect 1 diff store@label:run out1
says '^table tables/item: 1 of 20 rows that both have differ, in step_filter; ids 40$'
expect 1 diff out1 store@label:run --json; says '"rows_that_differ": 1'

# What is not whole leaves nothing.
expect 0 ls store --json; cp .out before
rm run/ckpt_30/model-000004-of-000009.safetensors
expect 2 import run store --label broken; complains 'model-000004-of-000009.safetensors is missing, which index names'
expect 0 ls store --json; cmp -s before .out || fail "the store changed"

# info, cat, diff, verify, export: sparse tables.
save_table() { "$(dirname "$CKPT")/tests/programs/save_table_program" "$@" || fail "save_table_program $*"; }
# RANKS of one save: save_ranks STORE LABEL BUCKETS "IDS of rank 0" "IDS of rank 1" …
save_ranks() {
  local store=$1 label=$2 buckets=$3 rank=0 saving=() ids
  shift 3
  for ids in "$@"; do
    # shellcheck disable=SC2086
    save_table "$store" "$label" emb "$buckets" $rank $# $ids & saving+=($!)
    rank=$((rank + 1))
  done
  wait "${saving[@]}" || fail "the ranks could not save"
}
save_ranks store a 4 '7 1 4' '2 -1'

# A table is one line, which names rows, columns and the largest rank; its tensors are listed on request.
expect 0 info store
says '^SPARSE TABLE +ROWS +IDS +BUCKETS +BYTES +STORED +LARGEST RANK +COLUMNS$'
says '^emb +5 +i64 +4 +100 B +[0-9.]+ [KM]?i?B +3 rows, 1\.2× +emb f32 \[2\], seen i32$'
says '^w +f32'; says_not 'emb/ids'; says_not 'ckpt\.table'
expect 0 info store --tensors 'emb/*'; says '^emb/ids +i64 +\[5\]'; says_not '^w '; says_not 'SPARSE'
expect 0 info store --at emb; says '^emb +5'; says_not '^w '
expect 0 info "${scenario%/*}/../golden/r1/runs"; says '^changed +119 '; says_not 'ATTRIBUTE'
expect 0 info store --json
json_is 'd["table_list"][0]["name"]' emb
json_is 'd["table_list"][0]["row_count"], d["table_list"][0]["rows_of_largest_rank"]' '(5, 3)'
json_is '[(c["name"], c["dtype"], c["shape"], c["row_bytes"]) for c in d["table_list"][0]["columns"]]' \
  "[('emb', 'f32', [2], 8), ('seen', 'i32', [], 4)]"
json_is '"emb/ids" in [t["name"] for t in d["tensor_list"]]' True

# Skew: of 5 rows in 4 buckets, 7 and -1 are in the last one; windows do not split what is counted.
expect 0 info store --skew; says '^SKEW OF +BUCKETS WITH ROWS +FULLEST BUCKET$'; says '^emb +4 of 4 +2 rows, 1\.6×$'
expect 0 info store --skew --json
json_is 'd["table_list"][0]["buckets_with_rows"], d["table_list"][0]["rows_of_fullest_bucket"]' '(4, 2)'
# shellcheck disable=SC2046
save_table crowded a emb 1000003 0 1 $(seq 1000003 1000003 70000210000) 5
expect 0 info crowded --skew; says '^emb +2 of 1000003 +70000 rows, 2×$'

# Ids of a vocabulary: of 65536 buckets the first 2000 have all rows, and slices of them are uneven.
# shellcheck disable=SC2046
save_table vocabulary a emb 65536 0 1 $(seq 0 1999)
expect 0 info vocabulary; says '^note: of emb one of two slices has 2000 of 2000 rows,.* by mod .* bucket_count '
# shellcheck disable=SC2046
save_table even a emb 2000 0 1 $(seq 0 1999)
expect 0 info even; says '^emb +2000 '; says_not '^note:'

# Rows by their ids, in the order asked for; -1 is the id that it was.
expect 1 cat store emb --ids=-1,8,4; is_quiet
wanted=$'ID          emb  seen\n-1  [15.0, 0.5]     5\n 4   [4.0, 0.5]     4\nnot there: 8'
[ "$(cat .out)" = "$wanted" ] || fail "$(cat .out)"
expect 0 cat store emb --ids 7 --columns seen; says '^ID +seen$'; says '^ 7 +7$'; says_not 'not there'
expect 0 cat store emb --ids 7 --columns seen,emb; says '^ID +seen +emb$'
expect 1 cat store emb --ids 1,6 --json
json_is 'd["rows"]' "[{'row_id': 1, 'row': {'emb': [1.0, 0.5], 'seen': 1}}]"
json_is 'd["table"], d["row_count"], d["missing_ids"]' "('emb', 5, [6])"
expect 2 cat store emb --columns nothing; complains 'table emb has no column nothing; it has emb, seen'
expect 2 cat store emb --ids 5,x; complains "expected numbers of 64 bits, found '5,x'"
expect 2 cat store emb --ids ''; complains 'needs a value'
expect 2 cat store emb --box 1; complains 'is a sparse table: --box'
expect 2 cat store w --ids 1; complains 'w is not a sparse table'
expect 0 cat store emb/seen; says '^\[4, 1, 7, 2, 5\]$'

# Without ids: the first rows, or all.
expect 0 cat store emb; [ "$(wc -l <.out)" -eq 6 ] || fail "5 rows and a header: $(cat .out)"
# shellcheck disable=SC2046
save_table many a emb 65536 0 1 $(seq 100 130)
expect 0 cat many emb; says '^109 +\[9\.0, 0\.5\] +9$'; says_not '^110 '
says '^… 21 more of 31 rows; --full prints all'
expect 0 cat many emb --full; says '^130 +\[30\.0, 0\.5\] +0$'
[ "$(wc -l <.out)" -eq 32 ] || fail "31 rows and a header"
save_table none a emb 16 0 1
expect 0 cat none emb; [ "$(cat .out)" = 'no rows' ] || fail "$(cat .out)"
expect 1 cat none emb --ids 3; [ "$(cat .out)" = 'not there: 3' ] || fail "$(cat .out)"
expect 0 info none; says '^emb +0 '

# CSV: a column for each element, the line ends of RFC 4180, and floats that read back as the same bits.
expect 0 cat store emb --csv; is_quiet
[ "$(head -n 2 .out | tr '\r' !)" = $'id,emb.0,emb.1,seen!\n4,4.0,0.5,4!' ] || fail "$(cat .out)"
[ "$(tail -n +2 .out | cut -d, -f1 | sort -n | paste -sd ' ')" = '-1 1 2 4 7' ] || fail "$(cat .out)"
expect 1 cat store emb --csv --ids 7,9 --columns seen; complains '^ckpt: note: not there: 9$'
[ "$(tr '\r' ! <.out)" = $'id,seen!\n7,7!' ] || fail "$(cat .out)"
expect 2 cat store w --csv; complains 'w is not a sparse table'
expect 2 cat store emb --csv --json
expect 0 cat none emb --csv; [ "$(wc -l <.out)" -eq 1 ] || fail "a header: $(cat .out)"
save_table floats a emb 7 0 1 1=0.1 2=1e-45 3=3.4028235e38 4=-0 5=0.333333343 6=inf 7=16777217
expect 0 cat floats emb --csv --columns emb; cp .out floats.csv
expect 0 cat floats emb/emb --raw; cp .out floats.bin
python3 - <<'END' || fail "floats differ"
import csv, struct
rows = list(csv.reader(open("floats.csv", newline="")))
written = b"".join(struct.pack("<2f", *map(float, row[1:])) for row in rows[1:])
assert rows[0] == ["id", "emb.0", "emb.1"] and written == open("floats.bin", "rb").read(), rows
END

# So do all numbers of 8 and 16 bits: a text is nearer to its own number than to any other of the format. What the
# numbers are, struct tells and, of 8 bits, their definition.
save_table narrow a emb
expect 0 cat narrow emb --csv; cp .out narrow.csv
python3 - <<'END' || fail "narrow floats differ"
import bisect, csv, math, struct

FLOAT8 = {"e3m4": (4, 3, "ieee"), "e4m3": (3, 7, "ieee"), "e4m3b11fnuz": (3, 11, "fnuz"), "e4m3fn": (3, 7, "fn"),
          "e4m3fnuz": (3, 8, "fnuz"), "e5m2": (2, 15, "ieee"), "e5m2fnuz": (2, 16, "fnuz")}

def number(dtype, bits):
    if dtype == "f16":
        return struct.unpack("<e", bits.to_bytes(2, "little"))[0]
    if dtype == "bf16":
        return struct.unpack("<f", (bits << 16).to_bytes(4, "little"))[0]
    if dtype == "f8_e8m0fnu":
        return math.nan if bits == 255 else 2.0 ** (bits - 127)
    mantissa, bias, specials = FLOAT8[dtype[3:]]
    sign, rest = (-1.0 if bits & 128 else 1.0), bits & 127
    exponent, fraction = rest >> mantissa, (rest & (1 << mantissa) - 1) / 2.0**mantissa
    if specials == "ieee" and exponent == (127 >> mantissa):
        return math.nan if fraction else sign * math.inf
    if specials == "fn" and rest == 127 or specials == "fnuz" and bits == 128:
        return math.nan
    return sign * (2.0 ** (exponent - bias) * (1 + fraction) if exponent else 2.0 ** (1 - bias) * fraction)

def is_shown(value, text, finite):
    shown = float(text)
    if not math.isfinite(value):
        return str(value) == text
    at = bisect.bisect_left(finite, value)
    others = finite[max(at - 1, 0):at] + finite[at + 1:at + 2]
    exact = value != int(value) or abs(value) >= 1e6 or shown == value
    return exact and math.copysign(1, shown) == math.copysign(1, value) and all(
        abs(shown - value) < abs(shown - other) for other in others)

header, *rows = csv.reader(open("narrow.csv", newline=""))
rows.sort(key=lambda row: int(row[0]))
assert [row[0] for row in rows] == [str(i) for i in range(256)]
seen = 0
for dtype in dict.fromkeys(name.split(".")[0] for name in header[1:]):
    places = [i for i, name in enumerate(header) if name.split(".")[0] == dtype]
    texts = [row[place] for row in rows for place in places]
    numbers = [number(dtype, bits) for bits in range(len(texts))]
    finite = sorted({value for value in numbers if math.isfinite(value)})
    for bits, (value, text) in enumerate(zip(numbers, texts)):
        assert is_shown(value, text, finite), (dtype, bits, value, text)
    seen += len(texts)
assert seen == 2 * 65536 + 8 * 256, seen
END

# Two checkpoints, row by row, whatever ranks saved them.
save_ranks two a 4 '4 2 -1' '' '7 1'
expect 0 diff store two; says '^equal: '
save_ranks three a 4 '4=9 2 -1 8 12 16 20 24 28' '7'
expect 1 diff store three
says '^table emb: 1 id only in the first: 1$'
says '^table emb: 6 ids only in the second: 8, 12, 16, 20, 24, …$'
says '^table emb: 1 of 4 rows that both have differ, in emb; ids 4$'
[ "$(wc -l <.out)" -eq 3 ] || fail "more than three lines: $(cat .out)"
expect 1 diff store three --structure-only; says '^table emb: 5 rows against 10$'; says_not 'emb/'
expect 1 diff store three --json
json_is '[d["tables_that_differ"][0][key] for key in ("only_first", "only_second", "rows_that_differ")]' '[1, 6, 1]'
json_is 'd["equal"], d["differences"]' '(False, [])'
expect 0 diff store three --at w; says '^equal: '
save_table five a emb 8 0 1 4 2 -1 7 1
expect 1 diff store five; says '^table emb: 4 buckets against 8$'; [ "$(wc -l <.out)" -eq 1 ] || fail "$(cat .out)"
save_table six a other 4 0 1 4 2 -1 7 1
expect 1 diff store six; says '^table emb: only in the first$'; says '^table other: only in the second$'; says_not 'ids'

# What changed since another checkpoint, of this store or another one, and all rows, as CSV files.
expect 0 export three news --format csv --since ./store; is_quiet
says '^exported what changed in 1 table from a\..* to a\..*, to news$'
[ "$(head -n 1 news/emb.csv | tr '\r' !)" = 'id,emb.0,emb.1,seen!' ] || fail "$(cat news/emb.csv)"
grep -q '^4,9.0,0.5,4' news/emb.csv || fail "id 4 changed: $(cat news/emb.csv)"
ids=$(tail -n +2 news/emb.csv | cut -d, -f1 | sort -n | paste -sd ' ')
[ "$ids" = '4 8 12 16 20 24 28' ] || fail "$(cat news/emb.csv)"
[ "$(tr '\r' ! <news/removed/emb.csv)" = $'id!\n1!' ] || fail "$(cat news/removed/emb.csv)"
[ "$(find news* | wc -l)" -eq 4 ] || fail "more files: $(find news*)"
expect 2 export three news --format csv --since ./store; complains 'news exists; remove it first'
save_ranks three b 4 '4=9 2 -1 8 12 16 20 24 28'
expect 0 export three@b next --format csv --since a
[ "$(wc -l <next/emb.csv)" -eq 1 ] || fail "nothing is new: $(cat next/emb.csv)"
[ "$(tr '\r' ! <next/removed/emb.csv)" = $'id!\n7!' ] || fail "$(cat next/removed/emb.csv)"
expect 0 export three@b all --format csv; says '^exported 1 table of b\..* to all$'
expect 0 cat three@b emb --csv; cmp -s .out all/emb.csv || fail "not as cat"
[ ! -e all/removed ] || fail "removed ids of nothing"
# What a killed export has left goes with the next one to the same path; that of one that lives stays.
mkdir again.partial-1 again.partial-2; exec 9<again.partial-2; flock 9
expect 0 export three@b again --format csv
[ ! -e again.partial-1 ] && [ -e again.partial-2 ] || fail "$(ls -d again*)"
exec 9<&-
expect 0 export six new --format csv --since ./store
[ "$(tail -n +2 new/other.csv | wc -l)" -eq 5 ] || fail "a new table: $(cat new/other.csv)"
save_table slash a .a/b 4 0 1 5
expect 0 export slash odd --format csv; [ -e odd/%2Ea%2Fb.csv ] || fail "$(find odd)"
expect 2 export five bad --format csv --since ./store; complains 'buckets are 8, in the earlier checkpoint 4'
expect 2 export three bad --format csv --since none; complains none
expect 2 export three bad --format csv --at w; complains 'no sparse table is there'
expect 2 export three bad.pt --since a; complains '--since is for --format csv'
expect 2 export three bad --format csv --exclude 'e*'; complains 'takes no other flags than --at, --since and --run'
[ -z "$(find . -name 'bad*')" ] || fail "left: $(find . -name 'bad*')"

# A damage names the rows: those of the second rank come after the three of the first.
expect 0 info store --segments --json
segments='s for t in d["tensor_list"] if t["name"] == "emb/emb" for s in t["segments"]'
offset=$(json "next(s[\"offset\"] for s in [$segments] if s[\"part_index\"] == 1)")
expect 0 verify store; says '^sound'
flip "$(echo store/a.*)/PART_001" "$offset"
expect 1 verify store; says 'tensor emb/emb'
says '^  table emb, column emb: rows 3 to 4, of ids from -1 to 2, buckets 2 to 3$'
expect 0 cat store emb --ids 2 --columns seen
expect 2 cat store emb --ids 2
for what in ids buckets; do
  save_ranks "$what" a 4 '7 1 4' '2 -1'
  expect 0 info "$what" --segments --json
  offset=$(json "next(t[\"segments\"][0][\"offset\"] for t in d[\"tensor_list\"] if t[\"name\"] == \"emb/$what\")")
  flip "$(echo "$what"/a.*)/PART_000" "$offset"
  expect 1 verify "$what"
  if [ "$what" = ids ]; then says '^  table emb, ids: rows 0 to 2$'
  else says "^  table emb: where the buckets of PART_000's rows begin$"; fi
done

# A format that has no place for a table refuses it, and does not keep its ids alone.
expect 2 export two out.pt; complains 'emb is a sparse table, which format pt cannot hold'
complains 'expected format recis or safetensors, or option exclude=emb\*'
[ ! -e out.pt ] || fail "out.pt is there"
expect 0 export two out.pt --exclude 'emb*'
expect 0 export two out.safetensors; expect 0 info out.safetensors; says '^emb/seen +i32'

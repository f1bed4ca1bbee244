# report: one page about a store, a checkpoint, or two; its data, and that it asks no network.
programs=$(dirname "$CKPT")/tests/programs
"$programs/save_many_program" store main 11 5 2 || fail "the saver failed"
expect 0 rm store@step:7
echo '{"a":1}' >0.json; echo 'give up' >1.json
for rank in 0 1; do "$programs/save_tree_program" store given-up $rank.json tree $rank 2 2>/dev/null & done; wait
mkdir store/step-900.9.1; head -c 5000 /dev/zero >store/step-900.9.1/PART_000
flip store/step-9.1.1/MANIFEST $(($(stat -c %s store/step-9.1.1/MANIFEST) - 20))

# page_is FILE: nothing of it is fetched or runs by the data; its data go to .out, for json_is.
page_is() {
  ! grep -Eqi '(src|href|action|url\(|import|fetch|XMLHttp)[^.]{0,9}(=|\()? *["'"'"'(]? *(https?:)?//' "$1" ||
    fail "$1 asks a network"
  [ "$(grep -c "</script>" "$1")" -eq "$(grep -c "</script>" page.html)" ] || fail "$1 has a tag of its data"
  python3 - "$1" >"$SCRATCH/.out" <<'PYTHON' || fail "$1 has no data"
import re, sys
print(re.search(r'<script id="data" type="application/json">(.*?)</script>', open(sys.argv[1]).read(), re.S)[1])
PYTHON
}

expect 0 report store -o page.html; is_quiet; says '^page.html: [0-9.]+ KiB$'
page_is page.html
json_is '(d["kind"], d["title"], len(d["entries"]), d["unread"])' "('store', 'store', 12, 0)"
json_is 'sorted({e["state"] for e in d["entries"]})' "['aborted', 'committed', 'damaged', 'open']"
json_is '[e["step"] for e in d["entries"] if e["state"] == "committed"]' '[0, 1, 2, 3, 4, 5, 6, 8, 10]'
json_is '[e["step"] for e in d["entries"] if e["latest"]]' '[10]'
json_is '[e["attrs"]["save.seconds"][0] for e in d["entries"] if e["step"] == 5]' "['[']"
expect 0 report store --json; json_is 'd["kind"]' store
expect 2 report store --json --output page2.html # which it would not write
expect 0 report store@latest --stats --output page2.html
page_is page2.html
json_is 'any("</script>" in name for name in d["tensors"]["name"])' True
json_is 'all(c.isprintable() for name in d["tensors"]["name"] for c in name)' True
json_is 'max(map(len, d["tensors"]["name"])) <= 400' True
json_is '[d["tensors"]["map"][d["tensors"]["name"].index("model/layers.0.attention.wq.weight")]]' \
  '[[[0, 0, 0, 4, 0, 1], [1, 0, 4, 4, 0, 1]]]'
json_is '[(t["row_count"], t["part_rows"]) for t in d["tables"]]' '[(1536, [1024, 512])]'
json_is '{len(f[-1]) for f in d["figures"] if f}' '{32}'

# What the figures are, by numbers made by hand: NaN and infinity count by themselves, a complex number is two, integers
# beyond 2^53 differ by one, and of values near each other each has its place in the histogram.
both=("same F32 2 $(f32 1 2)" "z C64 2 $(f32 0 1 0 0)" "near F32 4 $(f32 1 1.01 1.02 1.03)")
make_safetensors a.safetensors "${both[@]}" "w F32 4 $(f32 3 -4 0 nan)" "u U8 2 0105" "i I64 1 0000000000000010" \
  "h BF16 2 803f0040"
make_safetensors b.safetensors "${both[@]}" "w F32 4 $(f32 3 4 0 nan)" "u U8 2 0106" "i I64 1 0100000000000010" \
  "new F32 1 $(f32 1)"
import a.safetensors two a --step 1; import b.safetensors two b --step 2
figures() {
  echo "{n: [dict(zip(d['names'], f))[k] for k in '$1'.split()] for n, f in zip(d['tensors']['name'], d['figures'])}"
}
expect 0 report two@label:a --stats --json
json_is "$(figures "min max norm zeros nans count") == {'h': [1, 2, 2.23607, 0, 0, 2],
  'i': [1.15292e18, 1.15292e18, 1.15292e18, 0, 0, 1], 'near': [1, 1.03, 2.03012, 0, 0, 4], 'z': [0, 1, 1, 3, 0, 4],
  'same': [1, 2, 2.23607, 0, 0, 2], 'u': [1, 5, 5.09902, 0, 0, 2], 'w': [-4, 3, 5, 1, 1, 4]}" True
json_is "$(figures histogram)['near']" "['z000000000z0000000000z000000000z']"
expect 0 report two@label:a two@label:b -o page3.html; page_is page3.html
json_is "$(figures "differ norm cosine largest") == {'i': [1, 1, 1, 1], 'u': [1, 1, 0.99948, 1], 'w': [1, 8, -0.28, 8],
  **dict.fromkeys(['same', 'z', 'near'], [0, 0, 1, 0])}" True
json_is '[t for t in d["structure"] if t.startswith("tensor")]' \
  "['tensor \"h\": only in the first', 'tensor \"new\": only in the second']"

# Mistakes. What was there stays.
expect 2 report store --stats; complains '^ckpt: --stats is for a checkpoint: store@latest'
expect 2 report store -o missing/page.html; complains '^ckpt: cannot write missing/page.html: '
expect 2 report store -o page; complains 'key=value'
expect 2 report missing -o page.html; complains 'no such directory'; page_is page.html
mkdir -p empty/.ckpt; expect 0 report empty --json; json_is 'd["entries"]' '[]'

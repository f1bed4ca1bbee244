# The tool on a store in a bucket, under tests/s3/run.sh, gcs/run.sh or azure/run.sh: a scenario of tests/cli/run.sh.
# in_bucket get|put|delete KEY [FILE]: by curl, what is no store's.
if [[ -n ${CKPT_TEST_GCS:-} ]]; then
  export STORAGE_EMULATOR_HOST=$CKPT_TEST_GCS
  scheme=gs absent='404 notFound'
  token=$(curl -s -H 'Metadata-Flavor: Google' \
    "$CKPT_TEST_GCS/computeMetadata/v1/instance/service-accounts/default/token" |
    sed -n 's/.*"access_token": *"\([^"]*\)".*/\1/p')
  in_bucket() {
    local objects=$CKPT_TEST_GCS/storage/v1/b/ckpt-test/o name=${2//\//%2F}
    local curl=(curl --silent --fail -H "authorization: Bearer $token")
    case $1 in
      get) "${curl[@]}" "$objects/$name?alt=media" -o "$3" ;;
      put) "${curl[@]}" -o /dev/null -H 'content-type: application/octet-stream' --data-binary "@$3" \
        "$CKPT_TEST_GCS/upload/storage/v1/b/ckpt-test/o?uploadType=media&name=$name" ;;
      delete) "${curl[@]}" -X DELETE "$objects/$name" ;;
    esac
  }
elif [[ -n ${CKPT_TEST_AZURE:-} ]]; then
  scheme=az absent='404 ContainerNotFound'
  # A token, since curl signs no shared keys.
  token=$(curl -s -d grant_type=client_credentials -d client_id=test-client -d client_secret=client-secret \
    -d scope=https://storage.azure.com/.default "$AZURE_AUTHORITY_HOST/test-tenant/oauth2/v2.0/token" |
    sed -n 's/.*"access_token": *"\([^"]*\)".*/\1/p')
  in_bucket() {
    local curl=(curl --silent --fail -H "authorization: Bearer $token" -H 'x-ms-version: 2021-12-02'
      "$CKPT_TEST_AZURE/ckpt-test/$2")
    case $1 in
      get) "${curl[@]}" -o "$3" ;;
      put) "${curl[@]}" -H 'x-ms-blob-type: BlockBlob' -T "$3" ;;
      delete) "${curl[@]}" -X DELETE ;;
    esac
  }
else
  export AWS_ENDPOINT_URL_S3=$CKPT_TEST_S3
  scheme=s3 absent='404 NoSuchBucket'
  in_bucket() {
    local curl=(curl --silent --fail --aws-sigv4 aws:amz:us-east-1:s3 -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD'
      --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" "$CKPT_TEST_S3/ckpt-test/$2")
    case $1 in
      get) "${curl[@]}" -o "$3" ;;
      put) "${curl[@]}" -H 'x-amz-meta-ckpt-crc32c: AAAAAA==' -T "$3" ;; # as if it had come to harm there
      delete) "${curl[@]}" -X DELETE ;;
    esac
  }
fi
store=$scheme://ckpt-test/tool-$RANDOM-$$
make_safetensors a.safetensors "w F32 2x3 $(f32 0 1 2 3 4 5)"
make_safetensors b.safetensors "w F32 2x3 $(f32 0 1 2 3 4 6)"
expect 2 ls "$store"; complains '^ckpt: no store: '
for step in 1 2 3; do import a.safetensors "$store" "step-$step" --step "$step" -o run=main; done
import b.safetensors "$store" other -o run=else; other=$ID
labels() { expect 0 ls "$store" --json; json '" ".join(c["label"] for c in d["checkpoints"])'; }
[ "$(labels)" = "other step-1 step-2 step-3" ] || fail "left: $(labels)"
expect 0 runs "$store" --json; json_is '[r["run"] for r in d["runs"]]' "['else', 'main']"
expect 0 verify "$store@step-2"; says '^sound: step-2'; is_quiet
expect 0 info "$store@step:3" --json; json_is 'd["tensor_list"][0]["name"]' w
expect 0 cat "$store@step-1" w; says '5'
expect 1 diff "$store@step-1" "$store@$other"
expect 0 export "$store@$other" out.safetensors
cmp <(tail -c 24 out.safetensors) <(tail -c 24 b.safetensors) || fail "other numbers came out"

# A checkpoint by its place in the store, as on a disk; a store may be called as a checkpoint is.
expect 0 info "$store/$other"; says "^checkpoint +$other"; says '^run +else'; is_quiet
expect 0 cat "$store/$other/" w; says '6'
expect 1 diff "$store@step-1" "$store/$other"
expect 0 verify "$store/$other"; says "^sound: $other"
expect 2 info "$store/step-9.1.1"; complains 'step-9.1.1'
expect 2 ls "$store/$other"; complains "is a checkpoint; its store is $store"
import a.safetensors "$store.1.1" plain -o run=main
expect 0 info "$store.1.1"; says '^checkpoint +plain'; expect 0 ls "$store.1.1"; says '^plain'
expect 0 rm "$store.1.1/$ID"; says "^removed $ID"

# What it cost, and a cache.
expect 0 verify "$store@step-2"; says '^requests: [0-9]+ GET, 0 PUT, 0 LIST, 0 DELETE; 0 B sent'
expect 0 verify "$store@step-2" --json; json_is 'd["requests"]["get"] > 0 and d["requests"]["bytes_received"] > 0' True
for _ in 1 2; do expect 0 cat "$store@step-1" w -o cache=nvme; says '5'; done
[ "$(find nvme -type f ! -name lock | wc -l)" = 1 ] || fail "the cache has $(find nvme)"
expect 0 verify "$store@step-1" -o cache=nvme; says '^sound: step-1'
expect 0 cp "$store@step-1" copied --json; json_is 'd["copies"][0]["requests"]["get"] > 0' True
expect 0 verify copied; says_not '^requests'
expect 2 ls copied -o cache=nvme; complains 'option cache'

expect 0 prune "$store" --keep-last 1 --write; says '^removed +step-2'; says '^requests: .* DELETE'
[ "$(labels)" = "other step-3" ] || fail "left: $(labels)"
expect 2 info "$store@step-1"; complains 'step-1'

# Lost and damaged manifests. Readers of s3 see the removal at once.
expect 0 info "$store@step-3" --json; id=$(json 'd["id"]')
manifest=${store##*/}/$id/MANIFEST
in_bucket get "$manifest" kept
in_bucket delete "$manifest"
expect 0 repair "$store@$id"; says '^repairable: '
expect 0 repair "$store@$id" --write; says "^repaired: $id"
in_bucket get "$manifest" now; cmp now kept || fail "MANIFEST is not what it was"
cp kept damaged; flip damaged 64
in_bucket put "$manifest" damaged
expect 1 verify "$store@$id"
expect 0 repair "$store@$id" --write; says "^repaired: $id"
in_bucket get "$manifest" now; cmp now kept || fail "MANIFEST is not what it was"

expect 0 rm "$store@$id"
[ "$(labels)" = "other" ] || fail "left: $(labels)"

# A directory of other programs, which is no store.
ranks=$(dirname "$scenario")/../../interop/tests/fixtures/ranks/dtensor there=$scheme://ckpt-test/ranks-$RANDOM-$$
for file in "$ranks"/*.pt; do in_bucket put "${there##*/}/${file##*/}" "$file"; done
expect 0 info "$there"; says '^format +ranks'; says 'model: collections.OrderedDict'; is_quiet
expect 0 diff "$ranks" "$there/"; says '^equal'
expect 0 cat "$there" model/0.bias
expect 0 import "$there" "$store" --verify-after; says '22 tensors'
expect 0 diff "$store@label:${there##*/}" "$there"
expect 2 info "$there-none"; complains "$there-none is not there"
expect 0 diff "$scheme://ckpt-test//${there##*/}" "$ranks"; says '^equal' # as the address of a store
# A store may be called as a file is.
expect 0 cp "$store@label:${there##*/}" "$there.ckpt"; expect 0 info "$there.ckpt"; says '^checkpoint '
expect 0 cp "$there.ckpt" "$there-copy.bin"; expect 0 diff "$there.ckpt" "$there-copy.bin"; says '^equal'

# What ckpt builds on holds here, and nothing is left of the trial.
expect 0 check "$there-check"; says '^exclusive_put +ok'; says '^versions +ok'; says '^all that ckpt needs holds$'
expect 0 check "$there-check" --json; json_is 'd["holds"]' True

# What cannot be reached is said with its bucket, and in one line.
expect 2 ls "$scheme://no-such-bucket/run"; complains "no-such-bucket.*$absent"
expect 2 ls "$store" -o endpoint=http://127.0.0.1:1; complains 'http://127.0.0.1:1'
expect 2 check "$scheme://no-such-bucket/run"; complains "no-such-bucket.*$absent"
expect 2 ls "$scheme:///run"; complains 'BUCKET'

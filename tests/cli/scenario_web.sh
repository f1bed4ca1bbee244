# Checkpoints and files on a web server, by their addresses (web_server.py).
here=$(dirname "$scenario")
unset CKPT_HTTP_TOKEN HF_TOKEN http_proxy https_proxy HTTPS_PROXY all_proxy ALL_PROXY
mkdir www
# serve NAME [CERTIFICATE]: the server ends with this shell, whose output is its input. Sets $port.
serve() {
  local name=$1
  shift
  exec {input}> >(exec python3 "$here/web_server.py" "$SCRATCH/www" "$SCRATCH/$name" "$@")
  for _ in {1..300}; do
    [ ! -e "$name" ] || break
    sleep 0.1
  done
  port=$(cat "$name")
}
bytes_sent() { awk '{sum += $3} END {print sum + 0}' plain.log; }

make_safetensors www/a.safetensors "w F32 2x3 $(f32 0 1 2 3 4 5)"
python3 -c '
import struct
text = b"""{"w":{"dtype":"F32","shape":[8000000],"data_offsets":[0,32000000]}}"""
open("www/large.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(range(250)) * 128000)'
import www/a.safetensors www/run7 step-1 --step 1
serve plain; web=http://127.0.0.1:$port

# A checkpoint, by its own address or as STORE@ID, and what each command makes of it.
expect 0 info "$web/run7/step-1.1.1"; says '^label +step-1'; is_quiet
expect 0 info "$web/run7/step-1.1.1/" --json; json_is 'd["tensor_list"][0]["name"]' w
expect 0 verify "$web/run7@step-1.1.1"; says '^sound: step-1.1.1'
expect 0 cat "$web/run7/step-1.1.1?sig=1" w; says '5'
expect 0 diff "$web/run7/step-1.1.1" www/run7; says '^equal'
expect 0 export "$web/run7/step-1.1.1" out.safetensors
cmp <(tail -c 24 out.safetensors) <(tail -c 24 www/a.safetensors) || fail "other numbers came out"
expect 0 cp "$web/run7/step-1.1.1" copy; says '^copied step-1.1.1'; expect 0 verify copy@step-1; says '^sound'
expect 0 label www/run7@step:1 prod; expect 0 info "$web/run7@name:prod"; says '^label +step-1'
expect 2 info "$web/run7@name:none"; complains 'run "main" has no checkpoint named "none"$'
grep -q '^/run7/step-1.1.1/MANIFEST?sig=1 ' plain.log || fail "the query was not sent"

# What a web server does not tell, and does not do.
for command in "ls $web/run7" "runs $web/run7" "info $web/run7@latest" "info $web/run7@step:1" \
  "cp $web/run7 copy --all"; do
  expect 2 $command; complains 'a web server does not tell what it holds.*/run7/step-100\.7\.1'
done
expect 2 info "$web/run7"; complains 'run7/MANIFEST is not there'
expect 2 info "$web/run7/step-1"; complains 'not by its label'
expect 2 cp www/run7 "$web/run8"; complains 'read-only'
expect 2 rm "$web/run7/step-1.1.1"; complains 'read-only'
expect 2 import www/a.safetensors "$web/run7"; complains 'read-only'
expect 2 export www/run7 "$web/x.pt?secret"; complains 'writes files'
! grep -q secret .err || fail "the query was shown"

# Files: what describes them is fetched, an import fetches all.
: >plain.log
expect 0 info "$web/large.safetensors?secret"; says '^format +safetensors'; says 'large.safetensors$'; says_not secret
[ "$(bytes_sent)" -lt 300000 ] || fail "$(bytes_sent) bytes were fetched"
expect 0 import "$web/large.safetensors?x" store; says '^imported large.1.1: 1 tensor, 30.5 MiB'
expect 0 export store@large out2.safetensors
cmp <(tail -c 32000000 out2.safetensors) <(tail -c 32000000 www/large.safetensors) || fail "other numbers came out"
expect 0 import "$web/away/a.safetensors" store --label b; expect 0 cat store@b w; says '5'
expect 0 export www/run7 www/a.pt; expect 0 info "$web/a.pt"; says '^format +pt$'
expect 0 import "$web/a.pt" store --label c; expect 0 cat store@c w; says '5'
# The first try leaves a handle of libcurl that takes fewer settings; its error is the one to tell.
expect 2 info https://host.invalid/a.pt; complains 'Could not resolve host: host.invalid'
expect 2 info "$web/none.pt"; complains 'none.pt is not there'
expect 2 import "$web/run7/" store --label d; complains 'expected the address of a file'

# Tokens: by the environment, by an option, by nothing; none is shown.
private=$web/private/run7/step-1.1.1
expect 2 info "$private"; complains 'HTTP status 401.*CKPT_HTTP_TOKEN'
CKPT_HTTP_TOKEN="open sesame" expect 0 info "$private"
expect 0 info "$private" -o "http_header=Authorization: Bearer open sesame"
expect 0 import "$web/private/a.safetensors" store --label e -o "http_header=Authorization: Bearer open sesame"
CKPT_HTTP_TOKEN=secret expect 2 info "${private/\/\//\/\/me:secret@}?secret"; complains 'refuses the token'
! grep -q secret .err || fail "a secret was shown"
for address in htps://me:secret@host/x http:/me:secret@host/x http//me:secret@host/x s3://KEY:secret@bucket/x \
  s3://KEY:secret@ 's3://bucket/x?X-Amz-Signature=secret'; do
  for words in "info $address" "ls $address" "verify $address" "import $address store" "export store $address" \
    "export store $address.npz" "cp store $address.pt" "cp store $address.safetensors"; do
    expect 2 $words; ! grep -q secret .err .out || fail "a secret was shown by $words"
  done
done
expect 2 export store 'https://host/a?token=x.secret'; ! grep -q secret .err || fail "a secret was shown"

# TLS: a certificate is trusted by ca_file alone, and nothing leads from there to what is not encrypted.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ckpt -addext \
  subjectAltName=IP:127.0.0.1 -keyout key.pem -out certificate.pem 2>/dev/null || fail "no certificate"
cat key.pem certificate.pem >both.pem
serve secure both.pem; secure=https://127.0.0.1:$port
expect 2 info "$secure/run7/step-1.1.1"; complains 'certificate'
expect 0 info "$secure/run7/step-1.1.1" -o ca_file=certificate.pem
expect 0 import "$secure/a.safetensors" store --label f -o ca_file=certificate.pem
expect 0 info "$secure/away/a.safetensors" -o ca_file=certificate.pem
expect 2 info "$secure/down/a.safetensors" -o ca_file=certificate.pem; complains 'not encrypted'

#!/bin/bash
# Starts the test server of Google Cloud Storage with an empty bucket `ckpt-test`, runs a command with CKPT_TEST_GCS
# set to its address and GOOGLE_APPLICATION_CREDENTIALS to the key file of its service account, and stops it.
#
#   run.sh COMMAND…
#
# CKPT_TEST_GCS_OPTIONS: more options of server.py, as `--page 3`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
server=
stop() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  wait
  rm -rf "$scratch"
}
trap stop EXIT

unset GCE_METADATA_HOST GCE_METADATA_IP GOOGLE_CLOUD_PROJECT STORAGE_EMULATOR_HOST
mkdir "$scratch/gcloud"
export CLOUDSDK_CONFIG=$scratch/gcloud
account=tester@ckpt-test.iam.gserviceaccount.com
openssl genrsa -out "$scratch/key.pem" 2048 2>/dev/null
openssl rsa -in "$scratch/key.pem" -pubout -out "$scratch/public.pem" 2>/dev/null

: >"$scratch/log" # the loop below may look before the server's shell has made it
read -ra options <<<"${CKPT_TEST_GCS_OPTIONS:-}"
python3 -B "$here/server.py" --bucket ckpt-test --account "$account" --public-key "$scratch/public.pem" \
  ${options[@]+"${options[@]}"} >"$scratch/log" 2>&1 &
server=$!
port=
for _ in {1..300}; do # half a minute
  port=$(sed -n 's/^port //p' "$scratch/log")
  [[ -z $port ]] || break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
[[ -n $port ]] || { cat "$scratch/log" >&2; echo "the server did not start" >&2; exit 1; }

export CKPT_TEST_GCS=http://127.0.0.1:$port GOOGLE_APPLICATION_CREDENTIALS=$scratch/account.json
python3 - "$scratch/key.pem" "$account" "$CKPT_TEST_GCS/token" >"$GOOGLE_APPLICATION_CREDENTIALS" <<'END'
import json, sys
key, account, uri = sys.argv[1:]
print(json.dumps({"type": "service_account", "project_id": "ckpt-test", "private_key_id": "test",
                  "private_key": open(key).read(), "client_email": account, "client_id": "1", "token_uri": uri}))
END
status=0
"$@" || status=$?
grep -v '^port ' "$scratch/log" >&2 || true # what the server had to complain about
exit "$status"

#!/bin/bash
# Starts the test server of Google Cloud Storage with an empty bucket `ckpt-test`, runs a command with CKPT_TEST_GCS
# set to its address and GOOGLE_APPLICATION_CREDENTIALS to the key file of its service account, and stops it.
#
#   run.sh COMMAND…
#
# CKPT_TEST_GCS_OPTIONS: more options of server.py, as `--page 3`.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cloud/run.sh"

unset GCE_METADATA_HOST GCE_METADATA_IP GOOGLE_CLOUD_PROJECT STORAGE_EMULATOR_HOST
mkdir "$scratch/gcloud"
export CLOUDSDK_CONFIG=$scratch/gcloud
account=tester@ckpt-test.iam.gserviceaccount.com
read -ra options <<<"${CKPT_TEST_GCS_OPTIONS:-}"
start "$here/server.py" --bucket ckpt-test --account "$account" ${options[@]+"${options[@]}"}

export CKPT_TEST_GCS=http://127.0.0.1:$port GOOGLE_APPLICATION_CREDENTIALS=$scratch/account.json
python3 - "$scratch/key.pem" "$account" "$CKPT_TEST_GCS/token" >"$GOOGLE_APPLICATION_CREDENTIALS" <<'END'
import json, sys
key, account, uri = sys.argv[1:]
print(json.dumps({"type": "service_account", "project_id": "ckpt-test", "private_key_id": "test",
                  "private_key": open(key).read(), "client_email": account, "client_id": "1", "token_uri": uri}))
END
finish "$@"

#!/bin/bash
# Starts the test server of Azure Blob Storage with an empty container `ckpt-test`, runs a command with CKPT_TEST_AZURE
# set to the address of its account, AZURE_STORAGE_CONNECTION_STRING to what has its key, and the variables of a
# workload's identity, and stops it.
#
#   run.sh COMMAND…
#
# CKPT_TEST_AZURE_OPTIONS: more options of server.py, as `--page 3`.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cloud/run.sh"

for name in "${!AZURE_@}" "${!IDENTITY_@}" "${!MSI_@}"; do unset "$name"; done
read -ra options <<<"${CKPT_TEST_AZURE_OPTIONS:-}"
start "$here/server.py" ${options[@]+"${options[@]}"}

account=devstoreaccount1
export CKPT_TEST_AZURE=http://127.0.0.1:$port/$account
key=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==
export AZURE_STORAGE_CONNECTION_STRING="DefaultEndpointsProtocol=http;AccountName=$account;AccountKey=$key;\
BlobEndpoint=$CKPT_TEST_AZURE;"
export AZURE_TENANT_ID=test-tenant AZURE_CLIENT_ID=test-client AZURE_AUTHORITY_HOST=http://127.0.0.1:$port \
  AZURE_FEDERATED_TOKEN_FILE=$scratch/assertion
now=$(date +%s)
assertion=$(python3 -B "$here/../cloud/rs256.py" "$scratch/key.pem" '{"iss": "https://kubernetes.test",
  "sub": "system:serviceaccount:ckpt:test", "aud": "api://AzureADTokenExchange", "iat": '"$now"',
  "exp": '$((now + 3600))'}')
printf %s "$assertion" >"$AZURE_FEDERATED_TOKEN_FILE" # as Kubernetes writes it: no newline
finish "$@"

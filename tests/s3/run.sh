#!/bin/bash
# Starts an S3 server with an empty bucket, runs a command with CKPT_TEST_S3 set to its endpoint, CKPT_TEST_S3_TLS to
# that behind TLS, CKPT_TEST_S3_CERTIFICATE to its certificate and the AWS_… variables to its keys, and stops it.
#
#   run.sh SERVER COMMAND…
#
# SERVER: the .jar of S3Proxy, which tools/test fetches into build/s3 and which keeps its bucket in memory, with
# CKPT_TEST_S3_FILES=1 in the folder CKPT_TEST_S3_BUCKETS, or the program of versitygw or minio, which do so always
# and have no TLS here.
set -euo pipefail
program=$1; shift
[[ -e $program ]] || { echo "no $program: tools/test fetches it" >&2; exit 1; }
scratch=$(mktemp -d)
server=
stop() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  wait
  rm -rf "$scratch"
}
trap stop EXIT

export AWS_ACCESS_KEY_ID=testkey AWS_SECRET_ACCESS_KEY=testsecret AWS_EC2_METADATA_DISABLED=true
unset AWS_SESSION_TOKEN AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3 AWS_CA_BUNDLE

start_s3proxy() {
  local name provider=(jclouds.provider=transient-nio2)
  [[ -z ${CKPT_TEST_S3_FILES:-} ]] ||
    provider=(jclouds.provider=filesystem-nio2 "jclouds.filesystem.basedir=$CKPT_TEST_S3_BUCKETS")
  for name in server other; do # two certificates that sign themselves
    keytool -genkeypair -keystore "$scratch/$name.jks" -storepass ckpt-test -alias it -keyalg EC -dname "CN=$name" \
      -ext san=ip:127.0.0.1 2>/dev/null
    keytool -exportcert -rfc -keystore "$scratch/$name.jks" -storepass ckpt-test -alias it 2>/dev/null \
      >"$scratch/$name.pem"
  done
  mv "$scratch/other.pem" "$scratch/server.pem.other"
  printf '%s\n' s3proxy.authorization=aws-v2-or-v4 s3proxy.endpoint=http://127.0.0.1:0 \
    s3proxy.secure-endpoint=https://127.0.0.1:0 "s3proxy.keystore-path=$scratch/server.jks" \
    s3proxy.keystore-password=ckpt-test \
    "s3proxy.identity=$AWS_ACCESS_KEY_ID" "s3proxy.credential=$AWS_SECRET_ACCESS_KEY" \
    "${provider[@]}" >"$scratch/conf"
  : >"$scratch/log"
  java -Xmx"${CKPT_TEST_S3_HEAP:-1g}" -jar "$program" --properties "$scratch/conf" >"$scratch/log" 2>&1 &
  server=$!
  local secure
  export CKPT_TEST_S3_CERTIFICATE=$scratch/server.pem
  for _ in {1..300}; do # half a minute
    port=$(port_of HTTP) secure=$(port_of SSL)
    export CKPT_TEST_S3_TLS=https://127.0.0.1:$secure
    [[ -z $port || -z $secure ]] || return 0
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  cat "$scratch/log" >&2
  echo "S3Proxy did not start" >&2
  exit 1
}
port_of() { # the protocol, as its log names it
  sed -n "s/.*Started .*ServerConnector.*{$1.*{127\.0\.0\.1:\([0-9]*\)}.*/\1/p" "$scratch/log" | head -n 1
}

# start_other COMMAND…: a server whose port is chosen here, since it does not tell one that it takes by itself.
start_other() {
  "$@" >"$scratch/log" 2>&1 &
  server=$!
  for _ in {1..300}; do
    ! curl --silent --output /dev/null "http://127.0.0.1:$port" || return 0
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  cat "$scratch/log" >&2
  echo "$program did not start" >&2
  exit 1
}
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
start_versitygw() {
  start_other "$program" --access "$AWS_ACCESS_KEY_ID" --secret "$AWS_SECRET_ACCESS_KEY" --port "127.0.0.1:$port" \
    --quiet posix "$CKPT_TEST_S3_BUCKETS"
}
start_minio() {
  start_other env MINIO_ROOT_USER="$AWS_ACCESS_KEY_ID" MINIO_ROOT_PASSWORD="$AWS_SECRET_ACCESS_KEY" \
    MINIO_BROWSER=off MINIO_UPDATE=off "$program" server --address "127.0.0.1:$port" --quiet "$CKPT_TEST_S3_BUCKETS"
}

port=
export CKPT_TEST_S3_BUCKETS=$scratch/buckets
mkdir "$CKPT_TEST_S3_BUCKETS"
case $program in
  *.jar) start_s3proxy ;;
  */minio) port=$(free_port); start_minio ;;
  *) port=$(free_port); start_versitygw ;;
esac
export CKPT_TEST_S3=http://127.0.0.1:$port CKPT_TEST_S3_SERVER=${program##*/}
curl --silent --fail --aws-sigv4 aws:amz:us-east-1:s3 --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
  -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' -X PUT "$CKPT_TEST_S3/ckpt-test"
"$@"

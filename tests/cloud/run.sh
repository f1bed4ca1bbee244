# Sourced by the run.sh of a test server, which then calls, in this order:
#
#   start SERVER OPTION…   starts it with key.pem of $scratch for assertions, and sets $port
#   finish COMMAND…        runs the command, shows what the server had to complain about, and ends as the command did
#
# $scratch is removed, and the server stopped, at the end.
set -euo pipefail
scratch=$(mktemp -d)
server=
stop() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  wait
  rm -rf "$scratch"
}
trap stop EXIT

start() {
  openssl genrsa -out "$scratch/key.pem" 2048 2>/dev/null
  openssl rsa -in "$scratch/key.pem" -pubout -out "$scratch/public.pem" 2>/dev/null
  : >"$scratch/log" # the loop below may look before the server's shell has made it
  python3 -B "$@" --public-key "$scratch/public.pem" >"$scratch/log" 2>&1 &
  server=$!
  port=
  for _ in {1..300}; do # half a minute
    port=$(sed -n 's/^port //p' "$scratch/log")
    [[ -z $port ]] || break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  [[ -n $port ]] || { cat "$scratch/log" >&2; echo "the server did not start" >&2; exit 1; }
}

finish() {
  local status=0
  "$@" || status=$?
  grep -v '^port ' "$scratch/log" >&2 || true
  exit "$status"
}

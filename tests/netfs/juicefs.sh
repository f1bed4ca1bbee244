#!/bin/bash
# JuiceFS, with names and locks in Redis and data in a folder: see world.sh.
set -euo pipefail
meta=redis://127.0.0.1:6399/1
start() {
  redis-server --bind 127.0.0.1 --port 6399 --dir "$DATA" --daemonize yes --appendonly yes --logfile "$WORK/redis.txt"
  for _ in {1..50}; do ! redis-cli -p 6399 ping || return 0; sleep 0.1; done
}
stop() { redis-cli -p 6399 shutdown nosave; }
setup() {
  local mount
  start >&2
  "$JUICEFS" format --storage file --bucket "$DATA/bucket/" --trash-days 0 --capacity 4 "$meta" vol >&2
  for mount in A B; do
    mkdir "$WORK/$mount"
    # Not -d: that gives up after ten seconds.
    "$JUICEFS" mount "$meta" "$WORK/$mount" --cache-dir "$WORK/cache.$mount" </dev/null \
      >"$WORK/juicefs.$mount.txt" 2>&1 &
    for _ in {1..600}; do ! mountpoint -q "$WORK/$mount" || break; sleep 0.1; done
    mountpoint -q "$WORK/$mount" || { cat "$WORK/juicefs.$mount.txt" >&2; return 1; }
    echo "$mount $mount $WORK/$mount"
  done
}
"$1"

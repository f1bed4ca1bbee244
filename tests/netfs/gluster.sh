#!/bin/bash
# GlusterFS, three bricks that hold the same: see world.sh. Its bricks forget locks when they are restarted.
set -euo pipefail
setup() {
  mount -t tmpfs tmpfs /var/lib/glusterd
  mount -t tmpfs tmpfs /var/log/glusterfs
  glusterd
  for _ in {1..50}; do ! gluster volume info >/dev/null 2>&1 || break; sleep 0.2; done
  gluster --mode=script volume create gv replica 3 "$ADDRESS:$DATA/b1" "$ADDRESS:$DATA/b2" "$ADDRESS:$DATA/b3" force >&2
  gluster volume start gv >&2
  local mount
  for mount in A B; do
    mkdir "$WORK/$mount"
    mount -t glusterfs "$ADDRESS:/gv" "$WORK/$mount"
    echo "$mount $mount $WORK/$mount"
  done
}
stop() { kill -KILL $(cat /run/gluster/vols/gv/*.pid); }
start() { gluster volume start gv force; }
"$1"

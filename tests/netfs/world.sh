#!/bin/bash
# One network file system from its start to its end. Runs as root in namespaces of its own (processes, mounts, network)
# or in User-mode Linux, which end with it: so nothing is cleaned up here.
#
#   world.sh NAME WORK BUILD sample|long [CLAIM]
#
# WORK is an empty folder of this machine; servers keep what they store in DATA, a small disk. Beside this file is a
# script for each file system: `setup` starts the servers and prints for each mount a line "MOUNT NODE FOLDER"; `stop`
# and `start` are the servers' restart.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export NAME=$1 WORK=$2 DATA=$2/data ADDRESS=10.99.0.1 LC_ALL=C.UTF-8
export SYSTEM=$here/${NAME/%[34]/}.sh

# make_node NAME: a process in whose namespaces the programs of a node run. It has a host name and a boot id of its
# own, since ckpt asks the boot id whether two ranks are on one machine.
make_node() {
  cat /proc/sys/kernel/random/uuid >"$WORK/boot-id.$1"
  unshare --mount --propagation slave --uts bash -c "
    hostname node$1
    mount --bind '$WORK/boot-id.$1' /proc/sys/kernel/random/boot_id
    echo \$\$ >'$WORK/node.$1.new' && mv '$WORK/node.$1.new' '$WORK/node.$1'
    exec sleep infinity" </dev/null >/dev/null 2>&1 &
  for _ in {1..100}; do [[ ! -e $WORK/node.$1 ]] || return 0; sleep 0.1; done
  echo "node $1 did not start" >&2
  return 1
}

mount --make-rshared /
ip link set lo up
# User-mode Linux has all this.
if [[ $NAME != nfs* ]]; then
  ip addr add $ADDRESS/32 dev lo
  mount -t tmpfs tmpfs /run
  mkdir "$DATA"
  mount -o loop "$WORK/disk" "$DATA"
fi
began=$SECONDS
if ! "$SYSTEM" setup >"$WORK/mounts" 2>"$WORK/setup.txt"; then
  echo "$NAME/set-up ... FAILED"
  tail -n 40 "$WORK/setup.txt"
  echo "0 passed, 1 failed"
  exit 1
fi
for node in A B; do make_node "$node"; done
echo "   $NAME is set up after $((SECONDS - began)) s"
# Not exec: this shell is the namespace's first process, which buries the servers that died.
python3 "$here/claims.py" "$NAME" "$WORK" "${@:3}"

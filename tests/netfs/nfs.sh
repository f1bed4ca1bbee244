#!/bin/bash
# NFS by Linux' own server and client, in User-mode Linux: see world.sh. $NAME is nfs3 or nfs4. The server is in the
# first network namespace, over ext4; each client has a namespace of its own, with its own rpcbind, statd and lockd.
set -euo pipefail
[[ $NAME == nfs3 ]] && options=vers=3 source=/mnt/srv || options=vers=4.2 source=/

load_modules() {
  local module
  mkdir -p /run/modules/lib/modules
  ln -s "$UML_MODULES/$(uname -r)" "/run/modules/lib/modules/$(uname -r)"
  for module in sunrpc lockd nfsd nfsv4 nfsv3 veth; do modprobe -d /run/modules "$module"; done
  # After a start of the server its clients have this long to ask again for their locks; others wait meanwhile.
  sysctl -q fs.nfs.nlm_timeout=3 fs.nfs.nlm_grace_period=9
}

# rpc_services NETWORK: rpcbind's socket is removed so that each namespace asks its own, by TCP.
rpc_services() {
  local enter=() state=/run/statd${1:+.$1}
  [[ -z ${1:-} ]] || enter=(nsenter "--net=/run/netns/$1")
  "${enter[@]}" rpcbind -w
  rm -f /run/rpcbind.sock /run/rpcbind.lock
  mkdir -p "$state/sm" "$state/sm.bak"
  "${enter[@]}" rpc.statd --no-notify -P "$state"
}

make_client() {
  ip netns add "$1"
  ip link add "v$1" type veth peer name eth0 netns "$1"
  ip addr add "10.99.$2.1/24" dev "v$1"
  ip link set "v$1" up
  ip -n "$1" link set lo up
  ip -n "$1" addr add "10.99.$2.2/24" dev eth0
  ip -n "$1" link set eth0 up
  rpc_services "$1"
}

# mount_by NODE MOUNT OPTIONS
mount_by() {
  local address=10.99.1.1
  [[ $1 == A ]] || address=10.99.2.1
  mkdir -p "/mnt/$2"
  nsenter "--net=/run/netns/$1" unshare --uts bash -c "hostname node$1; mount -t nfs -o '$3' $address:$source /mnt/$2"
  echo "$2 $1 /mnt/$2"
}

setup() {
  load_modules >&2
  mkdir -p /mnt/srv /var/lib/nfs/rpc_pipefs
  mount -t ext4 /dev/ubda /mnt/srv
  mkdir -p /var/lib/nfs/{sm,sm.bak,rpc_pipefs,v4recovery,nfsdcld}
  touch /var/lib/nfs/{etab,rmtab,state}
  mount -t nfsd nfsd /proc/fs/nfsd
  mount -t rpc_pipefs rpc /var/lib/nfs/rpc_pipefs
  hostname server
  rpc_services
  nfsdcld
  echo 10 >/proc/fs/nfsd/nfsv4leasetime
  echo 10 >/proc/fs/nfsd/nfsv4gracetime
  exportfs -o rw,no_root_squash,fsid=0,no_subtree_check,sync '*:/mnt/srv'
  rpc.mountd
  rpc.nfsd 4
  make_client A 1 >&2
  make_client B 2 >&2
  echo "S A /mnt/srv"
  mount_by A A "$options"
  mount_by B B "$options"
  # Where locks do not meet: two clients that ask the server for none; two mounts of one client.
  if [[ $NAME == nfs3 ]]; then
    mount_by A C "$options,nolock"
    mount_by B D "$options,nolock"
  else
    mount_by A C "$options,nosharecache"
    mount_by A D "$options,nosharecache"
  fi
}
stop() { rpc.nfsd 0; }
start() {
  rpc.nfsd 4
  # Says to clients of NFS 3 that they shall ask again for their locks; NFS 4 has this in the protocol.
  sm-notify -f -P /run/statd || true
}
"$1"

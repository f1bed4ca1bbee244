#!/bin/bash
# CephFS by ceph-fuse; one monitor, one OSD, one metadata server: see world.sh.
set -euo pipefail
folder=$WORK/ceph
export CEPH_CONF=$folder/ceph.conf
write_conf() {
  printf '%s\n' "[global]" "fsid = $1" "mon initial members = a" "mon host = $ADDRESS:6789" "public addr = $ADDRESS" \
    "cluster addr = $ADDRESS" "auth "{cluster,service,client}" required = none" "osd pool default size = 1" \
    "osd pool default min size = 1" "osd pool default pg num = 8" "mon allow pool size one = true" \
    "mon warn on pool no redundancy = false" "osd crush chooseleaf type = 0" "osd memory target = 1073741824" \
    "mds cache memory limit = 268435456" "osd objectstore = bluestore" "bluestore block size = 6442450944" \
    "mon data = $folder/mon" "osd data = $folder/osd" "mds data = $folder/mds" "mgr data = $folder/mgr" \
    "ms bind msgr2 = false" "client mount timeout = 30" "keyring = $folder/keyring" "run dir = $folder/run" \
    "admin socket = $folder/run/\$name.asok" "pid file = $folder/run/\$name.pid" "log file = $folder/run/\$name.log" \
    >"$CEPH_CONF"
}
root=(--setuser root --setgroup root)
start_osd() { timeout 60 ceph-osd -i 0 "${root[@]}"; }
start() {
  start_osd || start_osd || start_osd # now and then it takes the monitor for another cluster's
  timeout 30 ceph-mds -i a "${root[@]}"
}
stop() { kill -KILL $(cat "$folder/run/osd.0.pid" "$folder/run/mds.a.pid"); }
setup() {
  local id osd mount
  id=$(</proc/sys/kernel/random/uuid) osd=$(</proc/sys/kernel/random/uuid)
  mkdir -p "$folder"/{mon,osd,mds,mgr,run}
  write_conf "$id"
  {
    ceph-authtool --create-keyring "$folder/keyring" --gen-key -n mon. --cap mon 'allow *'
    ceph-authtool "$folder/keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' \
      --cap mds 'allow *' --cap mgr 'allow *'
    monmaptool --create --fsid "$id" --addv a "[v1:$ADDRESS:6789]" "$folder/monmap"
    timeout 30 ceph-mon --mkfs -i a --monmap "$folder/monmap" --keyring "$folder/keyring"
    timeout 30 ceph-mon -i a "${root[@]}"
    timeout 30 ceph-mgr -i x "${root[@]}"
    timeout 30 ceph osd new "$osd"
    timeout 60 ceph-osd -i 0 --mkfs --osd-uuid "$osd" "${root[@]}"
    start_osd || start_osd || start_osd
    timeout 30 ceph osd pool create meta 8
    timeout 30 ceph osd pool create data 8
    timeout 30 ceph fs new cephfs meta data
    timeout 30 ceph-mds -i a "${root[@]}"
    for _ in {1..60}; do ! timeout 10 ceph mds stat | grep -q up:active || break; sleep 0.5; done
  } >&2
  for mount in A B; do
    mkdir "$WORK/$mount"
    timeout 60 ceph-fuse --id admin --pid-file "$folder/run/$mount.pid" "$WORK/$mount" >&2
    echo "$mount $mount $WORK/$mount"
  done
}
"$1"

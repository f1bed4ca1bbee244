#!/bin/bash
# MooseFS, one master and one chunk server: see world.sh.
set -euo pipefail
folder=$DATA/moosefs
start() { mfsmaster -c "$folder/master.cfg" start; }
stop() { mfsmaster -c "$folder/master.cfg" stop; }
setup() {
  local mount
  mkdir -p "$folder"/{meta,chunks,disk}
  printf 'MFSM NEW' >"$folder/meta/metadata.mfs"
  printf '%s\n' "DATA_PATH = $folder/meta" "EXPORTS_FILENAME = $folder/exports.cfg" "WORKING_USER = root" \
    "WORKING_GROUP = root" MATO{CL,CS,ML}"_LISTEN_HOST = $ADDRESS" >"$folder/master.cfg"
  printf '%s\n' "DATA_PATH = $folder/chunks" "HDD_CONF_FILENAME = $folder/disks.cfg" "WORKING_USER = root" \
    "WORKING_GROUP = root" "MASTER_HOST = $ADDRESS" {BIND,CSSERV_LISTEN}"_HOST = $ADDRESS" >"$folder/chunkserver.cfg"
  echo '* / rw,alldirs,admin,maproot=0:0' >"$folder/exports.cfg"
  echo "$folder/disk" >"$folder/disks.cfg"
  start >&2
  mfschunkserver -c "$folder/chunkserver.cfg" start >&2
  sleep 3
  for mount in A B; do
    mkdir "$WORK/$mount"
    mfsmount "$WORK/$mount" -H "$ADDRESS" >&2
    mfssettrashtime -r 0 "$WORK/$mount" >&2 # else what is removed keeps its space for a day
    echo "$mount $mount $WORK/$mount"
  done
}
"$1"

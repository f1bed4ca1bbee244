#!/bin/bash
# The store's tests of leases, mappings and recycling on each local file system that recycles: ext4 and XFS in image
# files, tmpfs; and those of clones where files can share blocks: XFS and btrfs. Needs root, loop devices, e2fsprogs,
# xfsprogs and btrfs-progs.
#
#   tests/store/file_systems.sh BUILD
set -euo pipefail
tests=$(realpath "$1")/tests/store_tests
folder=$(mktemp -d)
cleanup() {
  umount "$folder"/*.mount 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT
for type in ext4 xfs tmpfs btrfs; do
  mount=$folder/$type.mount
  mkdir "$mount"
  if [[ $type == tmpfs ]]; then
    mount -t tmpfs -o size=1g none "$mount"
  else
    truncate -s 1G "$folder/$type.image"
    "mkfs.$type" -q "$folder/$type.image"
    mount -o loop "$folder/$type.image" "$mount"
  fi
  echo "== $type"
  [[ $type == btrfs ]] || TMPDIR=$mount "$tests" --gtest_filter='Recycle*:*/Recycle*:Orphans.*' --gtest_brief=1
  case $type in xfs | btrfs) export CKPT_TEST_CLONES=1 ;; *) unset CKPT_TEST_CLONES ;; esac
  TMPDIR=$mount "$tests" --gtest_filter='Clones.*' --gtest_brief=1
  umount "$mount"
done

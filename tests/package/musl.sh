#!/bin/bash
# What a wheel for musl promises where there is musl and no Python: tools/package runs it there.
#
#   musl.sh FOLDER      FOLDER: the unpacked wheel, and the program save_load, made of examples/c
set -euo pipefail
prefix=$1/ckpt/prefix
ckpt=$prefix/bin/ckpt
cd "$(mktemp -d)"
fail() { echo "failed: $*" >&2; exit 1; }

"$ckpt" --version
LD_LIBRARY_PATH=$prefix/lib "$1/save_load" store
"$ckpt" verify store@latest
"$ckpt" export store@latest w.safetensors
"$ckpt" import w.safetensors imported
"$ckpt" verify imported@latest
"$ckpt" check store
said=$("$ckpt" ls s3://bucket/run 2>&1) && fail "a bucket without libcurl"
[[ $said == *"libcurl of Alpine"* ]] || fail "without libcurl: $said"

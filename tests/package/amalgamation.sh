#!/bin/bash
# What the amalgamation promises: the C suite passes in a program that it is compiled into. tools/package runs this.
#
#   amalgamation.sh FOLDER WORK      FOLDER: with ckpt.h and libckpt.a, the compiled amalgamation
set -euo pipefail
folder=$1 work=$2 here=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$work"
mkdir -p "$work"
version=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["version"])' "$folder/api.json")
for name in ckpt ckpt-files; do
  printf '%s\n' "includedir=$folder" "Name: $name" "Description: the amalgamation" "Version: $version" \
    "Cflags: -I$folder" "Libs: -L$folder -lckpt -lstdc++ -lm" >"$work/$name.pc"
done
PKG_CONFIG_PATH=$work cmake -S "$here/conformance" -B "$work/runner" -G Ninja >/dev/null
cmake --build "$work/runner"
echo "{\"c\": [\"$work/runner/conformance_c\"]}" >"$work/runners.json"
# Some scenarios need libckpt_files, which is not in it.
for scenario in $(grep -LE '^(file\.|store\.import|reader\.export)' "$here"/conformance/scenarios/*.txt); do
  python3 "$here/conformance/run.py" --only "$(basename "$scenario" .txt)" "$work/runners.json" "$work/files"
done

#!/bin/bash
# Without interop: a library that needs no zlib and has nothing of ckpt_file.h, a tool that says so, and a build that
# configures where zlib is not installed. CORE and TOOL were linked from the objects of the usual build.
#
#   core.sh CMAKE SOURCE CORE TOOL SCRATCH
set -euo pipefail
cmake=$1 source=$2 core=$3 tool=$4 scratch=$5

fail() { echo "failed: $*" >&2; exit 1; }

# expect TEXT COMMAND…: the command fails and says TEXT.
expect() {
  local text=$1 said; shift
  ! said=$("$@" 2>&1) || fail "$* succeeded"
  [[ $said == *"$text"* ]] || fail "$*: $said"
}

rm -rf "$scratch"
mkdir -p "$scratch"

! readelf -d "$core" | grep 'NEEDED.*libz' || fail "it needs zlib"

"$tool" --version
expect 'import: this ckpt was built without' "$tool" import x.pt "$scratch/store" --label x
expect 'export: this ckpt was built without' "$tool" export "$scratch/store" x.pt
expect "info $source/README.md: this ckpt was built without" "$tool" info "$source/README.md"

# Without S3, nothing of libcurl is needed, and s3:// says so.
"$cmake" -S "$source" -B "$scratch/no-s3" -DCKPT_S3=OFF -DCKPT_BUILD_TOOL=OFF > "$scratch/log" ||
  fail "$(cat "$scratch/log")"
grep -q CURL_INCLUDE "$scratch/no-s3/CMakeCache.txt" && fail "it looked for libcurl"
! grep -rl --include='*.ninja' --include='*.make' 'store/s3/' "$scratch/no-s3" || fail "store/s3 would be compiled"

build=$scratch/build
"$cmake" -S "$source" -B "$build" -DCKPT_INTEROP=OFF -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON > "$scratch/log" ||
  fail "$(cat "$scratch/log")"
grep -q 'Libs.private: -llz4 -lstdc++' "$build/ckpt.pc" || fail "ckpt.pc: $(cat "$build/ckpt.pc")"
! grep -E 'ckpt_file|libz' "$build/cmake_install.cmake" || fail "ckpt_file.h would be installed"
! find "$build" -name '*.ninja' -exec grep -l 'src/interop/' {} + || fail "interop would be compiled"

grep -o 'ckpt_[a-z_]*;' "$build/src/ckpt_core.map" | tr -d ';' | sort > "$scratch/wanted"
nm -D --defined-only "$core" | sed -n 's/.* T \(ckpt_[a-z_]*\)@.*/\1/p' | sort > "$scratch/found"
diff "$scratch/wanted" "$scratch/found" || fail "functions of the map (<) and of the library (>)"
! grep -E 'import|export|file' "$scratch/found" || fail "it has functions of ckpt_file.h"

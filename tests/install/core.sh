#!/bin/bash
# Without libckpt_files: a libckpt that needs no zlib, a tool that says what to install, and a build that configures
# where zlib is not installed. LIBRARY and TOOL are those of the usual build.
#
#   core.sh CMAKE SOURCE LIBRARY TOOL SCRATCH
set -euo pipefail
cmake=$1 source=$2 library=$3 tool=$4 scratch=$5

fail() { echo "failed: $*" >&2; exit 1; }

# expect TEXT COMMAND…: the command fails and says TEXT.
expect() {
  local text=$1 said; shift
  ! said=$("$@" 2>&1) || fail "$* succeeded"
  [[ $said == *"$text"* ]] || fail "$*: $said"
}

rm -rf "$scratch"
mkdir -p "$scratch/lib"

! readelf -d "$library" | grep 'NEEDED.*libz' || fail "it needs zlib"

# The tool and libckpt alone, in a place of their own.
cp "$library" "$scratch/lib/libckpt.so.0"
cp "$tool" "$scratch/ckpt"
echo "file(RPATH_REMOVE FILE $scratch/ckpt)" >"$scratch/rpath.cmake"
"$cmake" -P "$scratch/rpath.cmake"
export LD_LIBRARY_PATH=$scratch/lib
tool=$scratch/ckpt
golden=$(find "$source/tests/golden/r1" -name MANIFEST -print -quit)
"$tool" --version
missing='need libckpt_files, which cannot be loaded: install ckpt-files'
expect "$missing" "$tool" import x.pt "$scratch/store" --label x
expect "$missing" "$tool" export "$(dirname "$golden")" "$scratch/x.pt"
expect "$missing" "$tool" map check llama-hf-to-tune x.safetensors
expect "$missing" "$tool" info "$source/README.md"
echo 'const char* ckpt_file_version_string(void) { return "0.0.9"; }' |
  "${CC:-cc}" -shared -fPIC -x c - -o "$scratch/lib/libckpt_files.so.0"
expect 'found 0.0.9: install the ckpt-files of this ckpt' "$tool" info "$source/README.md"
echo damaged >"$scratch/lib/libckpt_files.so.0"
expect "($scratch/lib/libckpt_files.so.0: file too short)" "$tool" info "$source/README.md"
unset LD_LIBRARY_PATH

# Without S3, nothing of libcurl is needed, and s3:// says so; without RecIS, only what knows its directories is built.
"$cmake" -S "$source" -B "$scratch/no-s3" -DCKPT_S3=OFF -DCKPT_RECIS=OFF -DCKPT_BUILD_TOOL=OFF > "$scratch/log" ||
  fail "$(cat "$scratch/log")"
grep -q CURL_INCLUDE "$scratch/no-s3/CMakeCache.txt" && fail "it looked for libcurl"
! grep -rlE --include='*.ninja' --include='*.make' 'store/s3/|recis/files/(layout|reader|writer)' "$scratch/no-s3" ||
  fail "store/s3 or RecIS would be compiled"

build=$scratch/build
"$cmake" -S "$source" -B "$build" -DCKPT_INTEROP=OFF -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON > "$scratch/log" ||
  fail "$(cat "$scratch/log")"
grep -q 'needs=-llz4 -lstdc++' "$build/ckpt.pc" || fail "ckpt.pc: $(cat "$build/ckpt.pc")"
! grep -E 'ckpt_file|ckpt-files|libz' "$build/cmake_install.cmake" || fail "ckpt_file.h would be installed"
! find "$build" -name '*.ninja' -exec grep -l 'interop/src/' {} + || fail "interop would be compiled"

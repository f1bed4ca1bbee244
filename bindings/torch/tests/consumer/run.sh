#!/bin/bash
# run.sh BUILD CKPT_PREFIX: installs the adapter that was built in BUILD, then builds and runs a program against it, as
# a user without this source tree would. The last line is "N passed, N failed".
set -uo pipefail
build=$(realpath "$1") ckpt=$(realpath "$2")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$build/consumer prefix=$build/consumer/prefix
passed=0 failed=0
launcher=$(command -v ccache || true)

# claim NAME COMMAND…
claim() {
  local name=$1; shift
  if "$@"; then
    passed=$((passed + 1)); echo "$name ... ok"
  else
    failed=$((failed + 1)); echo "$name ... FAILED"
  fi
}

runs() { rm -rf "$work/store" && "$@" "$work/store"; }
installs() { cmake --install "$build" --prefix "$prefix"; }
names_no_path_of_the_build() {
  ! grep -rIl --include='*.pc' --include='*.cmake' -e "$build" -e "$(dirname "$(dirname "$here")")" "$prefix"
}
is_found_by_cmake() {
  cmake -G Ninja -S "$here" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix;$ckpt" \
    -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" &&
    cmake --build "$work/cmake" && runs "$work/cmake/consumer"
}
is_a_component() { # configured alone: what is built is the same
  cmake -G Ninja -S "$here" -B "$work/component" -DCMAKE_PREFIX_PATH="$prefix;$ckpt" -DAS_COMPONENT=ON
}
is_found_by_pkg_config() {
  local paths flags libraries
  paths=$(find "$prefix" "$ckpt" -name '*.pc' -printf '%h:')
  flags=$(PKG_CONFIG_PATH=$paths pkg-config --cflags ckpt-torch) &&
    libraries=$(PKG_CONFIG_PATH=$paths pkg-config --libs ckpt-torch) || return 1
  # shellcheck disable=SC2086  # they are words
  $launcher c++ $flags -c "$here/program.cpp" -o "$work/program.o" &&
    c++ "$work/program.o" $libraries -o "$work/program" || return 1
  runs env LD_LIBRARY_PATH="$(dirname "$(find "$ckpt" -name libckpt.so)")" "$work/program"
}

rm -rf "$work"
mkdir -p "$work"
claim "the adapter is installed" installs
claim "what is installed names no path of the build" names_no_path_of_the_build
claim "CMake's find_package(ckpt_torch) builds a program that runs" is_found_by_cmake
claim "CMake's find_package(ckpt COMPONENTS torch) finds the same" is_a_component
claim "pkg-config ckpt-torch builds a program that runs" is_found_by_pkg_config
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]

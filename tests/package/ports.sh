#!/bin/bash
# What the ports of packaging/ promise: a program that finds ckpt by each of them runs. tools/package ports runs this.
#
#   ports.sh conan WORK TOOLS           TOOLS: a virtual environment with conan and meson
#   ports.sh meson WORK TOOLS PREFIX AMALGAMATION
#   ports.sh vcpkg WORK BUILD
set -euo pipefail
way=$1 work=$2 repo=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$work"
mkdir -p "$work"
fail() { echo "failed: $*" >&2; exit 1; }

# The recipe and its test, with Debian's packages instead of Conan Center's.
conan() {
  export CONAN_HOME=$work/home
  local tool=$1/bin/conan profile=$repo/packaging/conan/system.profile
  "$tool" profile detect
  "$tool" create "$repo/packaging/conan" --profile:all "$profile" --no-remote -o "&:shared=True" \
    -c tools.cmake.cmake_layout:test_folder="$work/test" -c tools.cmake.cmaketoolchain:generator=Ninja
}

# dependency('ckpt') of what is installed in PREFIX, by both methods, and of a subproject, where nothing is installed.
meson() {
  local tool=$1/bin/meson prefix=$2 one=$3 project=$work/project how program libraries
  libraries=$(dirname "$(find "$prefix" -name libckpt.so)")
  cp -r "$repo/tests/install/meson" "$project"
  cp "$repo/examples/c/save_load.c" "$repo/tests/install/consumer/files.c" "$project"
  mkdir -p "$project/subprojects/ckpt"
  cp "$one"/*.{h,cpp} "$repo/packaging/meson/meson.build" "$project/subprojects/ckpt"
  for how in pkg-config cmake subproject; do
    local found=(PKG_CONFIG_PATH="$libraries/pkgconfig" CMAKE_PREFIX_PATH="$prefix" LD_LIBRARY_PATH="$libraries")
    [[ $how != subproject ]] || found=(PKG_CONFIG_LIBDIR=/nowhere)
    env "${found[@]}" "$tool" setup "$project" "$work/$how" -Dhow="$how"
    "$tool" compile -C "$work/$how"
    for program in core files; do
      [[ $how$program == subprojectfiles ]] || env "${found[@]}" "$work/$how/$program" "$work/$how-$program"
    done
  done
}

# The portfile, driven by vcpkg.cmake, for static libraries.
vcpkg() {
  local package=$work/package program
  cmake -DWORK="$work" -DBUILD="$1" -P "$repo/tests/package/vcpkg.cmake"
  [[ -z $(find "$package" -name '*.so*') ]] || fail "a static triplet has shared libraries"
  [[ -s $package/share/ckpt/copyright ]] || fail "no copyright"
  "$package/tools/ckpt/ckpt" --version
  cmake -S "$repo/tests/install/consumer" -B "$work/program" -DCMAKE_PREFIX_PATH="$package" \
    -DEXAMPLES="$repo/examples/c"
  cmake --build "$work/program"
  for program in with_shared with_static files_with_shared files_with_static; do
    "$work/program/$program" "$work/$program.made"
  done
}

"$way" "${@:3}"

#!/bin/bash
# A stranger, who knows nothing of this source tree, installs ckpt and builds the examples against it.
#
#   stranger.sh CMAKE BUILD SOURCE install|shared|static|moved|package|subdirectory
#
# `install` must come first. The others but the last read what it installed and may run at the same time.
# Environment: CC.
set -euo pipefail
cmake=$1 build=$2 source=$3 step=$4
scratch=$build/tests/stranger
prefix=$scratch/prefix
work=$scratch/$step
cc=${CC:-cc}
version=$("$source/tools/version")
unset CKPT_LIBRARY CKPT_TOOL CKPT_BUILD_DIR LD_LIBRARY_PATH

fail() { echo "failed: $*" >&2; exit 1; }

pkg_config_path() { dirname "$(find "$1" -name ckpt.pc)"; }
link_flags() { PKG_CONFIG_PATH=$(pkg_config_path "$1") pkg-config --cflags --libs "${@:2}"; }

# build_and_run PREFIX NAME LINK…: compiles every example with the flags of pkg-config and runs it on a fresh store.
build_and_run() {
  local prefix=$1 name=$2; shift 2
  local flags example libdir
  flags=$(link_flags "$prefix" "$@" ckpt)
  libdir=$(dirname "$(find "$prefix" -name libckpt.a)")
  for example in save_load ranks async; do
    echo "cc ${link[*]} $example.c $flags"
    # shellcheck disable=SC2086  # flags are words
    "$cc" -std=c99 -Wall -Werror "${link[@]}" "$source/examples/c/$example.c" $flags -o "$work/$name-$example"
    rm -rf "$work/store"
    LD_LIBRARY_PATH=$libdir "$work/$name-$example" "$work/store"
  done
  flags=$(link_flags "$prefix" "$@" ckpt-files)
  # shellcheck disable=SC2086
  "$cc" -std=c99 -Wall -Werror "${link[@]}" "$source/tests/install/consumer/files.c" $flags -o "$work/$name-files"
  LD_LIBRARY_PATH=$libdir "$work/$name-files" "$work/files"
  rm -rf "$work/store"
}

rm -rf "$work"
mkdir -p "$work"
link=()
case $step in
  install)
    rm -rf "$prefix"
    "$cmake" --install "$build" --prefix "$prefix"
    for file in include/ckpt.h bin/ckpt share/doc/ckpt/LICENSE share/man/man1/ckpt.1 share/man/man1/ckpt-ls.1 \
      share/bash-completion/completions/ckpt share/zsh/site-functions/_ckpt \
      share/fish/vendor_completions.d/ckpt.fish; do
      [[ -e $prefix/$file ]] || fail "$file is not installed"
    done
    headers=$(find "$prefix/include" -type f -printf '%P\n' | sort | paste -sd ' ')
    expected='ckpt.h ckpt.hpp ckpt/background.hpp ckpt/call.hpp ckpt/error.hpp ckpt/file.hpp ckpt/keeper.hpp '
    expected+='ckpt/memory.hpp ckpt/options.hpp ckpt/table.hpp ckpt/tree.hpp ckpt_backend.h ckpt_file.h ckpt_keeper.h '
    expected+='ckpt_layer.h ckpt_maintain.h ckpt_table.h ckpt_tree.h'
    [[ $headers == "$expected" ]] || fail "installed headers: $headers"
    python3 "$source/tests/pages.py" "$prefix/share/doc/ckpt"
    "$prefix/bin/ckpt" --version
    if grep -rIl --include='*.pc' --include='*.cmake' -e "$build" -e "$source" "$prefix"; then
      fail "a path of the build is installed"
    fi
    ;;
  shared)
    build_and_run "$prefix" shared
    readelf -d "$work/shared-save_load" | grep -q 'NEEDED.*libckpt.so.0' || fail "libckpt.so.0 is not needed"
    ! readelf -d "$work/shared-save_load" | grep -q 'NEEDED.*lz4' || fail "lz4 is linked directly"
    # shellcheck disable=SC2046  # flags are words
    "$cc" -std=c99 -Wall -Werror -shared -fPIC "$source/examples/c/folder_store.c" $(link_flags "$prefix" ckpt) \
      -o "$work/libfolder.so"
    "$prefix/bin/ckpt" check "folder://$work/folder" --backend "$work/libfolder.so"
    ;;
  static)
    # First everything static; then only ckpt's archive, as if no shared library were installed.
    link=(-static)
    build_and_run "$prefix" static --static
    cp -a "$prefix" "$work/archive-only"
    find "$work/archive-only" -name 'libckpt*.so*' -delete
    link=()
    build_and_run "$work/archive-only" archive --static
    ! readelf -d "$work/archive-save_load" | grep -q 'NEEDED.*libckpt' || fail "the shared library was linked"
    ;;
  moved)
    # Installs once more, since other steps may be reading $prefix at this moment.
    "$cmake" --install "$build" --prefix "$work/first"
    mv "$work/first" "$work/elsewhere"
    build_and_run "$work/elsewhere" moved
    "$work/elsewhere/bin/ckpt" --version
    ;;
  package)
    "$cmake" -S "$source/tests/install/consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" \
      -DEXAMPLES="$source/examples/c" -DCMAKE_C_COMPILER="$cc"
    "$cmake" --build "$work/build"
    for program in with_shared with_static files_with_shared files_with_static; do
      rm -rf "$work/store"
      "$work/build/$program" "$work/store"
    done
    for program in with_static files_with_static; do
      ! readelf -d "$work/build/$program" | grep -q 'NEEDED.*libckpt' || fail "the shared library was linked"
    done
    ! said=$("$cmake" -S "$source/tests/install/consumer" -B "$work/none" -DCMAKE_PREFIX_PATH="$prefix" \
      -DEXAMPLES="$source/examples/c" -DMORE_COMPONENTS=none 2>&1) || fail "there is a component none"
    [[ ${said//$'\n'/} == *"there is no component none of ckpt"* ]] || fail "$said"
    ;;
  subdirectory)
    # Of a project of its own, by add_subdirectory and by FetchContent: its settings stay, it finds the headers of C and
    # C++, and its BUILD_SHARED_LIBS says what it links.
    printf '#include <ckpt.hpp>\n#include <ckpt_file.h>\nint main() {}\n' >"$work/a.cpp"
    cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(parent C CXX)
get_cmake_property(names VARIABLES)
list(FILTER names INCLUDE REGEX "^(CMAKE_(C|CXX|POSITION|VISIBILITY|INTERPROCEDURAL|UNITY|BUILD|INSTALL)_?|BUILD_)")
foreach(name \${names})
  set(before_\${name} "\${\${name}}")
endforeach()
if(FETCH)
  include(FetchContent)
  FetchContent_Declare(ckpt SOURCE_DIR $source)
  FetchContent_MakeAvailable(ckpt)
else()
  add_subdirectory($source ckpt EXCLUDE_FROM_ALL)
endif()
foreach(name \${names})
  if(NOT "\${before_\${name}}" STREQUAL "\${\${name}}")
    message(FATAL_ERROR "\${name} was \${before_\${name}} and is \${\${name}}")
  endif()
endforeach()
add_library(a OBJECT a.cpp)
target_link_libraries(a PRIVATE ckpt::files)
file(GENERATE OUTPUT linked CONTENT "\$<TARGET_FILE_NAME:ckpt::ckpt> \$<TARGET_FILE_NAME:ckpt::files>")
END
    linked() { # TEXT SETTING…
      "$cmake" -S "$work" -B "$work/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "${@:2}"
      [[ $(<"$work/build/linked") == "$1" ]] || fail "with ${*:2} it links $(<"$work/build/linked")"
    }
    linked "libckpt.a libckpt_files.a" -DBUILD_SHARED_LIBS=OFF -DFETCH=ON
    linked "libckpt.so.$version libckpt_files.so.$version" -UBUILD_SHARED_LIBS -UFETCH
    grep -x 'CMAKE_BUILD_TYPE:STRING=' "$work/build/CMakeCache.txt" || fail "the build type of the parent is set"
    command=$(python3 -c 'import json, sys
print(next(one["command"] for one in json.load(open(sys.argv[1])) if one["file"] == sys.argv[2]))' \
      "$work/build/compile_commands.json" "$work/a.cpp")
    cd "$work/build" && eval "$command -fsyntax-only"
    ;;
  *) fail "unknown step $step" ;;
esac

# Which compilers take the engine: tools/package --compilers, which sources this. Each reads the amalgamation (a minute,
# where -O2 takes four), in a bare Debian that has it; a suite's folder goes when its compilers have been asked. What a
# compiler is made of it says itself, by its macros. The table is the end of docs/compilers.md.
compilers=(
  "bookworm g++-11" "bookworm g++-12" "bookworm clang++-14" "bookworm clang++-15" "bookworm clang++-16"
  "bookworm clang++-16 -stdlib=libc++"
  "trixie g++-13" "trixie g++-14" "trixie clang++-17" "trixie clang++-18" "trixie clang++-19"
  "trixie clang++-19 -stdlib=libc++"
  "forky g++-15"
  "zig x86_64-linux-gnu.2.28" "zig aarch64-linux-gnu.2.28" "zig x86_64-linux-musl" "zig aarch64-linux-musl"
)
asked=$work/compilers
page=docs/compilers.md

# make_suite SUITE: a Debian with those of its compilers that are asked
make_suite() {
  local root=$asked/$1 row command more packages=()
  for row in "${compilers[@]}"; do
    [[ $row == "$1 "* ]] || continue
    read -r _ command more <<<"$row"
    packages+=("${command/clang++/clang}")
    [[ -z $more ]] || packages+=("libc++-${command##*-}-dev")
  done
  rm -rf "$root"
  quietly "build/log/compilers-$1.txt" debootstrap --variant=minbase "$1" "$root" http://deb.debian.org/debian \
    /usr/share/debootstrap/scripts/sid
  quietly "build/log/compilers-$1.txt" chroot "$root" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${packages[@]}"
}

# describe FROM COMMAND…: a row of the table, of the compiler's macros
describe() {
  printf '#include <%s>\n' version features.h linux/version.h | "${@:2}" -std=c++20 -x c++ -E -dM - | awk -v from="$1" '
    $1 == "#define" { m[$2] = $3 }
    END {
      clang = m["__clang_major__"]
      compiler = clang ? "clang " clang "." m["__clang_minor__"] "." m["__clang_patchlevel__"] \
        : "GCC " m["__GNUC__"] "." m["__GNUC_MINOR__"] "." m["__GNUC_PATCHLEVEL__"]
      libcpp = m["_LIBCPP_VERSION"]
      library = libcpp ? "libc++ " int(libcpp / (libcpp < 100000 ? 1000 : 10000)) : "libstdc++ " m["_GLIBCXX_RELEASE"]
      libc = m["__GLIBC__"] ? "glibc " m["__GLIBC__"] "." m["__GLIBC_MINOR__"] : "musl"
      kernel = int(m["LINUX_VERSION_CODE"] / 65536) "." int(m["LINUX_VERSION_CODE"] / 256) % 256
      printf "| %s | %s | %s | %s | %s |\n", compiler, library, libc, kernel, from
    }'
}

check=(-fsyntax-only)
# ask ROW FROM COMMAND…: whether it takes the engine, and then its row
ask() { claim "${*:5} ($2)" takes "$@"; }
takes() {
  rm -f "$asked/$1.row"
  "${@:3}" -std=c++20 "${check[@]}" -x c++ - <"$asked/engine.cpp" && describe "${@:2}" >"$asked/$1.row"
}
# With ckpt.h in it, since compilers elsewhere read it from a pipe.
write_engine() {
  mkdir -p "$asked"
  rm -f "$asked"/*.row
  sed -e "/^#include \"ckpt.h\"/{r $one/ckpt.h" -e 'd}' "$one/ckpt_amalgamation.cpp" >"$asked/engine.cpp"
}
ask_suite() {
  local suite=$1 number name more from
  make_suite "$suite"
  from=$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$asked/$suite/etc/os-release")
  for number in "${!compilers[@]}"; do
    [[ ${compilers[number]} == "$suite "* ]] || continue
    read -r _ name more <<<"${compilers[number]}"
    # shellcheck disable=SC2086  # $more: a flag, or none
    ask "$number" "$from" chroot "$asked/$suite" "$name" $more
  done
  rm -rf "${asked:?}/$suite"
}
# zig is clang with its own headers: also for other processors, older glibc, and musl.
ask_zig() {
  local number suite target zig check=(-O0 -c -o "$asked/zig.o") # it always wants to write something
  zig=$(echo "$work"/tools/lib/python3*/site-packages/ziglang/zig)
  for number in "${!compilers[@]}"; do
    read -r suite target <<<"${compilers[number]}"
    [[ $suite == zig ]] || continue
    ask "$number" "ziglang, PyPI ($target)" "$zig" c++ -target "$target"
  done
  # A tree of older kernel headers, with the folders linux and asm, if one is given.
  [[ -z ${CKPT_KERNEL_HEADERS:-} ]] ||
    ask 99 "ziglang, with the kernel's headers in CKPT_KERNEL_HEADERS" "$zig" c++ -target x86_64-linux-gnu.2.28 \
      -isystem "$CKPT_KERNEL_HEADERS"
}
write_table() {
  local rows
  mapfile -t rows < <(printf '%s\n' "$asked"/*.row | sort -V)
  {
    sed '/^| compiler/,$d' "$page"
    printf '| compiler | C++ library | C library | kernel headers | from |\n|---|---|---|---|---|\n'
    cat "${rows[@]}"
    printf '\nMade on %s, on %s.\n' "$(date +%F)" "$(uname -m)"
  } >"$asked/page"
  mv "$asked/page" "$page"
}

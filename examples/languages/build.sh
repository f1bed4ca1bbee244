#!/bin/bash
# Builds the programs of this folder against an installed ckpt.
#
#   build.sh PREFIX PROGRAMS     PREFIX: where ckpt is installed; PROGRAMS: the folder for the four programs
#
# Needs a C and a C++ compiler, Go and Rust. The Python of rank.py needs numpy and bindings/python (pip install).
set -euo pipefail
prefix=$(realpath "$1")
mkdir -p "$2"
programs=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$programs/cargo}
rpath=-Wl,-rpath,$prefix/lib
mapfile -t flags < <(pkg-config --cflags --libs ckpt | xargs -n 1)

cc -std=c99 -O2 -Wall -Wextra -Werror rank.c "${flags[@]}" "$rpath" -o "$programs/rank_c"
c++ -std=c++17 -O2 -Wall -Wextra -Werror load.cpp "${flags[@]}" "$rpath" -o "$programs/load_cpp"
CGO_LDFLAGS="$rpath" go build -C go -o "$programs/rank_go" .
RUSTFLAGS="-C link-arg=$rpath" cargo build --quiet --release --locked
cp "$CARGO_TARGET_DIR/release/rank_rust" "$programs/rank_rust"

#!/bin/bash
# Regenerates ckpt-sys/src/bindings.rs from the headers of the installed ckpt (PKG_CONFIG_PATH).
#
#   update_bindings.sh            writes it
#   update_bindings.sh --check    fails and shows the difference if it does not match the headers
#
# libclang comes from PyPI into a venv in CKPT_RUST_VENV (default: build/rust/venv), unless LIBCLANG_PATH is set.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
libclang=18.1.1

if [[ -z ${LIBCLANG_PATH:-} ]]; then
  venv=${CKPT_RUST_VENV:-$here/../../build/rust/venv}
  if ! "$venv/bin/pip" show libclang 2>/dev/null | grep -qx "Version: $libclang"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q "libclang==$libclang"
  fi
  LIBCLANG_PATH=$(dirname "$(find "$venv" -name libclang.so)")
  export LIBCLANG_PATH
  # The wheel has no compiler headers (stddef.h); those of any compiler will do.
  export BINDGEN_EXTRA_CLANG_ARGS="-isystem $("${CC:-cc}" -print-file-name=include) ${BINDGEN_EXTRA_CLANG_ARGS:-}"
fi
cd "$here"
exec cargo run --locked --quiet --package update-bindings -- "$@"

#!/bin/bash
# What Debian's packages promise, on a Debian 12 that has nothing else: tools/package runs it there.
#
#   debian.sh DIST SOURCE      of SOURCE the folders tests and bindings/python are there
set -euo pipefail
dist=$1 source=$2
export DEBIAN_FRONTEND=noninteractive
ours=(libckpt0 libckpt-files0 libckpt-dev ckpt python3-ckpt)
fail() { echo "failed: $*" >&2; exit 1; }
get() { apt-get -q -y "$@"; }
# All files of the machine's own, without what apt keeps.
files() { find / -xdev -path /var/cache -prune -o -path /var/log -prune -o -path /var/lib/apt -prune -o -print | sort; }

# First what Debian has of what they need, so that the rest is theirs.
get update
apt-get install -s "$dist"/libckpt0_*.deb | grep '^Inst libcurl4 ' || fail "libcurl4 does not come with libckpt0"
needed=$(apt-get install -s --no-install-recommends "$dist"/*.deb | awk '$1 == "Inst" && $2 !~ /ckpt/ { print $2 }')
# shellcheck disable=SC2086  # words
get install --no-install-recommends $needed libcurl4 python3-numpy g++ cmake make pkg-config man-db
files >/tmp/before
get install --no-install-recommends "$dist"/*.deb
cd "$(mktemp -d)"

# The tool, its pages, and each link of the guides.
ckpt --version
for page in ckpt ckpt-ls; do man "$page" | grep '^NAME' || fail "man $page"; done
for file in bash-completion/completions/ckpt zsh/vendor-completions/_ckpt fish/vendor_completions.d/ckpt.fish; do
  [[ -s /usr/share/$file ]] || fail "no $file"
done
python3 "$source/tests/pages.py" /usr/share/doc/ckpt
for package in "${ours[@]}"; do
  grep '^License: Apache-2.0' "/usr/share/doc/$package/copyright" || fail "$package has no licence"
done
said=$(ckpt info https://127.0.0.1:1/run/step-1.1.1 -o timeout_ms=2000 2>&1) && fail "a server that is not there"
[[ $said == *"Failed to connect"* ]] || fail "https:// does not find libcurl: $said"

# C, by pkg-config and by CMake.
examples=/usr/share/doc/libckpt-dev/examples
# shellcheck disable=SC2046  # flags are words
cc "$examples/save_load.c" $(pkg-config --cflags --libs ckpt) -o save_load
./save_load store
ckpt verify store@latest
cmake -S "$source/tests/install/consumer" -B build -DEXAMPLES="$examples"
cmake --build build
for program in with_shared with_static files_with_shared files_with_static; do "build/$program" "$program.made"; done

# Python: the README's first save and load, and a mapping of libckpt-files0 without the folder of a build.
mkdir /data
{
  echo 'import ckpt, importlib.metadata, numpy'
  echo 'array = numpy.arange(6, dtype="f4")'
  awk '/here of numpy:/ { seen = 1 } /^```/ { inside += seen; next } inside == 1' "$source/bindings/python/README.md"
  echo 'assert state["step"] == 100 and (state["w"] == array).all()'
  echo 'assert importlib.metadata.version("libckpt") == ckpt.__version__ == ckpt.version()'
  echo 'ckpt.save("named", {"module.w": array}, step=1)'
} >first.py
python3 first.py
ckpt export named@latest w.safetensors
ckpt import w.safetensors imported --map prefix-module-to-none
ckpt ls imported

# Nothing stays.
rm -r /data
get purge "${ours[@]}"
files >/tmp/after
diff /tmp/before /tmp/after || fail "left by the purge, or taken by it"
! dpkg-query -W '*ckpt*' | grep -q . || fail "known to dpkg"

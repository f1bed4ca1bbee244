# Helpers of the commands in tools/; sourced, not run. Needs bash; sets $repo and changes into it.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$repo"
export LC_ALL=C.UTF-8 PIP_DISABLE_PIP_VERSION_CHECK=1
jobs=$(nproc)

if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi

say() { printf '%s== %s%s\n' "$bold" "$*" "$plain"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
now() { date +%s.%N; }
# seconds_since START [DECIMALS]; never 0, so that it can be divided by
seconds_since() {
  awk -v a="$1" -v b="$(now)" -v d="${2:-1}" 'BEGIN { t = b - a; if (t < 0.01) t = 0.01; printf "%." d "f", t }'
}

# step TITLE COMMAND…: says what is done, does it, says how long it took. A failure ends the script (set -e).
# The command is not part of a condition: bash would ignore errors inside it.
step() {
  step_title=$1 step_start=$(now); shift
  say "$step_title"
  "$@"
  printf '   done in %s s\n' "$(seconds_since "$step_start")"
  step_title=
}
step_title=

# What the script leaves behind: a script may have a function `cleanup` for that.
on_exit() {
  local status=$?
  trap - EXIT
  if [[ $status != 0 && -n $step_title ]]; then
    printf '== FAILED after %s s: %s\n' "$(seconds_since "$step_start")" "$step_title"
  fi
  if declare -F cleanup >/dev/null; then cleanup; fi
  exit "$status"
}
trap on_exit EXIT

# quietly LOG COMMAND…: output goes to LOG, and is shown when the command fails.
quietly() {
  local log=$1; shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 || { tail -n 60 "$log"; echo "   (all of it: $log)"; return 1; }
}

# What the build and the tests need from Debian; nothing else is used.
packages=(
  ca-certificates g++ cmake ninja-build ccache pkg-config binutils
  flatbuffers-compiler libflatbuffers-dev liblz4-dev libxxhash-dev
  zlib1g-dev libgtest-dev libcli11-dev libfmt-dev nlohmann-json3-dev libbenchmark-dev
  python3 python3-pip python3-venv strace
)
# The older of the two LibTorch that the adapter is built against, and its Python.
torch_packages=(libtorch-dev libgloo-dev python3-torch)

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

# Installs what is missing of $packages; without a missing package it needs neither network nor root.
install_packages() {
  local missing=() as_root=()
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -gt 0 ]] || { echo "   nothing to install"; return 0; }
  command -v apt-get >/dev/null || die "needs Debian or Ubuntu to install: ${missing[*]}"
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || die "as root, please: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  echo "   installing ${missing[*]}"
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  quietly build/log/apt-update.txt "${as_root[@]}" apt-get update -q </dev/null
  as_root+=(apt-get install -q -y --no-install-recommends)
  quietly build/log/apt-install.txt "${as_root[@]}" "${missing[@]}" </dev/null
}

# build PRESET [TARGET…] with the CMake settings in $settings
build() {
  local preset=$1 targets=() target; shift
  for target in "$@"; do targets+=(--target "$target"); done
  quietly "build/log/$preset-configure.txt" cmake --preset "$preset" "${settings[@]}"
  quietly "build/log/$preset-build.txt" cmake --build --preset "$preset" -j "$jobs" "${targets[@]}"
}
settings=()

# The library and the tool, built and installed for a demo at PREFIX; the tests of an earlier build stay as they are.
build_library() {
  settings=(-DCKPT_BUILD_TESTS=OFF)
  [[ -e build/release/CMakeCache.txt ]] && settings=()
  build release ckpt_shared ckpt_static ckpt_tool
  quietly build/log/demo-install.txt cmake --install build/release --prefix "$1"
  "$1/bin/ckpt" --version | indent
}
indent() { sed 's/^/   /'; }

# counted NAME COMMAND…: a command whose last line is "N passed, N failed"; adds them to $passed and $failed, and shows
# the log of a failure.
counted() {
  local name=$1 log=build/log/$1.txt good bad; shift
  "$@" >"$log" 2>&1 || true
  read -r good _ bad _ < <(tail -n 1 "$log")
  [[ $good =~ ^[0-9]+$ && $bad =~ ^[0-9]+$ ]] || good=0 bad=1
  [[ $bad == 0 ]] || { grep -vE ' \.\.\. ok$' "$log" | tail -n 80; echo "   (all of it: $log)"; }
  passed=$((passed + good)) failed=$((failed + bad))
  echo "   $name: $good passed, $bad failed"
}

# counted_aloud COMMAND…: the same, for a command whose steps are to be seen.
counted_aloud() {
  local log good bad
  log=build/log/$(basename "$1")-counts.txt
  "$@" | tee "$log" || true
  read -r good _ bad _ < <(tail -n 1 "$log")
  [[ $good =~ ^[0-9]+$ && $bad =~ ^[0-9]+$ ]] || good=0 bad=1
  passed=$((passed + good)) failed=$((failed + bad))
}

# The newer LibTorch: PyPI's wheel in a virtual environment of its own. `whole` can be imported by Python (4 GB, a
# minute); `libraries` is what a C++ program needs to link and run (1.2 GB).
torch_version=2.15.0
torch_venv=build/torch-venv
make_torch_venv() {
  local what=$1 stamp=$torch_venv/made-with wanted=("torch==$torch_version")
  if [[ $what == whole ]]; then
    wanted+=(numpy==2.4.6)
  else
    wanted+=(nvidia-cuda-runtime==13.2.86 nvidia-cuda-cupti==13.2.86 --no-deps)
  fi
  if [[ -e $stamp ]] && grep -qxE "whole|$what" "$stamp"; then
    echo "   $torch_venv is there"
    return 0
  fi
  rm -f "$stamp"
  quietly build/log/torch-venv.txt python3 -m venv "$torch_venv"
  quietly build/log/torch-pip.txt "$torch_venv/bin/pip" install -q --no-cache-dir "${wanted[@]}" </dev/null
  echo "$what" >"$stamp"
}
torch_root() { echo "$repo/$torch_venv"/lib/python3*/site-packages/torch; }

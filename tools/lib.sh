# Helpers for the commands in tools/; sourced, not run. Needs bash; sets $repo and changes into it.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$repo"
export LC_ALL=C.UTF-8 PIP_DISABLE_PIP_VERSION_CHECK=1
export PIP_NO_COMPILE=1  # of thousands of modules few are imported; that takes half of an installation's time
jobs=$(nproc)
prefix=$repo/build/prefix # the release build installed, for the tests of bindings and for demos

if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi

say() { printf '%s== %s%s\n' "$bold" "$*" "$plain"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
now() { date +%s.%N; }
# seconds_since START [DECIMALS]; never 0, so that one can divide by it
seconds_since() {
  awk -v a="$1" -v b="$(now)" -v d="${2:-1}" 'BEGIN { t = b - a; if (t < 0.01) t = 0.01; printf "%." d "f", t }'
}

# step TITLE COMMAND…: prints the title, runs the command, prints how long it took. A failure ends the script (set -e).
# The command is not in a condition: there bash would ignore errors inside it.
step() {
  if goes_on; then going_on "$@"; return; fi
  step_title=$1 step_start=$(now); shift
  say "$step_title"
  "$@"
  step_ends
  printf '   done in %s s\n' "$step_seconds"
  step_title=
}

# tools/test --all takes hours. With the folder $CKPT_STEPS a failed step does not end the script, and one that passed
# leaves its results there and is not run again: so what was cut off can be resumed. See steps_of_tree.
goes_on() { [[ -n ${CKPT_STEPS:-} && -n ${CKPT_RESULTS:-} ]]; }
going_on() {
  local title=$1 passed=$CKPT_STEPS/${1//[^A-Za-z0-9.]/-}.tsv status=0; shift
  say "$title"
  if [[ -e $passed ]]; then
    cat "$passed" >>"$CKPT_RESULTS"
    echo "   passed before, on this tree"
    return 0
  fi
  : >"$passed.new"
  set +e
  (set -e; step_title=$title step_start=$(now) CKPT_RESULTS=$passed.new; "$@"; step_title=$title; step_ends)
  status=$?
  set -e
  [[ $status == 0 ]] || CKPT_RESULTS=$passed.new record failed "$title: exit status $status"
  cat "$passed.new" >>"$CKPT_RESULTS"
  if grep -q ^failed "$passed.new"; then rm "$passed.new"; else mv "$passed.new" "$passed"; fi
}
# A folder for this very tree, changes and new files included.
steps_of_tree() {
  local index
  index=$(mktemp)
  rm "$index"
  GIT_INDEX_FILE=$index git add -A
  echo "$repo/build/passed/$(GIT_INDEX_FILE=$index git write-tree)"
  rm "$index"
}
step_ends() {
  step_seconds=$(seconds_since "$step_start")
  record step "$step_seconds" "$step_title"
}
step_title=

# together FUNCTION…: runs functions with steps of their own side by side, for steps that leave a core idle. Prints the
# output of each as a whole. A failure ends only that function; the script ends when all have ended.
together() {
  local name pid status=0
  say "side by side, shown when they end: $*"
  set -m # each in a process group, which on_exit can end
  for name; do
    # Not in a condition, as in `step`. The outermost script cleans up, and names no failure a second time.
    (trap on_exit EXIT; unset -f cleanup; together=(); "$name") >"build/log/together-$name.txt" 2>&1 </dev/null &
    together+=($!)
  done
  set +m
  for name; do
    pid=${together[0]}
    wait "$pid" || status=$?
    together=("${together[@]:1}")
    cat "build/log/together-$name.txt"
  done
  return "$status"
}
together=()

# At the end of the script: calls its function `cleanup`, if it has one.
on_exit() {
  local status=$? pid
  trap - EXIT
  for pid in "${together[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
  if [[ $status != 0 && -n $step_title ]]; then
    step_ends
    printf '== FAILED after %s s: %s\n' "$step_seconds" "$step_title"
    record failed "$step_title (what followed was not done)"
  fi
  if declare -F cleanup >/dev/null; then cleanup; fi
  exit "$status"
}
trap on_exit EXIT

# quietly LOG COMMAND…: writes the output to LOG, and shows it if the command fails.
quietly() {
  local log=$1; shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 || { tail -n 60 "$log"; echo "   (all of it: $log)"; return 1; }
}

# fuzz NAME SECONDS FOLDER [OPTION…]: what fails or is slow goes to FOLDER; new inputs stay in build/fuzz/inputs, where
# the next run begins.
fuzz() {
  local inputs=build/fuzz/inputs/$1 corpus
  mkdir -p "$inputs"
  corpus=$(find tests interop contrib -path "*/fuzz/corpus/$1")
  "build/fuzz/tests/fuzz/$1_fuzz" -max_total_time="$2" -artifact_prefix="$3/" "${@:4}" "$inputs" "$corpus"
}

# All Debian packages that the build and the tests need.
packages=(
  ca-certificates g++ cmake ninja-build ccache pkg-config binutils
  flatbuffers-compiler libflatbuffers-dev liblz4-dev libxxhash-dev libcurl4-openssl-dev
  zlib1g-dev libgtest-dev libcli11-dev nlohmann-json3-dev libbenchmark-dev
  python3 python3-pip python3-venv strace default-jre-headless maven curl
)
# The older of the two LibTorch versions of the adapter, and its Python.
torch_packages=(libtorch-dev libgloo-dev python3-torch)

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

# Installs the missing ones of $packages; if none is missing, it needs neither network nor root.
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

# The S3 server of the tests (tests/s3/run.sh).
s3proxy=build/s3/s3proxy-4.1.0-jar-with-dependencies.jar
fetch_s3proxy() {
  local name=${s3proxy##*/} sum=a4d025969aaf796616ed4b1e2491d87d455ce84bb28cb9db086b2e6aaa68b48d
  [[ ! -e $s3proxy ]] || { echo "   $s3proxy is there"; return 0; }
  mkdir -p build/s3/new
  quietly build/log/s3proxy.txt mvn -q -B dependency:copy -DoutputDirectory="$repo/build/s3/new" \
    -Dartifact=org.gaul:s3proxy:4.1.0:jar:jar-with-dependencies </dev/null
  echo "$sum  build/s3/new/$name" | sha256sum --check --quiet
  mv "build/s3/new/$name" "$s3proxy"
}

# Others, in Go. MinIO has no releases for Go; its licence (AGPL) does not concern what only sends it requests.
versitygw=build/s3/versitygw minio=build/s3/minio
fetch_versitygw() { fetch_go "$versitygw" github.com/versity/versitygw/cmd/versitygw v1.8.0; }
fetch_minio() { fetch_go "$minio" github.com/minio/minio v0.0.0-20260212201848-7aac2a2c5b7c; }
# fetch_go PROGRAM PACKAGE VERSION
fetch_go() {
  [[ ! -e $1 ]] || ! go version -m "$1" | grep -q "$3" || { echo "   $1 is there"; return 0; }
  GOBIN=$repo/build/s3 quietly "build/log/${1##*/}.txt" go install "$2@$3" </dev/null
}

# build PRESET [TARGET…] with the CMake settings in $settings
build() {
  local preset=$1 targets=() target; shift
  for target in "$@"; do targets+=(--target "$target"); done
  quietly "build/log/$preset-configure.txt" cmake --preset "$preset" "${settings[@]}"
  quietly "build/log/$preset-build.txt" cmake --build --preset "$preset" -j "$jobs" "${targets[@]}"
}
settings=()

# Builds and installs the library and the tool for a demo; tests of an earlier build stay as they are.
build_library() {
  settings=(-DCKPT_BUILD_TESTS=OFF)
  [[ -e build/release/CMakeCache.txt ]] && settings=()
  build release ckpt_installed
  quietly build/log/demo-install.txt cmake --install build/release --prefix "$prefix"
  "$prefix/bin/ckpt" --version | indent
}
indent() { sed 's/^/   /'; }

# ---- results ----
# The file $CKPT_RESULTS holds the number of passed tests, the names of failed ones, and the time of each step;
# results.py reads and writes it. A command and the commands that it starts share it; the outermost shows it at its end.
open_results() {
  [[ -z ${CKPT_RESULTS:-} ]] || return 0
  export CKPT_RESULTS=$repo/build/log/${0##*/}-results.tsv
  mkdir -p build/log
  printf 'began\t%s\n' "$(now)" >"$CKPT_RESULTS"
  cleanup() {
    [[ $status == 0 ]] || grep -q ^failed "$CKPT_RESULTS" || record failed "${0##*/}: exit status $status"
    python3 tools/results.py show || [[ $status != 0 ]] || status=1
  }
}
# record WORD…: adds a line to the file; does nothing if tests are not counted.
record() { [[ -z ${CKPT_RESULTS:-} ]] || (IFS=$'\t'; printf '%s\n' "$*" >>"$CKPT_RESULTS"); }

# counted KIND NAME COMMAND…: runs a command that runs tests; results.py reads its output as KIND.
counted() {
  local kind=$1 name=$2 status=0 log; shift 2
  log=build/log/${name//[^A-Za-z0-9.]/-}.txt
  "$@" >"$log" 2>&1 </dev/null || status=$?
  python3 tools/results.py add "$kind" "$name" "$log" "$status"
}

# claim NAME COMMAND…: one test, which passes if the command succeeds. Shows its output if it fails.
claim() {
  local name=$1 log line; shift
  log=build/log/${name//[^A-Za-z0-9.]/-}.txt
  if "$@" >"$log" 2>&1 </dev/null; then
    record passed 1
    echo "   $name: ok"
  else
    record failed "$name"
    while IFS= read -r line; do record why "$line"; done < <(tail -n 5 "$log")
    tail -n 60 "$log"
    echo "   $name: FAILED (all of it: $log)"
  fi
}

# part COMMAND…: runs another command of tools/, which records its own results. If it records none, or fails without
# recording a failure, that is recorded as one.
part() {
  local before failures status=0
  before=$(count_results) failures=$(count_results failed)
  "$@" || status=$?
  if [[ $(count_results) == "$before" ]]; then
    record failed "$*: no test ran"
  elif [[ $status != 0 && $(count_results failed) == "$failures" ]]; then
    record failed "$*"
  fi
}
count_results() { grep -c "^${1:-\(passed\|failed\)}" "$CKPT_RESULTS" || true; }

# run_ctest NAME [ctest's arguments…]: two more at a time than there are cores, since many tests wait
run_ctest() {
  local name=$1 report=$repo/build/log/$1-junit.xml status=0; shift
  rm -f "$report"
  ctest "$@" -j $((jobs + 2)) --test-output-truncation head --quiet \
    --output-log "$repo/build/log/$name-ctest.txt" --output-junit "$report" ||
    status=$?
  python3 tools/results.py add ctest "$name" "$report" "$status"
}

# make_python FOLDER PACKAGE…
make_python() {
  local folder=$1 stamp=$1/made-with; shift
  [[ -e $stamp && $(<"$stamp") == "$*" ]] && { echo "   $folder is there"; return 0; }
  rm -rf "$folder"
  quietly build/log/venv.txt python3 -m venv "$folder"
  quietly build/log/pip.txt "$folder/bin/pip" install -q "$@" </dev/null
  echo "$*" >"$stamp"
}

# The newer LibTorch: PyPI's wheel in its own virtual environment. Python can import `whole` (4 GB, a minute);
# `libraries` is what a C++ program needs to link and run (1.2 GB).
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

# NVIDIA's runtimes of CUDA 13 and 12 and their headers, from PyPI (12 MB): for tests/cuda.
cuda_packages=(nvidia-cuda-runtime==13.5.37 nvidia-cuda-crt==13.5.37 nvidia-cuda-runtime-cu12==12.9.79)
make_cuda_venv() {
  local stamp=build/cuda-venv/made-with
  [[ -e $stamp && $(<"$stamp") == "${cuda_packages[*]}" ]] && { echo "   build/cuda-venv is there"; return 0; }
  rm -rf build/cuda-venv
  quietly build/log/cuda-venv.txt python3 -m venv build/cuda-venv
  quietly build/log/cuda-pip.txt build/cuda-venv/bin/pip install -q --no-deps "${cuda_packages[@]}" </dev/null
  echo "${cuda_packages[*]}" >"$stamp"
}

# make_over_torch FOLDER PIP-ARGUMENT…: a virtual environment that finds torch in that of make_torch_venv, and what else
# it has where it has no version of its own.
make_over_torch() {
  local folder=$1 stamp=$1/made-with name=${1##*/}; shift
  [[ -e $stamp && $(<"$stamp") == "$*" ]] && { echo "   $folder is there"; return 0; }
  rm -rf "$folder"
  quietly "build/log/$name-venv.txt" python3 -m venv "$folder"
  echo "$repo/$torch_venv"/lib/python3*/site-packages >"$(echo "$folder"/lib/python3*/site-packages)/torch.pth"
  quietly "build/log/$name-pip.txt" "$folder/bin/pip" install -q --no-cache-dir "$@" </dev/null
  echo "$*" >"$stamp"
}

torch_root() { echo "$repo/$torch_venv"/lib/python3*/site-packages/torch; }

# install_binding VENV [PACKAGE…]: makes the virtual environment if it is not there, and installs Python's ckpt into it.
install_binding() {
  local venv=$1; shift
  [[ -e $venv/bin/python3 ]] || quietly build/log/demo-venv.txt python3 -m venv "$venv"
  PKG_CONFIG_PATH=$prefix/lib/pkgconfig quietly build/log/demo-pip.txt \
    "$venv/bin/pip" install -q "$@" ./bindings/python </dev/null
}

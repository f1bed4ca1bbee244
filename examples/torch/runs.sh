# Starts and kills runs of the trainer; sourced by tools/demo-torch and resume_test.sh, which set $trainer (a command),
# $data and $work. A run has a name: rank R's output is $work/NAME-R.txt, its losses are $work/NAME-R.losses.
runs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/runs.py
pids=() codes=() norm=batch options=() # options: more arguments of the trainer

# start_run NAME WORLD STORE STEPS: in the background. Rank $die_rank, or `all`, kills itself at step $die_at, if set.
start_run() {
  local name=$1 world=$2 store=$3 steps=$4 rank arguments extra
  arguments=(--data "$data" --store "$store" --world "$world" --rendezvous "$work/$name.meet" --norm "$norm"
             --steps "$steps" "${options[@]}")
  rm -f "$work/$name.meet"
  for ((rank = 0; rank < world; rank++)); do
    extra=()
    [[ ${die_rank:-} != "$rank" && ${die_rank:-} != all ]] || extra=(--die-at-step "$die_at")
    "${trainer[@]}" "${arguments[@]}" --rank "$rank" --losses "$work/$name-$rank.losses" "${extra[@]}" \
      >"$work/$name-$rank.txt" 2>&1 &
    pids+=($!)
  done
}

# Sets $codes to the exit codes of all ranks. Silent: bash would print which of its jobs were killed.
finish_run() {
  local pid code
  codes=()
  for pid in "${pids[@]}"; do
    code=0
    wait "$pid" || code=$?
    codes+=("$code")
  done 2>/dev/null
  pids=()
}

# run NAME WORLD STORE STEPS: to the end, or fails.
run() {
  start_run "$@"
  finish_run
  [[ ${codes[*]} =~ ^0( 0)*$ ]] && return
  echo "   run $1: exit codes ${codes[*]}"
  tail -n 5 "$work/$1"-*.txt
  return 1
}

# kill_run NAME WORLD STORE STEPS RANK STEP: RANK (or `all`) kills itself at STEP; the others must fail too.
kill_run() {
  local die_rank=$5 die_at=$6 rank
  start_run "${@:1:4}"
  finish_run
  echo "   rank $die_rank was killed at step $die_at; exit codes: ${codes[*]}"
  for rank in "${!codes[@]}"; do
    if [[ $rank == "$die_rank" || $die_rank == all ]]; then
      [[ ${codes[rank]} == 137 ]] || return 1
    else
      [[ ${codes[rank]} == 1 ]] || return 1
      tail -n 1 "$work/$1-$rank.txt" | sed 's/^/   /' | cut -c -120
    fi
  done
}

wait_for_step() {
  local name=$1 step=$2
  until [[ -s $work/$name-0.losses && $(last_step "$name") -ge $step ]]; do
    kill -0 "${pids[0]}" 2>/dev/null || { tail -n 5 "$work/$name"-*.txt; return 1; }
    sleep 0.01
  done
}

# stop_run NAME RANK STEP: SIGTERM for RANK of the started run, as soon as step STEP is done. All ranks must save the
# same step and end without an error.
stop_run() {
  local name=$1 rank=$2 step=$3 stopped
  wait_for_step "$name" "$step"
  kill -TERM "${pids[rank]}"
  finish_run
  stopped=$(cat "$work/$name"-*.txt | grep '^stopped' | sort | uniq -c)
  echo "   SIGTERM for rank $rank after step $step; exit codes: ${codes[*]}; $stopped" | tr -s ' ' | sed 's/^/  /'
  [[ ${codes[*]} =~ ^0( 0)*$ && $stopped =~ ^\ *${#codes[@]}\ stopped && $(wc -l <<<"$stopped") == 1 ]]
}

# kill_all NAME STEP: kill -9 for all ranks of the started run, as soon as step STEP is done.
kill_all() {
  local name=$1 step=$2
  wait_for_step "$name" "$step"
  kill -9 "${pids[@]}"
  finish_run
  echo "   all ranks were killed after step $(last_step "$name"); exit codes: ${codes[*]}"
  [[ ${codes[*]} =~ ^137( 137)*$ ]]
}

last_step() { awk 'NF == 3 { step = $1 } END { print step + 0 }' "$work/$1-0.losses"; }
kill_what_runs() { [[ ${#pids[@]} == 0 ]] || kill -9 "${pids[@]}" 2>/dev/null || true; }

# same_losses REFERENCE RESUMED, close_losses REFERENCE RESUMED TOLERANCE, same_state SAVER LOADER: by the runs' names
same_losses() { python3 "$runs" same "$work/$1-0.losses" "$work/$2-0.losses"; }
close_losses() { python3 "$runs" close "$work/$1-0.losses" "$work/$2-0.losses" "$3"; }
same_state() { python3 "$runs" state "$work/$1" "$work/$2"; }

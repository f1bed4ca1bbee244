#!/bin/bash
# One save by four processes in four languages, then a load by three processes in C++.
#
#   run.sh PROGRAMS STORE [PYTHON]     PROGRAMS: the folder with rank_go, rank_rust, rank_c and load_cpp
#
# Acts as a launcher: starts rank 0, reads the session's string from its first line, and passes it to the others.
set -euo pipefail
programs=$1 store=$2 python=${3:-python3}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT

coproc rank0 { exec "$programs/rank_go" "$store" 0 4; }
rank0_pid=$! rank0_output=${rank0[0]}
read -r CKPT_SESSION <&"$rank0_output"
export CKPT_SESSION
"$programs/rank_rust" "$store" 1 4 >"$outputs/1" &
pids[1]=$!
"$python" "$here/rank.py" "$store" 2 4 >"$outputs/2" &
pids[2]=$!
"$programs/rank_c" "$store" 3 4 >"$outputs/3" &
pids[3]=$!
cat <&"$rank0_output"
failed=0
wait "$rank0_pid" || failed=1
for rank in 1 2 3; do
  wait "${pids[rank]}" || failed=1
  cat "$outputs/$rank"
done
[[ $failed == 0 ]] || { echo "run.sh: a rank failed" >&2; exit 1; }

for rank in 0 1 2; do
  "$programs/load_cpp" "$store" "$rank" 3 >"$outputs/load$rank" &
  pids[rank]=$!
done
for rank in 0 1 2; do
  wait "${pids[rank]}" || failed=1
  cat "$outputs/load$rank"
done
exit "$failed"

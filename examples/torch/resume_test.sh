#!/bin/bash
# resume_test.sh TRAINER: a killed run, resumed on as many ranks, computes the losses of an uninterrupted one to the
# bit. On other numbers of ranks (2, 3, 1) the restored state is identical to the bit, and the losses agree up to the
# order of floating-point additions. Made-up images, no network, no timing.
set -euo pipefail
export LC_ALL=C.UTF-8
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
trainer=$(realpath "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/ckpt-resume.XXXXXX")
data=$work/digits.bin
source "$here/runs.sh"
cleanup() { kill_what_runs; rm -rf "$work"; }
trap cleanup EXIT
python3 "$here/digits.py" make-up "$data"

# compare_losses REFERENCE RESUMED: up to the order of additions. Largest difference seen: 5e-6 of a loss.
compare_losses() { close_losses "$1" "$2" 1e-4; }

echo "two ranks, batch norm and dropout: killed twice, resumed to the bit"
run whole 2 "$work/whole" 80
kill_run first 2 "$work/store" 80 1 40
kill_run second 2 "$work/store" 80 all 63
same_state first second
same_losses whole second
run third 2 "$work/store" 80
same_state second third
same_losses whole third
diff <(grep accuracy "$work/whole-0.txt") <(grep accuracy "$work/third-0.txt")

norm=group
echo "killed on two ranks, resumed on one"
run even 2 "$work/even" 80
kill_run pair 2 "$work/store2" 80 0 40
cp -r "$work/store2" "$work/store1"
run one 1 "$work/store1" 80
same_state pair one
compare_losses even one

echo "two, three, one"
run three 3 "$work/store2" 60
same_state pair three
compare_losses even three
run last 1 "$work/store2" 80
same_state three last
compare_losses even last

#!/bin/bash
# tools/gpu-check without a GPU: what it refuses, and a dry run with an nvidia-smi of our own and the fake libcudart, of
# all steps but those that need a driver. tools/test runs it.
#
#   gpu_check_test.sh PYTHON WORK     PYTHON: with ckpt, numpy and pytest. build/release is used as it is.
set -euo pipefail
[[ $# == 2 ]] || { sed -n '2,/^set/p' "$0"; exit 2; }
repo=$(cd "$(dirname "$0")/../.." && pwd)
work=$(realpath -m "$2") gpu_check=$repo/tools/gpu-check
rm -rf "$work"
mkdir -p "$work/bin" "$work/nothing"
cat >"$work/bin/nvidia-smi" <<'SMI'
#!/bin/bash
case "$*" in
  *gpu=name*) echo "${FAKE_GPU-Fake GPU}" ;;
  *driver_version*) echo 999.99 ;;
  *memory.free*) echo "${FAKE_GPU_MIB:-4096}" ;;
  *) exit 2 ;;
esac
exit "${FAKE_SMI_STATUS:-0}"
SMI
chmod +x "$work/bin/nvidia-smi"
fake=$repo/build/release/tests/fake_cuda/libcudart.so.13
check() {
  env PATH="$work/bin:$PATH" CKPT_CUDART_LIBRARY="$fake" CKPT_GPU_PYTHON="$python" CKPT_RESULTS= "$@"
}
python=$1
failed() { printf 'FAILED: %s\n' "$*"; exit 1; }

# refused TEXT COMMAND…: it fails, and says why; and there is no table.
dry_run=$repo/build/gpu/dry-run.md table=$(sha256sum "$repo/bench/GPU.md")
refused() {
  local text=$1 said; shift
  if said=$("$@" 2>&1); then failed "not refused: $*"; fi
  grep -qF "$text" <<<"$said" || failed "expected \"$text\", found: $said"
  [[ ! -e $dry_run ]] || failed "a table of a check that failed: $*"
  echo "ok: $text"
}
small=("$gpu_check" "$work/disk" 16M)
for tool in bash dirname nproc realpath mkdir rm date awk; do ln -s "$(command -v $tool)" "$work/nothing/$tool"; done
refused "no nvidia-smi: this machine has no driver" env PATH="$work/nothing" CKPT_RESULTS= "$gpu_check"
refused "nvidia-smi fails: no driver" check FAKE_GPU="no driver" FAKE_SMI_STATUS=9 "$gpu_check"
refused "nvidia-smi finds no device" check FAKE_GPU= "$gpu_check"
refused "there is no /nowhere" check CKPT_CUDART_LIBRARY=/nowhere/libcudart.so.13 "${small[@]}"
refused "2 on the fake device: a dry run takes at most 128M" check "$gpu_check" "$work/disk"
refused "1.5 is no size" check "$gpu_check" "$work/disk" 1.5
refused "16M: the device has 100 MiB free" check FAKE_GPU_MIB=100 "$gpu_check" --no-torch "$work/disk" 16M
# A test that fails: of the engine, where there is no device, and of Python.
refused "s: tests on the device" check FAKE_CUDART_ERROR=35 "${small[@]}"
printf '#!/bin/bash\n[[ $* != *pytest* ]] || { echo "1 failed"; exit 1; }\nexec "%s" "$@"\n' "$python" >"$work/python"
chmod +x "$work/python"
refused "1 failed" check CKPT_GPU_PYTHON="$work/python" "${small[@]}"

check FAKE_GPU_MIB=700 "$gpu_check" "$work/disk" 64M 128M >"$work/said.txt"
cat "$work/said.txt"
for claim in '^# A dry run on the fake device: these figures mean nothing$' \
  '^\* Device: Fake GPU, driver 999\.99; .*, 20[0-9]*-[0-9]*-[0-9]*$' '^\* Revision: .' '^\* torch: not run$' \
  '^\* Not run: Python with torch on the device: torch has no driver here$' \
  '^\* Not run: LibTorch on the device: torch has no driver here$' \
  '^\* Not run: 128M: the device has 700 MiB free' \
  '^| 0.0625 GiB | stall: at most 1.10 x |.* met' '^| 0.0625 GiB | durable: at most 1.05 x |.* met' \
  '^| 0.0625 GiB | load: at most 1.11 x |.* met'; do
  grep -q "$claim" "$dry_run" || failed "no line $claim in $dry_run"
done
[[ $(grep -c '0.0625 GiB |' "$dry_run") == 3 && $(grep -c '\[  PASSED' "$work/said.txt") == 2 ]] || failed "not all ran"
[[ $(grep -c ' passed in ' "$work/said.txt") == 1 ]] || failed "Python's tests were not run, or torch's were"
[[ $(sha256sum "$repo/bench/GPU.md") == "$table" ]] || failed "bench/GPU.md has changed"
echo "ok: the dry run"

#!/bin/bash
# The training loop of a README with the wheel, run twice: the second run goes on from the first. See wheel.sh.
#
#   readme.sh PYTHON DIST README TORCH_VENV      TORCH_VENV has torch, for that Python
set -euo pipefail
python=$1 dist=$2 readme=$3 torch_venv=$4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
"$python" -m venv venv
venv/bin/pip install -q --no-index --find-links "$dist" libckpt
echo "$torch_venv"/lib/python3*/site-packages >"$(echo venv/lib/python3*/site-packages)/torch.pth"
awk '/^```python$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$readme" >train.py
venv/bin/python3 train.py store
venv/bin/python3 train.py store
venv/bin/ckpt ls store
venv/bin/ckpt verify store@latest

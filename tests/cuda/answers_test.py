#!/usr/bin/env python3
"""What the library answers where there is no CUDA, and that its declarations are NVIDIA's.

  answers_test.py answers ANSWERS FAKE   no libcudart, one without a driver (35), one without a device (100), and others
  answers_test.py linked                 nothing that libckpt.so needs is of CUDA
  answers_test.py headers                our declarations against NVIDIA's headers of CUDA 12 and 13
  answers_test.py nvidia ANSWERS         NVIDIA's own libraries on a machine without a driver

ANSWERS is the program of answers/answers.cpp, FAKE the fake libcudart.so.13. The last two need CKPT_CUDA_WHEELS, the
site-packages with NVIDIA's wheels nvidia-cuda-runtime, nvidia-cuda-crt and nvidia-cuda-runtime-cu12, which tools/test
installs; without them they are skipped (77).
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
WHEELS = {"12": "nvidia/cuda_runtime", "13": "nvidia/cu13"}


def ask(program, **environment):
    """The lines that the program prints."""
    clean = {key: value for key, value in os.environ.items() if key not in ("CKPT_CUDART", "FAKE_CUDART_ERROR")}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, f"{folder}/store"], env=clean | environment, capture_output=True, text=True,
                              timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "host tensors went on", done.stdout
    assert lines[0] == lines[1], f"the second answer is another one:\n{done.stdout}"
    assert lines[0].replace("gpu", "host") == lines[2], f"loads answer otherwise:\n{done.stdout}"
    return lines[0]


def expect(answer, status, *texts):
    assert answer.startswith(status + " "), answer
    for text in texts:
        assert text in answer, f"{text!r} is not in {answer!r}"
    print("ok:", answer)


def answers(program, fake):
    expect(ask(program), "UNSUPPORTED", "libcudart.so.13", "libcudart.so.12", "CKPT_CUDART")
    expect(ask(program, CKPT_CUDART="/nowhere/libcudart.so.13"), "UNSUPPORTED", "/nowhere/libcudart.so.13")
    expect(ask(program, CKPT_CUDART="libm.so.6"), "UNSUPPORTED", "lacks cudaRuntimeGetVersion")
    expect(ask(program, CKPT_CUDART=fake, FAKE_CUDART_ERROR="35"), "UNSUPPORTED", "error 35",
           "cudaErrorInsufficientDriver", "libcudart 13.0")
    expect(ask(program, CKPT_CUDART=fake, FAKE_CUDART_ERROR="100"), "UNSUPPORTED", "error 100", "cudaErrorNoDevice")
    expect(ask(program, CKPT_CUDART=fake), "INVALID", "said to be on cuda:0, but it is no memory of CUDA")
    found = ask(program, LD_LIBRARY_PATH=str(Path(fake).parent))
    expect(found, "INVALID", "said to be on cuda:0")


def linked():
    needed = subprocess.run(["ldd", os.environ["CKPT_LIBRARY"]], capture_output=True, text=True, check=True).stdout
    assert "libstdc++" in needed, needed
    named = [line for line in needed.splitlines() if "cuda" in line.split("=>")[0].lower()]
    assert not named, named


def wheels():
    folder = os.environ.get("CKPT_CUDA_WHEELS")
    if not folder:
        print("CKPT_CUDA_WHEELS is not set")
        sys.exit(77)
    found = {version: Path(folder) / place for version, place in WHEELS.items()}
    for version, place in found.items():
        assert (place / "include/cuda_runtime_api.h").exists(), f"no header of CUDA {version} in {place}"
    return found


def headers():
    source = HERE / "answers/headers.cpp"
    root = HERE.parent.parent
    wrong = source.read_text().replace("cudaErrorNotReady)", "cudaErrorNoDevice)")
    for version, place in wheels().items():
        # Macros that the headers of both share are in the wheel nvidia-cuda-crt, which unpacks beside those of 13.
        shared = wheels()["13"] / "include"
        compile_it = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", f"-I{place}/include", f"-I{shared}",
                      f"-I{root}/src", f"-I{root}/include"]
        subprocess.run([*compile_it, str(source)], check=True)
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as other:
            other.write(wrong)
            other.flush()
            done = subprocess.run([*compile_it, other.name], capture_output=True)
            assert done.returncode != 0, "a wrong constant was not found"
        print(f"ok: CUDA {version}")


def nvidia(program):
    for version, place in wheels().items():
        library = place / f"lib/libcudart.so.{version}"
        if Path("/dev/nvidiactl").exists():
            print("this machine has a driver")
            sys.exit(77)
        expect(ask(program, CKPT_CUDART=str(library)), "UNSUPPORTED", "error 35", "cudaErrorInsufficientDriver",
               f"libcudart {version}.")


if __name__ == "__main__":
    {"answers": answers, "linked": linked, "headers": headers, "nvidia": nvidia}[sys.argv[1]](*sys.argv[2:])

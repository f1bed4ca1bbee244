"""States and files on a web server, by their addresses."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import ckpt
import numpy
import pytest

SERVER = Path(__file__).resolve().parents[3] / "tests" / "cli" / "web_server.py"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and its address on a server that gives ranges."""
    folder, port = tmp_path / "www", tmp_path / "port"
    folder.mkdir()
    with subprocess.Popen([sys.executable, SERVER, folder, port], stdin=subprocess.PIPE) as server:
        for _ in range(600):
            if port.exists():
                break
            time.sleep(0.05)
        yield folder, f"http://127.0.0.1:{port.read_text()}"
        assert server.stdin
        server.stdin.close()


def test_a_checkpoint_is_loaded_by_its_address_and_a_file_too(web: tuple[Path, str]) -> None:
    folder, address = web
    saved = ckpt.save(folder / "run7", {"w": numpy.arange(6.0), "step": 3}, step=3)
    for source, selector in ((f"{address}/run7/{saved}", "latest"), (f"{address}/run7/{saved}/?x=1", "latest"),
                             (f"{address}/run7", saved)):
        state = ckpt.load(source, selector)
        assert state["step"] == 3 and numpy.array_equal(state["w"], numpy.arange(6.0))
    with ckpt.Store(folder / "run7") as store, ckpt.Reader(store) as reader:
        reader.export(folder / "a.safetensors")
    assert numpy.array_equal(ckpt.load(f"{address}/a.safetensors?x=1")["w"], numpy.arange(6.0))


def test_what_is_not_there_or_cannot_be_is_said_without_secrets(web: tuple[Path, str]) -> None:
    _, address = web
    with pytest.raises(ckpt.NotFoundError, match="none.1.1/MANIFEST is not there"):
        ckpt.load(f"{address}/run7/none.1.1?secret")
    with pytest.raises(ckpt.NotFoundError, match="none.pt is not there") as caught:
        ckpt.load(f"{address}/none.pt?secret")
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="one file"):
        ckpt.load(f"{address}/none.pt", "label:a")
    with pytest.raises(ckpt.UnsupportedError, match="read-only"):
        ckpt.save(f"{address}/run8", {"w": numpy.ones(3)}, step=1)

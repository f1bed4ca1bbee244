"""Stores in a bucket. They need the server that tests/s3/run.sh starts (leave out with -m 'not s3')."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest

pytestmark = pytest.mark.s3


@pytest.fixture
def uri(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", os.environ["CKPT_TEST_S3"])
    return f"s3://ckpt-test/{uuid.uuid4().hex}"


def at(step: int) -> dict[str, Any]:
    return {"w": np.full((100, 30), float(step)), "step": step}


def test_a_state_is_saved_loaded_listed_and_verified(uri: str) -> None:
    ckpt.save(uri, at(1), step=1)
    ckpt.save(uri, at(2), step=2)
    assert [info.label for info in ckpt.ls(uri)] == ["step-1", "step-2"]
    found = ckpt.load(uri)
    assert found["step"] == 2 and np.array_equal(found["w"], at(2)["w"])
    into = at(0)
    assert ckpt.load(uri, "step:1", into=into)["step"] == 1
    assert np.array_equal(into["w"], at(1)["w"])
    with ckpt.open(uri) as opened:
        assert opened["w"][10:20, 3].tolist() == [2.0] * 10
    ckpt.save(uri, at(3), step=3, run="other")
    ids = {info.step: info.id for info in ckpt.ls(uri)}
    for step in (1, 2, 3):
        assert ckpt.load(f"{uri}/{ids[step]}")["step"] == step
    with pytest.raises(ckpt.NotFoundError):
        ckpt.load(f"{uri}/step-9.1.1")
    with ckpt.Store(uri) as store, ckpt.Reader(store) as reader:
        with reader.verify() as job:
            job.wait()
            assert len(job.report()) == 0


def test_a_directory_of_another_program_is_loaded_from_a_bucket(uri: str) -> None:
    folder = Path(__file__).parents[3] / "interop/tests/fixtures/dcp/fsdp2"
    keys = f"{os.environ['AWS_ACCESS_KEY_ID']}:{os.environ['AWS_SECRET_ACCESS_KEY']}"
    for file in folder.iterdir():
        subprocess.run(["curl", "--silent", "--fail", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", keys, "--header",
                        "x-amz-content-sha256: UNSIGNED-PAYLOAD", "--upload-file",
                        str(file), f"{os.environ['CKPT_TEST_S3']}/{uri[len('s3://'):]}/{file.name}"], check=True)
    with ckpt.open(uri) as there, ckpt.open(folder) as here:
        assert list(there) == list(here) != []
        assert all(np.array_equal(there[name].numpy(), here[name].numpy()) for name in here)
    with pytest.raises(ckpt.NotFoundError):
        ckpt.load(uri + "/absent")


def test_a_session_saves_in_the_background_and_removes_old_checkpoints(uri: str) -> None:
    large = np.arange(5 << 20, dtype="f4")  # sent as an upload of several parts
    with ckpt.Store(uri) as store, ckpt.Session(store) as session:
        for step in (1, 2, 3):
            ckpt.save_async(session, {"w": large + step}, step=step, keep_last=2)
    assert [info.label for info in ckpt.ls(uri)] == ["step-2", "step-3"]
    assert np.array_equal(ckpt.load(uri)["w"], large + 3)


def test_a_checkpointer_goes_on_where_the_last_one_ended(uri: str) -> None:
    with ckpt.Checkpointer(uri, every=2, keep_last=2) as keeper:
        assert keeper.check(at(0)).free is None
        for step in range(1, 6):
            keeper.step(step, at(step))
    with ckpt.Checkpointer(uri, every=2, keep_last=2) as keeper:
        state = at(0)
        restored = keeper.restore(state)
        assert restored is not None and restored.step == 4 and state["w"][0, 0] == 4


def test_what_a_server_refuses_is_named(uri: str) -> None:
    with pytest.raises(ckpt.Error) as refused:
        ckpt.save("s3://no-such-bucket/run", at(1), step=1)
    assert refused.value.details["bucket"] == "no-such-bucket"
    assert refused.value.details["http_status"] == "404"
    assert refused.value.details["s3_code"] == "NoSuchBucket"
    ckpt.save(uri, at(1), step=1)
    with pytest.raises(ckpt.NotFoundError, match="step-1"):
        ckpt.load(uri, "step-2")

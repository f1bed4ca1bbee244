"""What people are shown: errors and warnings of Python's own are a line, as the engine's are, and have no secrets."""

from __future__ import annotations

import http.server
import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from ckpt.board import Board
from ckpt.errors import _HIDDEN, line
from ckpt.hints import shown
from test_team import Memory, rounds

LONG, ODD = "n" * 5000, "a\x1b[2J\n\u202eb\x9b\udcff"
SHOWN = r"a\x1b[2J\n\xe2\x80\xaeb\xc2\x9b"


def test_a_line_is_short_and_has_nothing_that_a_terminal_obeys() -> None:
    assert line("fine: 'ä' 世界") == "fine: 'ä' 世界" and line(ODD) == SHOWN + r"\xff"
    for text in (f"tensor '{LONG}': dtype: expected f32", "ä" * 5000, "many words " * 500, LONG + " " + LONG):
        assert len(line(text).encode()) <= 960 and "[...]" in line(text) and line(line(text)) == line(text)
    assert line(f"tensor '{LONG}': dtype: expected f32").endswith("nnn': dtype: expected f32")


def test_what_is_hidden_is_what_the_engine_hides() -> None:
    text = (Path(__file__).parents[3] / "src/base/shown.h").read_text()
    ranges = re.findall(r"\{(\w+), +(\w+)\}", text[text.index("kHidden[] =") : text.index("return std::any_of")])
    hidden = {code for first, last in ranges for code in range(int(first, 0), int(last, 0) + 1)}
    assert len(ranges) > 10
    halves = set(range(0xD800, 0xE000))  # no UTF-8 has them
    assert {code for code in range(0x110000) if _HIDDEN.match(chr(code))} == hidden | halves


def refusals(path: Path) -> Iterator[Callable[[], Any]]:
    """Calls whose errors name what they were given, by Error, TypeError and ValueError."""
    with ckpt.Store(path) as store:
        ckpt.save(store, {"w": np.ones(2)}, label="a")
    for name in (LONG, ODD.encode(errors="ignore").decode()):
        yield lambda: ckpt.save(path, {name: object()})  # noqa: B023
        yield lambda: ckpt.load(path, into={"w": np.ones(2), name: np.ones(2)})  # noqa: B023
        yield lambda: ckpt.load(path, at=(name,))  # noqa: B023
        yield lambda: ckpt.Checkpointer(path, every=name)  # noqa: B023
        yield lambda: ckpt.Checkpointer(path, keep_best=(name, "x"))  # noqa: B023
        yield lambda: ckpt.Store(path, {name: 1})  # noqa: B023
        yield lambda: ckpt.save(path, 1, attrs={"k": [name]})  # type: ignore[dict-item]  # noqa: B023


def test_what_python_raises_itself_is_a_line_as_the_engines_errors_are(tmp_path: Path) -> None:
    for call in refusals(tmp_path / "s"):
        with pytest.raises((ckpt.Error, TypeError, ValueError)) as caught:
            call()
        text = str(caught.value)
        assert len(text.encode()) <= 1024 and ("nnn" in text or "[2J" in text), text
        assert not set(text) & set("\x1b\n\u202e\x9b"), text


def test_warnings_and_the_log_are_lines_too(tmp_path: Path, caplog: Any) -> None:
    path, name = tmp_path / "s", LONG + ODD.encode(errors="ignore").decode()
    ckpt.save(path, {"w": np.ones(2)}, label="a")
    with pytest.warns(ckpt.MissingWarning) as told:
        ckpt.load(path, into={"w": np.ones(2), name: np.ones(2)}, strict="none")
    ckpt.background.log("error", name)
    for text in (str(told[0].message), caplog.records[-1].getMessage()):
        assert len(text.encode()) <= 960 and not set(text) & set("\x1b\n\u202e\x9b")


KEY, SECRET = "HISNAME", "HUSHHUSH"


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers each request with 403, and with all that it was asked."""

    def answer(self) -> None:
        """Of whatever method."""
        self.send_response(403, f"no {self.path}")
        self.end_headers()
        self.wfile.write(f"<Error><Code>AccessDenied</Code><Message>{self.path} {self.headers}</Message></Error>"
                         .encode())

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """HOST:PORT."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{made.server_address[1]}"
        made.shutdown()


ADDRESSES = ["s3://KEY:SECRET@bucket/run?token=SECRET", "s3://bucket/run", "http://KEY:SECRET@HERE/run",
             "http://HERE/run/model.safetensors?X-Amz-Signature=SECRET#SECRET",
             "http://HERE/run?X-Amz-Security-Token=SECRET", "htps://KEY:SECRET@host/run?t=SECRET"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_error_warning_log_or_repr_shows_a_secret(address: str, server: str, monkeypatch: Any, caplog: Any,
                                                     capfd: Any) -> None:
    address = address.replace("HERE", server).replace("KEY", KEY).replace("SECRET", SECRET)
    for name in ("CKPT_HTTP_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "no secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://{server}")
    options: dict[str, Any] = {"endpoint": f"http://{server}", "http_header": f"X-Api-Key: {SECRET}"}
    state = {"w": np.ones(2)}
    calls: list[Callable[[], Any]] = [
        lambda: ckpt.save(address, state, step=1, timeout_ms=1000, **options),
        lambda: ckpt.save_async(address, state, step=1, timeout_ms=1000, **options).result(),
        lambda: ckpt.load(address, **options), lambda: ckpt.load(address, into=state, **options),
        lambda: ckpt.load(address, "step:1"), lambda: ckpt.open(address, "step:1", **options),
        lambda: ckpt.ls(ckpt.Store(address, **options)), lambda: repr(ckpt.ls(address)),
        lambda: ckpt.Reader(address), lambda: ckpt.Session(address),  # type: ignore[arg-type]
        lambda: ckpt.File(address), lambda: repr(ckpt.Store(address, **options)),
        lambda: repr(ckpt.Checkpointer(address, signals=(), **options)),
        lambda: ckpt.Checkpointer(address, signals=(), **options).restore(state),
        lambda: ckpt.Checkpointer(address, signals=(), **options).restore(state, "best"),
        lambda: ckpt.Checkpointer(address, signals=(), **options).check(state),
        lambda: ckpt.Store("mem:shown", mirror=address), lambda: ckpt.load("mem:shown", mirror=address),
        lambda: ckpt.Store("s3://bucket/run", endpoint=f"http://{KEY}:{SECRET}@{server}/?a={SECRET}").list()]
    said = []
    with warnings.catch_warnings(record=True) as told, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        for call in calls:
            try:
                said.append(str(call()))
            except Exception as error:
                said += [text for one in chain(error) for text in (str(one), repr(one), repr(vars(one)))]
    said += [str(one.message) for one in told] + [record.getMessage() for record in caplog.records]
    said += list(capfd.readouterr())
    assert len(said) > 2 * len(calls)
    assert [text for text in said if KEY in text or SECRET in text] == []


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those that it came of."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def test_ranks_that_disagree_about_an_address_tell_no_secret() -> None:
    store = Memory()
    boards = [Board(store, rank, 2) for rank in range(2)]
    found = rounds(boards, lambda rank: [("ckpt.save", {"path": shown(f"s3://K:HUSH@b/run{rank}?t=HUSH")}, 5.0)])
    assert all("s3://b/run0" in str(one[0]) and "HUSH" not in str(one[0]) for one in found)

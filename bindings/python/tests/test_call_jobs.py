"""Jobs for calls that block: another thread watches and cancels the call."""

import threading

import ckpt
import pytest


def test_a_session_that_waits_for_ranks_is_cancelled(store: ckpt.Store) -> None:
    job, errors = ckpt.Job(), list[Exception]()

    def wait() -> None:
        try:
            ckpt.Session(store, 1, 2, rendezvous=1, job=job)
        except ckpt.Error as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while job.state == ckpt.JobState.NEW:
        pass
    job.cancel()
    waiting.join()
    assert isinstance(errors[0], ckpt.CancelledError)
    assert job.state == ckpt.JobState.CANCELLED


def test_a_job_serves_one_call_and_tells_how_it_ended(store: ckpt.Store, session: ckpt.Session) -> None:
    with ckpt.Save(session, "a") as save:
        save.run()
    with ckpt.Reader(store, "a") as reader, ckpt.Job() as job:
        assert len(reader.diff(reader, job=job)) == 0
        assert job.state == ckpt.JobState.DONE
        with pytest.raises(ckpt.InvalidError, match="served a call already"):
            reader.diff(reader, job=job)
        with pytest.raises(TypeError):
            reader.diff(reader, job=7)  # type: ignore[arg-type]


def test_one_that_no_call_gets_can_be_closed(store: ckpt.Store) -> None:
    with ckpt.Job() as job:
        assert job.state == ckpt.JobState.NEW
    job = ckpt.Job()
    job.close()
    with pytest.raises(ckpt.InvalidError):
        store.prune(keep_last=1, job=job)


def test_calls_that_do_not_work_under_one_take_none(store: ckpt.Store) -> None:
    with pytest.raises(ckpt.InvalidError, match='"job", but an argument of another call'):
        store.find("latest", job=ckpt.Job())  # type: ignore[arg-type]

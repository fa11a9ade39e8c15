"""What every launcher must do, with small programs in the place of drivers."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil
import pytest
from tests.support.launches import READY, SECRET, TOKEN, Backend, log_of, request
from tests.support.waiting import wait_until

from headrace.control.launchers.base import Handle, Launcher
from headrace.errors import BackendUnreachable


def test_a_driver_is_started_found_told_of_and_killed(
    backend: Backend, launcher: Launcher, tmp_path: Path, handles: list[Handle]
) -> None:
    asked = request(tmp_path, backend.stays, backend.results)
    assert launcher.find(asked.name, asked.profile) is None
    handle = launcher.start(asked)
    handles.append(handle)
    assert handle["backend"] == launcher.backend == asked.profile.backend
    assert launcher.poll(handle).alive

    def is_ready() -> bool:
        status = launcher.poll(handle)
        assert status.alive, asked.log.read_text()
        return not backend.runs_programs or READY in log_of(asked, status)

    wait_until(is_ready, seconds=120, what="it runs, and its log is where it is said to be")
    assert launcher.poll(handle).log or asked.log.exists()
    assert backend.applications() == ([asked.name] if backend.on_cluster else [])
    assert launcher.exits() == []
    assert not [one for one in _commands() if TOKEN in one or SECRET in one]
    another = backend.make(tmp_path)
    found = another.find(asked.name, asked.profile)
    assert found is not None
    assert another.poll(found).alive
    assert another.find(f"{asked.name}1", asked.profile) is None
    another.kill(found)
    # At once: who kills goes on to what the driver must not touch any more.
    assert backend.applications() == []
    assert not another.poll(found).alive
    if not backend.lags:
        assert not [one for one in _commands() if asked.name in one]
    wait_until(lambda: not [one for one in _commands() if asked.name in one], what="all are gone")
    wait_until(lambda: not launcher.poll(handle).alive, what="the one who started it sees it too")
    assert launcher.find(asked.name, asked.profile) is None
    another.kill(found)
    launcher.kill(handle)


def test_an_exit_is_seen_once_and_told_in_words(
    backend: Backend, launcher: Launcher, tmp_path: Path, handles: list[Handle]
) -> None:
    asked = request(tmp_path, backend.fails, backend.results)
    handles.append(launcher.start(asked))
    if backend.fail is not None:
        # Nobody tells of it: the lease runs out, and a poll says why.
        backend.fail(handles[0])
        assert backend.words in launcher.poll(handles[0]).words
    else:
        [ended] = wait_until(launcher.exits, seconds=120, what="the exit is seen")
        assert (ended.session_id, ended.epoch) == (asked.bootstrap.session_id, 1)
        assert backend.words in ended.reason
        assert backend.tokens(tmp_path) == []
    assert launcher.exits() == []
    assert not launcher.poll(handles[0]).alive
    assert launcher.find(asked.name, asked.profile) is None


def test_what_is_told_to_a_driver_is_for_its_owner_alone(
    backend: Backend, launcher: Launcher, tmp_path: Path, handles: list[Handle]
) -> None:
    asked = request(tmp_path, backend.stays, backend.results)
    handles.append(launcher.start(asked))
    [place] = backend.tokens(tmp_path)
    if backend.results is None:
        assert Path(place).stat().st_mode & 0o077 == 0
    launcher.kill(handles[0])
    assert backend.tokens(tmp_path) == []
    assert backend.applications() == []


def test_a_backend_out_of_reach_is_no_answer(backend: Backend, launcher: Launcher) -> None:
    if backend.unreachable is None:
        pytest.skip("this host is always in reach")
    with pytest.raises(BackendUnreachable):
        launcher.find("headrace-se_1-1", backend.unreachable)


def _commands() -> list[str]:
    """What every process of this host that can still do anything was started by."""
    found = []
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if one.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(one.cmdline()))
    return found

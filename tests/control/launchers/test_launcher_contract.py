"""Contract suite of the launchers, with small programs in the place of drivers."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil
import pytest
from tests.support.launches import READY, SECRET, TOKEN, Backend, make_request, read_log
from tests.support.waiting import wait_until

from headrace.control.launchers.base import Handle, Launcher
from headrace.errors import BackendUnreachable


def test_a_driver_can_be_found_polled_and_killed_by_another_node(
    backend: Backend, launcher: Launcher, tmp_path: Path, handles: list[Handle]
) -> None:
    request = make_request(tmp_path, backend.running, backend.results)
    assert launcher.find(request.name, request.profile) is None
    handle = launcher.start(request)
    handles.append(handle)
    assert handle["backend"] == launcher.backend == request.profile.backend
    assert launcher.poll(handle).alive

    def is_ready() -> bool:
        status = launcher.poll(handle)
        assert status.alive, request.log.read_text()
        return not backend.runs_programs or READY in read_log(request, status)

    wait_until(is_ready, seconds=120, what="the program runs and its log is readable")
    assert launcher.poll(handle).log or request.log.exists()
    assert backend.applications() == ([request.name] if backend.has_cluster else [])
    assert launcher.exits() == []
    assert not [command for command in _commands() if TOKEN in command or SECRET in command]
    other_node = backend.make_launcher(tmp_path)
    found_handle = other_node.find(request.name, request.profile)
    assert found_handle is not None
    assert other_node.poll(found_handle).alive
    assert other_node.find(f"{request.name}1", request.profile) is None
    other_node.kill(found_handle)
    # Without a wait: after `kill`, a takeover touches the files that the driver had.
    assert backend.applications() == []
    assert not other_node.poll(found_handle).alive
    if not backend.processes_lag:
        assert not _commands_with(request.name)
    wait_until(lambda: not _commands_with(request.name), what="all processes end")
    wait_until(lambda: not launcher.poll(handle).alive, what="the first node sees the end")
    assert launcher.find(request.name, request.profile) is None
    other_node.kill(found_handle)
    launcher.kill(handle)


def test_the_exit_of_a_driver_is_reported_once_with_its_reason(
    backend: Backend, launcher: Launcher, tmp_path: Path, handles: list[Handle]
) -> None:
    request = make_request(tmp_path, backend.failing, backend.results)
    handles.append(launcher.start(request))
    if backend.fail is not None:
        # The service sends no notification: the lease expires, and a poll gives the reason.
        backend.fail(handles[0])
        assert backend.failure_message in launcher.poll(handles[0]).message
    else:
        [driver_exit] = wait_until(launcher.exits, seconds=120, what="the exit is reported")
        assert driver_exit.lease == request.lease
        assert backend.failure_message in driver_exit.reason
    assert launcher.exits() == []
    assert not launcher.poll(handles[0]).alive
    assert launcher.find(request.name, request.profile) is None
    # A takeover calls `kill` after every exit.
    launcher.kill(handles[0])
    assert backend.token_locations(tmp_path) == []


def test_the_token_is_private_to_the_driver_and_deleted_by_a_kill(
    backend: Backend, launcher: Launcher, tmp_path: Path, handles: list[Handle]
) -> None:
    request = make_request(tmp_path, backend.running, backend.results)
    handles.append(launcher.start(request))
    [location] = backend.token_locations(tmp_path)
    if backend.results is None:
        assert Path(location).stat().st_mode & 0o077 == 0
    launcher.kill(handles[0])
    assert backend.token_locations(tmp_path) == []
    assert backend.applications() == []


def test_an_unreachable_backend_is_an_error_and_not_an_answer(
    backend: Backend, launcher: Launcher
) -> None:
    if backend.unreachable is None:
        pytest.skip("the processes of this host are always reachable")
    with pytest.raises(BackendUnreachable):
        launcher.find("headrace-se_1-1", backend.unreachable)


def _commands_with(text: str) -> list[str]:
    return [command for command in _commands() if text in command]


def _commands() -> list[str]:
    """Return the command lines of all live processes of this host."""
    commands = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                commands.append(" ".join(process.cmdline()))
    return commands

"""Ending the processes of a test run, however the run ends.

Every process that a run starts inherits the variable SPARK_TEST_RUN_ID: a node passes variables of
Spark on to its children. A guard process waits on a pipe whose other end only pytest's controller
has: the kernel closes it when the controller ends, for whatever reason. The guard then ends every
process with the run's id and removes the run's folder. Under make, the guard also ends the run when
make is killed.

The controller is given a guard by the hooks here, as a pytest plugin. The guard is this file run as
a program: it needs psutil alone, so that it starts fast.

PYTEST_DONT_REWRITE: conftest.py imports this module before pytest loads it as a plugin.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import pytest

RUN_ID = "SPARK_TEST_RUN_ID"
_TERMINATE_SECONDS = 3.0
_KILL_SECONDS = 60.0
_guards: list[RunGuard] = []


def pytest_configure(config: pytest.Config) -> None:
    """Start the run's guard, in the controller alone."""
    if not hasattr(config, "workerinput"):
        _guards.append(RunGuard())


def pytest_unconfigure() -> None:
    """End what the run has left, and wait until it is gone."""
    while _guards:
        _guards.pop().close()


class RunGuard:
    """The guard process of a run, as the controller of the run sees it."""

    def __init__(self) -> None:
        """Name a new run, make its folder and start its guard."""
        run_id = secrets.token_hex(6)
        os.environ[RUN_ID] = run_id
        # PostgreSQL's own user must reach its folder inside.
        run_folder().mkdir(mode=0o755)
        environment = {name: value for name, value in os.environ.items() if name != RUN_ID}
        make = str(os.getppid()) if "MAKELEVEL" in os.environ else ""
        self._process = subprocess.Popen(
            [sys.executable, __file__, run_id, str(os.getpid()), make],
            stdin=subprocess.PIPE,
            env=environment,
            # A Ctrl-C at the terminal reaches the run, not its guard.
            start_new_session=True,
        )

    def close(self) -> None:
        """End the run's remaining processes and wait until they are gone."""
        with self._process:
            pass


def run_folder() -> Path:
    """Return the folder of what the run's processes share."""
    return _folder_of(os.environ[RUN_ID])


def processes_with(run_id: str) -> list[psutil.Process]:
    """Return the live processes that carry the id of a run, without the calling one."""
    return [process for process in psutil.process_iter() if _carries(process, run_id)]


def main(run_id: str, controller: int, make: int | None) -> None:
    """Wait for the end of the run and remove what it leaves."""
    others = []
    if not _wait_for_end(make):
        # The controller does not carry the id: the variable was set after its start.
        with contextlib.suppress(psutil.NoSuchProcess):
            others.append(psutil.Process(controller))
    end_run(run_id, others)


def end_run(run_id: str, others: list[psutil.Process]) -> None:
    """End every process of a run, and others; remove the run's folder."""
    remaining = others + processes_with(run_id)
    # PostgreSQL gives its shared memory back only when it may end in order.
    for process in remaining:
        with contextlib.suppress(psutil.Error):
            process.send_signal(signal.SIGTERM)
    psutil.wait_procs(remaining, timeout=_TERMINATE_SECONDS)
    deadline = time.monotonic() + _KILL_SECONDS
    while remaining := [*filter(is_live, others), *processes_with(run_id)]:
        for process in remaining:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(remaining, timeout=1)
        if time.monotonic() > deadline:
            break
    shutil.rmtree(_folder_of(run_id), ignore_errors=True)


def _folder_of(run_id: str) -> Path:
    # Short, for the sockets inside.
    return Path("/tmp") / f"headrace-tests-{run_id}"


def _carries(process: psutil.Process, run_id: str) -> bool:
    try:
        return (
            process.pid != os.getpid()
            and is_live(process)
            and process.environ().get(RUN_ID) == run_id
        )
    except psutil.Error:
        return False


def is_live(process: psutil.Process) -> bool:
    """Return whether a process has not ended. It may end at any moment."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _wait_for_end(make: int | None) -> bool:
    """Wait until the controller or make has ended; return whether it was the controller."""
    pipe = sys.stdin.fileno()
    ends = [pipe]
    if make is not None and hasattr(os, "pidfd_open"):
        try:
            ends.append(os.pidfd_open(make))
        except ProcessLookupError:
            return False
    ended, _, _ = select.select(ends, [], [])
    return pipe in ended


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if sys.argv[3] else None)

"""Drivers among the processes of this host, each the leader of a session of processes.

A session and not only a group: PySpark's workers make groups of their own. It is known by its
leader's pid and the time at which that was created, as every node of this host sees them:
`{"pid": …, "created": …}`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from headrace.control.launchers.base import DriverStatus
from headrace.errors import LaunchFailed

_DYING_SECONDS = 20.0
_LOOK_SECONDS = 0.01

Group = dict[str, Any]
Driver = tuple[str, int]
"""Session and epoch."""


class ChildGroups:
    """The groups that this process has started. They outlive it. Thread safe."""

    def __init__(self) -> None:
        self._children: dict[Driver, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def start(
        self, driver: Driver, command: Sequence[str], *, log: Path, env: Mapping[str, str]
    ) -> Group:
        """Starts a command as a group whose output is appended to `log`. Raises LaunchFailed."""
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("ab") as output:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    env=env,
                )
        except OSError as error:
            raise LaunchFailed(f"The driver could not be started: {error}.") from error
        with self._lock:
            self._children[driver] = child
        return {"pid": child.pid, "created": _created(child.pid)}

    def poll(self, group: Group) -> DriverStatus:
        """How the leader is."""
        if group["created"] is not None and _created(group["pid"]) == group["created"]:
            return DriverStatus(alive=True, words="it runs")
        status = self._reaped(group["pid"])
        words = "its process is gone" if status is None else describe_exit(status)
        return DriverStatus(alive=False, words=words)

    def ended(self) -> list[tuple[Driver, int]]:
        """Leaders seen to end since the last call, with their exit statuses.

        What they left running in their groups goes with them.
        """
        with self._lock:
            over = [key for key, child in self._children.items() if child.poll() is not None]
            children = {key: self._children.pop(key) for key in over}
        for child in children.values():
            _strike(_members({"pid": child.pid, "created": None}))
        return [(driver, child.returncode) for driver, child in children.items()]

    def _reaped(self, pid: int) -> int | None:
        """The exit status of a child of this process, where it has ended."""
        with self._lock:
            for child in self._children.values():
                if child.pid == pid:
                    return child.poll()
        return None


def find(marks: set[str]) -> Group | None:
    """The group of a process that has one of these among its arguments."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if not marks.isdisjoint(process.cmdline()):
                leader = os.getsid(process.pid)
                return {"pid": leader, "created": _created(leader)}
    return None


def kill(group: Group) -> None:
    """Returns when no process of the group can do anything any more, also if its leader was gone.

    Raises LaunchFailed when they do not die.
    """
    deadline = time.monotonic() + _DYING_SECONDS
    # Again and again: what was killed last may have started another just before.
    while left := [one for one in _members(group) if _may_act(one)]:
        _strike(left)
        if time.monotonic() > deadline:
            pids = ", ".join(str(one.pid) for one in left)
            raise LaunchFailed(f"Processes {pids} of a driver do not die.")
        time.sleep(_LOOK_SECONDS)


def describe_exit(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"exit status {status}"
    return f"killed by {signal.Signals(-status).name}"


def _members(group: Group) -> list[psutil.Process]:
    """None when the number is somebody else's: only that of an empty group is given out again."""
    created = _created(group["pid"])
    if created not in {None, group["created"]}:
        return []
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if os.getsid(process.pid) == group["pid"]:
                found.append(process)
    return found


def _strike(processes: list[psutil.Process]) -> None:
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def _may_act(process: psutil.Process) -> bool:
    """Whether a process that was killed may still do anything: a large one takes a while to go."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _created(pid: int) -> float | None:
    """When a process was created: with the pid, its identity. None when it is gone."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None

"""Drivers as processes of this host, each the leader of a session of processes.

A process group is not enough to end a driver with all that it started, because PySpark puts its
workers into process groups of their own. The processes of a driver therefore share a session
(setsid), which is called a group here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from headrace.control.host.child_environment import CHILD_UMASK
from headrace.control.host.process_identity import (
    HostIdentity,
    belongs_to_owner,
    start_time,
    this_host,
)
from headrace.control.launchers.base import DriverStatus
from headrace.errors import DriverOnOtherHost, LaunchFailed
from headrace.files.private_files import open_private_log
from headrace.model.session import DriverLease
from headrace.text.readable import describe_duration

_KILL_SECONDS = 20.0
_POLL_SECONDS = 0.01
HOST_RESTARTED = DriverStatus(alive=False, message="its host has restarted")


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Identity of a group, valid for every node of one host."""

    pid: int
    """Process id of the leader."""
    created: float | None
    """Start time of the leader, which distinguishes it from a later process with the same id.
    None if the leader had ended before the time could be read."""
    host: HostIdentity

    @classmethod
    def from_handle(cls, handle: Mapping[str, Any]) -> ProcessGroup:
        """Return the group that a launcher described in a handle."""
        host = HostIdentity.from_record(handle["host"])
        return cls(pid=handle["pid"], created=handle["created"], host=host)

    @classmethod
    def of_leader(cls, pid: int) -> ProcessGroup:
        """Return the group of a process of this host."""
        return cls(pid=pid, created=start_time(pid), host=this_host())

    def to_record(self) -> dict[str, Any]:
        """Return the keys of a handle that describe the group."""
        return {"pid": self.pid, "created": self.created, "host": self.host.to_process_record()}

    @property
    def has_live_leader(self) -> bool:
        """Whether the leader runs on this host."""
        return self.created is not None and start_time(self.pid) == self.created

    def require_this_host(self) -> None:
        """Raise DriverOnOtherHost unless the process id is valid on this host."""
        if not this_host().shares_processes_with(self.host):
            raise DriverOnOtherHost(
                f"The driver is process {self.pid} of the host {self.host.name}, boot"
                f" {self.host.boot}, {self.host.pid_namespace or 'without a PID namespace'}."
                " Only a node in the same place can check or end it."
            )


class ChildGroups:
    """The groups that this process has started or watches. They outlive it. Thread-safe."""

    def __init__(self) -> None:
        self._children: dict[DriverLease, subprocess.Popen[bytes]] = {}
        self._watched: dict[DriverLease, ProcessGroup] = {}
        self._lock = threading.Lock()

    def start(
        self,
        lease: DriverLease,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str],
        cwd: Path | None = None,
    ) -> ProcessGroup:
        """Start a command as the leader of a new group, with its output appended to `log`.

        Args:
            cwd: Working directory of the command; default: that of this process.

        Raises LaunchFailed.
        """
        try:
            with open_private_log(log) as output:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    env=env,
                    cwd=cwd,
                    umask=CHILD_UMASK,
                )
        except OSError as error:
            raise LaunchFailed(f"The driver process could not be started: {error}.") from error
        with self._lock:
            self._children[lease] = child
        return ProcessGroup.of_leader(child.pid)

    def watch(self, lease: DriverLease, group: ProcessGroup) -> None:
        """Watch a group that another process of this host has started."""
        group.require_this_host()
        with self._lock:
            if lease not in self._children:
                self._watched[lease] = group

    def poll(self, group: ProcessGroup) -> DriverStatus:
        """Return the state of the leader of a group. Raises DriverOnOtherHost."""
        group.require_this_host()
        if group.has_live_leader:
            return DriverStatus(alive=True, message="the process is running")
        return DriverStatus(alive=False, message=describe_exit(self._exit_status(group.pid)))

    def collect_exits(self) -> list[tuple[DriverLease, int | None]]:
        """Return the leaders that have ended since the last call, with their exit statuses.

        The status of a watched leader is None. The remaining processes of their groups are killed.
        """
        with self._lock:
            ended = [lease for lease, child in self._children.items() if child.poll() is not None]
            children = {lease: self._children.pop(lease) for lease in ended}
            lost = [lease for lease, group in self._watched.items() if not group.has_live_leader]
            groups = {lease: self._watched.pop(lease) for lease in lost}
        for child in children.values():
            _kill_processes(_group_members(ProcessGroup(child.pid, None, this_host())))
        for group in groups.values():
            _kill_processes(_group_members(group))
        return [
            *((lease, child.returncode) for lease, child in children.items()),
            *((lease, None) for lease in groups),
        ]

    def _exit_status(self, pid: int) -> int | None:
        """Return the exit status of a child; None if it runs or is not a child of this process."""
        with self._lock:
            for child in self._children.values():
                if child.pid == pid:
                    return child.poll()
        return None


def find(arguments: set[str]) -> ProcessGroup | None:
    """Return the group of a process that was started with any of these files, or None.

    Other users of the host can start processes with the same arguments. The process must therefore
    belong to this user or to the owner of the folder of its file, and so must the leader of its
    group, unless the leader has ended. The kernel reports 0 for a leader outside the PID namespace.
    Drivers have their leader inside.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            leader = os.getsid(process.pid)
            if not leader or not _was_started_with(process, arguments):
                continue
            if (
                leader == process.pid
                or start_time(leader) is None
                or _was_started_with(psutil.Process(leader), arguments)
            ):
                return ProcessGroup.of_leader(leader)
    return None


def kill(group: ProcessGroup) -> None:
    """Kill a group and return when none of its processes can act, even if its leader had ended.

    Raises LaunchFailed if processes do not end, and DriverOnOtherHost.
    """
    group.require_this_host()
    deadline = time.monotonic() + _KILL_SECONDS
    # Repeat: a process may have started another one just before it was killed.
    while remaining := [process for process in _group_members(group) if _may_act(process)]:
        _kill_processes(remaining)
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in remaining)
            raise LaunchFailed(
                f"The driver processes {pids} have not ended within"
                f" {describe_duration(_KILL_SECONDS)} of SIGKILL."
            )
        time.sleep(_POLL_SECONDS)


def is_live(group: ProcessGroup) -> bool:
    """Return whether a process of a group of this host can act, even if its leader has ended."""
    return any(map(_may_act, _group_members(group)))


def describe_exit(status: int | None) -> str:
    """Return the text of an exit status, where a negative status is a signal.

    Args:
        status: None if only the parent of the process could read it.
    """
    if status is None:
        return "the process no longer exists"
    if status >= 0:
        return f"exit status {status}"
    return f"killed by {signal.Signals(-status).name}"


def _group_members(group: ProcessGroup) -> list[psutil.Process]:
    """Return the processes of a group; an empty list if a later process has the leader's pid.

    The kernel reuses the id of a session only after its last process has ended. It reports the id 0
    for each process whose session began outside the PID namespace: they are no group.
    """
    created = start_time(group.pid)
    if not group.pid or created not in {None, group.created}:
        return []
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if os.getsid(process.pid) == group.pid:
                members.append(process)
    return members


def _was_started_with(process: psutil.Process, files: set[str]) -> bool:
    return any(
        belongs_to_owner(process, Path(file).parent)
        for file in files.intersection(process.cmdline())
    )


def _kill_processes(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _may_act(process: psutil.Process) -> bool:
    """Return whether a killed process still exists: the kernel needs time to end a large one."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False

"""The identity of a process: its id, its start, and the host on which both are valid.

Two containers can share a machine and a boot, but not their process ids. A process id of another
host says nothing here: no process, or an unrelated process, has it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import socket
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import psutil


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """One boot of one machine, and one namespace of process ids on it."""

    name: str
    """Host name, for messages only: several hosts can have one name."""
    machine: str
    boot: str
    pid_namespace: str
    network_namespace: str | None = None
    """None: a version that did not record it, or a process id, which depends on no network."""

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> HostIdentity:
        """Return the identity that `to_record` described, in this version or a later one."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in record.items() if name in known})

    def to_record(self) -> dict[str, Any]:
        """Return the identity as a JSON object."""
        return asdict(self)

    def to_process_record(self) -> dict[str, Any]:
        """Return where a process id is valid, in the form of earlier versions."""
        return {name: value for name, value in asdict(self).items() if name != "network_namespace"}

    def to_place(self) -> dict[str, str | None]:
        """Return what distinguishes the machine from its containers, over all boots."""
        return {
            "machine": self.machine,
            "pid_namespace": self.pid_namespace,
            "network_namespace": self.network_namespace,
        }

    def is_same_place_as(self, other: HostIdentity) -> bool:
        """Return whether two nodes share files, processes and the loopback interface.

        Containers of one machine do not, even if they share the namespace of process ids.
        """
        return (
            self.machine == other.machine
            and self.pid_namespace == other.pid_namespace
            and self.shares_network_with(other)
        )

    def shares_network_with(self, other: HostIdentity) -> bool:
        """Return whether both hosts have one network namespace, as far as it is known."""
        known = (self.network_namespace, other.network_namespace)
        return None in known or self.network_namespace == other.network_namespace

    def shares_loopback_with(self, other: HostIdentity) -> bool:
        """Return whether a loopback address means the same place on both hosts."""
        return self.shares_processes_with(other) and self.shares_network_with(other)

    def shares_processes_with(self, other: HostIdentity) -> bool:
        """Return whether a process id means the same process on both hosts."""
        return self._key == other._key

    def is_restart_of(self, other: HostIdentity) -> bool:
        """Return whether this is a later boot of the other host, which ended all its processes.

        Cloned machines have one machine id. The caller must know from another source that both
        identities belong to one machine.
        """
        return self.machine == other.machine and self.boot != other.boot

    @property
    def _key(self) -> tuple[str, str, str]:
        return (self.machine, self.boot, self.pid_namespace)


@functools.cache
def this_host() -> HostIdentity:
    """Return the identity of the host of this process."""
    return HostIdentity(
        name=socket.gethostname(),
        machine=_read(Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")) or platform.node(),
        boot=_read(Path("/proc/sys/kernel/random/boot_id")) or str(int(psutil.boot_time())),
        pid_namespace=_namespace("pid"),
        network_namespace=_namespace("net"),
    )


def start_time(pid: int) -> float | None:
    """Return when a live process started, or None if it has ended.

    The time tells the process from a later one with the same id. A change of the clock does not
    move it, so psutil's `create_time` cannot be used on Linux.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _creation_time(pid)
    # The name of the program, in parentheses, may hold spaces and parentheses itself.
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else float(fields[18])


def belongs_to_owner(process: psutil.Process, folder: Path) -> bool:
    """Return whether a process belongs to this user, or to the owner of a folder if it exists.

    Raises psutil.Error.
    """
    users = {os.getuid()}
    with contextlib.suppress(OSError):
        users.add(folder.stat().st_uid)
    return process.uids().real in users


def _creation_time(pid: int) -> float | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def _read(*files: Path) -> str | None:
    """Return the text of the first file that exists and is not empty."""
    for file in files:
        try:
            if text := file.read_text().strip():
                return text
        except OSError:
            continue
    return None


def _namespace(kind: str) -> str:
    """Return the name of a namespace of this process; empty on systems that have only one."""
    try:
        return str(Path(f"/proc/self/ns/{kind}").readlink())
    except OSError:
        return ""

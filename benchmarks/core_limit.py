"""A limit on the cores of processes, by the control groups of Linux. It needs root."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

_PERIOD_MICROS = 100_000
_VERSION_1 = Path("/sys/fs/cgroup/cpu")
_VERSION_2 = Path("/sys/fs/cgroup")


class CoreLimit:
    """A control group whose processes use a number of cores together."""

    def __init__(self, cores: float) -> None:
        parent = _find_parent()
        assert parent is not None
        self._group = parent / f"headrace-{secrets.token_hex(4)}"
        self._group.mkdir()
        quota = int(cores * _PERIOD_MICROS)
        if parent == _VERSION_1:
            (self._group / "cpu.cfs_period_us").write_text(str(_PERIOD_MICROS))
            (self._group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self._group / "cpu.max").write_text(f"{quota} {_PERIOD_MICROS}")

    def add(self, process: psutil.Process) -> None:
        """Put a process, its children, and all that they start from now on under the limit."""
        for each in [process, *process.children()]:
            # A child may end meanwhile.
            with suppress(ProcessLookupError):
                (self._group / "cgroup.procs").write_text(str(each.pid))

    def remove(self) -> None:
        """Remove the limit. All its processes must have ended."""
        self._group.rmdir()


def can_limit_cores() -> bool:
    """Return whether this process may limit the cores of others."""
    return os.geteuid() == 0 and _find_parent() is not None


@contextmanager
def core_limit(cores: float | None) -> Iterator[CoreLimit | None]:
    """Yield a limit of that many cores, or None if `cores` is None. Remove it at the end."""
    if cores is None:
        yield None
        return
    limit = CoreLimit(cores)
    try:
        yield limit
    finally:
        limit.remove()


def _find_parent() -> Path | None:
    """Return the group below which new groups can limit cores, or None."""
    if (_VERSION_1 / "cgroup.procs").exists():
        return _VERSION_1
    controllers = _VERSION_2 / "cgroup.subtree_control"
    has_cpu = controllers.exists() and "cpu" in controllers.read_text().split()
    return _VERSION_2 if has_cpu else None

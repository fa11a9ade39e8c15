"""Finds and ends the processes that a test has started."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil


def children() -> set[psutil.Process]:
    """Return the live direct children of this process."""
    # The kernel may leave out a child if another one ends during the read.
    found = {child for _read in range(2) for child in _iterate_children()}
    return {child for child in found if _is_alive(child)}


def processes_of(home: Path) -> set[psutil.Process]:
    """Return all nodes, drivers and metastores of a home, also outside this process tree."""
    return {
        process
        for process in psutil.process_iter()
        if process.pid != psutil.Process().pid and _belongs_to(process, str(home))
    }


def end(processes: set[psutil.Process]) -> None:
    """Kill processes and all their descendants."""
    for process in processes:
        kill_with_descendants(process)
    psutil.wait_procs(list(processes), timeout=30)


def kill_with_descendants(process: psutil.Process) -> None:
    """Kill a process and all its descendants. Each of them may end by itself meanwhile."""
    descendants: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        descendants = process.children(recursive=True)
    for each in [process, *descendants]:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


def _iterate_children() -> Iterator[psutil.Process]:
    """Yield the direct children. On Linux, /proc lists them without a scan of all processes."""
    if not Path("/proc/thread-self/children").exists():
        yield from psutil.Process().children()
        return
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for pid in file.read_text().split():
                with contextlib.suppress(psutil.NoSuchProcess):
                    yield psutil.Process(int(pid))


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _belongs_to(process: psutil.Process, home: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        command = process.cmdline()
        return process.environ().get("HEADRACE_HOME") == home or any(
            argument == home or f"{home}/" in argument for argument in command
        )
    except psutil.Error:
        return False

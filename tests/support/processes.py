"""Which processes a test has started, and ending them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil


def children() -> set[psutil.Process]:
    """Return the live direct children of this process."""
    return {child for child in _children() if _alive(child)}


def processes_of(home: Path) -> set[psutil.Process]:
    """Every node, driver and metastore of a home, also those that left the test's process tree."""
    return {
        process
        for process in psutil.process_iter()
        if process.pid != psutil.Process().pid and _belongs(process, str(home))
    }


def end(processes: set[psutil.Process]) -> None:
    """Kills processes with all they started."""
    for process in processes:
        try:
            for each in [process, *process.children(recursive=True)]:
                each.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(list(processes), timeout=10)


def _children() -> Iterator[psutil.Process]:
    """Return the direct children; Linux lists them without a look at every process."""
    if not Path("/proc/thread-self/children").exists():
        yield from psutil.Process().children()
        return
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for pid in file.read_text().split():
                with contextlib.suppress(psutil.NoSuchProcess):
                    yield psutil.Process(int(pid))


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _belongs(process: psutil.Process, home: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        command = process.cmdline()
        return process.environ().get("HEADRACE_HOME") == home or any(
            word == home or f"{home}/" in word for word in command
        )
    except psutil.Error:
        return False

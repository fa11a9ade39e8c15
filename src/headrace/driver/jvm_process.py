"""The process of the driver's JVM: a child of the driver, or its parent under spark-submit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import Protocol

_POLL_SECONDS = 0.01


class JvmProcess(Protocol):
    """The process of a JVM, which may end at any time."""

    def is_alive(self, exit_seconds: float) -> bool:
        """Return whether the process runs, after waiting up to `exit_seconds` for its end."""

    def kill(self) -> None:
        """Kill the process, and return when it has ended."""


class ChildJvm:
    """The JVM that this process has started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def is_alive(self, exit_seconds: float) -> bool:
        try:
            self._process.wait(timeout=exit_seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class ParentJvm:
    """The JVM that started this process: spark-submit, or the application master of YARN.

    When it ends, the operating system gives this process another parent.
    """

    def __init__(self) -> None:
        self._pid = os.getppid()

    def is_alive(self, exit_seconds: float) -> bool:
        deadline = time.monotonic() + exit_seconds
        while os.getppid() == self._pid:
            if time.monotonic() >= deadline:
                return True
            time.sleep(_POLL_SECONDS)
        return False

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            if os.getppid() == self._pid:
                os.kill(self._pid, signal.SIGKILL)
        while os.getppid() == self._pid:
            time.sleep(_POLL_SECONDS)

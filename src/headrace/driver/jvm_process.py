"""The process of the JVM under this driver: its child, or its parent where spark-submit began."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import Any, Protocol

from pyspark import SparkContext

_LOOK_SECONDS = 0.01


class JvmProcess(Protocol):
    def alive(self, doubt_seconds: float) -> bool:
        """One that seems to be dying gets `doubt_seconds` to be dead."""

    def kill(self) -> None:
        """Returns when it can do nothing any more."""


class ChildJvm:
    """The JVM that PySpark has started."""

    def __init__(self, process: Any) -> None:
        self._process = process

    def alive(self, doubt_seconds: float) -> bool:
        try:
            self._process.wait(timeout=doubt_seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class ParentJvm:
    """The JVM that has started this process: that of spark-submit, or YARN's application master."""

    def __init__(self) -> None:
        self._pid = os.getppid()

    def alive(self, doubt_seconds: float) -> bool:
        deadline = time.monotonic() + doubt_seconds
        # Who loses its parent gets another one.
        while os.getppid() == self._pid:
            if time.monotonic() >= deadline:
                return True
            time.sleep(_LOOK_SECONDS)
        return False

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            if os.getppid() == self._pid:
                os.kill(self._pid, signal.SIGKILL)
        while os.getppid() == self._pid:
            time.sleep(_LOOK_SECONDS)


def find_jvm_process() -> JvmProcess:
    """The one under this process, once Spark has started."""
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - no public way to it
    return ParentJvm() if process is None else ChildJvm(process)

"""JVM services for the tests: one process for each main class."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.waiting import wait_until

from headrace.control.host.java import find_java

_processes: list[subprocess.Popen[bytes]] = []
"""All services of this process. Python warns about a Popen that is collected while it runs."""


class JvmServices:
    """Starts services and keeps their logs in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._java = find_java().path
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def java_home(self) -> Path:
        return self._java

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start a service. Its output goes to `<name>.log`."""
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "JAVA_HOME": str(self._java), **env},
                cwd=self._folder,
                start_new_session=True,
            )
        self._processes.append(process)
        _processes.append(process)

    def wait(self, is_up: Callable[[], bool], *, what: str) -> None:
        """Wait until the services are up; fail the test with their logs if one has ended."""

        def is_up_or_dead() -> bool:
            dead = [process for process in self._processes if process.poll() is not None]
            return bool(dead) or is_up()

        wait_until(is_up_or_dead, seconds=120, what=what)
        for process in self._processes:
            assert process.poll() is None, self._read_logs()

    def _read_logs(self) -> str:
        files = sorted(self._folder.glob("*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text()[-4000:]}" for file in files)


def stop_services() -> None:
    """End the JVM services that this process has started."""
    for process in _processes:
        process.kill()
    while _processes:
        _processes.pop().wait()

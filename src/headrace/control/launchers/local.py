"""Drivers as subprocesses of this host, each in a process group of its own: they outlive the node.

Beside each driver lies its bootstrap file, `drivers/<name>.json` in the home, mode 0600.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from headrace.control.java import find_java
from headrace.control.launchers.contract import Exit, Handle, LaunchRequest, Status
from headrace.errors import LaunchFailed
from headrace.model.messages import Bootstrap
from headrace.private_files import write_private
from headrace.settings import Profile

_DYING_SECONDS = 20.0
_LOOK_SECONDS = 0.01


class LocalLauncher:
    """Starts `python -m headrace.driver`."""

    backend = "local"

    def __init__(self, home: Path) -> None:
        self._bootstraps = home / "drivers"
        self._children: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def start(self, request: LaunchRequest) -> Handle:
        bootstrap = request.bootstrap
        file = self._bootstraps / f"{request.name}.json"
        write_private(file, bootstrap.model_dump_json())
        request.log.parent.mkdir(parents=True, exist_ok=True)
        command = [
            request.profile.python or sys.executable,
            "-P",
            "-m",
            "headrace.driver",
            str(file),
        ]
        try:
            with request.log.open("ab") as log:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env=_environment(request),
                )
        except OSError as error:
            file.unlink(missing_ok=True)
            raise LaunchFailed(f"The driver could not be started: {error}.") from error
        with self._lock:
            self._children[bootstrap.session_id, bootstrap.epoch] = child
        return self._handle(child.pid, _created(child.pid), file)

    def find(self, name: str, profile: Profile) -> Handle | None:  # noqa: ARG002 - one host, one place
        file = self._bootstraps / f"{name}.json"
        marks = {str(file), f"spark.app.name={name}"}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                # The driver has the file's name among its arguments, its JVM the application's.
                if not marks.isdisjoint(process.cmdline()):
                    leader = os.getpgid(process.pid)
                    return self._handle(leader, _created(leader), file)
        return None

    def poll(self, handle: Handle) -> Status:
        status = self._reaped(handle["pid"])
        if status is not None:
            return Status(alive=False, words=_reason(status))
        alive = _created(handle["pid"]) == handle["created"] and handle["created"] is not None
        return Status(alive=alive, words="it runs" if alive else "its process is gone")

    def kill(self, handle: Handle) -> None:
        left = _group(handle)
        if left:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(handle["pid"], signal.SIGKILL)
        deadline = time.monotonic() + _DYING_SECONDS
        while left := [one for one in left if _may_act(one)]:
            if time.monotonic() > deadline:
                raise LaunchFailed(f"Processes {_pids(left)} of a driver do not die.")
            time.sleep(_LOOK_SECONDS)
        Path(handle["bootstrap"]).unlink(missing_ok=True)

    def exits(self) -> list[Exit]:
        with self._lock:
            ended = [key for key, child in self._children.items() if child.poll() is not None]
            children = {key: self._children.pop(key) for key in ended}
        for (session_id, epoch), child in children.items():
            (self._bootstraps / f"headrace-{session_id}-{epoch}.json").unlink(missing_ok=True)
            # What the driver left running in its group goes with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        return [
            Exit(session_id=session_id, epoch=epoch, reason=_reason(child.returncode))
            for (session_id, epoch), child in children.items()
        ]

    def announce(self, addresses: list[str]) -> None:
        for file in self._bootstraps.glob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                known = Bootstrap.model_validate_json(file.read_text())
                write_private(file, known.model_copy(update={"nodes": addresses}).model_dump_json())

    def _handle(self, pid: int, created: float | None, file: Path) -> Handle:
        return {"backend": self.backend, "pid": pid, "created": created, "bootstrap": str(file)}

    def _reaped(self, pid: int) -> int | None:
        """The exit status of a child of this process, where it has ended."""
        with self._lock:
            for child in self._children.values():
                if child.pid == pid:
                    return child.poll()
        return None


def _group(handle: Handle) -> list[psutil.Process]:
    """The processes of a driver's group, also when its leader is gone.

    None are left when the number is somebody else's: only an empty group's is given out again.
    """
    created = _created(handle["pid"])
    if created not in {None, handle["created"]}:
        return []
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if os.getpgid(process.pid) == handle["pid"]:
                found.append(process)
    return found


def _may_act(process: psutil.Process) -> bool:
    """Whether a process that was killed may still do anything: a large one takes a while to go."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _pids(processes: list[psutil.Process]) -> str:
    return ", ".join(str(one.pid) for one in processes)


def _environment(request: LaunchRequest) -> dict[str, str]:
    """The node's environment without its own settings: users' code runs in the driver."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    return {
        **inherited,
        "JAVA_HOME": str(find_java().path),
        "PYSPARK_PYTHON": request.profile.python or sys.executable,
        # Spark's own ports, its UI among them, stay on this host.
        "SPARK_LOCAL_IP": "127.0.0.1",
        **request.profile.env,
    }


def _created(pid: int) -> float | None:
    """When a process was created: with the pid, its identity. None when it is gone."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def _reason(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    return f"killed by {signal.Signals(-status).name}"

"""Start and end of the processes of the measured systems."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from headrace.control.host.java import find_java

MASTER = "local[*]"
CONF = {
    "spark.master": MASTER,
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
}
"""Spark configuration of every system."""

START_SECONDS = 120


def environment() -> dict[str, str]:
    """Return the environment without Headrace settings, with the Java that Headrace selects."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    return inherited | {"JAVA_HOME": str(find_java().path)}


def spark_home() -> Path:
    """Return the folder of the Spark distribution inside PySpark."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def free_port() -> int:
    """Return a port on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def spark_server(
    main_class: str, conf: Mapping[str, str], arguments: list[str], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server class of PySpark's jars with spark-submit; its working directory is `folder`."""
    settings = [
        argument
        for key, value in {**CONF, **conf}.items()
        for argument in ("--conf", f"{key}={value}")
    ]
    command = [spark_home() / "bin" / "spark-submit", "--class", main_class, *settings]
    with process_group([*map(str, command), "spark-internal", *arguments], folder) as process:
        yield process


@contextmanager
def process_group(
    command: list[str],
    folder: Path,
    env: Mapping[str, str] | None = None,
    *,
    pipes: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in its own group; end the whole group afterwards. Its log is in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    pipe = subprocess.PIPE if pipes else None
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment(), **(env or {})},
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe or log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    except RuntimeError as error:
        error.add_note((folder / "log").read_text(errors="replace")[-2000:])
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(
    condition: Callable[[], bool],
    process: subprocess.Popen[bytes],
    what: str,
    *,
    every: float = 0.2,
) -> None:
    """Wait until the condition holds. Raise RuntimeError if the process ends or time runs out.

    Args:
        every: Seconds between two checks.
    """
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if process.poll() is not None:
            raise RuntimeError(f"{what} ended with {process.returncode} before it was ready")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} was not ready after {START_SECONDS} s")
        time.sleep(every)


def is_listening(port: int) -> bool:
    """Return True if a process accepts connections on a port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

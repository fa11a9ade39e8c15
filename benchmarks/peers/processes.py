"""Starting and ending the processes of the systems that are measured."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
"""What the Spark of every system is started with."""

START_SECONDS = 120


def environment() -> dict[str, str]:
    """The caller's, less Headrace settings, with the Java that Headrace would take."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    return inherited | {"JAVA_HOME": str(find_java().path)}


def spark_home() -> Path:
    """Where PySpark's own Spark is."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def spark_server(
    main_class: str, conf: Mapping[str, str], arguments: list[str], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """One of the servers inside PySpark's jars, run by spark-submit in `folder`."""
    settings = [
        word for key, value in {**CONF, **conf}.items() for word in ("--conf", f"{key}={value}")
    ]
    command = [spark_home() / "bin" / "spark-submit", "--class", main_class, *settings]
    with group([*map(str, command), "spark-internal", *arguments], folder) as process:
        yield process


@contextmanager
def group(
    command: list[str],
    folder: Path,
    env: Mapping[str, str] | None = None,
    *,
    pipes: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, ended with everything it started. Its log is in `folder`."""
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
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], what: str) -> None:
    """Returns once the condition holds. Raises RuntimeError when the process ends or time is up."""
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if process.poll() is not None:
            raise RuntimeError(f"{what} ended with {process.returncode} before it was ready")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} was not ready after {START_SECONDS} s")
        time.sleep(0.2)


def listens(port: int) -> bool:
    """Whether somebody takes connections on a port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

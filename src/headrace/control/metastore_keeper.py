"""Keeps the home's Hive metastore running while it is used: `python -m …metastore_keeper`.

A process of its own, so that the metastore depends neither on a node nor on a driver. When the JVM
dies while somebody uses it, it is started again; when nobody has used it for `--linger` seconds,
it is ended and so is the keeper.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.util
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from xml.sax.saxutils import escape

import psutil

_LOG = logging.getLogger("headrace.metastore")
_POLL_SECONDS = 0.5
_RESTART_SECONDS = 2.0
_MARK = "-Dheadrace.metastore="


def main() -> int:
    """Runs until nobody uses the metastore, or SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    parser = argparse.ArgumentParser(description="Keeps a home's Hive metastore running.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--warehouse", required=True)
    parser.add_argument("--linger", type=float, required=True)
    arguments = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: stop.set())
    signal.signal(signal.SIGINT, _ignore)
    _end_stray(arguments.folder)
    _write_site(arguments.folder, arguments.warehouse)
    _keep(arguments.folder, arguments.port, arguments.linger, stop)
    return 0


def _keep(folder: Path, port: int, linger: float, stop: threading.Event) -> None:
    metastore = _start(folder, port)
    idle_since: float | None = None
    try:
        while not stop.wait(_POLL_SECONDS):
            if _in_use(folder / "users.lock"):
                idle_since = None
            else:
                idle_since = idle_since or time.monotonic()
                if time.monotonic() - idle_since >= linger:
                    _LOG.info("nobody has used the metastore for %g s: ending it", linger)
                    return
            if metastore.poll() is not None:
                _LOG.warning("the metastore ended with %s: starting it again", metastore.returncode)
                stop.wait(_RESTART_SECONDS)
                metastore = _start(folder, port)
    finally:
        metastore.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            metastore.wait(timeout=5)
        metastore.kill()
        metastore.wait()


def _ignore(_signal: int, _frame: FrameType | None) -> None:
    """A Ctrl-C at the terminal is meant for the command, not for the catalog."""


def _in_use(lock: Path) -> bool:
    with lock.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _end_stray(folder: Path) -> None:
    """Ends the JVM of a keeper that was killed: it would hold the database."""
    for process in psutil.process_iter(["cmdline"]):
        if f"{_MARK}{folder}" in (process.info["cmdline"] or []):
            _LOG.warning("ending a metastore left behind by a killed keeper, pid %d", process.pid)
            process.kill()
            process.wait(timeout=10)


def _write_site(folder: Path, warehouse: str) -> None:
    properties = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'db'};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        # Hive's own default is not among PySpark's jars; DROP DATABASE would fail for want of it.
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": warehouse,
        "hive.async.log.enabled": "false",
        "hive.metastore.server.min.threads": "4",
    }
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    conf = folder / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    (conf / "hive-site.xml").write_text(
        "\n".join(["<configuration>", *lines, "</configuration>", ""])
    )


def _start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    jars = _spark_home() / "jars"
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    opens = [f"--add-opens=java.base/java.{part}=ALL-UNNAMED" for part in ("lang", "net", "util")]
    return subprocess.Popen(
        [
            *(str(java), "-Xmx256m", "-XX:+UseSerialGC", *opens),
            f"-Dderby.stream.error.file={folder / 'derby.log'}",
            f"{_MARK}{folder}",
            *("-cp", _class_path(jars, folder / "conf")),
            *("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)),
        ],
        stdin=subprocess.DEVNULL,
        cwd=folder,
    )


def _class_path(jars: Path, conf: Path) -> str:
    """Return Spark's jars in the order of its own launcher, then the configuration.

    JVMs whose class paths begin alike can share an archive of classes (JEP 350).
    """
    first = sorted(jars.glob("slf4j-api-*.jar"))
    return ":".join([*map(str, first), f"{jars}/*", str(conf)])


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("PySpark is not installed here: pip install 'headrace[spark]'")
    return Path(spec.origin).parent


if __name__ == "__main__":
    sys.exit(main())

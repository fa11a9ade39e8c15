"""`python -m headrace.control.host.health_checks`: what this host offers a node, one JSON object a line.

Each is `{name, status, found, fix}`: `status` is `ok`, `warning` or `failed`, and `fix` says how to
mend what is not ok. `headrace doctor` runs this as a process of its own and prints it.
"""

from __future__ import annotations

import errno
import importlib.metadata
import json
import secrets
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from headrace.control.host.java import find_java
from headrace.errors import HeadraceError, InvalidSetting, StoreInUse
from headrace.settings import Settings, load
from headrace.storage import locations
from headrace.store.database import Database

SPARK = "4.1."
"""The versions of PySpark that this Headrace is made for."""
_LITTLE_SPACE = 1 << 30


class CheckStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"  # works, but not for everything
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one probe found."""

    name: str
    status: CheckStatus
    found: str
    fix: str | None = None


def probe_java(_settings: Settings) -> CheckResult:
    """The Java that drivers would run on."""
    java = find_java()
    return CheckResult(
        "java", CheckStatus.OK, f"Java {java.version} in {java.path} (from {java.source})"
    )


def probe_spark(_settings: Settings) -> CheckResult:
    """PySpark's version, without importing it."""
    fix = "pip install 'headrace[spark]'"
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return CheckResult("spark", CheckStatus.FAILED, "PySpark is not installed", fix)
    if not version.startswith(SPARK):
        found = f"PySpark {version}, and Headrace is made for {SPARK}x"
        return CheckResult("spark", CheckStatus.FAILED, found, fix)
    return CheckResult("spark", CheckStatus.OK, f"PySpark {version}")


def probe_catalog(settings: Settings) -> CheckResult:
    """Whether tables outlive the driver that made them."""
    if settings.catalog.kind == "memory":
        return CheckResult(
            "catalog",
            CheckStatus.WARNING,
            "in memory: tables and sessions end with their driver",
            "set catalog.kind to managed or external",
        )
    return CheckResult(
        "catalog", CheckStatus.OK, f"{settings.catalog.kind}, tables in {settings.warehouse}"
    )


def probe_store(settings: Settings) -> CheckResult:
    """Whether the store can be opened. Makes no file and changes no schema."""
    name, url = "store", settings.store_url
    file = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None
    if file is not None and not file.exists():
        folder = next(parent for parent in file.absolute().parents if parent.exists())
        return _folder(name, folder, f"{file} (not there yet)")
    try:
        database = Database.open(
            url, connect_timeout=settings.store.connect_timeout.total_seconds()
        )
    except StoreInUse as error:
        return CheckResult(name, CheckStatus.OK, f"in use by a node: {error.message}")
    try:
        database.ping()
    finally:
        database.close()
    return CheckResult(name, CheckStatus.OK, str(file or f"{database.dialect} answers"))


def probe_results(settings: Settings) -> CheckResult:
    """Whether results can be written, read and deleted, and what space is left for them."""
    name, location = "results", settings.results_location
    path = locations.local_path(location)
    if path is not None and not path.exists():
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        return _folder(name, folder, f"{location} (not there yet)")
    file = locations.join(location, f".probe-{secrets.token_hex(4)}")
    try:
        locations.write(file, b"headrace")
        locations.read(file)
    finally:
        _remove(file)
    if path is not None:
        return _folder(name, path, location)
    return CheckResult(name, CheckStatus.OK, f"{location} can be written")


def probe_port(settings: Settings) -> CheckResult:
    """Whether a node could listen, and if not, who does."""
    host, port = settings.http.host, settings.http.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            found = f"cannot listen on {host}:{port}: {error.strerror}"
            return CheckResult(
                "port", CheckStatus.FAILED, found, "set http.host to an address of this host"
            )
        return _taken(port)
    return CheckResult("port", CheckStatus.OK, f"{host}:{port} is free")


PROBES: dict[str, Callable[[Settings], CheckResult]] = {
    "java": probe_java,
    "spark": probe_spark,
    "store": probe_store,
    "catalog": probe_catalog,
    "results": probe_results,
    "port": probe_port,
}


def run(name: str, settings: Settings) -> CheckResult:
    """One probe; whatever it raises is a finding too."""
    try:
        return PROBES[name](settings)
    except HeadraceError as error:
        return CheckResult(name, CheckStatus.FAILED, error.message, error.hint)
    except Exception as error:  # noqa: BLE001 - a probe meets any file system and any database
        return CheckResult(name, CheckStatus.FAILED, f"{type(error).__name__}: {error}")


def _folder(name: str, folder: Path, found: str) -> CheckResult:
    """A folder that must take new files, with the space that is left on it."""
    try:
        file = folder / f".headrace-probe-{secrets.token_hex(4)}"
        file.touch()
        file.unlink()
    except OSError as error:
        fix = f"make {folder} writable, or set HEADRACE_HOME to another place"
        return CheckResult(name, CheckStatus.FAILED, f"{found}: {folder}: {error.strerror}", fix)
    free = shutil.disk_usage(folder).free
    text = f"{found}, {free / (1 << 30):.1f} GiB free"
    if free < _LITTLE_SPACE:
        return CheckResult(
            name, CheckStatus.WARNING, text, f"free some space on the disk of {folder}"
        )
    return CheckResult(name, CheckStatus.OK, text)


def _remove(file: str) -> None:
    if path := locations.local_path(file):
        path.unlink(missing_ok=True)
    else:
        locations.delete(file)


def _taken(port: int) -> CheckResult:
    holder = _holder(port)
    if holder is None:
        found = f"port {port} is taken by a process that this user may not see"
    else:
        command = " ".join(holder.cmdline())
        if "headrace.api" in command:
            return CheckResult(
                "port", CheckStatus.OK, f"a node (process {holder.pid}) listens on {port}"
            )
        found = f"port {port} is taken by process {holder.pid}: {command[:80] or holder.name()}"
    return CheckResult("port", CheckStatus.WARNING, found, "start the node with another --port")


def _holder(port: int) -> psutil.Process | None:
    try:
        for one in psutil.net_connections("tcp"):
            listens = one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port
            if listens and one.pid:
                return psutil.Process(one.pid)
    except psutil.Error:
        return None
    return None


def main() -> int:
    """Runs all probes."""
    try:
        settings = load()
    except InvalidSetting as error:
        _say(CheckResult("settings", CheckStatus.FAILED, error.message, error.hint))
        return 0
    for name in PROBES:
        _say(run(name, settings))
    return 0


def _say(finding: CheckResult) -> None:
    sys.stdout.write(json.dumps(asdict(finding)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

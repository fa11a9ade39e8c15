"""Health checks of a host, printed as one JSON object per line.

Each object has the keys `name`, `status` (`ok`, `warning` or `failed`), `found` and `fix`. Every
check that is not `ok` has a fix. `headrace doctor` runs this module in a process of its own,
`python -m headrace.control.host.health_checks`, because the checks import what a node imports.
"""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from headrace.config.extras import find_missing, install_command
from headrace.config.settings import Settings, load
from headrace.control.catalog_claim import identify_catalog, predict_replacement
from headrace.control.conf import check_profiles
from headrace.control.host.java import find_java
from headrace.control.host.metastore import Metastore
from headrace.control.host.system_user import can_hide_processes
from headrace.control.places import find_unshared
from headrace.errors import HeadraceError, InvalidSetting, StoreInUse, StoreUnavailable
from headrace.files import locations
from headrace.files.places import join, local_path, mask_password
from headrace.store.database import Database

SPARK = "4.1."
"""Prefix of the PySpark versions that Headrace supports."""
_GIB = 1 << 30
_LOW_SPACE = _GIB
"""Free bytes on a disk below which the check is a warning."""


class CheckStatus(StrEnum):
    """Outcomes of a check."""

    OK = "ok"
    WARNING = "warning"  # a node can run, with a limitation
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. The names of the fields are part of the output of `doctor`."""

    name: str
    status: CheckStatus
    found: str
    """Finding, for example the version of Java."""
    fix: str | None = None
    """Instruction for the user; None if the status is `ok`."""

    def __post_init__(self) -> None:
        """Check that advice is given for a fault, and only then."""
        assert (self.fix is None) == (self.status is CheckStatus.OK), self.name


def check_java(_settings: Settings) -> CheckResult:
    """Check that a Java for drivers exists. Warn if JAVA_HOME names a Java that is not used."""
    java = find_java()
    found = f"Java {java.version} in {java.path} (from {java.source})"
    java_home = os.environ.get("JAVA_HOME")
    if java_home and java.source != "JAVA_HOME":
        return CheckResult(
            "java",
            CheckStatus.WARNING,
            f"{found}; JAVA_HOME is {java_home}, {_describe_unusable(Path(java_home))}",
            "set JAVA_HOME to Java 17 or 21, or unset it",
        )
    return CheckResult("java", CheckStatus.OK, found)


def _describe_unusable(java_home: Path) -> str:
    """Return why a folder is not used as JAVA_HOME."""
    if not java_home.is_dir():
        return "which does not exist"
    if not (java_home / "bin" / "java").exists():
        return "which contains no bin/java"
    return "which is not Java 17 or 21"


def check_spark(_settings: Settings) -> CheckResult:
    """Check the version of PySpark without importing it."""
    fix = install_command("spark")
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return CheckResult("spark", CheckStatus.FAILED, "PySpark is not installed", fix)
    if not version.startswith(SPARK):
        found = f"PySpark {version}, but Headrace supports only {SPARK}x"
        return CheckResult("spark", CheckStatus.FAILED, found, fix)
    return CheckResult("spark", CheckStatus.OK, f"PySpark {version}")


def check_catalog(settings: Settings) -> CheckResult:
    """Check that the catalog is that of the store, and that tables outlive their drivers.

    Raises CatalogMismatch if a node with these settings would refuse to start.
    """
    replacement = _predict_replacement(settings)
    if replacement is not None:
        return CheckResult("catalog", CheckStatus.WARNING, *replacement)
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


def _predict_replacement(settings: Settings) -> tuple[str, str] | None:
    """Compare the catalog with that of the store. Nothing is created, and no node is started.

    Return None also if the store does not answer, which is the finding of another check.
    """
    file = _store_file(settings)
    if file is not None and not file.exists():
        return None
    metastore = Metastore.of_settings(settings)
    own = identify_catalog(settings, metastore, creates=False)
    try:
        database = _open_store(settings, only_reads=True)
    except HeadraceError:
        return None
    try:
        with database.read() as tx:
            return predict_replacement(tx, settings, own)
    except StoreUnavailable:
        return None
    finally:
        database.close()


def _store_file(settings: Settings) -> Path | None:
    """Return the file of a SQLite store; None for any other store."""
    url = settings.store_url
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None


def _open_store(settings: Settings, *, only_reads: bool = False) -> Database:
    return Database.open(
        settings.store_url,
        connect_timeout=settings.store.connect_timeout.total_seconds(),
        only_reads=only_reads,
    )


def check_store(settings: Settings) -> CheckResult:
    """Check that the store can be opened, without creating a file or changing the schema."""
    name, file = "store", _store_file(settings)
    if file is not None and not file.exists():
        return _check_folder(name, _existing_parent(file), f"{file} (does not exist yet)")
    try:
        database = _open_store(settings)
    except StoreInUse as error:
        return CheckResult(name, CheckStatus.OK, error.message)
    try:
        database.ping()
    finally:
        database.close()
    return CheckResult(name, CheckStatus.OK, str(file or f"{database.dialect} answers"))


def check_results(settings: Settings) -> CheckResult:
    """Check that results can be written, read and deleted, and that the disk has free space."""
    name, location = "results", settings.results_location
    shown = mask_password(location)
    path = local_path(location)
    if path is not None and not path.exists():
        return _check_folder(name, _existing_parent(path), f"{shown} (does not exist yet)")
    if path is None and location.startswith("s3") and (missing := find_missing("emr")):
        found = f"{shown} needs packages that are not installed: {', '.join(missing)}"
        return CheckResult(name, CheckStatus.FAILED, found, install_command("emr"))
    file = join(location, f".probe-{secrets.token_hex(4)}")
    try:
        locations.write(file, b"headrace")
        locations.read(file)
    finally:
        _delete_file(file)
    if path is not None:
        return _check_folder(name, path, shown)
    return CheckResult(name, CheckStatus.OK, f"{shown} is writable")


def check_port(settings: Settings) -> CheckResult:
    """Check that a node can listen on its port. If not, name the process that uses the port."""
    host, port = settings.http.host, settings.http.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            found = f"cannot listen on {host}:{port}: {error.strerror}"
            return CheckResult("port", CheckStatus.FAILED, found, _DEFAULT_FIXES["port"])
        return _check_occupied_port(port)
    return CheckResult("port", CheckStatus.OK, f"{host}:{port} is free")


def check_cluster(settings: Settings) -> CheckResult:
    """Check whether nodes of other hosts could use the store of this one."""
    if settings.store_url.startswith("sqlite:"):
        return CheckResult("cluster", CheckStatus.OK, "one node: the store is a file of this host")
    unshared = find_unshared(settings)
    if not unshared:
        return CheckResult("cluster", CheckStatus.OK, "nodes can run on several hosts")
    values = ", ".join(f"{name} ({value})" for name, value in sorted(unshared.items()))
    return CheckResult(
        "cluster",
        CheckStatus.WARNING,
        f"nodes can run on this host only, because of: {values}",
        "use catalog.kind external and object storage, or list shared mounts in"
        " cluster.shared_paths",
    )


def check_isolation(settings: Settings) -> CheckResult:
    """Check that the drivers of several users cannot read each other's files."""
    name, missing = "isolation", settings.missing_isolation
    if missing is not None:
        fix = 'set run_as = "owner" in the profiles (docs/guides/share-a-server.md)'
        return CheckResult(name, CheckStatus.WARNING, missing, fix)
    as_owners = [each for each in settings.profiles.values() if each.run_as == "owner"]
    if not as_owners:
        return CheckResult(name, CheckStatus.OK, "one user")
    if any(not each.is_remote for each in as_owners) and not can_hide_processes():
        return CheckResult(
            name,
            CheckStatus.WARNING,
            "drivers run as their owners, who see the arguments of each other's processes, because"
            " the node may not mount a /proc with hidepid for them",
            "run the node with the capability CAP_SYS_ADMIN, or mount /proc with hidepid=2",
        )
    if any(each.is_remote for each in as_owners):
        return CheckResult(
            name,
            CheckStatus.WARNING,
            "drivers run as their owners, and those of other hosts have their results and the"
            f" files with their tokens in one folder ({settings.results_location})",
            "let only owners who trust each other use the profiles of other hosts",
        )
    return CheckResult(name, CheckStatus.OK, "drivers run as their owners")


CHECKS: dict[str, Callable[[Settings], CheckResult]] = {
    "java": check_java,
    "spark": check_spark,
    "store": check_store,
    "catalog": check_catalog,
    "results": check_results,
    "port": check_port,
    "cluster": check_cluster,
    "isolation": check_isolation,
}
_DEFAULT_FIXES = {
    "settings": "correct the setting in the environment or in headrace.toml",
    "java": "set JAVA_HOME to Java 17 or 21",
    "spark": "install the extra spark of Headrace again",
    "store": "check the setting store.url, and that the database is running",
    "catalog": "set catalog.kind to managed or external",
    "results": "check the setting results.location, and the credentials for it",
    "port": "set http.host to an address of this host",
    "cluster": "check the settings of the cluster",
    "isolation": "check the setting run_as of the profiles",
}
"""Fix to suggest for a check that fails with an error without a hint."""


def run_check(name: str, settings: Settings) -> CheckResult:
    """Return the result of one check, which is `failed` if the check raises an error."""
    try:
        return CHECKS[name](settings)
    except HeadraceError as error:
        return _failure(name, error)
    except Exception as error:  # noqa: BLE001 - file systems and databases have their own classes
        found = f"{type(error).__name__}: {error}"
        return CheckResult(name, CheckStatus.FAILED, found, _DEFAULT_FIXES[name])


def _failure(name: str, error: HeadraceError) -> CheckResult:
    fix = error.hint or _DEFAULT_FIXES[name]
    return CheckResult(name, CheckStatus.FAILED, error.message, fix)


def _existing_parent(path: Path) -> Path:
    """Return the nearest parent folder that exists."""
    return next(parent for parent in path.absolute().parents if parent.exists())


def _check_folder(name: str, folder: Path, found: str) -> CheckResult:
    """Check that files can be created in a folder and that its disk has free space."""
    try:
        file = folder / f".headrace-probe-{secrets.token_hex(4)}"
        file.touch()
        file.unlink()
    except OSError as error:
        fix = f"make {folder} writable, or set HEADRACE_HOME to another folder"
        return CheckResult(name, CheckStatus.FAILED, f"{found}: {folder}: {error.strerror}", fix)
    free = shutil.disk_usage(folder).free
    text = f"{found}, {free / _GIB:.1f} GiB free"
    if free < _LOW_SPACE:
        return CheckResult(name, CheckStatus.WARNING, text, f"free space on the disk of {folder}")
    return CheckResult(name, CheckStatus.OK, text)


def _delete_file(location: str) -> None:
    if path := local_path(location):
        path.unlink(missing_ok=True)
    else:
        locations.delete(location)


def _check_occupied_port(port: int) -> CheckResult:
    """Return OK if a node listens on the port, otherwise a warning with the process if visible."""
    process = _listening_process(port)
    if process is None:
        found = f"port {port} is in use by a process of another user"
    else:
        command = " ".join(process.cmdline())
        if "headrace.frontends" in command:
            return CheckResult(
                "port", CheckStatus.OK, f"a node (process {process.pid}) listens on {port}"
            )
        found = f"port {port} is in use by process {process.pid}: {command[:80] or process.name()}"
    return CheckResult("port", CheckStatus.WARNING, found, "start the node with another --port")


def _listening_process(port: int) -> psutil.Process | None:
    """Return the process that listens on a TCP port, or None if this user may not see it."""
    try:
        for connection in psutil.net_connections("tcp"):
            is_listener = (
                connection.status == psutil.CONN_LISTEN
                and connection.laddr
                and connection.laddr.port == port
            )
            if is_listener and connection.pid:
                return psutil.Process(connection.pid)
    except psutil.Error:
        return None
    return None


def main() -> int:
    """Run all checks and print their results."""
    try:
        settings = load()
        check_profiles(settings)
    except InvalidSetting as error:
        _print_result(_failure("settings", error))
        return 0
    for name in CHECKS:
        _print_result(run_check(name, settings))
    return 0


def _print_result(result: CheckResult) -> None:
    sys.stdout.write(json.dumps(asdict(result)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

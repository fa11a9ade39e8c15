"""The end of everything that a home runs on its host, while no node serves the home.

`headrace stop --drivers` runs this module as a program, after the node has ended or if none lives.
The program ends the drivers of the home, those of the store on this host, and the metastore of the
home. It prints what it has ended and what it could not end, as a JSON object.

A driver that the store knows is fenced first, as in every takeover. An unnamed session ends with
its driver; a named session can be recovered. What the store does not know is killed all the same.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import psutil
from prometheus_client import CollectorRegistry

from headrace.config.settings import Settings, load
from headrace.control.context import NodeContext
from headrace.control.host.home_processes import HomeProcess, find_home_processes
from headrace.control.host.process_identity import HostIdentity, this_host
from headrace.control.launchers import process_group
from headrace.control.launchers.base import LauncherHost
from headrace.control.launchers.bootstrap_files import BootstrapFiles, TemporaryFolders
from headrace.control.launchers.local import LocalLauncher
from headrace.control.launchers.registry import LauncherRegistry, build_launchers
from headrace.control.outbox.openlineage import OpenLineageStreamEvents
from headrace.control.sessions.takeover import DriverEnds, Takeovers
from headrace.errors import HeadraceError, LaunchFailed
from headrace.files.file_locks import lock_file
from headrace.model.session import Session
from headrace.store.database import Database

_LOCK_SECONDS = 30.0
_METASTORE_SECONDS = 10.0
_POLL_SECONDS = 0.05


@dataclass
class ShutdownReport:
    """What has been ended on a host."""

    ended: list[HomeProcess] = field(default_factory=list)
    remaining: list[HomeProcess] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Why something could not be ended or checked, in sentences."""


def shut_down(settings: Settings) -> ShutdownReport:
    """End what the home runs, and the drivers of its store on this host."""
    report, layout = ShutdownReport(), settings.layout
    if not layout.path.exists():
        return report
    lock = lock_file(layout.node_lock, timeout=_LOCK_SECONDS)
    if lock is None:
        report.problems.append(f"A node serves the home {layout.path} again.")
        report.remaining = find_home_processes(layout)
        return report
    try:
        before = find_home_processes(layout)
        _end_drivers_of_store(settings, report)
        for process in find_home_processes(layout):
            _end_process(settings, process, report)
        report.remaining += find_home_processes(layout)
        kept = {process.pid for process in report.remaining}
        known = {process.pid for process in report.ended}
        report.ended += [each for each in before if each.pid not in kept | known]
    finally:
        os.close(lock)
    return report


def _end_drivers_of_store(settings: Settings, report: ShutdownReport) -> None:
    """Fence and end the drivers on this host that the store of the home knows."""
    if settings.store.url is None and not settings.layout.store_file.exists():
        return
    timeout = settings.store.connect_timeout.total_seconds()
    try:
        with closing(Database.open(settings.store_url, connect_timeout=timeout)) as database:
            database.migrate()
            database.observe_stream_run = OpenLineageStreamEvents(settings.openlineage).record
            _fence_drivers(database, settings, report)
    except HeadraceError as error:
        report.problems.append(
            f"The store could not be read, and may know further drivers: {error.message}"
        )


def _fence_drivers(database: Database, settings: Settings, report: ShutdownReport) -> None:
    file = settings.layout.node_id_file
    node_id = file.read_text().strip() if file.exists() else "no_stop"
    context = NodeContext(database, settings, node_id, "")
    host = LauncherHost.of_settings(settings)
    launchers = LauncherRegistry(
        build_launchers(settings, host, LocalLauncher(host)), CollectorRegistry()
    )
    takeovers = Takeovers(context, launchers)
    try:
        before, after = DriverEnds(context, takeovers).end_where(_runs_here)
    finally:
        takeovers.stop()
    remaining = {session.id for session in after}
    for session in before:
        process = _as_process(session)
        if session.id not in remaining:
            report.ended.append(process)
        elif _lives(session):
            report.remaining.append(process)
            report.problems.append(
                f"The end of the driver of session {session.id} is not confirmed."
            )
        else:
            report.ended.append(process)
            report.problems.append(
                f"The backend of the driver of session {session.id} has not confirmed its end, as"
                " the log of a node explains. A node tries again after its start."
            )


def _runs_here(session: Session) -> bool:
    """Return whether the driver of a session runs on this host, or starts here."""
    handle = session.fenced_driver.handle if session.fenced_driver else session.handle
    host = session.host if handle is None else handle.get("host")
    return host is not None and this_host().shares_processes_with(HostIdentity.from_record(host))


def _lives(session: Session) -> bool:
    """Return whether a process of a driver runs on this host, or may run in a cluster."""
    handle = _handle(session)
    if "created" not in handle:
        return True
    return process_group.is_live(process_group.ProcessGroup.from_handle(handle))


def _handle(session: Session) -> Mapping[str, Any]:
    return (session.fenced_driver.handle if session.fenced_driver else session.handle) or {}


def _as_process(session: Session) -> HomeProcess:
    handle = _handle(session)
    return HomeProcess("driver", handle.get("pid") or 0, handle.get("name"), session.id)


def _end_process(settings: Settings, process: HomeProcess, report: ShutdownReport) -> None:
    """Kill a driver that the store does not know, or end the metastore."""
    layout = settings.layout
    group = process_group.ProcessGroup.of_leader(process.pid)
    try:
        if process.kind == "metastore":
            _ask_to_end(group)
            process_group.kill(group)
            (layout.metastore / "metastore.json").unlink(missing_ok=True)
            return
        process_group.kill(group)
        if process.name is not None:
            for folder in (layout.drivers, layout.submitted):
                BootstrapFiles(folder).remove(process.name)
            TemporaryFolders(layout.temporary).remove(process.name)
    except (LaunchFailed, OSError, psutil.Error) as error:
        message = error.message if isinstance(error, HeadraceError) else str(error)
        report.problems.append(f"Process {process.pid} ({process.kind}): {message}")


def _ask_to_end(group: process_group.ProcessGroup) -> None:
    """Let a supervisor end its metastore, which closes its database."""
    with suppress(OSError):
        if group.has_live_leader:
            os.kill(group.pid, signal.SIGTERM)
    deadline = time.monotonic() + _METASTORE_SECONDS
    while group.has_live_leader and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def main() -> int:
    """Shut the host of the configured home down, and print the report."""
    logging.basicConfig(level=logging.ERROR)
    try:
        report = shut_down(load())
    except HeadraceError as error:
        report = ShutdownReport(problems=[error.message])
    sys.stdout.write(json.dumps(asdict(report)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

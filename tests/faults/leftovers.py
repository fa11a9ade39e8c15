"""The files that remain after all scenarios of a lane: the nodes must delete what is not needed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from tests.faults.cluster import ORPHAN_SECONDS
from tests.faults.invariants import Rows
from tests.faults.lane import ChaosLane
from tests.support.waiting import wait_until

from headrace.config.home import HomeLayout
from headrace.control.sessions.session_logs import kept_log_name
from headrace.model.lifecycle import SESSION

_LAUNCH = re.compile(r"headrace-(se_[0-9a-f]{32})-")
_END_SECONDS = 120.0
_SWEEP_SECONDS = 90.0
"""Longest time in which a node deletes what it may delete."""


def delete_leftovers(lane: ChaosLane) -> tuple[int, list[str]]:
    """Close all sessions of a lane and restart its nodes, which then delete leftovers.

    With the default times, the nodes keep the result files of killed attempts for ten minutes: in
    such a lane, only the files of ended drivers must go.

    Returns:
        The number of killed attempts that had result files, and a sentence for each file or folder
        that remains although no session needs it.

    Raises:
        AssertionError: The sessions did not end in time.
    """
    lane.plan.write([])
    _close_sessions(lane)
    killed = [] if lane.kind.default_times else find_killed_attempts(lane.results, lane.read_rows())
    if killed:
        wait_until(lambda: _are_old(lane.read_rows()), seconds=_END_SECONDS, what="files are old")
    # A node searches the results location when it starts, then every ten minutes.
    for node in lane.nodes:
        node.stop()
        node.ensure()
    try:
        wait_until(lambda: not _find_leftovers(lane), seconds=_SWEEP_SECONDS, every=0.5)
    except AssertionError:
        return len(killed), [f"{path} remains" for path in _find_leftovers(lane)]
    return len(killed), []


def find_killed_attempts(location: Path, rows: Rows) -> list[Path]:
    """Return what is in a results location although no row refers to it.

    The log of a session is kept as long as the session.
    """
    referenced = {row["location"] for row in rows.results}
    logs = {kept_log_name(row["id"]) for row in rows.sessions}
    paths = [path for path in _list(location) if path.name not in logs]
    return [path for path in paths if str(path) not in referenced]


def find_files_of_ended_drivers(home: HomeLayout, rows: Rows) -> list[Path]:
    """Return the bootstrap files and temporary folders of drivers whose sessions have ended."""
    ended = {row["id"] for row in rows.sessions if row["state"] in SESSION.terminal}
    files = [*_list(home.temporary), *_list(home.drivers)]
    launches = [(path, _LAUNCH.match(path.name)) for path in files]
    return [path for path, launch in launches if launch is not None and launch[1] in ended]


def _find_leftovers(lane: ChaosLane) -> list[Path]:
    rows = lane.read_rows()
    found = [] if lane.kind.default_times else find_killed_attempts(lane.results, rows)
    for node in lane.nodes:
        found += find_files_of_ended_drivers(HomeLayout.at(node.home), rows)
    return found


def _close_sessions(lane: ChaosLane) -> None:
    lane.ensure_nodes()
    if lane.base is None:
        return
    path = f"/api/v1/sessions/{lane.base}"
    lane.base = None
    lane.nodes[0].http.delete(path)
    wait_until(
        lambda: _get_state(lane.nodes[0].http, path) in SESSION.terminal,
        seconds=_END_SECONDS,
        what="the lane's session has ended",
    )


def _get_state(http: httpx.Client, path: str) -> str:
    return str(http.get(path).json()["state"])


def _are_old(rows: Rows) -> bool:
    """Return whether every statement has ended before the time of an orphan driver."""
    ends = [row["ended_at"] for row in rows.statements if row["ended_at"] is not None]
    return max(ends) < datetime.now(UTC) - timedelta(seconds=ORPHAN_SECONDS)


def _list(folder: Path) -> Iterable[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []

"""What remains of the drivers of a run, when all sessions have ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.faults.chaos_cluster.host_cluster import (
    CHECKPOINTS,
    JOBS,
    ORPHAN_SECONDS,
    RESULTS,
    HostCluster,
)
from tests.faults.chaos_cluster.load import UserSession
from tests.faults.chaos_cluster.record import Work
from tests.faults.invariants import Rows
from tests.faults.leftovers import find_files_of_ended_drivers, find_killed_attempts
from tests.support.files import find_matching
from tests.support.waiting import wait_until

from headrace.config.home import HomeLayout
from headrace.driver.ctas.base import STAGING_PREFIX
from headrace.driver.streams.checkpoint_marker import MARKER

_STAGING = (
    ".headrace_write_",
    ".spark-staging-",
    ".hive-staging_",
    "_temporary",
    STAGING_PREFIX,
    f"_{STAGING_PREFIX}",
)
"""Beginnings of the names of folders in which writes and new tables are staged."""
_SECONDS = 90.0
"""Longest time in which a new driver, or a node that starts, deletes what it may delete."""


def find_staged(cluster: HostCluster, reader: UserSession) -> list[str]:
    """Return a sentence for each staged file that a new driver does not delete.

    Args:
        reader: A new session. Its driver deletes what lost drivers have staged.
    """
    reader.must_run(Work.CHECK, "SHOW TABLES")
    reader.client.recovery(retry=True)

    def find() -> list[str]:
        pending = reader.client.recovery()
        files = find_matching(cluster.warehouse, "*")
        entries = [path for path in files if path.name.startswith(_STAGING)]
        return [
            *(f"a transaction is orphaned: {each}" for each in pending["transactions"]),
            *(f"a sink is not cleared: {each}" for each in pending["sinks"]),
            *(f"{path} remains" for path in entries),
        ]

    return _wait_for_none(find)


def find_leftovers(cluster: HostCluster) -> list[str]:
    """Restart all nodes, which then delete leftovers. Return a sentence for each that remains."""
    rows = cluster.read_rows()
    ends = [row["ended_at"] for row in rows.statements]
    wait_until(
        lambda: max(ends) < datetime.now(UTC) - timedelta(seconds=ORPHAN_SECONDS),
        seconds=2 * ORPHAN_SECONDS,
        what="files are old",
    )
    # A node searches the results location when it starts, then every ten minutes.
    for node in cluster.nodes:
        node.process.stop()
        node.wait_ready()

    def find() -> list[str]:
        files = find_killed_attempts(cluster.shared / RESULTS, rows)
        for node in cluster.nodes:
            files += find_files_of_ended_drivers(HomeLayout.at(node.process.home), rows)
        return [f"{path} remains" for path in files]

    remaining = _wait_for_none(find)
    remaining += find_wrong_markers(_read_markers(cluster.shared), rows)
    places = [str(path) for path in cluster.shared.glob(f"{JOBS}/**/savepoints/*/*/*")]
    remaining += find_wrong_savepoints(places, rows)
    return remaining


def find_wrong_markers(markers: Mapping[str, Mapping[str, Any]], rows: Rows) -> Iterator[str]:
    """Find markers in checkpoints of queries that do not exist, or of epochs to come.

    Args:
        markers: The content of each marker, by its path.
    """
    queries = {row["id"]: row for row in rows.stream_queries}
    epochs = {row["id"]: row["epoch"] for row in rows.sessions}
    for path, marker in markers.items():
        if marker["query"] not in queries:
            yield f"{path} names the query {marker['query']}, which does not exist"
        elif marker["epoch"] > epochs[marker["session"]]:
            yield f"{path} names the epoch {marker['epoch']} of {marker['session']}"


def find_wrong_savepoints(places: list[str], rows: Rows) -> Iterator[str]:
    """Find folders of savepoints that no job has."""
    kept = {row["place"].rstrip("/") for row in rows.savepoints if row["state"] != "pruned"}
    for place in places:
        if not any(each.endswith(place) for each in kept):
            yield f"{place} is the folder of no savepoint"


def _read_markers(shared: Path) -> dict[str, dict[str, Any]]:
    return {
        str(path): json.loads(path.read_text())
        for folder in (CHECKPOINTS, JOBS)
        for path in find_matching(shared / folder, MARKER)
    }


def _wait_for_none(find: Callable[[], list[str]]) -> list[str]:
    """Wait until nothing is found. Return what is still found after some time."""
    try:
        wait_until(lambda: not find(), seconds=_SECONDS, every=0.5)
    except AssertionError:
        return list(find())
    return []

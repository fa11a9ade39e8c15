"""SIGKILL of a node that owns sessions: the time until another node serves them, without Spark."""

from __future__ import annotations

from pathlib import Path

from tests.support.postgres import running_server
from tests.support.takeover import measure_takeover

from benchmarks.measure import Sample

SESSIONS, ROUNDS = 50, 5
LEASE_SECONDS = 5.0
_LIMIT = 12 * LEASE_SECONDS


def takeover_times(folder: Path) -> Sample:
    """Return the seconds from the SIGKILL until a statement of every session has ended."""
    sample = Sample()
    with running_server() as server:
        for number in range(ROUNDS):
            home = folder / f"takeover-{number}"
            home.mkdir()
            takeover = measure_takeover(
                home,
                server.url(server.new_database()),
                sessions=SESSIONS,
                lease=LEASE_SECONDS,
                limit=_LIMIT,
                LEASE__RENEW="1s",
            )
            sample.values.append(takeover.seconds)
    return sample

"""A node with fifty sessions is killed: another node serves them all, and spares the backend."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.takeover import measure_takeover

pytestmark = pytest.mark.postgres

_SESSIONS = 50
_LEASE = 10.0
_LIMIT = 60.0
"""On a quiet machine, it takes two seconds more than a lease: `make bench` measures it."""
_POLLS = 10


def test_another_node_serves_all_sessions_of_a_killed_node(
    tmp_path: Path, postgres_url: str
) -> None:
    takeover = measure_takeover(
        tmp_path,
        postgres_url,
        sessions=_SESSIONS,
        lease=_LEASE,
        limit=_LIMIT,
        LEASE__RENEW="1s",
        CLUSTER__BACKEND_POLLS=str(_POLLS),
    )
    assert takeover.backend_calls <= _POLLS * (takeover.seconds + 1)
    assert takeover.relaunched == 0

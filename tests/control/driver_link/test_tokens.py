"""The tokens of drivers, whose hashes a node keeps in memory."""

from __future__ import annotations

import secrets

import pytest
from tests.support.store import new_session

from headrace.config.settings import Settings
from headrace.control.context import NodeContext
from headrace.control.driver_link import service
from headrace.control.driver_link.service import DriverLinkService
from headrace.control.sessions.launch_request import hash_token
from headrace.errors import LeaseLost, Unauthorized
from headrace.model.session import DriverLease
from headrace.store.database import Database, Tx
from headrace.store.sessions import sessions, takeovers


def _launch(store: Database, token: str) -> DriverLease:
    """Claim the launch of a new session; return the lease of its driver."""
    session_id = new_session(store)
    with store.write("test") as tx:
        epoch = takeovers.claim_launch(
            tx, session_id, node="no_1", seconds=60, token_hash=hash_token(token)
        )
    assert epoch is not None
    return DriverLease(session_id, epoch)


def test_a_node_keeps_the_token_hashes_of_the_most_recent_callers_only(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_MAX_TOKEN_HASHES", 2)
    reads: list[DriverLease] = []
    read_hash = sessions.token_hash

    def count_reads(tx: Tx, lease: DriverLease) -> str | None:
        reads.append(lease)
        return read_hash(tx, lease)

    monkeypatch.setattr(sessions, "token_hash", count_reads)
    link = DriverLinkService(NodeContext(store, Settings(), "no_1", "http://node"))
    token = secrets.token_urlsafe(32)
    first, second, third = (_launch(store, token) for _ in range(3))
    for lease in (first, second, first, third, first, second):
        link.authenticate(lease, token)
    # The third driver took the place of the second one, whose last call was the oldest.
    assert reads == [first, second, third, second]
    with pytest.raises(Unauthorized):
        link.authenticate(first, "another token")
    with pytest.raises(LeaseLost):
        link.authenticate(DriverLease(first.session_id, 7), token)

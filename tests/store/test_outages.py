"""Outages of PostgreSQL that need no server."""

from __future__ import annotations

import socket

import pytest

from headrace.errors import StoreUnavailable
from headrace.store.database import Database


def test_a_server_that_does_not_answer_a_new_connection_is_an_outage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        store = Database.open(f"postgresql://user@127.0.0.1:{port}/db", connect_timeout=2)
        try:
            with pytest.raises(StoreUnavailable, match="timeout"), store.read():
                pass
        finally:
            store.close()

"""Contract of the open store: counts of write transactions."""

from __future__ import annotations

import pytest

from headrace.store.database import Database


def test_committed_write_transactions_are_counted_by_name(store: Database) -> None:
    for name in ("statement.submit", "statement.submit", "session.create"):
        with store.write(name):
            pass
    with pytest.raises(LookupError), store.write("statement.submit"):
        raise LookupError
    assert store.write_counts == {"statement.submit": 2, "session.create": 1}
    assert store.write_count == 3

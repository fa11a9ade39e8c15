"""The journal of a table transaction."""

from __future__ import annotations

import pytest
from tests.support.journal import JournalLink

from headrace.driver.ctas.transaction import Journal
from headrace.model.lifecycle import TransactionState


def test_a_journal_that_waits_for_a_name_calls_for_recovery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.driver.ctas.transaction._LONGEST_BUSY_PAUSE", 0.05)
    link = JournalLink()
    link.steps, link.busy_answers = [TransactionState.BEGUN], 100

    def release_name() -> None:
        link.busy_answers = 0

    journal = Journal(link.as_link(), "tx_" + "1" * 32, "st_" + "1" * 32, on_busy=release_name)
    journal.write(TransactionState.COMMITTING)
    assert link.steps[-1] is TransactionState.COMMITTING

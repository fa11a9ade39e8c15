"""The expectations on what a statement of a run writes, and what its driver counts for them."""

from __future__ import annotations

import logging

from headrace.model.connection import RUN_PROTOCOL, Connection
from headrace.model.expectation import Expectation, ExpectationCounts
from headrace.model.statement import Statement
from headrace.store.database import Tx
from headrace.store.jobs import expectations

_LOG = logging.getLogger("headrace.link")


def find_expectations(
    tx: Tx, statement: Statement, connection: Connection | None
) -> list[Expectation]:
    """Return the expectations of a statement, which only statements of runs have."""
    if connection is None or connection.protocol != RUN_PROTOCOL:
        return []
    checks = expectations.find(tx, statement.id)
    return [] if checks is None else checks.expectations


def save_counts(tx: Tx, statement_id: str, counts: ExpectationCounts) -> None:
    """Store what a driver has counted, unless it contradicts the expectations of the statement."""
    checks = expectations.find(tx, statement_id)
    if checks is None:
        return
    names = [each.name for each in checks.expectations]
    if [each.name for each in counts.expectations] != names:
        _LOG.warning("statement %s: its counts name other expectations", statement_id)
        return
    expectations.save_counts(tx, statement_id, counts)

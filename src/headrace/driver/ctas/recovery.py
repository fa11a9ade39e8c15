"""Recovery of orphaned table transactions: publish or remove tables that lost drivers staged."""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.ctas.catalogs import list_catalogs, restore_table
from headrace.driver.ctas.transaction import CommitUnfinished, CtasHook, Journal
from headrace.driver.hooks import StatementFacts
from headrace.driver.link import NodeLink
from headrace.errors import StatementFailed
from headrace.model.lifecycle import TransactionState
from headrace.model.messages import OrphanedTransaction

_LOG = logging.getLogger("headrace.driver")


def recover(session: SparkSession, link: NodeLink) -> None:
    """Claim the orphaned transactions of this session's catalogs, and resolve each of them.

    An error of one transaction is logged, and the transaction stays orphaned.

    Raises LeaseLost, NoNodeAnswers and LinkRefused.
    """
    try:
        identities = sorted({catalog.identity() for catalog in list_catalogs(session)})
    except (PySparkException, Py4JError) as error:
        _LOG.error("recovery skipped, the catalogs cannot be identified: %s", error)
        return
    for orphan in link.recover(identities):
        try:
            _resolve(session, orphan, link)
        except (PySparkException, Py4JError, StatementFailed, CommitUnfinished) as error:
            _LOG.error(
                "transaction %s of table %s is not resolved: %s",
                orphan.id,
                orphan.staged.target,
                error,
            )


def _resolve(session: SparkSession, orphan: OrphanedTransaction, link: NodeLink) -> None:
    """Roll a transaction forward if its table may be published, and back otherwise."""
    catalog, table = restore_table(session, orphan)
    journal = Journal(link, orphan.id, orphan.statement_id)
    hook = CtasHook(
        catalog, table, journal, target=orphan.staged.target, journal_state=orphan.state
    )
    statement = StatementFacts(
        id=orphan.statement_id, session_id=link.bootstrap.session_id, text="", attempt=0
    )
    if not hook.must_roll_forward():
        hook.on_cancelled(statement)
        return
    try:
        hook.on_finished(statement)
    except StatementFailed as error:
        hook.on_failed(statement, error)
        raise
    journal.write(TransactionState.COMMITTED)

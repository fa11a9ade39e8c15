"""Recovery: what drivers before this one have left of tables, and no statement will take up."""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.ctas.catalogs import catalogs_in, restore_table
from headrace.driver.ctas.journal import Journal
from headrace.driver.ctas.transaction import CommitUnfinished, CtasHook
from headrace.driver.hooks import StatementFacts
from headrace.driver.link import NodeLink
from headrace.errors import StatementFailed
from headrace.model.lifecycle import TransactionState
from headrace.model.messages import OrphanedTransaction

_LOG = logging.getLogger("headrace.driver")


def recover(session: SparkSession, link: NodeLink) -> None:
    """Finishes or removes them, one by one; what cannot be done is logged, and left.

    Raises LeaseLost, Orphaned and Refused.
    """
    try:
        identities = sorted({catalog.identity() for catalog in catalogs_in(session)})
    except (PySparkException, Py4JError) as error:
        _LOG.error("nothing can be recovered: %s", error)
        return
    for left in link.recover(identities):
        try:
            _finish(session, left, link)
        except (PySparkException, Py4JError, StatementFailed, CommitUnfinished) as error:
            _LOG.error("%s of %s stays as it is: %s", left.id, left.staged.target, error)


def _finish(session: SparkSession, left: OrphanedTransaction, link: NodeLink) -> None:
    catalog, table = restore_table(session, left.staged)
    journal = Journal(link, left.id, left.statement_id)
    hook = CtasHook(catalog, table, journal, target=left.staged.target, left_as=left.state)
    facts = StatementFacts(
        id=left.statement_id, session_id=link.bootstrap.session_id, text="", attempt=0
    )
    if not hook.is_done():
        hook.on_cancelled(facts)
        return
    try:
        hook.on_finished(facts)
    except StatementFailed as error:
        hook.on_failed(facts, error)
        raise
    journal.write(TransactionState.COMMITTED)

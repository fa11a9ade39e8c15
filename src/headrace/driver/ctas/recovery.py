"""Recovery of orphaned table transactions: publish or remove tables that lost drivers staged."""

from __future__ import annotations

import logging
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.ctas.catalogs import list_catalogs, restore_table
from headrace.driver.ctas.transaction import CommitUnfinished, Journal, TransactionHook
from headrace.driver.failures import describe_failure
from headrace.driver.hooks import StatementFacts
from headrace.driver.link import NodeLink, NoNodeAnswers
from headrace.errors import HeadraceError, LeaseLost, StatementFailed
from headrace.model.lifecycle import TransactionState
from headrace.model.messages import FailedRecovery, OrphanedTransaction

_LOG = logging.getLogger("headrace.driver")


def recover(
    session: SparkSession,
    link: NodeLink,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    clone_session: Callable[[], SparkSession] | None = None,
) -> int:
    """Claim the orphaned transactions of this session's catalogs, and resolve each of them.

    The node assigns a few transactions at a time, so that other drivers can resolve the rest. An
    error of one transaction is logged and reported, and the others are resolved all the same: a
    forged record must not stop the recovery of a catalog. The node assigns the transaction again
    after a pause.

    Args:
        should_stop: Returns whether to end before the next transaction.
        clone_session: Returns the session to work in, if statements use `session` at the same time.

    Returns:
        The number of claimed transactions.

    Raises LeaseLost and NoNodeAnswers, and LinkRefused if the node refuses the call itself.
    """
    try:
        identities = sorted({catalog.identity() for catalog in list_catalogs(session)})
    except (PySparkException, Py4JError) as error:
        _LOG.error("recovery skipped, the catalogs cannot be identified: %s", error)
        return 0
    own_session, count = None, 0
    failed: list[FailedRecovery] = []
    while not should_stop() and (orphaned := link.recover(identities, failed)):
        count, failed = count + len(orphaned), []
        if own_session is None:
            own_session = session if clone_session is None else clone_session()
        for orphan in orphaned:
            if should_stop():
                return count
            reason = _resolve_logged(own_session, orphan, link)
            if reason is not None:
                failed.append(FailedRecovery(id=orphan.id, message=reason))
    return count


def _resolve_logged(
    session: SparkSession, orphan: OrphanedTransaction, link: NodeLink
) -> str | None:
    """Resolve a transaction. Return the message of the error that prevents it, or None."""
    summary = f"transaction {orphan.id} of table {orphan.staged.target} is not resolved"
    try:
        _resolve(session, orphan, link)
    except (LeaseLost, NoNodeAnswers):
        raise
    except (PySparkException, Py4JError, HeadraceError, CommitUnfinished) as error:
        _LOG.error("%s: %s", summary, error)
        return describe_failure(error, "").message or str(error)
    except Exception as error:  # noqa: BLE001 - an error of one record must not stop the recovery
        _LOG.exception("%s", summary)
        return describe_failure(error, "").message
    return None


def _resolve(session: SparkSession, orphan: OrphanedTransaction, link: NodeLink) -> None:
    """Roll a transaction forward if its table may be published, and back otherwise."""
    catalog, table = restore_table(session, orphan)
    journal = Journal(link, orphan.id, orphan.statement_id)
    hook = TransactionHook(
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

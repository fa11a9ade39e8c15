"""The part of the link that concerns materialized views: generations, and intents for catalogs.

The calls raise LeaseLost if the driver no longer owns its session.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headrace.control.context import NodeContext
from headrace.control.views.submission import insert_query, list_streams
from headrace.errors import (
    HeadraceError,
    InvalidMaterializedView,
    LeaseLost,
    StoreUnavailable,
)
from headrace.grammar.materialized_views import CreateMaterializedView
from headrace.grammar.parse import parse
from headrace.grammar.quoting import quote_name
from headrace.model.failure import Failure
from headrace.model.lifecycle import STATEMENT, MaterializedViewState, StatementState
from headrace.model.materialized_view import (
    IntentAction,
    MaterializedView,
    RowStorage,
    ViewToRefresh,
    generation_name,
)
from headrace.model.messages import BeginGeneration, CarryOut, Ended, Generation, Intents, NewView
from headrace.model.session import DriverLease
from headrace.model.statement import CREATE_VIEW, REFRESH_VIEW, Statement
from headrace.model.transaction import Transaction
from headrace.store import catalog_intents, transactions
from headrace.store.database import Tx
from headrace.store.sessions.lease_renewals import load_owned_view
from headrace.store.statements import statements
from headrace.store.statements.locks import LockedStatement, lock_owned_state
from headrace.store.streams import stream_queries, stream_transitions, views

_LOG = logging.getLogger("headrace.views")
_MAX_INTENTS = 10
"""Largest number of intents that a driver claims with one call."""


class ViewWrites:
    """Serves the calls `begin_generation` and `carry_out`."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._settings = context.settings

    def begin_generation(self, lease: DriverLease, message: BeginGeneration) -> Generation:
        """Begin the next generation of the view that a statement of the driver writes."""
        try:
            with self._database.write("link.begin_generation") as tx:
                state = lock_owned_state(tx, message.statement_id, lease)
                statement = statements.get(tx, message.statement_id)
                if state not in STATEMENT.executing or statement is None:
                    load_owned_view(tx, lease)
                    return Generation()
                view = self._find_or_insert(tx, lease, statement, message.new)
                if _has_live_transaction(tx, view, statement):
                    return Generation(busy=True)
                view = views.begin_generation(tx, view, statement.id, statement.attempts)
                return Generation(view=view.id, number=view.generation)
        except (LeaseLost, StoreUnavailable):
            raise
        except HeadraceError as error:
            return Generation(failure=Failure.of(error))

    def carry_out(self, lease: DriverLease, message: CarryOut) -> Intents:
        """End or postpone the reported intents, and claim others for the driver."""
        with self._database.write("link.carry_out") as tx:
            load_owned_view(tx, lease)
            if message.done:
                catalog_intents.finish(tx, lease, message.done)
            for failed in message.failed:
                catalog_intents.postpone(
                    tx, lease, failed.id, failed.message, attempt=failed.attempt
                )
            claimed = catalog_intents.claim(tx, lease, message.identities, limit=_MAX_INTENTS)
            sinks = []
            if message.clears_sinks:
                sinks = catalog_intents.claim_sinks(tx, lease, limit=_MAX_INTENTS)
        return Intents(intents=claimed, sinks=sinks)

    def _find_or_insert(
        self, tx: Tx, lease: DriverLease, statement: Statement, new: NewView | None
    ) -> MaterializedView:
        """Return the view that a statement writes, locked. Raise a HeadraceError if it cannot."""
        if statement.command == REFRESH_VIEW:
            assigned = views.assigned_to(tx, statement.id, statement.owner)
            view = None if assigned is None else views.lock(tx, assigned.id)
            if view is None or view.ended_at is not None:
                raise InvalidMaterializedView("The materialized view has been dropped.")
            return view
        command = parse(statement.spec.text).command
        if not isinstance(command, CreateMaterializedView) or new is None:
            raise InvalidMaterializedView("The statement writes no materialized view.")
        _check_path(command, new)
        begun = views.lock_unfinished(tx, statement.id)
        if begun is not None:
            if begun.identity == new.identity and begun.rows == new.rows:
                return begun
            # An earlier driver has resolved the name in another way.
            views.end(tx, begun, actor=lease.actor)
            cancelled = StatementState.CANCELLED
            stream_transitions.end_with_statement(
                tx, statement.id, cancelled, actor=lease.actor, failure=None
            )
        if views.count_begun(tx, statement.id) >= statement.attempts:
            raise InvalidMaterializedView("The driver has resolved the name of the view twice.")
        view = views.insert_view(tx, _to_row(statement, command, new), actor=lease.actor)
        if command.is_auto_refreshed:
            insert_query(tx, self._settings, statement, command, view=view, actor=lease.actor)
        return view


def list_streams_of_view(tx: Tx, statement: Statement) -> list[str]:
    """Return the statements that define the streams that the query of a new view reads."""
    if statement.command != CREATE_VIEW:
        return []
    command = parse(statement.spec.text).command
    if not isinstance(command, CreateMaterializedView):
        return []
    return list_streams(tx, statement.owner, command)


def find_view_to_refresh(tx: Tx, statement: Statement) -> ViewToRefresh | None:
    """Return the view that a REFRESH MATERIALIZED VIEW refreshes, or None."""
    if statement.command != REFRESH_VIEW:
        return None
    view = views.assigned_to(tx, statement.id, statement.owner)
    if view is None:
        return None
    return ViewToRefresh(id=view.id, text=view.text, identity=view.identity, rows=view.rows)


def commit_generation(
    tx: Tx, transaction: Transaction, *, actor: str, grace_seconds: float
) -> None:
    """Make the generation current that a committed transaction has published.

    Do nothing for a transaction of another statement, or of another table than the node expects.

    Args:
        grace_seconds: Time for which readers may still use the replaced generation.
    """
    view = views.lock_of_writer(tx, transaction.statement_id)
    if view is None or view.generation == view.current_generation:
        return
    if not _holds_generation(transaction, view):
        _LOG.error(
            "transaction %s has published %s, which is no generation of %s",
            transaction.id,
            transaction.staged.target,
            view.qualified_name,
        )
        return
    replaced = view.current_generation
    views.commit_generation(tx, view, actor=actor)
    if view.ended_at is not None:
        # The view was dropped before this generation appeared.
        catalog_intents.insert_intent(tx, view, IntentAction.DROP_VIEW, actor=actor)
    elif replaced is not None and view.rows.storage is RowStorage.GENERATIONS:
        catalog_intents.insert_intent(
            tx,
            view,
            IntentAction.DROP_GENERATION,
            actor=actor,
            generation=replaced,
            seconds=grace_seconds,
        )


def check_written(tx: Tx, message: Ended, statement: LockedStatement) -> Failure | None:
    """Return why a statement on a view fails whose driver reports success; None if it does not.

    A success needs the commit of the generation that the statement was to write.
    """
    if statement.command not in {CREATE_VIEW, REFRESH_VIEW}:
        return None
    view = views.lock_of_writer(tx, message.statement_id)
    if view is not None and view.generation == view.current_generation:
        return None
    transaction = transactions.live(tx, message.statement_id)
    is_reported = transaction is not None and transaction.id == message.committed
    if view and transaction and is_reported and _holds_generation(transaction, view):
        return None
    return Failure.of(
        InvalidMaterializedView(
            "The driver reported success, but it has not committed the rows of the materialized"
            " view. Submit the statement again."
        )
    )


def release_query(tx: Tx, statement_id: str) -> None:
    """Let the driver start the query of a new view, after the success of its statement.

    The transaction has locked the session.
    """
    query = stream_queries.of_statement(tx, statement_id)
    if query is not None:
        stream_queries.announce_change(tx, query.session_id)


def _holds_generation(transaction: Transaction, view: MaterializedView) -> bool:
    """Return whether the table of a transaction is the last generation of a view."""
    staged = transaction.staged
    return (staged.identity, staged.target) == (view.identity, _table(view))


def _has_live_transaction(tx: Tx, view: MaterializedView, statement: Statement) -> bool:
    """Return whether another statement may still publish the last generation of a view."""
    if view.writer_id == statement.id or view.state is MaterializedViewState.CREATING:
        return False
    return transactions.live(tx, view.writer_id) is not None


def _check_path(command: CreateMaterializedView, new: NewView) -> None:
    """Raise InvalidMaterializedView unless a path ends with the name that the statement has."""
    wanted, path = _fold(command.name), _fold(new.rows.path)
    if path[-len(wanted) :] != wanted:
        raise InvalidMaterializedView(
            f"The driver has resolved {'.'.join(command.name)} as {'.'.join(new.rows.path)}."
        )


def _fold(names: Sequence[str]) -> list[str]:
    return [name.casefold() for name in names]


def _to_row(
    statement: Statement, command: CreateMaterializedView, new: NewView
) -> views.NewMaterializedView:
    return views.NewMaterializedView(
        owner=statement.owner,
        name=command.name[-1],
        identity=new.identity,
        target=_lock_key(new.rows.path),
        text=statement.spec.text,
        rows=new.rows,
        statement_id=statement.id,
        attempt=statement.attempts,
    )


def _table(view: MaterializedView) -> str:
    """Return the lock key of the table that the last generation of a view is in."""
    *namespace, name = view.rows.path
    if view.rows.storage is RowStorage.GENERATIONS:
        name = generation_name(name, view.generation)
    return _lock_key([*namespace, name])


def _lock_key(path: Sequence[str]) -> str:
    """Return the key under which the journal locks a name, as a driver builds it."""
    return ".".join(quote_name(part) for part in path[1:]).lower()

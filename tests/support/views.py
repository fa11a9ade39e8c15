"""A materialized view whose driver a test plays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from tests.support.in_process_node import InProcessNode
from tests.support.running_query import make_batch
from tests.support.scripted_driver import ScriptedDriver

from headrace.model.expectation import ExpectationCounts
from headrace.model.ids import new_id
from headrace.model.lifecycle import StreamState, TransactionState
from headrace.model.materialized_view import (
    CatalogIntent,
    NameScope,
    RowStorage,
    ViewRows,
    generation_name,
)
from headrace.model.messages import (
    BeginGeneration,
    CarryOut,
    Generation,
    IntentError,
    Intents,
    NewView,
)
from headrace.model.stream_query import QueryReport
from headrace.model.transaction import Staged

_numbers = count()
IDENTITY = "metastore"
SCOPE = NameScope(catalog="spark_catalog", namespace=["default"])


def begin_generation(
    driver: ScriptedDriver, statement_id: str, new: NewView | None = None
) -> Generation:
    """Send `begin_generation`, and return the answer."""
    message = BeginGeneration(statement_id=statement_id, new=new)
    return driver._call("begin_generation", message, Generation)


def carry_out(
    driver: ScriptedDriver,
    *,
    done: Sequence[str] = (),
    failed: Sequence[str] = (),
    attempt: int | None = None,
) -> list[CatalogIntent]:
    """Report intents that are done, or that have failed because of "no access"; claim others."""
    errors = [IntentError(id=intent, message="no access", attempt=attempt) for intent in failed]
    message = CarryOut(identities=[IDENTITY, "other"], done=list(done), failed=errors)
    return driver._call("carry_out", message, Intents).intents


def new_view(name: str, *, storage: RowStorage = RowStorage.GENERATIONS) -> NewView:
    """Return the view that a driver resolves from `CREATE MATERIALIZED VIEW name`."""
    rows = ViewRows(path=["spark_catalog", "default", name], storage=storage, scope=SCOPE)
    return NewView(identity=IDENTITY, rows=rows)


class ViewWriter:
    """A scripted driver that creates a view, refreshes it, and drops what nodes ask it to drop."""

    def __init__(
        self, node: InProcessNode, *, properties: str = "", constraints: str = "", **session: Any
    ) -> None:
        self.node = node
        self.name = f"v{next(_numbers)}"
        kind = "streaming" if properties else "interactive"
        self.session, self.driver = node.start_session(kind=kind, **session)
        checked = f"{self.name} {constraints}"
        self.create = f"CREATE MATERIALIZED VIEW {checked} {properties} AS SELECT 1 AS a"

    def submit_create(self) -> str:
        """Submit the CREATE, and let the driver claim it. Return the statement's id."""
        statement: str = self.node.submit(self.create, session=self.session)["id"]
        assert self.driver.claim().statement_id == statement
        return statement

    def submit_refresh(self) -> tuple[str, ScriptedDriver]:
        """Submit a REFRESH. Return the statement's id, and the driver that has claimed it.

        The driver serves this statement alone: other tests have statements in the pool session.
        """
        submitted = self.node.submit(f"REFRESH MATERIALIZED VIEW {self.name}", kind="batch")
        driver = self.node.launcher.connect_driver(submitted["session_id"])
        driver.hello()
        assert driver.claim().statement_id == submitted["id"]
        return submitted["id"], driver

    def prepare(
        self,
        driver: ScriptedDriver,
        statement: str,
        generation: int,
        *,
        table: str | None = None,
        counts: ExpectationCounts | None = None,
    ) -> str:
        """Stage the table of a generation, up to `committing`. Return the transaction's id."""
        transaction = new_id("tx")
        name = table or generation_name(self.name, generation)
        staged = Staged(
            kind="session",
            catalog="spark_catalog",
            identity=IDENTITY,
            target=f"`default`.`{name}`",
            record={},
        )
        for state in (
            TransactionState.PREPARED,
            TransactionState.BEGUN,
            TransactionState.COMMITTING,
        ):
            if state is TransactionState.COMMITTING:
                staged = staged.model_copy(update={"expectation_counts": counts})
            assert driver.transact(transaction, statement, state, staged).applied
        return transaction

    def write(
        self,
        driver: ScriptedDriver,
        statement: str,
        counts: ExpectationCounts | None = None,
        **table: Any,
    ) -> int:
        """Write the generation of a statement to its successful end. Return its number.

        Args:
            counts: What the driver has counted for the expectations of the view.
        """
        new = new_view(self.name) if statement == self.statement else None
        generation = begin_generation(driver, statement, new)
        assert generation.view is not None, generation
        transaction = self.prepare(driver, statement, generation.number, **table)
        ended = driver.succeed(statement, committed=transaction, expectation_counts=counts)
        assert ended.applied
        return generation.number

    def make(self) -> ViewWriter:
        """Create the view, and return this."""
        self.statement = self.submit_create()
        assert self.write(self.driver, self.statement) == 1
        return self

    def refresh(self, counts: ExpectationCounts | None = None) -> int:
        """Refresh the view, and return the number of the generation."""
        statement, driver = self.submit_refresh()
        return self.write(driver, statement, counts)

    def report_batch(self, number: int, counts: ExpectationCounts | None = None) -> None:
        """Report a batch of the query that refreshes the view."""
        [query] = self.driver.read_streams().queries
        batch = make_batch(number).model_copy(update={"expectation_counts": counts})
        running = QueryReport(
            id=query.id,
            generation=query.generation,
            state=StreamState.RUNNING,
            run_id="run-1",
            last_batch=number,
            progress=[batch],
        )
        assert self.driver.renew(streams=1, queries=[running]).applied

    statement = ""

    def carry_out_all(self) -> int:
        """Carry out the due intents, and return their number."""
        intents = carry_out(self.driver)
        assert carry_out(self.driver, done=[each.id for each in intents]) == []
        return len(intents)

    def describe(self) -> dict[str, str | None]:
        """Return what DESCRIBE MATERIALIZED VIEW shows."""
        rows = self.node.rows(f"DESCRIBE MATERIALIZED VIEW {self.name}")
        return {str(name): value for name, value in rows}

    def is_missing(self) -> bool:
        """Return whether the view does not exist, not even incomplete."""
        answer = self.node.run(f"DESCRIBE MATERIALIZED VIEW {self.name}")
        return (answer["error"] or {}).get("code") == "materialized_view_not_found"

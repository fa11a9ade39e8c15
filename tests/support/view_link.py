"""A driver's link that numbers the generations of one materialized view, and runs its statements.

The link answers as a node does, without a store. tests/control/views tests the node.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tests.support.ctas import fetch_frame_rows
from tests.support.journal import JournalLink

from headrace.driver.ctas import Cancelled, CommitUnfinished
from headrace.driver.hooks import Hooks, StatementFacts
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.materialized_view import (
    CatalogIntent,
    IntentAction,
    SwitchedView,
    ViewRows,
    ViewToRefresh,
)
from headrace.model.messages import (
    Assignment,
    Generation,
    IntentError,
    Intents,
    JournalEntry,
    NewView,
)
from headrace.model.result import ResultRequest
from headrace.model.statement import CREATE_VIEW, REFRESH_VIEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.driver.execution_plan import ExecutionPlan

STATEMENT = "st_" + "2" * 32


class ViewLink(JournalLink):
    """Answers the calls of the statements on one view, in place of a node."""

    def __init__(self) -> None:
        super().__init__()
        self.view = new_id("mv")
        self.identity = ""
        self.rows: ViewRows | None = None
        self.generation = 0
        self.text = ""
        self.refusal: Failure | None = None
        """If set, no generation begins."""
        self.intents: list[CatalogIntent] = []
        self.done: list[str] = []
        self.failed: list[IntentError] = []

    def begin_generation(self, _statement_id: str, new: NewView | None) -> Generation:
        if self.refusal is not None:
            return Generation(failure=self.refusal)
        if new is not None:
            self.identity, self.rows = new.identity, new.rows
        self.generation += 1
        return Generation(view=self.view, number=self.generation)

    def carry_out(
        self, identities: list[str], done: list[str], failed: list[IntentError]
    ) -> Intents:
        self.done += done
        self.failed += failed
        claimed = [intent for intent in self.intents if intent.identity in identities]
        self.intents = [intent for intent in self.intents if intent not in claimed]
        return Intents(intents=claimed)

    def intend(self, action: IntentAction, generation: int | None = None) -> None:
        """Let the next driver carry out an intent for the view."""
        assert self.rows is not None
        intent = CatalogIntent(
            id=new_id("ci"),
            action=action,
            identity=self.identity,
            view=self.view,
            path=self.rows.path,
            generation=generation,
        )
        self.intents.append(intent)

    def carry_out_due(self, session: SparkSession) -> int:
        """Carry out the intents as a driver does, and return their number."""
        from headrace.driver.views.intents import carry_out_intents

        return carry_out_intents(session, self.as_link())

    def create(
        self, session: SparkSession, text: str, *, definitions: list[str] | None = None
    ) -> ExecutionPlan:
        """Run a CREATE MATERIALIZED VIEW as a driver does. Raise its error."""
        self.text = text
        return self._run(session, text, CREATE_VIEW, definitions=definitions or [])

    def refresh(self, session: SparkSession) -> ExecutionPlan:
        """Run a REFRESH MATERIALIZED VIEW likewise."""
        return self._run(session, "REFRESH MATERIALIZED VIEW v", REFRESH_VIEW)

    def resume(self, session: SparkSession, command: str) -> ExecutionPlan:
        """Run the statement again, in the driver after the one that was lost."""
        assert self.staged is not None
        assert self.rows is not None
        entry = JournalEntry(
            id=self.transaction,
            state=self.steps[-1],
            staged=self.staged,
            staged_epoch=self.bootstrap.epoch,
            view=SwitchedView(id=self.view, path=self.rows.path),
        )
        text = self.text if command == CREATE_VIEW else "REFRESH MATERIALIZED VIEW v"
        return self._run(session, text, command, earlier=entry)

    def _run(
        self,
        session: SparkSession,
        text: str,
        command: str,
        *,
        definitions: list[str] | None = None,
        earlier: JournalEntry | None = None,
    ) -> ExecutionPlan:
        from headrace.driver.views.planner import ViewPlanner

        refreshed = None
        if command == REFRESH_VIEW:
            assert self.rows is not None
            refreshed = ViewToRefresh(
                id=self.view, text=self.text, identity=self.identity, rows=self.rows
            )
        if earlier is None:
            self.steps = []
        assignment = Assignment(
            statement_id=STATEMENT,
            text=text,
            parameters=[],
            conf={},
            result_request=ResultRequest(),
            is_query=False,
            attempt=1 if earlier is None else 2,
            transaction=earlier,
            command=command,
            definitions=definitions or [],
            view=refreshed,
        )
        facts = StatementFacts(id=STATEMENT, session_id="se_1", text=text, attempt=1)
        planner = ViewPlanner(session, assignment, self.as_link(), threading.Event())
        plan = planner.plan(facts)
        hooks = Hooks(facts, [], plan.hook)
        try:
            hooks.notify_created()
            frame = plan.run()
            fetch_frame_rows(frame)
            plan.check_rows(frame, None)
            hooks.notify_finished()
        except Cancelled:
            hooks.notify_cancelled()
            raise
        except CommitUnfinished:
            raise
        except Exception as error:
            explained = error if plan.checks is None else plan.checks.explain(error)
            hooks.notify_failed(explained)
            raise explained from error
        return plan

"""The scripted driver of the pool session, in which statements without a session run."""

from __future__ import annotations

from typing import Any

from tests.support.in_process_node import InProcessNode
from tests.support.scripted_driver import ScriptedDriver
from tests.support.table_transactions import STAGED

from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState, TransactionState
from headrace.model.result import ResultReport


class PoolDriver:
    """Claims one statement after the other. Its session exists from the first submit on."""

    def __init__(self, node: InProcessNode) -> None:
        self._node = node
        self._driver: ScriptedDriver | None = None
        self.statement = ""
        """Id of the statement that it has claimed."""

    @property
    def link(self) -> ScriptedDriver:
        """The driver, which has claimed a statement."""
        assert self._driver is not None
        return self._driver

    def claim(self) -> str:
        """Claim the one statement that waits, and return its text."""
        query = {"state": ["waiting"]}
        [statement] = self._node.http.get("/api/v1/statements", params=query).json()["items"]
        if self._driver is None:
            self._driver = self._node.launcher.connect_driver(statement["session_id"])
            self._driver.hello()
        self.statement = str(self._driver.claim().statement_id)
        return str(statement["statement"])

    def succeed(self, result: ResultReport, **table: Any) -> None:
        """Report the success of the statement; see `ScriptedDriver.report_end`."""
        self.link.report_end(self.statement, StatementState.SUCCESS, result=result, **table)

    def fail(self, failure: Failure, **table: Any) -> None:
        """Report the failure of the statement; see `ScriptedDriver.report_end`."""
        self.link.report_end(self.statement, StatementState.FAILED, failure=failure, **table)

    def begin_commit(self) -> None:
        """Begin to publish the rows of the statement."""
        self.link.report_start(self.statement)
        transaction = new_id("tx")
        for state in (
            TransactionState.PREPARED,
            TransactionState.BEGUN,
            TransactionState.COMMITTING,
        ):
            assert self.link.transact(transaction, self.statement, state, STAGED).applied

"""The scripted driver of the pool session, in which statements without a session run."""

from __future__ import annotations

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

    def claim(self) -> str:
        """Claim the one statement that waits, and return its text."""
        query = {"state": ["waiting"]}
        [statement] = self._node.http.get("/api/v1/statements", params=query).json()["items"]
        if self._driver is None:
            self._driver = self._node.launcher.connect_driver(statement["session_id"])
            self._driver.hello()
        self.statement = str(self._driver.claim().statement_id)
        return str(statement["statement"])

    def succeed(self, result: ResultReport) -> None:
        """Report the success of the statement."""
        assert self._driver is not None
        self._driver.succeed(self.statement, result)

    def begin_commit(self) -> None:
        """Begin to publish the rows of the statement."""
        assert self._driver is not None
        self._driver.report_start(self.statement)
        transaction = new_id("tx")
        for state in (
            TransactionState.PREPARED,
            TransactionState.BEGUN,
            TransactionState.COMMITTING,
        ):
            assert self._driver.transact(transaction, self.statement, state, STAGED).applied

    def fail(self, failure: Failure) -> None:
        """Report the failure of the statement."""
        assert self._driver is not None
        self._driver.report_end(self.statement, StatementState.FAILED, failure=failure)

"""Drivers without Spark: real clients of the link, that do what a test says, or answer everything.

The launchers here start no process: the only token of a session is in its launch request.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from tests.support.made_results import inline_result

from headrace.control.launchers.base import DriverExit, DriverStatus, Handle, LaunchRequest
from headrace.errors import BackendUnreachable, LaunchFailed
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState, TransactionState
from headrace.model.messages import (
    LINK_PREFIX,
    Acknowledged,
    Advanced,
    Assignment,
    Bootstrap,
    Ended,
    Goodbye,
    Hello,
    Message,
    Orders,
    OrphanedTransaction,
    Poll,
    Recover,
    Recovered,
    Renew,
    Renewed,
    Restore,
    Restored,
    Started,
    Transact,
    Transacted,
)
from headrace.model.progress import Progress
from headrace.model.result import ResultReport
from headrace.model.snapshot import Snapshot
from headrace.model.transaction import Staged
from headrace.settings import Profile

Answer = TypeVar("Answer", bound=Message)


class ScriptedDriver:
    """One driver's end of the link. Calls raise httpx.HTTPStatusError when the node refuses."""

    def __init__(self, bootstrap: Bootstrap, *, token: str | None = None) -> None:
        self.bootstrap = bootstrap
        path = f"{LINK_PREFIX}/{bootstrap.session_id}/{bootstrap.epoch}"
        self._client = httpx.Client(
            base_url=f"{bootstrap.nodes[0]}{path}",
            headers={"Authorization": f"Bearer {token or bootstrap.token}"},
            trust_env=False,
            verify=False,  # reading the certificates takes longer than most tests
            timeout=30,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hangs up, without a word to the node."""
        self._client.close()

    def restore(self) -> Restored:
        return self._call("restore", Restore(), Restored)

    def hello(
        self,
        *,
        lost: list[str] | None = None,
        told: list[str] | None = None,
        keeps_tables: bool = True,
    ) -> Acknowledged:
        message = Hello(
            pid=1,
            spark_version="4.1.3",
            application_id="local-1",
            ui_url=None,
            keeps_tables=keeps_tables,
            lost=lost or [],
            told=told or [],
        )
        return self._call("hello", message, Acknowledged)

    def poll(
        self,
        *,
        in_flight: list[str] | None = None,
        cancels_received: list[str] | None = None,
        wait: float = 0,
    ) -> Orders:
        message = Poll(
            wait_seconds=wait, in_flight=in_flight or [], cancels_received=cancels_received or []
        )
        return self._call("poll", message, Orders)

    def take(self) -> Assignment:
        """The next statement, which must come within ten seconds."""
        assignment = self.poll(wait=10).assignment
        assert assignment is not None
        return assignment

    def renew(self, *, streams: int = 0) -> Renewed:
        return self._call("renew", Renew(streams=streams), Renewed)

    def started(self, statement_id: str) -> Acknowledged:
        return self._call("started", Started(statement_id=statement_id), Acknowledged)

    def advanced(self, progress: dict[str, Progress]) -> Acknowledged:
        return self._call("advanced", Advanced(progress=progress), Acknowledged)

    def transact(
        self,
        transaction_id: str,
        statement_id: str,
        state: TransactionState,
        staged: Staged | None = None,
    ) -> Transacted:
        message = Transact(id=transaction_id, statement_id=statement_id, state=state, staged=staged)
        return self._call("transact", message, Transacted)

    def recover(self, identities: list[str]) -> list[OrphanedTransaction]:
        return self._call("recover", Recover(identities=identities), Recovered).left

    def ended(
        self,
        statement_id: str,
        state: StatementState,
        *,
        result: ResultReport | None = None,
        failure: Failure | None = None,
        ran_seconds: float | None = None,
        snapshot: Snapshot | None = None,
        **table: Any,
    ) -> Acknowledged:
        """`table` is what there is to say of one that was created."""
        message = Ended(
            statement_id=statement_id,
            state=state,
            result=result,
            failure=failure,
            ran_seconds=ran_seconds,
            snapshot=snapshot,
            **table,
        )
        return self._call("ended", message, Acknowledged)

    def succeed(
        self,
        statement_id: str,
        result: ResultReport | None = None,
        *,
        ran_seconds: float | None = None,
        snapshot: Snapshot | None = None,
        **table: Any,
    ) -> Acknowledged:
        """Reports a result, one row of one column unless told otherwise."""
        return self.ended(
            statement_id,
            StatementState.SUCCESS,
            result=result or inline_result([("x", "integer")], [[1]]),
            ran_seconds=ran_seconds,
            snapshot=snapshot,
            **table,
        )

    def fail(self) -> Acknowledged:
        """Leaves for a reason that would end every other driver as well."""
        return self.goodbye(Failure(code="spark_unavailable", message="Spark did not start."))

    def goodbye(self, failure: Failure | None = None) -> Acknowledged:
        return self._call("goodbye", Goodbye(failure=failure), Acknowledged)

    def _call(self, name: str, message: Message, answer: type[Answer]) -> Answer:
        response = self._client.post(
            f"/{name}",
            content=message.model_dump_json(),
            headers={"Content-Type": "application/json"},
        )
        response.raise_for_status()
        return answer.model_validate_json(response.content)


class Desk:
    """A launcher that keeps each launch until a test takes it up."""

    backend = "local"

    def __init__(self) -> None:
        self._launched = threading.Condition()
        self._requests: defaultdict[str, list[LaunchRequest]] = defaultdict(list)
        self._drivers: list[ScriptedDriver] = []
        self._ended: list[DriverExit] = []
        self.started: list[Handle] = []
        self.killed: list[Handle] = []
        self.refusal: str | None = None
        """When set, no driver can be started, for this reason."""
        self.unreachable = False
        self.starting: Callable[[str], None] = lambda _name: None
        """Called in the middle of each start."""
        self.asked = 0
        """Calls so far."""
        self.on_kill: Callable[[], None] = lambda: None
        """What happens while a driver is being ended."""

    def driver(self, session_id: str, *, launch: int = 1) -> ScriptedDriver:
        """The driver of a session's first or later launch, once the node has made it."""
        driver = ScriptedDriver(self.request(session_id, launch=launch).bootstrap)
        self._drivers.append(driver)
        return driver

    def request(self, session_id: str, *, launch: int = 1) -> LaunchRequest:
        """A launch of a session, which must come within ten seconds."""
        requests = self._requests[session_id]
        with self._launched:
            assert self._launched.wait_for(lambda: len(requests) >= launch, 10)
            return requests[launch - 1]

    def declare_lost(self, session_id: str, reason: str) -> None:
        """Makes the node see that the driver's process has ended."""
        lease = self._requests[session_id][-1].lease
        self._ended.append(DriverExit(lease=lease, reason=reason))

    def close(self) -> None:
        """Hangs up for every driver."""
        for driver in self._drivers:
            driver.close()

    def start(self, request: LaunchRequest) -> Handle:
        self._answer()
        if self.refusal is not None:
            raise LaunchFailed(self.refusal)
        with self._launched:
            self._requests[request.bootstrap.session_id].append(request)
            self._launched.notify_all()
        self.starting(request.name)
        handle = {"backend": self.backend, "name": request.name}
        self.started.append(handle)
        return handle

    def find(self, name: str, profile: Profile) -> Handle | None:
        self._answer()
        found = (one for one in self.started if one["name"] == name and one not in self.killed)
        return next(found, None)

    def poll(self, handle: Handle) -> DriverStatus:
        self._answer()
        alive = handle not in self.killed
        return DriverStatus(alive=alive, message="it is at its desk" if alive else "it was killed")

    def kill(self, handle: Handle) -> None:
        self._answer()
        self.on_kill()
        self.killed.append(handle)

    def exits(self) -> list[DriverExit]:
        seen, self._ended = self._ended, []
        return seen

    def announce(self, addresses: list[str]) -> None:
        """No driver looks for a node."""

    def _answer(self) -> None:
        self.asked += 1
        if self.unreachable:
            raise BackendUnreachable("Nobody is at the desk.")


class Crew(Desk):
    """A launcher whose drivers serve by themselves: each statement ends as `reply` says."""

    def __init__(self, reply: Callable[[Assignment], dict[str, Any]]) -> None:
        super().__init__()
        self._reply = reply
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, request: LaunchRequest) -> Handle:
        handle = super().start(request)
        thread = threading.Thread(target=self._serve, args=(request.bootstrap,), daemon=True)
        self._threads.append(thread)
        thread.start()
        return handle

    def close(self) -> None:
        """Lets every driver leave; the node must have let their polls go."""
        super().close()
        self._stopping.set()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _serve(self, bootstrap: Bootstrap) -> None:
        with ScriptedDriver(bootstrap) as driver:
            try:
                self._loop(driver)
            except (httpx.TransportError, httpx.HTTPStatusError):
                # The node is gone, or has another driver for this session.
                return

    def _loop(self, driver: ScriptedDriver) -> None:
        driver.hello()
        while not self._stopping.is_set():
            orders = driver.poll(wait=10)
            if orders.close:
                driver.goodbye()
                return
            if orders.assignment is not None:
                driver.started(orders.assignment.statement_id)
                driver.ended(orders.assignment.statement_id, **self._reply(orders.assignment))

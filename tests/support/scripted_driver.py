"""Drivers without Spark, and launchers that start no process.

A scripted driver is a real client of the link. Either a test makes each of its calls, or the driver
answers every statement by itself. Its token comes from the launch request of its session.
"""

from __future__ import annotations

import queue
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar

import httpx
from tests.support.made_results import inline_result

from headrace.config.profiles import Profile
from headrace.control.launchers.base import DriverExit, DriverStatus, Handle, LaunchRequest
from headrace.errors import BackendUnreachable, LaunchFailed
from headrace.model.connection import ConnectionState
from headrace.model.execution import StatementExecution
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState, TransactionState
from headrace.model.messages import (
    LINK_PREFIX,
    Acknowledged,
    Advanced,
    AnnounceWrites,
    Assignment,
    BeginWrite,
    Bootstrap,
    ClearStaging,
    Ended,
    Executed,
    FailedRecovery,
    FindMarked,
    FindSecrets,
    FoundSecrets,
    Goodbye,
    Hello,
    MarkedQuery,
    Message,
    OpenConnection,
    OpenedConnection,
    Orders,
    OrphanedTransaction,
    OrphanedWrites,
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
    WriteLock,
)
from headrace.model.result import ResultReport
from headrace.model.session import DriverLease, Snapshot
from headrace.model.statement import Progress
from headrace.model.stream_query import DesiredQueries, QueryReport
from headrace.model.transaction import OrphanedWrite, Staged, TableWrite

Answer = TypeVar("Answer", bound=Message)


class ScriptedDriver:
    """A client of the link whose calls a test makes one by one.

    Each method is one call and returns the node's answer. A call that the node refuses raises
    httpx.HTTPStatusError.
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        token: str | None = None,
        on_goodbye: Callable[[], None] = lambda: None,
    ) -> None:
        self.bootstrap = bootstrap
        self.announces_effects = False
        """See `Poll.announces_effects`."""
        self.separates_queries = True
        """See `Poll.separates_queries`."""
        self.opens_connections = True
        """See `Poll.opens_connections`."""
        self.checks_rows = True
        """See `Poll.checks_rows`."""
        self._on_goodbye = on_goodbye
        path = f"{LINK_PREFIX}/{bootstrap.session_id}/{bootstrap.epoch}"
        self._client = httpx.Client(
            base_url=f"{bootstrap.nodes[0]}{path}",
            headers={"Authorization": f"Bearer {token or bootstrap.token}"},
            trust_env=False,
            # To read the certificates of the system takes longer than most tests.
            verify=ssl.create_default_context(cadata=bootstrap.ca) if bootstrap.ca else False,
            timeout=120,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections without a goodbye."""
        self._client.close()

    def move_to(self, address: str) -> None:
        """Send the next calls to another node."""
        path = self._client.base_url.path
        self._client.base_url = httpx.URL(f"{address}{path}")

    def restore(self) -> Restored:
        return self._call("restore", Restore(), Restored)

    def hello(
        self,
        *,
        lost: list[str] | None = None,
        hook_calls_made: list[str] | None = None,
        keeps_tables: bool = True,
    ) -> Acknowledged:
        message = Hello(
            pid=1,
            spark_version="4.1.3",
            application_id="local-1",
            ui_url=None,
            keeps_tables=keeps_tables,
            lost=lost or [],
            hook_calls_made=hook_calls_made or [],
        )
        return self._call("hello", message, Acknowledged)

    def poll(
        self,
        *,
        in_flight: list[str] | None = None,
        cancels_received: list[str] | None = None,
        streams_generation: int | None = None,
        wait: float = 0,
    ) -> Orders:
        message = Poll(
            wait_seconds=wait,
            in_flight=in_flight or [],
            cancels_received=cancels_received or [],
            streams_generation=streams_generation,
            announces_effects=self.announces_effects,
            separates_queries=self.separates_queries,
            opens_connections=self.opens_connections,
            checks_rows=self.checks_rows,
        )
        return self._call("poll", message, Orders)

    def claim(self) -> Assignment:
        """Poll for the next statement, which must come within a minute."""
        # The first poll at a process is short.
        assignment = self.poll(wait=60).assignment or self.poll(wait=60).assignment
        assert assignment is not None
        return assignment

    def renew(
        self, *, streams: int = 0, queries: Sequence[QueryReport] = (), held: Sequence[str] = ()
    ) -> Renewed:
        message = Renew(streams=streams, queries=list(queries), held=list(held))
        return self._call("renew", message, Renewed)

    def read_streams(self) -> DesiredQueries:
        """Return the desired queries of the session. There must have been some."""
        streams = self.poll(streams_generation=0).streams
        assert streams is not None
        return streams

    def report_start(
        self,
        statement_id: str,
        *,
        has_effects: bool = False,
        ran_seconds: float | None = None,
    ) -> Acknowledged:
        message = Started(
            statement_id=statement_id, has_effects=has_effects, ran_seconds=ran_seconds
        )
        return self._call("started", message, Acknowledged)

    def report_progress(self, progress: dict[str, Progress]) -> Acknowledged:
        return self._call("advanced", Advanced(progress=progress), Acknowledged)

    def report_executions(self, executions: dict[str, StatementExecution]) -> Acknowledged:
        return self._call("executed", Executed(executions=executions), Acknowledged)

    def transact(
        self,
        transaction_id: str,
        statement_id: str,
        state: TransactionState,
        staged: Staged | None = None,
    ) -> Transacted:
        message = Transact(id=transaction_id, statement_id=statement_id, state=state, staged=staged)
        return self._call("transact", message, Transacted)

    def recover(
        self, identities: list[str], failed: dict[str, str] | None = None
    ) -> list[OrphanedTransaction]:
        """Report transactions that could not be resolved, with their errors; take over others."""
        failures = [FailedRecovery(id=id_, message=error) for id_, error in (failed or {}).items()]
        return self._call(
            "recover", Recover(identities=identities, failed=failures), Recovered
        ).orphaned

    def begin_write(self, statement_id: str, writes: list[TableWrite]) -> WriteLock:
        """Request a write lock, also with fields that a driver would not send."""
        message = BeginWrite.model_construct(
            statement_id=statement_id, identity="metastore", writes=writes
        )
        return self._call("begin_write", message, WriteLock)

    def announce_writes(self, query_id: str, writes: list[TableWrite]) -> Acknowledged:
        message = AnnounceWrites(query_id=query_id, identity="metastore", writes=writes)
        return self._call("announce_writes", message, Acknowledged)

    def clear_staging(
        self, identities: list[str], *, cleared: list[int] | None = None
    ) -> list[OrphanedWrite]:
        message = ClearStaging(identities=identities, cleared=cleared or [])
        return self._call("clear_staging", message, OrphanedWrites).writes

    def report_end(
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
        """Report an end. `table` holds the fields of Ended that describe a created table."""
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
        """Report a success. The default result is one row of one column."""
        return self.report_end(
            statement_id,
            StatementState.SUCCESS,
            result=result or inline_result([("x", "integer")], [[1]]),
            ran_seconds=ran_seconds,
            snapshot=snapshot,
            **table,
        )

    def find_secrets(self, *names: str) -> FoundSecrets:
        return self._call("find_secrets", FindSecrets(names=list(names)), FoundSecrets)

    def open_connection(self, statement_id: str) -> ConnectionState | None:
        message = OpenConnection(statement_id=statement_id)
        return self._call("open_connection", message, OpenedConnection).state

    def find_marked(self, query_id: str, marked_id: str) -> MarkedQuery:
        message = FindMarked(query_id=query_id, marked_id=marked_id)
        return self._call("find_marked", message, MarkedQuery)

    def report_spark_failure(self) -> Acknowledged:
        """Say goodbye because Spark did not start, which would end every other driver as well."""
        return self.goodbye(Failure(code="spark_unavailable", message="Spark did not start."))

    def goodbye(self, failure: Failure | None = None) -> Acknowledged:
        self._on_goodbye()
        return self._call("goodbye", Goodbye(failure=failure), Acknowledged)

    def _call(self, name: str, message: Message, answer: type[Answer]) -> Answer:
        response = self._client.post(
            f"/{name}",
            content=message.model_dump_json(),
            headers={"Content-Type": "application/json"},
        )
        response.raise_for_status()
        return answer.model_validate_json(response.content)


class ScriptedLauncher:
    """A launcher that records each launch request; a test then connects the driver.

    Requests of a session are numbered from 1.
    """

    def __init__(self, backend: str = "local") -> None:
        self.backend = backend
        self._launched = threading.Condition()
        self._requests: defaultdict[str, list[LaunchRequest]] = defaultdict(list)
        self._drivers: list[ScriptedDriver] = []
        self._exits: queue.SimpleQueue[DriverExit] = queue.SimpleQueue()
        self.started: list[Handle] = []
        self.killed: list[Handle] = []
        self.exits_after_goodbye = True
        """Whether the process of a driver ends after its goodbye."""
        self._exited: set[str] = set()
        self.refusal: str | None = None
        """If set, every start fails for this reason."""
        self.unreachable = False
        """If true, every call raises BackendUnreachable."""
        self.on_start: Callable[[str], None] = lambda _name: None
        """Called with the launch name, before a start returns its handle."""
        self.on_kill: Callable[[], None] = lambda: None
        """Called before a kill takes effect."""
        self.call_count = 0
        """Number of calls of start, find, poll and kill."""
        self.question_times: list[float] = []
        """Monotonic time of each call of find and poll."""

    def connect_driver(self, session_id: str, *, launch: int = 1) -> ScriptedDriver:
        """Wait for a launch request of a session, and return its driver."""
        driver = self._make_driver(self.wait_for_request(session_id, launch=launch))
        self._drivers.append(driver)
        return driver

    def _make_driver(self, request: LaunchRequest) -> ScriptedDriver:
        def exit_after_goodbye() -> None:
            if self.exits_after_goodbye:
                self._exited.add(request.name)

        return ScriptedDriver(request.bootstrap, on_goodbye=exit_after_goodbye)

    def wait_for_request(self, session_id: str, *, launch: int = 1) -> LaunchRequest:
        """Return a launch request of a session, which must come within a minute."""
        requests = self._requests[session_id]
        with self._launched:
            assert self._launched.wait_for(lambda: len(requests) >= launch, 60)
            return requests[launch - 1]

    def report_exit(self, session_id: str, reason: str) -> None:
        """Let the node observe that the driver process of a session has ended."""
        lease = DriverLease(session_id, self._requests[session_id][-1].bootstrap.epoch)
        self._exits.put(DriverExit(lease=lease, reason=reason))

    def end_silently(self, session_id: str) -> None:
        """End the driver process of a session, without an observer."""
        self._exited.add(self._requests[session_id][-1].name)

    def close(self) -> None:
        """Close the connections of all drivers."""
        for driver in self._drivers:
            driver.close()

    def start(self, request: LaunchRequest) -> Handle:
        self._count_call()
        if self.refusal is not None:
            raise LaunchFailed(self.refusal)
        with self._launched:
            self._requests[request.bootstrap.session_id].append(request)
            self._launched.notify_all()
        self.on_start(request.name)
        handle = {"backend": self.backend, "name": request.name}
        self.started.append(handle)
        return handle

    def find(self, name: str, profile: Profile) -> Handle | None:
        self.question_times.append(time.monotonic())
        self._count_call()
        alive = (handle for handle in self.started if self._is_alive(handle))
        return next((handle for handle in alive if handle["name"] == name), None)

    def poll(self, handle: Handle) -> DriverStatus:
        self.question_times.append(time.monotonic())
        self._count_call()
        alive = self._is_alive(handle)
        return DriverStatus(alive=alive, message="it runs" if alive else "it was killed")

    def kill(self, handle: Handle) -> None:
        self._count_call()
        self.on_kill()
        self.killed.append(handle)

    def exits(self) -> list[DriverExit]:
        exits = []
        # The test adds exits while the node reads them.
        with suppress(queue.Empty):
            while True:
                exits.append(self._exits.get_nowait())
        return exits

    def watch(self, lease: DriverLease, handle: Handle) -> None:
        """Do nothing: tests report the exits of scripted drivers."""

    def announce(self, addresses: list[str]) -> None:
        """Do nothing: scripted drivers keep the address of their launch request."""

    def _is_alive(self, handle: Handle) -> bool:
        return handle not in self.killed and handle["name"] not in self._exited

    def _count_call(self) -> None:
        self.call_count += 1
        if self.unreachable:
            raise BackendUnreachable("The backend does not answer.")

"""The driver's HTTP client of the link: every call is retried, at each node in turn.

A call that fails for good ends in one of three errors:

- LeaseLost: another driver has replaced this one, which must stop.
- NoNodeAnswers: no node has answered for the bootstrap's `orphan_seconds`.
- LinkRefused: the node does not accept the call, for example because it is too large.

During a store outage, nodes answer 503. The call is then retried until the store is back, so that
no result is lost.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

import urllib3

from headrace.errors import HeadraceError, LeaseLost
from headrace.grammar.secret_references import KnownSecrets
from headrace.model.connection import ConnectionState
from headrace.model.execution import StatementExecution
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import (
    LINK_PREFIX,
    Acknowledged,
    Advanced,
    AnnounceWrites,
    BeginGeneration,
    BeginWrite,
    Bootstrap,
    CarryOut,
    ClearStaging,
    Ended,
    Executed,
    FailedRecovery,
    FindMarked,
    FindSecrets,
    FindStreams,
    FoundRows,
    FoundSecrets,
    FoundStreams,
    Generation,
    Goodbye,
    Hello,
    IntentError,
    Intents,
    MarkedQuery,
    Message,
    NewView,
    OpenConnection,
    OpenedConnection,
    Orders,
    OrphanedTransaction,
    OrphanedWrites,
    Poll,
    ReadSystemTables,
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
from headrace.model.statement import Progress
from headrace.model.stream_query import QueryReport
from headrace.model.system_tables import SystemTable
from headrace.model.transaction import OrphanedWrite
from headrace.text.readable import describe_duration

_LOG = logging.getLogger("headrace.link")
POLL_SECONDS = 45.0
"""How long a poll waits for orders."""
_CALL_SECONDS = 10.0
_SHORTEST_ATTEMPT_SECONDS = 1.0
_FIRST_BACKOFF_SECONDS = 0.05
_LONGEST_BACKOFF_SECONDS = 2.0
_CONNECTIONS = 8
_KEPT_LEASES = 4
"""A node that is no longer live stays in the list of a driver for so many leases."""

Answer = TypeVar("Answer", bound=Message)


class NoNodeAnswers(HeadraceError):
    """No node has answered for too long."""

    code = "orphaned"


class LinkRefused(HeadraceError):
    """The node does not accept a call: it is too large, or the versions differ."""

    code = "link_refused"


def _replace_refused_report(refused: Ended, error: LinkRefused) -> Ended:
    """Return the report of a failure that replaces a report, without the parts of any size."""
    was_cancelled = refused.state is StatementState.CANCELLED
    return Ended(
        statement_id=refused.statement_id,
        state=StatementState.CANCELLED if was_cancelled else StatementState.FAILED,
        failure=Failure.of(
            LinkRefused(
                f"The statement ended as {refused.state}, but the node refused the report of its"
                f" end. Its effects remain. {error.message}"
            )
        ),
        committed=refused.committed,
        wrote=refused.wrote,
        ran_seconds=refused.ran_seconds,
    )


class NodeLink:
    """The calls of one driver, for one session and epoch. Thread-safe.

    Every method raises the errors that the module describes, unless its docstring says otherwise.
    """

    def __init__(self, file: Path | None, bootstrap: Bootstrap, token: str) -> None:
        """Create a client without connecting.

        Args:
            file: Bootstrap file, read again for new addresses when a node does not answer. None
                on hosts where the driver has no such file.
        """
        self.bootstrap = bootstrap
        self._file = file
        self._path = f"{LINK_PREFIX}/{bootstrap.session_id}/{bootstrap.epoch}"
        self._nodes = list(bootstrap.nodes)
        self._file_nodes = list(bootstrap.nodes)
        self._last_live = dict.fromkeys(bootstrap.nodes, time.monotonic())
        self._lock = threading.Lock()
        self._last_renewal = time.monotonic()
        # If one node is frozen, another must renew the lease before it expires.
        spare_seconds = bootstrap.lease_seconds - bootstrap.renew_seconds
        self._renewal_seconds = min(
            max(spare_seconds / 2, _SHORTEST_ATTEMPT_SECONDS), _CALL_SECONDS
        )
        # urllib3's own context verifies with the CAs of the host.
        context = None if bootstrap.ca is None else ssl.create_default_context(cadata=bootstrap.ca)
        self.known_secrets = KnownSecrets(bootstrap.secrets)
        """The values that the node has sent. Reports have references instead."""
        self._pool = urllib3.PoolManager(
            ssl_context=context,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            maxsize=_CONNECTIONS,
            retries=False,
        )

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def restore(self) -> Restored:
        """Return the snapshot to restore, and the hook calls that the last driver did not make."""
        return self._call("restore", Restore(), Restored)

    def hello(self, message: Hello) -> Acknowledged:
        """Report that Spark is up and the session is restored."""
        sent = time.monotonic()
        acknowledged = self._call("hello", message, Acknowledged, seconds=self._renewal_seconds)
        self._last_renewal = sent
        return acknowledged

    def poll(
        self, in_flight: list[str], cancels_received: list[str], *, streams_generation: int = 0
    ) -> Orders:
        """Wait for orders, for up to 45 seconds, and return them.

        Args:
            in_flight: Statements whose end the node has not acknowledged yet.
            cancels_received: Statements of `in_flight` that are being cancelled.
            streams_generation: Generation of the desired queries that the driver has.
        """
        message = Poll(
            wait_seconds=POLL_SECONDS,
            in_flight=in_flight,
            cancels_received=cancels_received,
            streams_generation=streams_generation,
            announces_effects=True,
            separates_queries=True,
            opens_connections=True,
            checks_rows=True,
        )
        return self._call("poll", message, Orders, seconds=POLL_SECONDS + _CALL_SECONDS)

    def renew(
        self, streams: int = 0, queries: Sequence[QueryReport] = (), held: Sequence[str] = ()
    ) -> Renewed:
        """Renew the lease, report the streaming queries, and update the node addresses.

        Args:
            streams: Number of running queries, supervised or not.
            queries: Reports about the supervised queries.
            held: Statements whose results the driver holds.

        Raises NoNodeAnswers if no renewal was accepted for `orphan_seconds`, although nodes may
        have answered that their store is down: another host may then take over the session.
        """
        sent = time.monotonic()
        deadline = self._last_renewal + self.bootstrap.orphan_seconds
        renewed = self._call(
            "renew",
            Renew(streams=streams, queries=list(queries), held=list(held)),
            Renewed,
            seconds=self._renewal_seconds,
            deadline=deadline,
        )
        self._last_renewal = sent
        if renewed.nodes:
            self._update_nodes(renewed.nodes)
        return renewed

    def report_start(
        self, statement_id: str, read_age: Callable[[], float], *, has_effects: bool = False
    ) -> Acknowledged:
        """Report that a statement is running.

        Args:
            read_age: Returns the time since the start of the execution, in seconds. It is read for
                each attempt to send the report, because a node derives the start from it.
            has_effects: See `Started.has_effects`.
        """
        message = Started(statement_id=statement_id, has_effects=has_effects)
        return self._call(
            "started",
            lambda: message.model_copy(update={"ran_seconds": read_age()}),
            Acknowledged,
        )

    def report_progress(self, progress: dict[str, Progress]) -> None:
        """Report the progress of statements once, without a retry: the next report supersedes it.

        Raises LeaseLost and LinkRefused.
        """
        with contextlib.suppress(NoNodeAnswers):
            self._call("advanced", Advanced(progress=progress), Acknowledged, patience=0.0)

    def report_executions(self, executions: dict[str, StatementExecution]) -> None:
        """Report the plans and stages of statements that have ended, by statement id.

        Raises LeaseLost, LinkRefused and NoNodeAnswers.
        """
        message = Executed(executions=executions)
        self._call("executed", message, Acknowledged, patience=_CALL_SECONDS)

    def report_end(self, message: Ended) -> Acknowledged:
        """Report how a statement ended, with its result.

        If a node refuses the report, the statement fails with that reason. Raises LinkRefused only
        if the node refuses the report of this failure as well.
        """
        try:
            return self._call("ended", message, Acknowledged)
        except LinkRefused as error:
            _LOG.error("statement %s: %s", message.statement_id, error.message)
            return self._call("ended", _replace_refused_report(message, error), Acknowledged)

    def transact(self, message: Transact) -> Transacted:
        """Write one step of a table transaction to the journal."""
        return self._call("transact", message, Transacted)

    def recover(
        self, identities: list[str], failed: list[FailedRecovery]
    ) -> list[OrphanedTransaction]:
        """Take over the orphaned transactions of these catalogs, and return them.

        Args:
            failed: Transactions of an earlier call that could not be resolved.
        """
        message = Recover(identities=identities, failed=failed)
        return self._call("recover", message, Recovered).orphaned

    def begin_write(self, message: BeginWrite) -> WriteLock:
        """Request the write lock of a statement, and return whether it is granted."""
        return self._call("begin_write", message, WriteLock)

    def announce_writes(self, message: AnnounceWrites) -> None:
        """Note the tables of files to which a streaming query will write."""
        self._call("announce_writes", message, Acknowledged)

    def clear_staging(
        self, identities: list[str], cleared: list[int], *, after: int
    ) -> list[OrphanedWrite]:
        """Report the orphaned writes whose staging is removed, and return the next ones.

        Args:
            after: Only writes with a larger number are returned.
        """
        message = ClearStaging(identities=identities, cleared=cleared, after=after)
        return self._call("clear_staging", message, OrphanedWrites).writes

    def open_connection(self, statement_id: str) -> ConnectionState | None:
        """Return the connection of a statement in flight; None if it does not exist any more."""
        message = OpenConnection(statement_id=statement_id)
        return self._call("open_connection", message, OpenedConnection).state

    def find_secrets(self, names: list[str]) -> FoundSecrets:
        """Return the values of secrets, or why one of them cannot be used."""
        found = self._call("find_secrets", FindSecrets(names=names), FoundSecrets)
        self.known_secrets.add(found.values)
        return found

    def find_streams(self, names: list[str]) -> FoundStreams:
        """Return the definitions of the streams of the session's owner that have these names."""
        try:
            return self._call("find_streams", FindStreams(names=names), FoundStreams)
        except LinkRefused as error:
            # A node one version older does not know the call.
            _LOG.warning("streams cannot be found: %s", error.message)
            return FoundStreams()

    def read_system_tables(self, tables: list[SystemTable]) -> FoundRows:
        """Return the rows of system tables that belong to the owner of the session.

        Raise LinkRefused if the node is one version older and does not know the call.
        """
        return self._call("read_system_tables", ReadSystemTables(tables=tables), FoundRows)

    def begin_generation(self, statement_id: str, new: NewView | None) -> Generation:
        """Begin the next generation of the view that a statement writes."""
        message = BeginGeneration(statement_id=statement_id, new=new)
        return self._call("begin_generation", message, Generation)

    def carry_out(
        self, identities: list[str], done: list[str], failed: list[IntentError]
    ) -> Intents:
        """Report the outcome of intents, and return others of these catalogs to carry out.

        Intents for the sinks of ended queries are among them.
        """
        message = CarryOut(identities=identities, clears_sinks=True, done=done, failed=failed)
        return self._call("carry_out", message, Intents)

    def find_marked(self, query_id: str, marked_id: str) -> MarkedQuery:
        """Ask whether the query that has marked the checkpoint of another query is live.

        A query that starts waits for the answer: the call gives up sooner than others.
        """
        message = FindMarked(query_id=query_id, marked_id=marked_id)
        patience = min(_CALL_SECONDS, self.bootstrap.orphan_seconds)
        return self._call("find_marked", message, MarkedQuery, patience=patience)

    def goodbye(self, failure: Failure | None = None) -> None:
        """Report that the driver exits, and why if it failed.

        An error is only logged: without the report, nodes notice the exit when the lease expires.
        """
        patience = min(_CALL_SECONDS, self.bootstrap.orphan_seconds)
        try:
            self._call("goodbye", Goodbye(failure=failure), Acknowledged, patience=patience)
        except HeadraceError as error:
            _LOG.warning("no node has received the goodbye: %s", error.message)

    def _call(
        self,
        name: str,
        message: Message | Callable[[], Message],
        answer: type[Answer],
        *,
        seconds: float = _CALL_SECONDS,
        patience: float | None = None,
        deadline: float | None = None,
    ) -> Answer:
        """Send a message until a node answers, and return the answer.

        Args:
            message: The message, or a function that returns the message of each attempt.
            seconds: Timeout of one attempt.
            patience: Seconds without an answer from any node, after which NoNodeAnswers is raised.
                The default is the bootstrap's `orphan_seconds`.
            deadline: Time after which NoNodeAnswers is raised, even if nodes answer that their
                store is down. At least one attempt is made.
        """
        patience = self.bootstrap.orphan_seconds if patience is None else patience
        is_strict = deadline is not None
        deadline = time.monotonic() + patience if deadline is None else deadline
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            current = message() if callable(message) else message
            body = self.known_secrets.mask_message(current).model_dump_json().encode()
            remaining = max(deadline - time.monotonic(), _SHORTEST_ATTEMPT_SECONDS)
            response = self._attempt(name, body, min(seconds, remaining) if is_strict else seconds)
            if response is not None and response.status < HTTPStatus.MULTIPLE_CHOICES:
                return answer.model_validate_json(response.data)
            is_store_down = (
                response is not None and response.status == HTTPStatus.SERVICE_UNAVAILABLE
            )
            if is_store_down and not is_strict:
                # The node is up and waits for its store: this driver is not orphaned.
                deadline = time.monotonic() + patience
            if time.monotonic() > deadline:
                raise NoNodeAnswers(
                    f"No node has answered {name!r} for {describe_duration(patience)}."
                )
            time.sleep(backoff * random.uniform(0.5, 1.5))  # noqa: S311
            backoff = min(backoff * 2, _LONGEST_BACKOFF_SECONDS)

    def _attempt(
        self, name: str, body: bytes, seconds: float
    ) -> urllib3.response.BaseHTTPResponse | None:
        """Send a message once and return the response; None if the node cannot be reached.

        After a failed attempt, the next attempt goes to another node. Raises LeaseLost and
        LinkRefused for refusals that a retry would repeat.
        """
        with self._lock:
            node = self._nodes[0]
        try:
            response = self._pool.request(
                "POST", f"{node}{self._path}/{name}", body=body, timeout=seconds
            )
        except urllib3.exceptions.HTTPError as error:
            _LOG.info("node %s cannot be reached: %s", node, error)
            self._move_to_next_node(node)
            return None
        status = response.status
        if status < HTTPStatus.MULTIPLE_CHOICES:
            return response
        detail = response.data.decode(errors="replace")
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.CONFLICT}:
            raise LeaseLost(f"{node} answers {status}: {detail}")
        if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise LinkRefused(f"{node} answers {status} to {name}: {detail}")
        _LOG.warning("node %s answers %s to %s", node, status, name)
        self._move_to_next_node(node)
        return response

    def _update_nodes(self, live: list[str]) -> None:
        """Put the live nodes first, in the order of the earlier list.

        A node that is not live is kept for a while: it may only be frozen, and it may return when
        the others fail.
        """
        now = time.monotonic()
        with self._lock:
            self._last_live |= dict.fromkeys(live, now)
            current = [node for node in self._nodes if node in live]
            new = [node for node in live if node not in current]
            kept_since = now - _KEPT_LEASES * self.bootstrap.lease_seconds
            away = [
                node
                for node in self._nodes
                if node not in live and self._last_live.get(node, 0.0) > kept_since
            ]
            self._nodes = [*current, *new, *away]
            self._last_live = {
                node: at for node, at in self._last_live.items() if node in self._nodes
            }

    def _move_to_next_node(self, failed: str) -> None:
        """Put the failed node last, and addresses that are new in the bootstrap file first.

        A node that was restarted on another port has written its new address to the file. Every
        known address has its turn: the file may contain old addresses only.
        """
        from_file = read_addresses(self._file)
        with self._lock:
            new = [node for node in from_file if node not in self._file_nodes]
            self._file_nodes = from_file or self._file_nodes
            nodes = dict.fromkeys([*new, *self._nodes, *from_file])
            self._nodes = [node for node in nodes if node != failed] + [failed]


def read_addresses(file: Path | None) -> list[str]:
    """Return the node addresses in the bootstrap file; empty if there is no readable file."""
    if file is None:
        return []
    try:
        addresses = json.loads(file.read_text())["nodes"]
        return [str(address) for address in addresses]
    except (OSError, ValueError, LookupError, TypeError):
        return []

"""Client of the native HTTP API. Its methods return the JSON objects of the API as dictionaries."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack
from urllib.parse import quote

from headrace.client.errors import error_from_response
from headrace.client.tls import SYSTEM_TRUST, ClientTls
from headrace.client.transport import (
    Endpoint,
    HttpRequest,
    HttpResponse,
    TokenSource,
    Transport,
    check_addresses,
)
from headrace.errors import NodeUnreachable

Json = dict[str, Any]
SIGN_IN_PATH = "/api/v1/sign-in"


class RequestOptions(TypedDict, total=False):
    """The parts of a request beside method and path (`HttpRequest`)."""

    query: Mapping[str, str | int | None] | None
    body: Mapping[str, Any] | None
    headers: Mapping[str, str] | None
    timeout: float
    idempotent: bool
    accepts_errors: bool
    authenticated: bool


def quote_name(name: str) -> str:
    """Return a name or id as one step of a path."""
    return quote(name, safe="")


LONGEST_POLL = 10.0
"""Seconds that one long poll lasts at most; a longer wait needs several polls."""
_PURGE_SECONDS = 600.0
"""Longest time for a batch of a purge: a results location may delete slowly."""
_RESPONSE_MARGIN = 20.0
"""Seconds that a response may take beyond the wait that its request asks for."""


class Client:
    """Client of a node, or of a cluster.

    Every method raises the HeadraceError that the node responded with. It raises NodeUnreachable
    if no node responds within `retry_seconds`.
    """

    def __init__(
        self,
        address: str,
        token: TokenSource = None,
        *,
        tls: ClientTls = SYSTEM_TRUST,
        retry_seconds: float = 30.0,
        parse_float: Callable[[str], Any] = float,
        relocate: Callable[[], Endpoint | None] | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Create a client; the first request opens the connection.

        Args:
            address: URL of the node, for example `http://127.0.0.1:8040`. Or the URLs of several
                nodes of one cluster, separated by commas: while a node does not respond, requests
                go to the next one.
            token: Bearer token of the nodes, or a function that returns it for each request.
            tls: Files with which the client verifies the nodes, for HTTPS.
            retry_seconds: How long requests are repeated while no node responds.
            parse_float: Converts the text of each JSON number that is not an integer.
            relocate: Called while no node responds. Returns the endpoint of the node to use from
                then on, or None if it is not known. By default, the next of several URLs.
            report: Receives a line when an outage lasts, and a line when it is over.

        Raises:
            InvalidSetting: The address is not an HTTP URL.
        """
        endpoints = [Endpoint(each.strip(), token, tls) for each in address.split(",")]
        check_addresses(address)
        following = cycle([*endpoints[1:], endpoints[0]])
        self._transport = Transport(
            endpoints[0],
            retry_seconds=retry_seconds,
            has_others=len(endpoints) > 1,
            relocate=relocate or (lambda: next(following)),
            report=report,
        )
        self._parse_float = parse_float
        self._copy = partial(
            Client,
            address,
            token,
            tls=tls,
            retry_seconds=retry_seconds,
            parse_float=parse_float,
            relocate=relocate,
            report=report,
        )

    def copy(self) -> Client:
        """Return a client of the same nodes with a connection of its own, for another thread."""
        return self._copy()

    @property
    def address(self) -> str:
        return self._transport.address

    @property
    def retry_seconds(self) -> float:
        """Seconds for which requests are repeated while no node responds."""
        return self._transport.retry_seconds

    @retry_seconds.setter
    def retry_seconds(self, seconds: float) -> None:
        self._transport.retry_seconds = seconds

    @contextmanager
    def retrying(self, seconds: float) -> Iterator[None]:
        """Repeat requests for this time during the block, while no node responds."""
        usual_seconds, self.retry_seconds = self.retry_seconds, seconds
        try:
            yield
        finally:
            self.retry_seconds = usual_seconds

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Objects of any kind. A kind is the path of its list below /api/v1, for example `streams`.

    def page(self, kind: str, **query: str | int | None) -> Json:
        """Return a page of objects: `{items, next}`."""
        return self._call("GET", f"/api/v1/{kind}", query=query)

    def get(self, kind: str, reference: str) -> Json:
        """Return an object, by its id, or by its name if objects of this kind have names."""
        return self._call("GET", f"/api/v1/{kind}/{quote_name(reference)}")

    def create(self, kind: str, body: Mapping[str, Any]) -> Json:
        """Create an object of a kind that the node names itself, and return it."""
        return self._call("POST", f"/api/v1/{kind}", body=body, idempotent=False)

    def remove(self, kind: str, reference: str) -> Json:
        """End an object, and return it."""
        return self._call("DELETE", f"/api/v1/{kind}/{quote_name(reference)}")

    def act(
        self,
        kind: str,
        reference: str,
        action: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int | None] | None = None,
        idempotent: bool = False,
    ) -> Json:
        """Act on an object, and return what the node answers.

        Args:
            idempotent: Whether the request may be repeated after a lost connection.
        """
        path = f"/api/v1/{kind}/{quote_name(reference)}/{action}"
        return self._call("POST", path, body=body, query=query, idempotent=idempotent)

    # The node itself.

    def health(self, *, timeout: float = LONGEST_POLL + _RESPONSE_MARGIN) -> Json:
        """Return `{status, node_id, version}` of the node. The request carries no token.

        Args:
            timeout: Longest time in seconds to wait for a response.
        """
        return self._call("GET", "/health", timeout=timeout, authenticated=False)

    def ready(self) -> bool:
        """Return True if the node and its store can serve requests.

        One request is sent, without a token.
        """
        with self.retrying(0):
            request = self._request("GET", "/ready", authenticated=False)
            return self._transport.send(request).status == 200

    def sign_in_options(self) -> list[Json]:
        """Return the issuers at which users sign in. The request carries no token."""
        return list(self._call("GET", SIGN_IN_PATH, authenticated=False)["issuers"])

    def whoami(self) -> Json:
        """Return who calls: `{owner, groups, roles, scope, token_id}`."""
        return self._call("GET", "/api/v1/me")

    def quota(self, owner: str | None = None) -> Json:
        """Return the limits of an owner, by default those of the caller: `{owner, limits}`."""
        return self._call("GET", "/api/v1/quota", query={"owner": owner})

    def nodes(self) -> list[Json]:
        """Return every node that the store has a record of."""
        return list(self.page("nodes")["items"])

    def drain_node(self, node_id: str) -> Json:
        """Ask a node to leave, and return the node."""
        return self.act("nodes", node_id, "drain", idempotent=True)

    def confirm_node_gone(self, node_id: str) -> Json:
        """Confirm that a node and the drivers of its host have ended. Return the node."""
        return self.act("nodes", node_id, "gone", body={"confirmed": True}, idempotent=True)

    def purge_history(self, older_than: str, *, dry_run: bool = False) -> Json:
        """Delete what ended longer ago than `older_than`. Return the counts, and whether to repeat.

        Args:
            dry_run: Only count what would be deleted.
        """
        body = {"older_than": older_than, "dry_run": dry_run}
        return self._call("POST", "/api/v1/history/purge", body=body, timeout=_PURGE_SECONDS)

    # Statements.

    def submit(self, body: Mapping[str, Any], *, key: str | None = None) -> Json:
        """Submit one statement and return it.

        After a lost connection the request is repeated with the same Idempotency-Key, so that the
        statement runs once.

        Args:
            body: Request body of `POST /api/v1/statements`.
            key: Idempotency-Key; a random one by default.
        """
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        return self._call("POST", "/api/v1/statements", body=body, headers=headers)

    def statement(self, statement: str, *, wait: float = 0.0, trace: bool = False) -> Json:
        """Return a statement in its current state.

        Args:
            wait: Seconds to wait for the end of the statement before its state is returned.
            trace: Include the stack trace of its error.
        """
        query = {"wait_timeout": f"{wait:g}s"} if wait > 0 else {}
        if trace:
            query["trace"] = "true"
        path = f"/api/v1/statements/{quote_name(statement)}"
        return self._call("GET", path, query=query, timeout=wait + _RESPONSE_MARGIN)

    def statements(
        self,
        *,
        session: str | None = None,
        state: str | None = None,
        before: str | None = None,
        id_prefix: str | None = None,
        limit: int | None = None,
        view: str | None = None,
        over: str | None = None,
        all_owners: bool = False,
    ) -> Json:
        """Return a page of statements, newest first: `{items, next}`.

        Args:
            view: `waiting`, `running` or `slow`: only these, in the order of the view.
            over: With a view: the shortest time of its statements, for example `1min`.
        """
        return self.page(
            "statements",
            session=session,
            state=state,
            before=before,
            limit=limit,
            id_prefix=id_prefix,
            view=view,
            over=over,
            all_owners=_flag(all_owners),
        )

    def execution(self, statement: str) -> Json:
        """Return the plan and the Spark stages of a statement that has ended."""
        return self._call("GET", f"/api/v1/statements/{quote_name(statement)}/execution")

    def arrow_chunk(self, statement: str, chunk: int) -> bytes:
        """Return one chunk of a result as an Arrow IPC stream."""
        query = {"format": "arrow", "chunk": str(chunk)}
        path = f"/api/v1/statements/{quote_name(statement)}/result"
        response = self._transport.send(self._request("GET", path, query=query))
        _raise_for_status(response)
        return response.body

    def rows(self, statement: str, chunk: int = 0, *, plain_numbers: bool = False) -> Json:
        """Return one chunk of a result: `{schema, rows, chunk, next_chunk}`.

        The API writes bigint and decimal values as strings. With `plain_numbers`, those that a
        double holds exactly are numbers.
        """
        numbers = "plain" if plain_numbers else None
        query = {"format": "json", "chunk": str(chunk), "numbers": numbers}
        return self._call("GET", f"/api/v1/statements/{quote_name(statement)}/result", query=query)

    def download(self, statement: str, format_: str) -> Iterator[bytes]:
        """Return the blocks of a result in one of the API's formats.

        The iterator raises NodeUnreachable if the response ends early.
        """
        path = f"/api/v1/statements/{quote_name(statement)}/result"
        return self._stream(self._request("GET", path, query={"format": format_}))

    def download_held(
        self, statement: str, selection: Mapping[str, int], *, timeout: float
    ) -> Iterator[bytes]:
        """Return the blocks of the Arrow stream of rows that a driver of the node's host holds.

        Args:
            selection: The parameter `chunk`, or `offset` and `limit`.

        A response with an error is not repeated: the node has waited for the driver.
        """
        path = f"/api/v1/statements/{quote_name(statement)}/result"
        query: dict[str, str | int | None] = {"format": "arrow", "forward": "false", **selection}
        request = self._request("GET", path, query=query, timeout=timeout, accepts_errors=True)
        return self._stream(request)

    def _stream(self, request: HttpRequest) -> Iterator[bytes]:
        response, blocks = self._transport.stream(request)
        _raise_for_status(response)
        return blocks

    def cancel(self, statement: str, *, force: bool = False) -> Json:
        """Request the cancellation of a statement and return its state.

        With `force`, a node ends the driver if the driver cannot stop the statement alone. All
        other statements of that driver then end too.
        """
        query = {"force": "true"} if force else {}
        return self.act("statements", statement, "cancel", body={}, query=query, idempotent=True)

    # Connections.

    def open_connection(self, body: Mapping[str, Any]) -> Json:
        """Open a connection; `body` is the request body of `POST /api/v1/connections`.

        The request is repeated after a lost answer. A connection that was opened twice is closed
        when it has been idle for long.
        """
        return self._call("POST", "/api/v1/connections", body=body)

    # Sessions.

    def create_session(self, body: Mapping[str, Any]) -> Json:
        """Create a session; `body` is the request body of `POST /api/v1/sessions`."""
        return self.create("sessions", body)

    def session(self, session: str) -> Json:
        """Return a session by id or name."""
        return self.get("sessions", session)

    def sessions(
        self,
        *,
        state: str | None = None,
        before: str | None = None,
        id_prefix: str | None = None,
        limit: int | None = None,
        all_owners: bool = False,
    ) -> Json:
        """Return a page of sessions, newest first: `{items, next}`."""
        return self.page(
            "sessions",
            state=state,
            before=before,
            id_prefix=id_prefix,
            limit=limit,
            all_owners=_flag(all_owners),
        )

    def session_log(self, session: str, tail: int | None = None, *, forward: bool = True) -> str:
        """Return the log of a session's driver, or the last `tail` bytes of it.

        Args:
            forward: Whether the node asks the node that has launched the driver.
        """
        query = {"tail": tail, "forward": None if forward else "false"}
        return self._read_log(session, query).body.decode(errors="replace")

    def session_log_end(self, session: str, tail: int) -> tuple[str, bool]:
        """Return the last bytes of a log that the node itself has, and whether the log has more."""
        response = self._read_log(session, {"tail": tail, "forward": "false"})
        headers = {name.lower(): value for name, value in response.headers.items()}
        is_cut = headers.get("x-headrace-truncated") == "true"
        return response.body.decode(errors="replace"), is_cut

    def _read_log(self, session: str, query: Mapping[str, Any]) -> HttpResponse:
        path = f"/api/v1/sessions/{quote_name(session)}/log"
        response = self._transport.send(self._request("GET", path, query=query))
        _raise_for_status(response)
        return response

    def close_session(self, session: str) -> Json:
        """Close a session and return it."""
        return self.remove("sessions", session)

    # Streaming queries.

    def streams(
        self,
        *,
        live: bool = False,
        before: str | None = None,
        limit: int = 100,
        all_owners: bool = False,
    ) -> Json:
        """Return a page of streaming queries, newest first."""
        return self.page(
            "streams", live=_flag(live), before=before, limit=limit, all_owners=_flag(all_owners)
        )

    def stream(self, stream: str) -> Json:
        """Return a streaming query, by id, name or `scope.name`."""
        return self.get("streams", stream)

    def stream_history(self, stream: str, minutes: int | None = None) -> Json:
        """Return the last minutes of a streaming query: measurements and interruptions."""
        path = f"/api/v1/streams/{quote_name(stream)}/history"
        return self._call("GET", path, query={"minutes": minutes})

    def act_on_stream(self, stream: str, action: str) -> Json:
        """Stop, pause, resume, restart or retry a streaming query. Return the query."""
        return self.act("streams", stream, action)

    # Jobs and deployments.

    def plan_jobs(self, request: Mapping[str, Any]) -> Json:
        """Plan a deployment of manifests. Return the deployment; its drivers may still check it."""
        return self._call("POST", "/api/v1/deployments", body=request, idempotent=False)

    def apply_plan(self, deployment: str) -> Json:
        """Apply a plan and return its deployment."""
        return self.act("deployments", deployment, "apply")

    def deployment(self, deployment: str) -> Json:
        """Return a deployment by id."""
        return self.get("deployments", deployment)

    def jobs(self, *, all_owners: bool = False) -> Json:
        """Return all jobs by name."""
        return self.page("jobs", all_owners=_flag(all_owners))

    def job(self, name: str) -> Json:
        """Return a job with its deployed version and its savepoints."""
        return self.get("jobs", name)

    def job_versions(self, name: str, *, limit: int = 100) -> Json:
        """Return the versions of a job, newest first."""
        path = f"/api/v1/jobs/{quote_name(name)}/versions"
        return self._call("GET", path, query={"limit": limit})

    def act_on_job(self, name: str, action: str, options: Mapping[str, Any] | None = None) -> Json:
        """Start, copy or roll back a job. Return the deployment that does it."""
        return self.act("jobs", name, action, body=options)

    def stop_job(self, name: str, *, savepoint: bool = True) -> Json:
        """Stop a job. Return the deployment that does it."""
        return self.act("jobs", name, "stop", query={"savepoint": savepoint})

    def delete_job(self, name: str, *, savepoint: bool = True) -> Json:
        """Stop a job and remove it. Return the deployment that does it."""
        path = f"/api/v1/jobs/{quote_name(name)}"
        return self._call("DELETE", path, query={"savepoint": savepoint}, idempotent=False)

    # Runs of batch jobs.

    def runs(
        self,
        *,
        job: str | None = None,
        state: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        all_owners: bool = False,
    ) -> Json:
        """Return a page of runs, newest first: `{items, next}`."""
        return self.page(
            "runs",
            job=job,
            state=state,
            before=before,
            limit=limit,
            all_owners=_flag(all_owners),
        )

    def run(self, run_id: str) -> Json:
        """Return a run with its statements."""
        return self.get("runs", run_id)

    def expectations(self, job: str, *, limit: int | None = None) -> Json:
        """Return what was counted for the expectations of a job: `{items, stream}`."""
        path = f"/api/v1/jobs/{quote_name(job)}/expectations"
        return self._call("GET", path, query={"limit": limit})

    def run_job(self, name: str, *, at: str | None = None) -> Json:
        """Run a batch job for a logical time. Return the run."""
        return self.act("jobs", name, "runs", body={"at": at})

    def backfill_job(
        self, name: str, start: str, end: str, *, parallel: int = 1, dry_run: bool = False
    ) -> Json:
        """Run a batch job for all intervals of a time. Return them: `{id, intervals}`."""
        body = {"from": start, "to": end, "parallel": parallel, "dry_run": dry_run}
        return self.act("jobs", name, "backfills", body=body)

    def act_on_run(
        self, run_id: str, action: str, options: Mapping[str, Any] | None = None
    ) -> Json:
        """Cancel or repair a run. Return the run."""
        return self.act("runs", run_id, action, body=options)

    def cancel_backfill(self, backfill_id: str) -> Json:
        """Cancel all runs of a backfill. Return them as a page."""
        return self.act("backfills", backfill_id, "cancel")

    # Webhooks.

    def deliveries(
        self, webhook: str, *, before: str | None = None, limit: int | None = None
    ) -> Json:
        """Return a page of the messages to a webhook, newest first: `{items, next}`."""
        path = f"/api/v1/webhooks/{quote_name(webhook)}/deliveries"
        return self._call("GET", path, query={"before": before, "limit": limit})

    def lineage(
        self,
        table: str,
        *,
        direction: str | None = None,
        depth: int | None = None,
        all_owners: bool = False,
    ) -> Json:
        """Return the tables around a table: `{table, edges, truncated}`.

        Args:
            direction: `upstream` or `downstream`; None: both.
            depth: Largest number of steps from the table.
        """
        return self.page(
            "lineage",
            table=table,
            direction=direction,
            depth=depth,
            all_owners=_flag(all_owners),
        )

    # Table transactions.

    def transactions(
        self, *, orphaned: bool = False, before: str | None = None, limit: int | None = None
    ) -> Json:
        """Return a page of table transactions, newest first: `{items, next}`.

        With `orphaned`, return only transactions that no driver works on, oldest first.
        """
        return self.page("transactions", orphaned=_flag(orphaned), before=before, limit=limit)

    def transaction(self, transaction: str) -> Json:
        """Return a table transaction by id."""
        return self.get("transactions", transaction)

    def recovery(self, *, retry: bool = False) -> Json:
        """Return what lost drivers have left: `{transactions, sinks}`.

        With `retry`, drivers complete or remove it now, without a pause after a failed attempt.
        """
        return self._call("POST" if retry else "GET", "/api/v1/recovery")

    # Requests.

    def _request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> HttpRequest:
        query, body = options.get("query") or {}, options.get("body")
        headers = {"Accept": "application/json, */*;q=0.5", **(options.get("headers") or {})}
        if body is not None:
            headers["Content-Type"] = "application/json"
        return HttpRequest(
            method=method,
            path=path,
            query={key: str(value) for key, value in query.items() if value is not None},
            body=None if body is None else json.dumps(body).encode(),
            headers=headers,
            timeout=options.get("timeout", LONGEST_POLL + _RESPONSE_MARGIN),
            idempotent=options.get("idempotent", True),
            accepts_errors=options.get("accepts_errors", False),
            authenticated=options.get("authenticated", True),
        )

    def _call(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Json:
        """Send a request and return the JSON object of its response.

        Raises NodeUnreachable if the response is not a JSON object.
        """
        response = self._transport.send(self._request(method, path, **options))
        _raise_for_status(response)
        try:
            value = json.loads(response.body or b"{}", parse_float=self._parse_float)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise NodeUnreachable(
                f"The server at {self.address} is not a Headrace node: the response to "
                f"{method} {path} is not a JSON object.",
                hint="check the address of the node",
            )
        return value


def _flag(value: bool) -> str | None:
    """Return the value of a parameter that is only sent if it is set."""
    return "true" if value else None


def _raise_for_status(response: HttpResponse) -> None:
    if response.status >= 300:
        raise error_from_response(response.status, response.body)

"""A real HTTP server that implements the API of a node and returns what a test has scripted."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
Response = tuple[int, Any]
"""HTTP status and body."""
_POOL_SESSION = f"se_{0:032x}"
_CREATED_AT = "2026-11-21T10:00:00.000000Z"
_ENDED_AT = "2026-11-21T10:00:01.500000Z"


@dataclass
class Script:
    """Outcome of the statements with a certain text."""

    columns: list[tuple[str, str]] = field(default_factory=list)
    chunks: list[list[list[Any]]] = field(default_factory=lambda: [[]])
    error: Json | None = None
    state: str = "success"
    kind: str = "interactive"
    cancel_reason: str | None = None
    truncated: bool = False
    hangs: bool = False
    """Run until the statement is cancelled or `finish` is called."""
    cancels_to: str | None = "cancelled"
    """State after a cancel; None keeps the statement in `cancelling`."""
    rows_lost: int = 0
    """Rows that the result claims to have beyond those in `chunks`."""
    time_zone: str | None = None
    rows_written: int | None = None
    outcome: Json = field(default_factory=dict)
    """Fields of a successful statement that have no field here."""
    problem: tuple[int, Json] | None = None
    """Status and problem document with which a submit is refused."""
    outages: int = 0
    """Number of API requests after the submit that fail with status 503."""
    downloads: dict[str, bytes] = field(default_factory=dict)
    """Content of the result for each binary format."""


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Json | None


class ScriptedNode:
    """One node. `requests` holds the requests that it has received, in order."""

    node_id = "no_" + "1" * 32

    def __init__(self, token: str | None = None, *, port: int = 0) -> None:
        self.token = token
        self.log = b"first line\nlast line\n"
        """Log of every driver."""
        self.requests: list[Request] = []
        self.scripts: dict[str, Script] = {}
        self.statements: dict[str, Json] = {}
        self.sessions: dict[str, Json] = {}
        self.transactions: dict[str, Json] = {}
        self.sinks: list[Json] = []
        """Sinks that a driver has to clear."""
        self.jobs: list[Json] = []
        self.node_fields: Json = {}  # of the node in the list of nodes
        self.ids: list[int] = []  # of the following statements; afterwards they count from 1
        self.outages = 0
        """Number of following API requests that fail with status 503."""
        self.dropped = 0
        """Number of following API requests that are executed, but whose response is lost."""
        self._idempotency_keys: dict[str, str] = {}
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        with self._changed:
            for statement in self.statements.values():
                self._end(statement, "failed")  # ends all long polls
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    execution: Json | None = None
    """The plan and the stages of every statement."""

    def on(self, text: str, **script: Any) -> None:
        """Set the outcome of the statements with this text; the keywords are fields of Script."""
        self.scripts[text] = Script(**script)

    def calls(self, method: str, pattern: str) -> list[Request]:
        """Return the received requests with this method whose path matches the pattern."""
        return [
            request
            for request in self.requests
            if request.method == method and re.fullmatch(pattern, request.path)
        ]

    def finish(self, statement: str, state: str = "success") -> None:
        """End a statement that hangs."""
        with self._changed:
            self._end(self.statements[statement], state)

    def respond(self, request: Request) -> Response:
        with self._changed:
            self.requests.append(request)
            if request.path in {"/health", "/ready"}:
                return 200, {"status": "ok", "node_id": self.node_id, "version": "0"}
            if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
                return 401, _problem(401, "unauthorized", "A valid token is needed.")
            if self.outages:
                self.outages -= 1
                return 503, _problem(503, "store_unavailable", "The store does not respond.")
            for method, pattern, handler in self._routes():
                match = re.fullmatch(pattern, request.path)
                if method == request.method and match:
                    return handler(request, *match.groups())
            return 404, _problem(404, "not_found", f"There is no {request.path}.")

    # Handlers of the routes. Their caller holds the condition.

    def _routes(self) -> list[tuple[str, str, Callable[..., Response]]]:
        api = "/api/v1"
        return [
            ("POST", f"{api}/statements", self._submit),
            ("GET", f"{api}/statements", self._list_statements),
            ("GET", f"{api}/statements/([^/]+)", self._get_statement),
            ("GET", f"{api}/statements/([^/]+)/result", self._get_result),
            ("GET", f"{api}/statements/([^/]+)/execution", lambda *_: (200, self.execution)),
            ("POST", f"{api}/statements/([^/]+)/cancel", self._cancel),
            ("POST", f"{api}/sessions", self._create_session),
            ("GET", f"{api}/sessions", self._list_sessions),
            ("GET", f"{api}/sessions/([^/]+)", self._get_session),
            ("DELETE", f"{api}/sessions/([^/]+)", self._close_session),
            ("GET", f"{api}/sessions/([^/]+)/log", self._get_log),
            ("GET", f"{api}/jobs", lambda _: (200, {"items": self.jobs, "next": None})),
            ("GET", f"{api}/nodes", self._list_nodes),
            ("POST", f"{api}/nodes/([^/]+)/(drain|gone)", self._act_on_node),
            ("GET", f"{api}/transactions", self._list_transactions),
            ("GET", f"{api}/recovery", self._show_recovery),
            ("POST", f"{api}/recovery", self._show_recovery),
            ("GET", f"{api}/transactions/([^/]+)", self._get_transaction),
        ]

    def _submit(self, request: Request) -> Response:
        assert request.body is not None
        key = request.headers["idempotency-key"]
        if key in self._idempotency_keys:
            return 201, self._with_rows(self.statements[self._idempotency_keys[key]])
        text = request.body["statement"]
        script = self.scripts.get(text, Script())
        if script.problem is not None:
            return script.problem[0], _problem(script.problem[0], **script.problem[1])
        session = request.body.get("session")
        if session is None:
            session = _POOL_SESSION
        elif self._find_session(session) is None:
            return 404, _problem(404, "session_not_found", f"There is no session {session!r}.")
        statement = self._add_statement(text, session)
        statement["kind"] = request.body.get("kind", script.kind)
        self._idempotency_keys[key] = statement["id"]
        self.outages = script.outages
        if not script.hangs:
            self._end(statement, script.state)
        return 201, self._with_rows(statement)

    def _add_statement(self, text: str, session: str) -> Json:
        statement = {
            "id": f"st_{self.ids.pop(0) if self.ids else len(self.statements) + 1:032x}",
            "session_id": session,
            "kind": "interactive",
            "state": "running",
            "statement": text,
            "owner": "ada",
            "created_at": _CREATED_AT,
            "cancel_reason": None,
            "ended_at": None,
            "progress": {"tasks_done": 1, "tasks_total": 4},
            "error": None,
            "result": None,
        }
        self.statements[statement["id"]] = statement
        return statement

    def _end(self, statement: Json, state: str) -> None:
        script = self.scripts.get(statement["statement"], Script())
        statement |= {"state": state, "ended_at": _ENDED_AT}
        statement["cancel_reason"] = statement["cancel_reason"] or script.cancel_reason
        if state == "success":
            statement |= script.outcome
            statement["result"] = {
                "schema": [{"name": name, "type": type_} for name, type_ in script.columns],
                "row_count": script.rows_written or sum(map(len, script.chunks)) + script.rows_lost,
                "rows_written": script.rows_written,
                "chunks": len(script.chunks),
                "truncated": script.truncated,
                "time_zone": script.time_zone,
            }
        elif script.error is not None:
            statement["error"] = script.error
        self._changed.notify_all()

    def _with_rows(self, statement: Json) -> Json:
        if statement["state"] != "success":
            return {**statement, "rows": None, "next_chunk": None}
        chunks = self.scripts.get(statement["statement"], Script()).chunks
        return {**statement, "rows": chunks[0], "next_chunk": 1 if len(chunks) > 1 else None}

    def _get_statement(self, request: Request, id_: str) -> Response:
        if id_ not in self.statements:
            return 404, _problem(404, "statement_not_found", f"There is no statement {id_!r}.")
        statement = self.statements[id_]
        wait = float(request.query.get("wait_timeout", "0s").removesuffix("s"))
        self._changed.wait_for(lambda: statement["ended_at"], timeout=wait)
        body = dict(statement)
        if statement["error"] and request.query.get("trace") != "true":
            body["error"] = {**statement["error"], "trace": None}
        return 200, body

    def _list_statements(self, request: Request) -> Response:
        limit = int(request.query["limit"])
        prefix = request.query.get("id_prefix", "")
        items = [item for item in self.statements.values() if item["id"].startswith(prefix)][::-1]
        next_page = items[limit - 1]["id"] if len(items) > limit else None
        return 200, {"items": items[:limit], "next": next_page}

    def _get_result(self, request: Request, id_: str) -> Response:
        statement = self.statements[id_]
        if statement["ended_at"] is None:
            return 409, _problem(409, "result_not_ready", f"{id_} has no result yet.")
        script = self.scripts.get(statement["statement"], Script())
        format_ = request.query.get("format", "json")
        if format_ != "json":
            return 200, script.downloads[format_]
        chunk = int(request.query.get("chunk", "0"))
        return 200, {
            "schema": statement["result"]["schema"],
            "rows": script.chunks[chunk],
            "chunk": chunk,
            "next_chunk": chunk + 1 if chunk + 1 < len(script.chunks) else None,
        }

    def _cancel(self, _request: Request, id_: str) -> Response:
        statement = self.statements[id_]
        if statement["ended_at"]:
            return 409, _problem(409, "already_ended", f"{id_} has ended.")
        statement |= {"state": "cancelling", "cancel_reason": "requested"}
        end_state = self.scripts[statement["statement"]].cancels_to
        if end_state is not None:
            self._end(statement, end_state)
        return 202, statement

    def _add_session(self, body: Json) -> Json:
        session = {
            "id": f"se_{len(self.sessions) + 1:032x}",
            "name": body.get("name"),
            "state": "running",
            "busy": False,
            "profile": body.get("profile", "default"),
            "conf": body.get("conf", {}),
            "catalog": body.get("catalog"),
            "database": body.get("database"),
            "jars": body.get("jars", []),
            "files": body.get("files", []),
            "py_files": body.get("py_files", []),
            "idle_timeout": body.get("idle_timeout", "30m"),
            "ttl": body.get("ttl"),
            "driver": {"pid": 4711},
            "owner": "ada",
            "created_at": _CREATED_AT,
            "last_update_time": _CREATED_AT,
            "ended_at": None,
        }
        self.sessions[session["id"]] = session
        return session

    def _find_session(self, name: str) -> Json | None:
        for session in self.sessions.values():
            if name in {session["id"], session["name"]}:
                return session
        return None

    def _create_session(self, request: Request) -> Response:
        assert request.body is not None
        if request.body.get("name") and self._find_session(request.body["name"]):
            return 409, _problem(409, "session_name_exists", "A live session has this name.")
        return 201, self._add_session(request.body)

    def _list_sessions(self, request: Request) -> Response:
        state = request.query.get("state")
        prefix = request.query.get("id_prefix", "")
        items = [item for item in self.sessions.values() if state in {None, item["state"]}]
        items = [item for item in items if item["id"].startswith(prefix)]
        return 200, {"items": items[::-1], "next": None}

    def _get_session(self, _request: Request, name: str) -> Response:
        if name == _POOL_SESSION:
            return 200, {"id": name, "state": "running"}
        session = self._find_session(name)
        if session is None:
            return 404, _problem(404, "session_not_found", f"There is no session {name!r}.")
        return 200, session

    def _close_session(self, request: Request, name: str) -> Response:
        status, session = self._get_session(request, name)
        if status == 200:
            session |= {"state": "closing"}
            status = 202
        return status, session

    def _get_log(self, request: Request, _name: str) -> Response:
        return 200, self.log[-int(request.query.get("tail", len(self.log))) :]

    def _list_nodes(self, _request: Request) -> Response:
        node = {"id": self.node_id, "state": "up", "started_at": _CREATED_AT, **self.node_fields}
        return 200, {"items": [node], "next": None}

    def _act_on_node(self, _request: Request, id_: str, action: str) -> Response:
        if id_ != self.node_id:
            return 404, _problem(404, "node_not_found", f"There is no node {id_!r}.")
        state = "gone" if action == "gone" else "draining"
        return 202, {"id": id_, "state": state}

    def _list_transactions(self, request: Request) -> Response:
        orphaned_only = request.query.get("orphaned") == "true"
        items = [
            transaction
            for transaction in self.transactions.values()
            if transaction["orphaned"] or not orphaned_only
        ]
        return 200, {"items": items, "next": None}

    def _show_recovery(self, _request: Request) -> Response:
        """Return the orphaned transactions, and the sinks that no driver has cleared yet."""
        orphaned = [each for each in self.transactions.values() if each["orphaned"]]
        # A driver has started since the session was created.
        is_cleared = len(self.sessions) > 1
        return 200, {"transactions": orphaned, "sinks": [] if is_cleared else self.sinks}

    def _get_transaction(self, _request: Request, id_: str) -> Response:
        """Return the transaction resolved, as if a driver had started since it was listed."""
        transaction = self.transactions[id_]
        state = "committed" if transaction["state"] == "committing" else "aborted"
        return 200, {**transaction, "state": state, "orphaned": False}


def _problem(status: int, code: str, detail: str, **fields: Any) -> Json:
    return {"type": f"urn:{code}", "title": code, "status": status, "code": code} | {
        "detail": detail,
        **fields,
    }


def _handler(node: ScriptedNode) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("content-length", 0))
            body = self.rfile.read(size)
            request = Request(
                self.command,
                parts.path,
                {key: values[0] for key, values in parse_qs(parts.query).items()},
                {key.lower(): value for key, value in self.headers.items()},
                json.loads(body) if body else None,
            )
            status, response = node.respond(request)
            if node.dropped and parts.path.startswith("/api"):
                node.dropped -= 1
                self.close_connection = True
                return
            content = response if isinstance(response, bytes) else json.dumps(response).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - names that http.server requires

        def log_message(self, *_: object) -> None:
            pass

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:  # some tests end the command in the middle of a request
                self.close_connection = True

    return Handler

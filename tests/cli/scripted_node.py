"""A small real HTTP server that speaks a node's API and does what a test tells it."""

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
_AT = "2026-11-21T10:00:00.000000Z"
_LATER = "2026-11-21T10:00:01.500000Z"


@dataclass
class Script:
    """What becomes of a statement with a certain text."""

    columns: list[tuple[str, str]] = field(default_factory=list)
    chunks: list[list[list[Any]]] = field(default_factory=lambda: [[]])
    error: Json | None = None
    state: str = "success"
    kind: str = "interactive"
    truncated: bool = False
    hangs: bool = False
    """Stays running until it is cancelled or `finish` is called."""
    cancels_to: str | None = "cancelled"
    """What a cancel ends it as; None keeps it in `cancelling`."""
    rows_lost: int = 0
    """How many rows the node claims to have and does not give."""
    problem: tuple[int, Json] | None = None
    """Refuse the submit."""
    downloads: dict[str, bytes] = field(default_factory=dict)


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Json | None


class ScriptedNode:
    """One node; `requests` is what it was asked, in order."""

    node_id = "no_" + "1" * 32

    def __init__(self, token: str | None = None) -> None:
        self.token = token
        self.requests: list[Request] = []
        self.scripts: dict[str, Script] = {}
        self.statements: dict[str, Json] = {}
        self.sessions: dict[str, Json] = {}
        self.outages = 0
        """How many requests to /api are answered 503 before one is served."""
        self.dropped = 0
        """How many requests to /api lose their connection after they were carried out."""
        self._keys: dict[str, str] = {}
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        with self._changed:
            for statement in self.statements.values():
                self._end(statement, "failed")  # so that nobody waits any longer
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def on(self, text: str, **script: Any) -> None:
        """What becomes of statements with this text."""
        self.scripts[text] = Script(**script)

    def calls(self, method: str, pattern: str) -> list[Request]:
        """The requests whose path matches."""
        return [
            each
            for each in self.requests
            if each.method == method and re.fullmatch(pattern, each.path)
        ]

    def finish(self, statement: str, state: str = "success") -> None:
        """End a statement that hangs."""
        with self._changed:
            self._end(self.statements[statement], state)

    # What requests do. All hold the condition.

    def answer(self, request: Request) -> tuple[int, Any]:
        with self._changed:
            self.requests.append(request)
            if request.path in {"/health", "/ready"}:
                return 200, {"status": "ok", "node_id": self.node_id, "version": "0"}
            if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
                return 401, _problem(401, "unauthorized", "A valid token is needed.")
            if self.outages:
                self.outages -= 1
                return 503, _problem(503, "store_unavailable", "The store does not answer.")
            for method, pattern, action in self._routes():
                found = re.fullmatch(pattern, request.path)
                if method == request.method and found:
                    return action(request, *found.groups())
            return 404, _problem(404, "not_found", f"There is no {request.path}.")

    def _routes(self) -> list[tuple[str, str, Callable[..., tuple[int, Any]]]]:
        api = "/api/v1"
        return [
            ("POST", f"{api}/statements", self._submit),
            ("GET", f"{api}/statements", self._list_statements),
            ("GET", f"{api}/statements/([^/]+)", self._statement),
            ("GET", f"{api}/statements/([^/]+)/result", self._result),
            ("POST", f"{api}/statements/([^/]+)/cancel", self._cancel),
            ("POST", f"{api}/sessions", self._new_session),
            ("GET", f"{api}/sessions", self._list_sessions),
            ("GET", f"{api}/sessions/([^/]+)", self._session),
            ("DELETE", f"{api}/sessions/([^/]+)", self._close_session),
            ("GET", f"{api}/sessions/([^/]+)/log", self._log),
        ]

    def _submit(self, request: Request) -> tuple[int, Any]:
        assert request.body is not None
        key = request.headers["idempotency-key"]
        if key in self._keys:
            return 201, self._with_rows(self.statements[self._keys[key]])
        text = request.body["statement"]
        script = self.scripts.get(text, Script())
        if script.problem is not None:
            return script.problem[0], _problem(script.problem[0], **script.problem[1])
        session = request.body.get("session")
        if session is None:
            session = self._make_session({})["id"]
        elif self._find(session) is None:
            return 404, _problem(404, "session_not_found", f"There is no session {session!r}.")
        statement = self._make_statement(text, session)
        statement["kind"] = request.body.get("kind", script.kind)
        self._keys[key] = statement["id"]
        if not script.hangs:
            self._end(statement, script.state)
        return 201, self._with_rows(statement)

    def _make_statement(self, text: str, session: str) -> Json:
        statement = {
            "id": f"st_{len(self.statements) + 1:032x}",
            "session_id": session,
            "kind": "interactive",
            "state": "running",
            "statement": text,
            "owner": "anonymous",
            "created_at": _AT,
            "ended_at": None,
            "progress": {"tasks_done": 1, "tasks_total": 4},
            "error": None,
            "result": None,
        }
        self.statements[statement["id"]] = statement
        return statement

    def _end(self, statement: Json, state: str) -> None:
        script = self.scripts.get(statement["statement"], Script())
        statement |= {"state": state, "ended_at": _LATER}
        if state == "success":
            statement["result"] = {
                "schema": [{"name": name, "type": type_} for name, type_ in script.columns],
                "row_count": sum(map(len, script.chunks)) + script.rows_lost,
                "chunks": len(script.chunks),
                "truncated": script.truncated,
            }
        elif script.error is not None:
            statement["error"] = script.error
        self._changed.notify_all()

    def _with_rows(self, statement: Json) -> Json:
        if statement["state"] != "success":
            return {**statement, "rows": None, "next_chunk": None}
        chunks = self.scripts.get(statement["statement"], Script()).chunks
        return {**statement, "rows": chunks[0], "next_chunk": 1 if len(chunks) > 1 else None}

    def _statement(self, request: Request, id_: str) -> tuple[int, Any]:
        if id_ not in self.statements:
            return 404, _problem(404, "statement_not_found", f"There is no statement {id_!r}.")
        statement = self.statements[id_]
        wait = float(request.query.get("wait_timeout", "0s").removesuffix("s"))
        self._changed.wait_for(lambda: statement["ended_at"], timeout=wait)
        shown = dict(statement)
        if statement["error"] and request.query.get("trace") != "true":
            shown["error"] = {**statement["error"], "trace": None}
        return 200, shown

    def _list_statements(self, request: Request) -> tuple[int, Any]:
        limit = int(request.query["limit"])
        items = list(self.statements.values())[::-1]
        following = items[limit - 1]["id"] if len(items) > limit else None
        return 200, {"items": items[:limit], "next": following}

    def _result(self, request: Request, id_: str) -> tuple[int, Any]:
        statement = self.statements[id_]
        if statement["ended_at"] is None:
            return 409, _problem(409, "result_not_ready", f"{id_} has no result yet.")
        script = self.scripts.get(statement["statement"], Script())
        wanted = request.query.get("format", "json")
        if wanted != "json":
            return 200, script.downloads[wanted]
        chunk = int(request.query.get("chunk", "0"))
        return 200, {
            "schema": statement["result"]["schema"],
            "rows": script.chunks[chunk],
            "chunk": chunk,
            "next_chunk": chunk + 1 if chunk + 1 < len(script.chunks) else None,
        }

    def _cancel(self, _request: Request, id_: str) -> tuple[int, Any]:
        statement = self.statements[id_]
        if statement["ended_at"]:
            return 409, _problem(409, "already_ended", f"{id_} has ended.")
        statement["state"] = "cancelling"
        ending = self.scripts[statement["statement"]].cancels_to
        if ending is not None:
            self._end(statement, ending)
        return 202, statement

    def _make_session(self, body: Json) -> Json:
        session = {
            "id": f"se_{len(self.sessions) + 1:032x}",
            "name": body.get("name"),
            "state": "running",
            "busy": False,
            "profile": body.get("profile", "default"),
            "conf": body.get("conf", {}),
            "owner": "anonymous",
            "created_at": _AT,
            "ended_at": None,
        }
        self.sessions[session["id"]] = session
        return session

    def _find(self, name: str) -> Json | None:
        for session in self.sessions.values():
            if name in {session["id"], session["name"]}:
                return session
        return None

    def _new_session(self, request: Request) -> tuple[int, Any]:
        assert request.body is not None
        if request.body.get("name") and self._find(request.body["name"]):
            return 409, _problem(409, "name_taken", "A live session has this name already.")
        return 201, self._make_session(request.body)

    def _list_sessions(self, _request: Request) -> tuple[int, Any]:
        return 200, {"items": list(self.sessions.values())[::-1], "next": None}

    def _session(self, _request: Request, name: str) -> tuple[int, Any]:
        session = self._find(name)
        if session is None:
            return 404, _problem(404, "session_not_found", f"There is no session {name!r}.")
        return 200, session

    def _close_session(self, request: Request, name: str) -> tuple[int, Any]:
        status, session = self._session(request, name)
        if status == 200:
            session |= {"state": "closing"}
            status = 202
        return status, session

    def _log(self, request: Request, _name: str) -> tuple[int, Any]:
        log = b"first line\nlast line\n"
        return 200, log[-int(request.query.get("tail", len(log))) :]


def _problem(status: int, code: str, detail: str, **more: Any) -> Json:
    return {"type": f"urn:{code}", "title": code, "status": status, "code": code} | {
        "detail": detail,
        **more,
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
            status, answer = node.answer(request)
            if node.dropped and parts.path.startswith("/api"):
                node.dropped -= 1
                self.close_connection = True
                return
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:  # the command went away, which tests do on purpose
                self.close_connection = True

    return Handler

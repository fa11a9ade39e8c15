"""One client for each protocol of a node, with the same calls: what every front end must do."""

from __future__ import annotations

import base64
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.flight as fl
from tests.support.auto_reply import AutoReplyLauncher
from tests.support.hiveserver2 import THRIFT, HiveClient, HttpClient, SocketClient, id_of, rows_of
from tests.support.identities import create_tokens
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.made_results import inline_result, stored_result
from tests.support.waiting import wait_until

from headrace.control.node import Node
from headrace.frontends.flight_sql.messages import write_command, write_field
from headrace.frontends.flight_sql.server import FlightSqlServer
from headrace.frontends.hiveserver2.binary import HiveServer2Server
from headrace.model.failure import Failure
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.messages import Assignment

ROWS = "SELECT n FROM thirty"
"""Text of a statement whose result has the numbers 0 to 29, in three parts."""
HELD = "SELECT held"
"""Text of a statement that runs until the test releases it, or until it is cancelled."""
WRONG = "SELECT nope FROM t"
"""Text of a statement that Spark refuses."""
REFUSAL = Failure(
    code="analysis_error",
    message="The table `t` cannot be found.",
    condition="TABLE_OR_VIEW_NOT_FOUND",
    sqlstate="42P01",
    line=1,
    column=18,
)


class Refused(Exception):
    """The protocol's own error, with its text."""


class FrontEndNode:
    """A node with every protocol. Its drivers reply by the text of a statement."""

    def __init__(self) -> None:
        self.node: InProcessNode
        self.hive_port = 0
        self.flight_port = 0
        self.tokens: dict[str, str] = {}
        self.released = threading.Event()

    def reply(self, assignment: Assignment) -> dict[str, Any]:
        """Return what the driver reports for a statement."""
        if assignment.text.startswith(HELD):
            wait_until(
                lambda: self.released.is_set() or self._is_cancelling(assignment), seconds=60
            )
            if self._is_cancelling(assignment):
                return {"state": StatementState.CANCELLED}
        if assignment.text.startswith(WRONG):
            return {"state": StatementState.FAILED, "failure": REFUSAL}
        result = inline_result([("n", "long")], [[1]])
        if assignment.text.startswith(ROWS):
            assert assignment.result_location is not None
            parts = [[[n] for n in range(start, start + 10)] for start in (0, 10, 20)]
            location = Path(assignment.result_location)
            result = stored_result(location, [("n", "long")], parts, chunk_limit=1)
        return {"state": StatementState.SUCCESS, "result": result}

    def state_of(self, statement_id: str) -> StatementState:
        """Return the state in the store."""
        caller = self.node.node.authenticator.local_caller
        return self.node.node.statements.get(caller, statement_id).state

    def write_driver_log(self, statement_id: str, lines: Sequence[str]) -> None:
        """Write the log of the driver that runs a statement."""
        caller = self.node.node.authenticator.local_caller
        session = self.node.node.statements.get(caller, statement_id).session_id
        file = self.node.node.settings.layout.session_log(session)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines))

    def _is_cancelling(self, assignment: Assignment) -> bool:
        return self.state_of(assignment.statement_id) is StatementState.CANCELLING


@contextmanager
def serve_front_ends(
    home: Path, *, users: Sequence[str] = (), **changes: Any
) -> Iterator[FrontEndNode]:
    """Serve a node with every protocol, and sign these users in."""
    server = FrontEndNode()
    settings = make_settings(home, token="of-the-node", **changes)
    hive: list[HiveServer2Server] = []
    flight: list[FlightSqlServer] = []

    def more_servers(node: Node) -> list[Any]:
        hive.append(HiveServer2Server(node, "127.0.0.1", 0))
        flight.append(FlightSqlServer(node, "127.0.0.1", 0))
        return [*hive, *flight]

    launcher = AutoReplyLauncher(server.reply)
    with serve_node(settings, launcher, more_servers=more_servers) as server.node:
        server.hive_port, server.flight_port = hive[0].port, flight[0].port
        server.tokens = create_tokens(server.node.database, users)
        try:
            yield server
        finally:
            server.released.set()


class FrontEndClient(ABC):
    """One client of a protocol, signed in as a user. Each error is raised as Refused."""

    def __init__(self, server: FrontEndNode, token: str) -> None:
        self.server = server
        self.token = token
        self.http = httpx.Client(
            base_url=server.node.address,
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=60,
        )

    def sign_in(self) -> None:  # noqa: B027 - HTTP signs in by each request
        """Show the credentials, if the protocol has a call for that. Raises Refused."""

    @abstractmethod
    def submit(self, text: str) -> Any:
        """Submit a statement. Return what this protocol gives to a client to find it again."""

    @abstractmethod
    def id_of(self, handle: Any) -> str:
        """Return the id of a statement."""

    @abstractmethod
    def state(self, handle: Any) -> str:
        """Return `active`, `success`, `failed` or `cancelled`."""

    @abstractmethod
    def rows(self, handle: Any, page: int = 1000) -> list[int]:
        """Return the first value of each row. A page has that many rows if the client chooses."""

    @abstractmethod
    def error(self, handle: Any) -> str:
        """Return the error that the client of a failed statement sees."""

    @abstractmethod
    def cancel(self, handle: Any) -> None:
        """Request a cancel."""

    has_log = True
    """Whether the protocol has a call for the log of a statement."""

    def log(self, handle: Any) -> list[str]:
        """Return the lines of the log for a statement, read until no more follow."""
        raise NotImplementedError

    def close(self) -> None:
        """End the session of the protocol, if it has one, and the connection."""
        self.vanish()

    def vanish(self) -> None:
        """Lose the connection."""
        self.http.close()


def _common_state(name: str) -> str:
    """Return the common name of a state, which REST, OpenSearch and Livy call much the same."""
    return "active" if name in {str(state) for state in STATEMENT.live} else name


class RestClient(FrontEndClient):
    """Headrace's own API."""

    def call(self, method: str, path: str, **options: Any) -> Any:
        response = self.http.request(method, path, **options)
        if response.is_error:
            raise Refused(response.text)
        return response.json() if response.content else None

    def submit(self, text: str) -> Any:
        return self.call("POST", "/api/v1/statements", json={"statement": text})["id"]

    def id_of(self, handle: Any) -> str:
        return str(handle)

    def state(self, handle: Any) -> str:
        return _common_state(self.call("GET", f"/api/v1/statements/{handle}")["state"])

    def rows(self, handle: Any, page: int = 1000) -> list[int]:
        found: list[int] = []
        offset: int | None = 0
        while offset is not None:
            path = f"/api/v1/statements/{handle}/result"
            answer = self.call("GET", path, params={"offset": offset, "limit": page})
            found += [int(row[0]) for row in answer["rows"]]
            offset = answer["next_offset"]
        return found

    def error(self, handle: Any) -> str:
        return json.dumps(self.call("GET", f"/api/v1/statements/{handle}")["error"])

    def cancel(self, handle: Any) -> None:
        self.call("POST", f"/api/v1/statements/{handle}/cancel")

    def log(self, handle: Any) -> list[str]:
        session = self.call("GET", f"/api/v1/statements/{handle}")["session_id"]
        response = self.http.get(f"/api/v1/sessions/{session}/log")
        assert response.is_success, response.text
        return response.text.splitlines()


class OpenSearchClient(RestClient):
    """OpenSearch's async query API."""

    has_log = False
    _BASE = "/_plugins/_async_query"
    _session: str | None = None

    def submit(self, text: str) -> Any:
        body = {"datasource": "spark", "lang": "sql", "query": text, "sessionId": self._session}
        created = self.call("POST", self._BASE, json=body)
        self._session = created["sessionId"]
        return created["queryId"]

    def _show(self, handle: Any) -> Any:
        return self.call("GET", f"{self._BASE}/{handle}")

    def state(self, handle: Any) -> str:
        return _common_state(self._show(handle)["status"].lower())

    def rows(self, handle: Any, page: int = 1000) -> list[int]:
        del page
        return [int(row[0]) for row in self._show(handle)["datarows"]]

    def error(self, handle: Any) -> str:
        return str(self._show(handle)["error"])

    def cancel(self, handle: Any) -> None:
        self.call("DELETE", f"{self._BASE}/{handle}")


class LivyClient(RestClient):
    """Livy's API. A handle is the path of a statement."""

    _session: int | None = None

    def submit(self, text: str) -> Any:
        if self._session is None:
            self._session = self.call("POST", "/livy/sessions", json={"kind": "sql"})["id"]
        path = f"/livy/sessions/{self._session}/statements"
        return f"{path}/{self.call('POST', path, json={'code': text})['id']}"

    def id_of(self, handle: Any) -> str:
        _, session, _, ordinal = handle.removeprefix("/livy/").split("/")
        path = f"/api/v1/statements?session={session}"
        listed = self.call("GET", path)["items"]
        return str(next(each["id"] for each in listed if each["ordinal"] == int(ordinal)))

    def state(self, handle: Any) -> str:
        statement = self.call("GET", handle)
        if statement["state"] == "available":
            return {"ok": "success", "error": "failed"}[statement["output"]["status"]]
        return _common_state(statement["state"])

    def rows(self, handle: Any, page: int = 1000) -> list[int]:
        del page
        output = self.call("GET", handle)["output"]
        return [int(row[0]) for row in output["data"]["application/json"]["data"]]

    def error(self, handle: Any) -> str:
        return str(self.call("GET", handle)["output"]["evalue"])

    def cancel(self, handle: Any) -> None:
        self.call("POST", f"{handle}/cancel")

    def log(self, handle: Any) -> list[str]:
        path = f"{handle.rpartition('/statements/')[0]}/log"
        lines: list[str] = []
        while part := self.call("GET", path, params={"from": len(lines), "size": 2})["log"]:
            lines += part
        return lines

    def close(self) -> None:
        if self._session is not None:
            for _number in range(2):
                self.call("DELETE", f"/livy/sessions/{self._session}")
        super().close()


class HiveHttpClient(FrontEndClient):
    """HiveServer2 over HTTP."""

    hive: HiveClient

    def sign_in(self) -> None:
        client = HttpClient(self.http, self.token)
        self.hive = client
        answer = self.http.post("/cliservice", content=b"", headers=client.headers)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            raise Refused(answer.text)

    def submit(self, text: str) -> Any:
        if self.hive.session is None:
            self._check(self.hive.open())
        return self._check(self.hive.execute(text)).operationHandle

    def id_of(self, handle: Any) -> str:
        return id_of(handle)

    def state(self, handle: Any) -> str:
        state = self._check(self.hive.status(handle)).operationState
        names = THRIFT.TOperationState
        ended = {
            names.FINISHED_STATE: "success",
            names.ERROR_STATE: "failed",
            names.CANCELED_STATE: "cancelled",
        }
        return ended.get(state, "active")

    def rows(self, handle: Any, page: int = 1000) -> list[int]:
        found: list[int] = []
        while part := rows_of(self._check(self.hive.fetch(handle, page))):
            found += [row[0] for row in part]
        return found

    def error(self, handle: Any) -> str:
        return str(self._check(self.hive.status(handle)).errorMessage)

    def cancel(self, handle: Any) -> None:
        self._check(self.hive.call("CancelOperation", operationHandle=handle))

    def log(self, handle: Any) -> list[str]:
        orientation, lines = THRIFT.TFetchOrientation.FETCH_FIRST, list[str]()
        while part := rows_of(
            self._check(self.hive.fetch(handle, orientation=orientation, fetchType=1))
        ):
            lines += [row[0] for row in part]
            orientation = THRIFT.TFetchOrientation.FETCH_NEXT
        return lines

    def close(self) -> None:
        if self.hive.session is not None:
            for _number in range(2):
                self._check(self.hive.call("CloseSession", sessionHandle=self.hive.session))
        super().close()

    def vanish(self) -> None:
        self.hive.close()
        super().vanish()

    def _check(self, response: Any) -> Any:
        if response.status.statusCode != THRIFT.TStatusCode.SUCCESS_STATUS:
            raise Refused(response.status.errorMessage)
        return response


class HiveSocketClient(HiveHttpClient):
    """HiveServer2 over a socket."""

    def sign_in(self) -> None:
        client = SocketClient(self.server.hive_port, self.token)
        self.hive = client
        if not client.is_signed_in:
            raise Refused(client.refusal)


class FlightClient(FrontEndClient):
    """Flight SQL. A handle is the future of a `FlightInfo`: the call waits for the end."""

    has_log = False

    def __init__(self, server: FrontEndNode, token: str) -> None:
        super().__init__(server, token)
        self.flight = fl.FlightClient(f"grpc://127.0.0.1:{server.flight_port}")
        basic = base64.b64encode(f"token:{token}".encode())
        self.options = fl.FlightCallOptions(
            headers=[(b"authorization", b"Basic " + basic)], timeout=60
        )
        self._threads = ThreadPoolExecutor(16)

    def sign_in(self) -> None:
        with _flight_errors():
            list(self.flight.list_actions(self.options))

    def submit(self, text: str) -> Any:
        command = write_command("CommandStatementQuery", write_field(1, text))
        descriptor = fl.FlightDescriptor.for_command(command)
        before = self._ids_of(text)
        future = self._threads.submit(self.flight.get_flight_info, descriptor, self.options)
        wait_until(lambda: future.done() or self._ids_of(text) > before, what="it is submitted")
        if not (new := self._ids_of(text) - before):
            with _flight_errors():
                future.result()
        return (new.pop(), future)

    def id_of(self, handle: Any) -> str:
        return str(handle[0])

    def state(self, handle: Any) -> str:
        future: Future[Any] = handle[1]
        if not future.done():
            return "active"
        error = future.exception()
        if error is None:
            return "success"
        return "cancelled" if isinstance(error, fl.FlightCancelledError) else "failed"

    def rows(self, handle: Any, page: int = 1000) -> list[int]:
        del page
        with _flight_errors():
            ticket = handle[1].result().endpoints[0].ticket
            table = self.flight.do_get(ticket, self.options).read_all()
        return [int(value) for value in table.column(0).to_pylist()]

    def error(self, handle: Any) -> str:
        return str(handle[1].exception())

    def cancel(self, handle: Any) -> None:
        # Only PollFlightInfo gives the handle of a cancel before the end; pyarrow has no such call.
        response = self.http.post(f"/api/v1/statements/{handle[0]}/cancel")
        if response.is_error:
            raise Refused(response.text)

    def vanish(self) -> None:
        self._threads.shutdown()
        self.flight.close()
        super().vanish()

    def _ids_of(self, text: str) -> set[str]:
        response = self.http.get("/api/v1/statements", params={"limit": 100})
        return {each["id"] for each in response.json()["items"] if each["statement"] == text}


@contextmanager
def _flight_errors() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise Refused(str(error)) from error


CLIENTS: dict[str, type[FrontEndClient]] = {
    "rest": RestClient,
    "opensearch": OpenSearchClient,
    "livy": LivyClient,
    "hiveserver2 http": HiveHttpClient,
    "hiveserver2 socket": HiveSocketClient,
    "flight_sql": FlightClient,
}
"""The client of each protocol."""
